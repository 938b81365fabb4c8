"""m3c check on sound checkpoints: results on standard output alone, exit codes, JSON.

usage: check_test.py M3C DATA_DIR"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

M3C, DATA = sys.argv[1:3]


def m3c(*args):
    return subprocess.run([M3C, *args], capture_output=True, text=True, check=False)


class Check(unittest.TestCase):
    def test_text_names_what_was_found(self):
        done = m3c("check", os.path.join(DATA, "m31-nano"), "--progress=none")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("6 sparse attention", "nvfp4 packed", "240 weights", "drafter: 43 tensors"):
            self.assertIn(part, done.stdout)

    def test_json_is_all_of_standard_output(self):
        done = m3c("check", os.path.join(DATA, "m3-tiny-nvfp4"), "--json", "--progress=json")
        result = json.loads(done.stdout)
        self.assertTrue(result["ok"])
        self.assertFalse(result["synthetic"])
        self.assertEqual(result["encodings"]["nvfp4"]["weights"], 36)
        self.assertEqual(len(result["shards"]), 4)
        self.assertEqual(result["generation"]["eos_ids"], [503])
        self.assertEqual((result["generation"]["temperature"], result["generation"]["top_k"]), (1, 40))
        stages = [json.loads(line) for line in done.stderr.splitlines()]
        self.assertEqual([line["stage"] for line in stages if line["finished"]],
                         ["reading headers", "reading values"])
        self.assertEqual(stages[-1]["done"], stages[-1]["total"])

    def test_a_folder_with_config_alone(self):
        done = m3c("check", os.path.join(DATA, "m31-full"), "--json", "--strict")
        result = json.loads(done.stdout)
        self.assertTrue(result["synthetic"])
        # The routed experts as published: 57 layers of 128, 3 × 6144 × 3072 weights each, 9/16 bytes a weight.
        self.assertAlmostEqual(result["encodings"]["nvfp4-pack-quantized"]["bytes"] / 1e9, 232.4,
                               delta=0.05)

    def test_warnings_do_not_stop_it_and_strict_does(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(DATA, "m31-mid", "config.json"), encoding="utf-8") as file:
                config = json.load(file)
            config["text_config"]["novelty"] = 1
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            done = m3c("check", folder, "--json")
            self.assertEqual(done.returncode, 0)
            self.assertIn("text_config.novelty", done.stderr)
            self.assertEqual(json.loads(done.stdout)["unknown_keys"], ["text_config.novelty"])
            done = m3c("check", folder, "--strict")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("text_config.novelty", done.stderr)

    def test_wrong_usage_is_2(self):
        for args in ((), ("check",), ("check", "a", "b"), ("frobnicate",), ("check", "a", "--nope"),
                     ("check", "a", "--progress=loud"), ("capacity", "--usable", "nan"),
                     ("capacity", "--memory", "-5"), ("capacity", "--count", "-4"),
                     ("capacity", "--context", "-3"), ("capacity", "--parallel", "dep-4")):
            done = m3c(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertNotEqual(done.stderr, "")

    def test_help_is_short(self):
        for args in (("--help",), ("check", "--help")):
            done = m3c(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertLess(len(done.stdout.splitlines()), 50)

    def test_a_full_standard_output_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([M3C, "check", os.path.join(DATA, "m31-mid")], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)

    def test_more_than_a_buffer_for_a_full_standard_output(self):
        chips = ["--chip", "b300,b200,h200,h100,rubin", "--count", "1,2,4,8,16", "--kv", "all"]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([M3C, "capacity", "--json", *chips], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to standard output", done.stderr)
        self.assertNotIn("fault", done.stderr)

    def test_an_unknown_command_is_named(self):
        done = m3c("frobnicate", "--json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no command 'frobnicate'", done.stderr)

    def test_capacity_reads_regular_files_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe, large = os.path.join(folder, "pipe"), os.path.join(folder, "large")
            os.mkfifo(pipe)
            with open(large, "wb") as file:
                file.truncate((16 << 20) + 1)
            for path, why in ((pipe, "regular file"), ("/dev/zero", "regular file"), (large, "16777216")):
                done = subprocess.run([M3C, "capacity", path], capture_output=True, text=True, check=False, timeout=20)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
