"""A plan's sm90 kernels in the emulator beside its x86 kernels, on the first tokens of a golden text.

emulated_test.py M3RUN PLAN CKPT GOLDEN f32|bf16

f32: the same bytes, logits, choices and greedy tokens. bf16: sums in another order, rounded to BF16, part at near ties;
either engine may be as far from the exact one as the goldens' column for an NVFP4 cache allows (score_case.PROFILES), so
they are at most twice that from each other. Chunks of one token give the bytes of chunks of eight."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import score_case

TOKENS = 20


def score(command, where, folder):
    written = os.path.join(folder, "out" + str(len(os.listdir(folder))))
    run = subprocess.run(command + where + ["--output", written], check=True, capture_output=True, text=True)
    with open(written, "rb") as f:
        return f.read(), score_case.load(written), run.stderr


def main(program, plan, checkpoint, golden, activations):
    with tempfile.TemporaryDirectory() as folder:
        given = os.path.join(folder, "in.safetensors")
        ids = score_case.load(golden)["ids.513"][1][:TOKENS]
        score_case.save_ids(given, {"ids.a": ids, "prompt.0": ids[:3]})
        command = [program, "score", plan, "--weights", checkpoint, "--input", given, "--max-tokens", "2"]
        command += ["--trace", "blocks,experts", "--progress", "none"]
        host, theirs, _ = score(command, ["--device", "host", "--chunk", "8"], folder)
        emulated, ours, said = score(command, ["--emulate", "sm90", "--emulate-seed", "7", "--chunk", "8"], folder)
        alone, _, _ = score(command, ["--emulate", "sm90", "--chunk", "1"], folder)
    assert emulated == alone, "chunks of one token give other bytes"
    assert "emulated sm90, seed 7" in said, said
    assert re.search(r" launches, .* [1-9]\d* thread-instructions, [1-9]\d* million a second", said), said
    if activations == "f32":
        assert host == emulated, "the emulated kernels give other bytes"
        return
    score_case.near(ours, theirs)


if __name__ == "__main__":
    main(*sys.argv[1:])
