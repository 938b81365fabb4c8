"""docs/json.md says which keys each program prints with --json.

usage: json_test.py BIN DATA_DIR DOCUMENT"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

BIN, DATA, DOCUMENT = sys.argv[1:4]
MODEL = os.path.join(DATA, "m3-tiny")
KERNEL = os.path.join(os.path.dirname(DATA), "lit", "driver", "build-kernel.mlir")


def documented():
    with open(DOCUMENT, encoding="utf-8") as file:
        rows = re.findall(r"^\| `(.*?)` \| (.*?) \|$", file.read(), re.MULTILINE)
    return {command: keys.split(", ") for command, keys in rows}


class Keys(unittest.TestCase):
    def test_every_command_prints_what_is_documented(self):
        rows = documented()
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "p.m3plan")
            ids = os.path.join(folder, "ids")
            header = json.dumps({"ids.0": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}}).encode()
            with open(ids, "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header + struct.pack("<2i", 1, 2))
            # The plan is made by the row of `m3c compile`, which comes first.
            arguments = {
                "m3c compile": [MODEL, "-o", plan, "--chip", "x86-avx2", "--cache-dir", os.path.join(folder, "cache")],
                "m3c check": [MODEL],
                "m3c inspect": [plan],
                "m3c explain": [plan],
                "m3c verify": [plan],
                "m3c extract": [plan, "-o", os.path.join(folder, "extracted")],
                "m3c diff": [plan, plan],
                "m3c capacity": [],
                "m3c capsule": [plan, "--kernel", "norm", "-o", os.path.join(folder, "capsules")],
                "m3c build-kernel": [KERNEL, "--chip", "x86-avx2", "-o", folder],
                "m3c interpret": [MODEL, "--input", ids, "--output", os.path.join(folder, "scores")],
                "m3c doctor": [],
                "m3c targets": [],
                "m3-run generate": [plan, "--weights", MODEL, "--prompt-ids", "1", "--max-tokens", "1"],
            }
            self.assertEqual(set(rows), set(arguments))
            for command, rest in arguments.items():
                program, subcommand = command.split()
                done = subprocess.run([os.path.join(BIN, program), subcommand, *rest, "--json"],
                                      capture_output=True, text=True, check=False)
                # The doctor's verdict is about this machine.
                self.assertTrue(done.returncode == 0 or command == "m3c doctor", done.stderr)
                result = json.loads(done.stdout)
                entry = result[0] if isinstance(result, list) else result
                self.assertEqual(set(entry), set(rows[command]), command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
