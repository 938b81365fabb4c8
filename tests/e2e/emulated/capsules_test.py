"""Capsules of all kernels of a plan for one target are made, replay, and are refused when damaged.

capsules_test.py BIN PLAN TARGET [REPLAY_OPTION...]"""

import array
import json
import os
import shutil
import subprocess
import sys
import tempfile


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def launched(m3c, plan, chips):
    """(kernel, rows) of every launch on these chips whose code is of the same chip."""
    done = run(m3c, "explain", plan, "--json")
    assert done.returncode == 0, done.stderr
    pairs = set()
    for kernel in json.loads(done.stdout)["kernels"]:
        own = {code["chip"] for code in kernel["objects"]} & chips
        pairs |= {(kernel["name"], use["rows"]) for use in kernel["uses"] if use["chip"] in own}
    return pairs


def check_numbers(folder):
    """Results are numbers, or bytes that nobody wrote: a step of made-up values has no other NaN."""
    with open(os.path.join(folder, "capsule.json"), encoding="utf-8") as file:
        arguments = json.load(file)["arguments"]
    written = 0
    for argument in arguments:
        if "expected" not in argument:
            continue
        values = array.array("I" if argument["element"] == "f32" else "H")
        with open(os.path.join(folder, argument["expected"]["file"]), "rb") as file:
            data = file.read()
        values.frombytes(data[: len(data) // values.itemsize * values.itemsize])
        mask, unwritten = (0x7F800000, 0xFFFFFFFF) if argument["element"] == "f32" else (0x7F80, 0xFFFF)
        written += sum(value != unwritten for value in values)
        if argument["element"] == "bytes":
            continue
        assert not any(value & mask == mask and value & ~mask & unwritten >> 1 and value != unwritten
                       for value in values), (folder, argument["name"])
    assert written, folder


def main(binaries, plan, target, *options):
    m3c, m3run = os.path.join(binaries, "m3c"), os.path.join(binaries, "m3-run")
    with tempfile.TemporaryDirectory() as folder:
        made = run(m3c, "capsule", plan, "--kernel", "all", "-o", folder, "--target", target, "--json")
        assert made.returncode == 0, made.stderr
        entries = json.loads(made.stdout)
        folders = [os.path.join(folder, entry["folder"]) for entry in entries]
        with open(os.path.join(folders[0], "capsule.json"), encoding="utf-8") as file:
            chip = json.load(file)["chip"]
        assert {(entry["kernel"], entry["rows"]) for entry in entries} == launched(m3c, plan, {chip})
        assert all(entry["bytes"] < 4 << 20 for entry in entries), "capsules are small"
        for one in folders:
            check_numbers(one)
        replayed = run(m3run, "replay", *options, *folders)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        assert replayed.stdout.count("\n") >= len(folders), replayed.stdout
        assert "good" in replayed.stdout and "WRONG" not in replayed.stdout

        again = os.path.join(folder, "again")
        one = run(m3c, "capsule", plan, "--kernel", entries[-1]["family"], "-o", again, "--target", target, "--json")
        assert one.returncode == 0, one.stderr
        for entry in json.loads(one.stdout):  # equal input gives equal bytes
            with open(os.path.join(again, entry["folder"], "capsule.json"), "rb") as left:
                with open(os.path.join(folder, entry["folder"], "capsule.json"), "rb") as right:
                    assert left.read() == right.read()

        damaged = os.path.join(folder, "damaged")
        shutil.copytree(folders[-1], damaged)
        inputs = sorted(name for name in os.listdir(damaged) if name.endswith(".in"))
        with open(os.path.join(damaged, inputs[0]), "r+b") as file:
            first = file.read(1)
            file.seek(0)
            file.write(bytes([first[0] ^ 1]))
        refused = run(m3run, "replay", *options, folders[0], damaged)
        assert refused.returncode == 1, refused.stdout + refused.stderr
        assert inputs[0] in refused.stderr and "digest" in refused.stderr, refused.stderr
        other = "sm100" if target == "sm90" else "sm90"
        refused = run(m3run, "replay", "--emulate", other, folders[0])
        assert refused.returncode == 2 and f"it is for {target}" in refused.stderr, refused.stderr

        unknown = run(m3c, "capsule", plan, "--kernel", "nothing", "-o", again, "--target", target)
        assert unknown.returncode == 2 and entries[0]["kernel"] in unknown.stderr, unknown.stderr


if __name__ == "__main__":
    main(*sys.argv[1:])
