"""Runs a scoring command on part of a golden file and judges what it writes.

score_case.py --golden G --tag T --profile P [--lengths 1,129] [--prompts 0,2] [--steps N] -- CMD…

CMD gets `--input I --output O --max-tokens N --trace blocks,experts`. The profiles and bounds are those
that were derived for the goldens (see PROFILES). Lengths and prompts are all of the golden's where not
given. Standard library only."""

import argparse
import array
import json
import os
import struct
import subprocess
import sys
import tempfile

# Bounds by numerics. logits: largest (FP32 engines) or mean difference of last_logits; logprob: 99.5th
# percentile or mean of the difference at all positions; nll: difference of the mean; then shares that
# have to be equal. `greedy` is the margin below which a continuation may part. `forced`, where given: the golden
# continuation is fed instead, and this share of its steps has to be the argmax; `sure` is the share of those with a
# margin over 0.5. `bf16` is for trained models, `bf16_random` for random ones. No margin is safe in BF16: an expert that
# a near tie exchanges carries a good part of a layer's output. So steps of a large margin are asked to be as safe as those
# of any margin are for the reference implementation itself in BF16: 0.973 of the argmaxes of m31-nano, 0.93 of m3-tiny.
PROFILES = {
    "fp32": dict(how="max", logits=2e-3, logprob=2e-3, nll=1e-3, argmax=0.995, experts=0.9995, blocks=0.99, greedy=0.005),
    "bf16": dict(how="mean", logits=0.3, logprob=0.12, nll=0.04, argmax=0.95, experts=0.95, blocks=0.8, greedy=0.5, forced=0.85, sure=0.973),
    "bf16_random": dict(how="mean", logits=0.3, logprob=0.25, nll=0.04, argmax=0.88, experts=0.95, blocks=0.8, greedy=0.5, forced=0.85, sure=0.93),
    "kv8": dict(how="mean", logits=0.05, logprob=0.05, nll=0.005, argmax=0.97, experts=0.98, blocks=0.9, greedy=0.1),
    "q8kv4": dict(how="mean", logits=0.5, logprob=0.2, nll=0.04, argmax=0.9, experts=0.93, blocks=0.8, greedy=0.5),
}
CODES = {"F32": "f", "I32": "i"}


def load(path):
    """name -> (shape, flat values) of the F32 and I32 tensors of a file."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(length)), f.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] in CODES:
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["shape"], array.array(CODES[entry["dtype"]], data[begin:end]))
    return tensors


def save_ids(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": "I32", "shape": [len(values)], "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Judge:
    def __init__(self, profile):
        self.bounds, self.faults, self.shown = PROFILES[profile], [], []

    def check(self, name, value, good):
        self.shown.append(f"{name} {value:.3g}")
        if not good:
            self.faults.append(f"{name} {value:.4g}")

    def distance(self, name, differences, quantile):
        if not differences:
            return
        ordered = sorted(map(abs, differences))
        worst = self.bounds["how"] == "max"
        value = ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] if worst else sum(ordered) / len(ordered)
        self.check(name, value, value <= self.bounds[name])

    def share(self, name, equal):
        if equal:
            value = sum(equal) / len(equal)
            self.check(name, value, value >= self.bounds[name])


def rows(values, width):
    return [tuple(values[i : i + width]) for i in range(0, len(values), width)] if width else []


def block_sets(shape, values, heads):
    """One set for each (layer, head); unused places are -1. Dense layers come first: keep the last ones."""
    sets = [frozenset(x for x in row if x >= 0) for row in rows(values, shape[-1])]
    return sets[len(sets) - heads :]


def forced_inputs(tag, golden, prompts):
    """Each prompt with its golden continuation, but for the last token, as another sequence to score."""
    return {f"ids.forced{p}": golden[f"prompt.{p}"][1] + golden[f"{tag}.greedy.{p}"][1][:-1] for p in prompts}


def judge_forced(verdict, tag, golden, out, prompts):
    equal, sure = [], []
    for prompt in prompts:
        begin = len(golden[f"prompt.{prompt}"][1]) - 1
        theirs, margins = golden[f"{tag}.greedy.{prompt}"][1], golden[f"{tag}.greedy_margin.{prompt}"][1]
        same = [a == b for a, b in zip(out[f"argmax.forced{prompt}"][1][begin:], theirs)]
        equal += same
        sure += [s for s, m in zip(same, margins) if m > 0.5]
    verdict.share("forced", equal)
    verdict.share("sure", sure)


def judge(profile, tag, golden, out, lengths, prompts, steps):
    verdict = Judge(profile)
    logits, logprob, argmax, experts, blocks = [], [], [], [], []
    for length in lengths:
        for kind in ("last_logits", "next_logprob", "argmax", "experts", "blocks"):
            if f"{tag}.{kind}.{length}" not in golden:
                continue  # nothing follows the single token of length 1
            ours, theirs = out[f"{kind}.{length}"], golden[f"{tag}.{kind}.{length}"]
            if kind != "blocks" and ours[0] != theirs[0]:  # goldens of short inputs have fewer places
                verdict.faults.append(f"{kind}.{length}: shape {ours[0]}, expected {theirs[0]}")
            if kind == "last_logits":
                logits += [a - b for a, b in zip(ours[1], theirs[1])]
            elif kind == "next_logprob":
                logprob += [a - b for a, b in zip(ours[1], theirs[1])]
            elif kind == "blocks":
                heads = theirs[0][0] * theirs[0][1]
                blocks += [a == b for a, b in zip(block_sets(*ours, heads), block_sets(*theirs, heads))]
            else:
                equal = {"argmax": argmax, "experts": experts}[kind]
                equal += [a == b for a, b in zip(ours[1], theirs[1])]
    verdict.distance("logits", logits, 1.0)
    verdict.distance("logprob", logprob, 0.995)
    if len(logprob) >= 126:
        nll = abs(sum(logprob) / len(logprob))
        verdict.check("nll", nll, nll <= verdict.bounds["nll"])
    for name, equal in (("argmax", argmax), ("experts", experts), ("blocks", blocks)):
        verdict.share(name, equal)
    for prompt in prompts:
        ours, theirs = out[f"greedy.{prompt}"][1], golden[f"{tag}.greedy.{prompt}"][1]
        margins = golden[f"{tag}.greedy_margin.{prompt}"][1]
        sure = next((i for i, m in enumerate(margins) if m < verdict.bounds["greedy"]), len(margins))
        sure = min(sure, steps)
        verdict.shown.append(f"greedy.{prompt} {sure} steps")
        if len(ours) != steps or ours[:sure] != theirs[:sure]:
            verdict.faults.append(f"greedy.{prompt} parts within its first {sure} steps")
    if "forced" in verdict.bounds:
        judge_forced(verdict, tag, golden, out, prompts)
    return verdict


def near(ours, theirs):
    """Two engines, neither of which is the exact one: at most twice the goldens' column for an NVFP4 cache apart."""
    bounds = PROFILES["q8kv4"]
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        pairs = list(zip(ours[name][1], theirs[name][1]))
        kind = name.split(".")[0]
        if kind in ("argmax", "experts", "blocks"):
            # The shares are those of long texts: here three standard deviations more may differ.
            mean = 2 * (1 - bounds[kind]) * len(pairs)
            assert sum(a != b for a, b in pairs) <= mean + 3 * mean**0.5, name
        elif kind in ("last_logits", "next_logprob"):
            mean = sum(abs(a - b) for a, b in pairs) / len(pairs)
            assert mean <= 2 * bounds["logits" if kind == "last_logits" else "logprob"], (name, mean)


def main():
    parser = argparse.ArgumentParser()
    for name in ("golden", "tag", "profile"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--lengths", type=lambda s: s.split(",") if s else [])
    parser.add_argument("--prompts", type=lambda s: s.split(",") if s else [])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    golden = load(args.golden)
    names = [name.split(".") for name in golden]
    lengths = args.lengths if args.lengths is not None else [n[1] for n in names if n[0] == "ids"]
    prompts = args.prompts if args.prompts is not None else [n[1] for n in names if n[0] == "prompt"]
    with tempfile.TemporaryDirectory() as folder:
        given, written = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        chosen = [f"ids.{x}" for x in lengths] + [f"prompt.{x}" for x in prompts]
        inputs = {name: golden[name][1] for name in chosen}
        if "forced" in PROFILES[args.profile]:
            inputs |= forced_inputs(args.tag, golden, prompts)
        save_ids(given, inputs)
        command = args.command[1:] if args.command[:1] == ["--"] else args.command
        subprocess.run(
            command + ["--input", given, "--output", written, "--max-tokens", str(args.steps), "--trace", "blocks,experts"],
            check=True,
        )
        verdict = judge(args.profile, args.tag, golden, load(written), lengths, prompts, args.steps)
    print(", ".join(verdict.shown))
    for fault in verdict.faults:
        print("short:", fault)
    return bool(verdict.faults)


if __name__ == "__main__":
    sys.exit(main())
