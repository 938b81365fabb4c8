"""Scores a file with several chunk sizes, batches and thread counts: every output has the same bytes.

same_bytes.py --golden G [--lengths 129,300] [--prompts 1] -- M3RUN score PLAN --weights CKPT …"""

import argparse
import os
import subprocess
import sys
import tempfile

import score_case

WAYS = [[], ["--chunk", "1", "--threads", "1"], ["--chunk", "37", "--batch", "3", "--threads", "3"], ["--chunk", "512", "--batch", "1"]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--golden", required=True)
    parser.add_argument("--lengths", type=lambda s: s.split(","), default=["1", "128", "129", "513"])
    parser.add_argument("--prompts", type=lambda s: s.split(","), default=["0", "1"])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    golden = score_case.load(args.golden)
    chosen = [f"ids.{x}" for x in args.lengths] + [f"prompt.{x}" for x in args.prompts]
    outputs = []
    with tempfile.TemporaryDirectory() as folder:
        given = os.path.join(folder, "in.safetensors")
        score_case.save_ids(given, {name: golden[name][1] for name in chosen})
        for number, way in enumerate(WAYS):
            written = os.path.join(folder, f"out{number}.safetensors")
            command = args.command[1:] + way + ["--input", given, "--output", written, "--max-tokens", "12", "--trace", "blocks,experts"]
            subprocess.run(command, check=True)
            with open(written, "rb") as f:
                outputs.append(f.read())
    different = [" ".join(way) for way, output in zip(WAYS, outputs) if output != outputs[0]]
    for way in different:
        print("different:", way)
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
