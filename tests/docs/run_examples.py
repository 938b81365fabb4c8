"""Runs the examples of a document: lines that begin with "$ " in its ```console blocks, in order, in
one scratch folder that shows the repository's files.

usage: run_examples.py ROOT BIN DOCUMENT"""

import os
import re
import subprocess
import sys
import tempfile


def commands(text):
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield line[2:]


def main(root, binaries, document):
    with open(os.path.join(root, document), encoding="utf-8") as file:
        examples = list(commands(file.read()))
    if not examples:
        print(f"{document} has no examples")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("tests", "docs", "examples"):
            os.symlink(os.path.join(root, name), os.path.join(scratch, name))
        environment = dict(os.environ)
        environment["PATH"] = binaries + os.pathsep + environment["PATH"]
        environment["XDG_CACHE_HOME"] = os.path.join(scratch, "cache")
        for example in examples:
            print(f"$ {example}", flush=True)
            if subprocess.run(["bash", "-c", example], cwd=scratch, env=environment).returncode != 0:
                print(f"{document}: this example failed: {example}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
