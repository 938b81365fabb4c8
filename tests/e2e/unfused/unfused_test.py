"""A plan with one fusion switched off computes what the fused plan computes, with more launches.
usage: unfused_test.py M3C M3RUN DATA_DIR TARGET"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import score_case  # noqa: E402

M3C, M3RUN, DATA, TARGET = sys.argv[1:5]
CHECKPOINT = os.path.join(DATA, "m3-tiny-nvfp4")
GOLDEN = os.path.join(DATA, "golden", "m3-tiny.safetensors")
WORK = tempfile.TemporaryDirectory(prefix="m3c-unfused-")


def compile_plan(kv, *options):
    """A plan for the first chip of the target; the tests share one cache of kernels."""
    plan = os.path.join(WORK.name, hashlib.sha1(" ".join([kv, *options]).encode()).hexdigest() + ".m3plan")
    if not os.path.exists(plan):
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(WORK.name, "cache"))
        targets = json.loads(subprocess.run([M3C, "targets", "--json"], capture_output=True, check=True).stdout)
        chip = next(target for target in targets if target["name"] == TARGET)["chips"][0]["name"]
        subprocess.run([M3C, "compile", CHECKPOINT, "-o", plan, "--target", TARGET, "--chip", chip, "--kv", kv,
                        "--progress=none", *options], check=True, env=environment, stdout=subprocess.DEVNULL)
    return plan


PASSES = ("m3-share-rope-table", "m3-fuse-qkv-rope-insert", "m3-fuse-index-topk", "m3-fuse-residual-project",
          "m3-fuse-gate-up", "m3-fuse-norm-route")


class Unfused(unittest.TestCase):
    LENGTHS = (1, 127, 129, 300)

    def score(self, plan):
        golden = score_case.load(GOLDEN)
        inputs, output = (os.path.join(WORK.name, name) for name in ("in.safetensors", "out.safetensors"))
        score_case.save_ids(inputs, {f"ids.{n}": golden[f"ids.{n}"][1] for n in self.LENGTHS}
                            | {"prompt.0": golden["prompt.1"][1]})
        subprocess.run([M3RUN, "score", plan, "--weights", CHECKPOINT, "--input", inputs, "--output", output,
                        "--max-tokens", "8", "--trace", "blocks,experts"], check=True, stderr=subprocess.DEVNULL)
        return score_case.load(output)

    def test_same_bits(self):
        # Fused and single kernels keep one order of accumulation.
        expected = self.score(compile_plan("nvfp4"))
        for name in PASSES:
            with self.subTest(disabled=name):
                self.assertTrue(self.score(compile_plan("nvfp4", "--disable-pass", name)) == expected)

    def test_same_bits_of_bf16_activations(self):
        # Single kernels store what the fused ones round in registers.
        options = ["--numerics", "activations=bf16"]
        expected = self.score(compile_plan("nvfp4", *options))
        for name in PASSES:
            options += ["--disable-pass", name]
        self.assertTrue(self.score(compile_plan("nvfp4", *options)) == expected)

    def test_experts(self):
        # The fused kernel starts from the residual and adds expert after expert, the single ones add the finished
        # sum to it: another order, so the bits differ and the bounds of an engine of these numerics decide.
        for activations, profile in (("f32", "fp32"), ("bf16", "bf16_random")):
            with self.subTest(activations=activations):
                plan = compile_plan("f32", "--numerics", "activations=" + activations,
                                    "--disable-pass", "m3-fuse-experts-shared")
                done = subprocess.run(
                    [sys.executable, "-B", score_case.__file__, "--golden", GOLDEN, "--tag", "nvfp4.exact",
                     "--profile", profile, "--", M3RUN, "score", plan, "--weights", CHECKPOINT],
                    capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
