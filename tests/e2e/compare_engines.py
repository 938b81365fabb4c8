"""Compares a compiled plan with the reference interpreter on a random model of unusual dimensions.

compare_engines.py --m3c M3C --m3-run M3RUN --target T --format F --kv KV [--lengths 1,129] [--chunk N] [KEY=VALUE…]

Bounds are those of score_case.py: an F32 cache allows no more than FP32 arithmetic differs from double; with a
rounded cache a last-bit difference may move a code, a block or an expert, so means and shares are compared.
Random models have no language to spread over few tokens: their logits are nearly equal, so equal argmaxes are
asked for only where the interpreter's margin is larger than twice the bound of the logits."""

import argparse
import array
import os
import random
import subprocess
import sys
import tempfile

import make_model
import score_case

# By the roughest rounding, of the cache or (an f32 cache with BF16 activations: `bf16`) of activations. logits: largest
# (f32) or mean difference; share of experts and blocks that have to be equal.
BOUNDS = {"f32": ("max", 2e-3, 0.9995, 0.99), "bf16": ("mean", 0.02, 0.98, 0.9), "fp8": ("mean", 0.05, 0.98, 0.9), "nvfp4": ("mean", 0.2, 0.93, 0.8)}


def run(*command):
    subprocess.run(command, check=True)


def margin(logits):
    best = sorted(logits)[-2:]
    return best[1] - best[0]


def compare(bounds, ours, theirs, lengths, heads):
    how, bound, experts_bound, blocks_bound = bounds
    faults, shown = [], []
    difference, experts, blocks = [], [], []
    for length in lengths:
        for kind in ("last_logits", "next_logprob", "argmax", "experts", "blocks"):
            if ours[f"{kind}.{length}"][0] != theirs[f"{kind}.{length}"][0]:
                faults.append(f"shape of {kind}.{length}: {ours[f'{kind}.{length}'][0]}")
        a, b = ours[f"last_logits.{length}"][1], theirs[f"last_logits.{length}"][1]
        difference += [abs(x - y) for x, y in zip(a, b)]
        difference += [abs(x - y) for x, y in zip(ours[f"next_logprob.{length}"][1], theirs[f"next_logprob.{length}"][1])]
        if margin(b) > 2 * bound and ours[f"argmax.{length}"][1][-1] != theirs[f"argmax.{length}"][1][-1]:
            faults.append(f"argmax of the last token of {length}")
        experts += [x == y for x, y in zip(ours[f"experts.{length}"][1], theirs[f"experts.{length}"][1])]
        sets = [score_case.block_sets(*side[f"blocks.{length}"], heads) for side in (ours, theirs)]
        blocks += [x == y for x, y in zip(*sets)]
    value = max(difference) if how == "max" else sum(difference) / len(difference)
    for name, value, good in (
        (f"{how} difference", value, value <= bound),
        ("experts", sum(experts) / max(1, len(experts)), sum(experts) >= experts_bound * len(experts)),
        ("blocks", sum(blocks) / max(1, len(blocks)), sum(blocks) >= blocks_bound * len(blocks)),
    ):
        shown.append(f"{name} {value:.3g}")
        if not good:
            faults.append(f"{name} {value:.4g}")
    print(", ".join(shown))
    return faults


def main():
    parser = argparse.ArgumentParser()
    for name in ("m3c", "m3-run", "target", "format", "kv"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--lengths", type=lambda s: s.split(","), default=["1", "129", "600"])
    parser.add_argument("--chunk", default="100")
    parser.add_argument("--activations", default="f32")
    parser.add_argument("sizes", nargs="*")
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        model, given = path("model"), path("in.safetensors")
        run(sys.executable, "-B", make_model.__file__, model, "--format", args.format, *args.sizes)
        sizes = dict(make_model.DEFAULTS) | dict(s.split("=") for s in args.sizes)
        ids = random.Random(3)
        save = {f"ids.{n}": array.array("i", [ids.randrange(int(sizes["vocab"])) for _ in range(int(n))]) for n in args.lengths}
        score_case.save_ids(given, save)
        trace = ["--trace", "blocks,experts", "--max-tokens", "1", "--progress", "none", "--input", given]
        numerics = ["--kv", args.kv, "--numerics", "activations=" + args.activations]
        run(args.m3c, "interpret", model, *numerics, "--output", path("reference"), *trace)
        run(args.m3c, "compile", model, "-o", path("plan"), "--target", args.target, *numerics, "--no-cache", "--progress", "none")
        run(args.m3_run, "score", path("plan"), "--weights", model, "--chunk", args.chunk, "--output", path("ours"), *trace)
        heads = int(sizes["layers"]) * int(sizes["kv_heads"])
        bounds = BOUNDS["bf16" if args.kv == "f32" and args.activations == "bf16" else args.kv]
        faults = compare(bounds, score_case.load(path("ours")), score_case.load(path("reference")), args.lengths, heads)
    for fault in faults:
        print("short:", fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
