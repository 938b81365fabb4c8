"""Targets that lack kernels: the CPU's stand in for them, over one memory, and the others run emulated.

incomplete_test.py M3C M3RUN PLAN CKPT GOLDEN TARGET CHIP FALLBACK

Compared with the same plan's code for the CPU, whose attention and block scores add in another order: as with BF16
activations of another target (emulated_test.py), at most twice the goldens' column for an NVFP4 cache apart. A run in
which no kernel of the target ran is refused, and so is such a target as one of a device."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import score_case

TOKENS = 20
FAMILIES = {"attention", "block_topk", "index_score"}


def launches(stats):
    """{chip: {kernel: launches}} of --stats."""
    found = {}
    for count, chip, kernel in re.findall(r"^launched +(\d+)  (\S+) +(\S+)$", stats, re.MULTILINE):
        found.setdefault(chip, {})[kernel] = int(count)
    return found


def main(m3c, run, plan, checkpoint, golden, target, chip, fallback):
    with tempfile.TemporaryDirectory() as folder:
        given = os.path.join(folder, "in.safetensors")
        ids = score_case.load(golden)["ids.513"][1][:TOKENS]
        score_case.save_ids(given, {"ids.a": ids, "prompt.0": ids[:3]})

        def score(*where, code=0):
            written = os.path.join(folder, "out" + str(len(os.listdir(folder))))
            command = [run, "score", plan, "--weights", checkpoint, "--input", given, "--max-tokens", "2", "--progress"]
            command += ["none", "--trace", "blocks,experts", "--output", written, *where]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == code, done.stderr
            return (score_case.load(written) if code == 0 else None), done.stderr

        theirs, _ = score("--device", "host", "--chunk", "8")
        ours, said = score("--emulate", target, "--chunk", "8", "--stats")
        score_case.near(ours, theirs)
        ran = launches(said)
        assert set(ran) == {chip, fallback}, ran
        assert {family for family in FAMILIES for kernel in ran[chip] if kernel.startswith(family)} == FAMILIES, ran
        assert not any(kernel.startswith("index_score") for kernel in ran[fallback]), ran
        totals = dict((name, int(count)) for count, name in re.findall(r"^launches +(\d+)  (\S+)$", said, re.MULTILINE))
        assert totals == {name: sum(kernels.values()) for name, kernels in ran.items()}, said

        os.remove(given)
        score_case.save_ids(given, {"ids.a": ids})
        _, said = score("--emulate", target, "--chunk", "32", code=1)
        for part in (f"no kernel of {target} ran of attention, block_topk, index_score", "--chunk 8"):
            assert part in said, said
        _, said = score("--device", "cuda", "--chunk", "8", code=1)

    inspected = subprocess.run([m3c, "inspect", plan], check=True, capture_output=True, text=True).stdout
    assert re.search(rf"target  {target} for {chip} .*\n +it is not complete: \d+ of its \d+ launches are of kernels for "
                     rf"{fallback}; --emulate {target}", inspected), inspected
    explained = subprocess.run([m3c, "explain", plan], check=True, capture_output=True, text=True).stdout
    assert f"{chip}, with code for {fallback}: " in explained, explained


if __name__ == "__main__":
    main(*sys.argv[1:])
