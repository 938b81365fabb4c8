"""Switches each pass of a folder off in turn; the lit test that carries its name must then fail.

check_disabled.py --passes passes/graph/Passes.td --tests tests/lit/graph --bin build/bin --llvm LLVM/bin

A pass `m3-fuse-gate-up` has the test fuse-gate-up.mlir, or else every test whose RUN lines use it. It is switched off by a stand-in for m3-opt that
takes the pass out of the command line and hands the rest on. A pass without a test is a failure too."""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

WRAPPER = """#!{python}
import os, re, sys
name, real = {name!r}, {real!r}
arguments = []
for argument in sys.argv[1:]:
    if re.fullmatch("--?" + re.escape(name) + "(=.*)?", argument, re.S):
        continue
    if argument.startswith(("--pass-pipeline", "-pass-pipeline")):
        argument = re.sub(",?(?<![\\\\w-])" + re.escape(name) + r"(?![\\w-])(\\{{[^}}]*\\}})?", "", argument)
        argument = argument.replace("(,", "(")
    arguments.append(argument)
os.execv(real, [real] + arguments)
"""


def pass_names(path):
    text = open(path).read()
    return re.findall(r'^def \w+ : \w+<"([\w-]+)"', text, re.M)


def tests_of(options, name):
    named = os.path.join(options.tests, re.sub("^" + options.prefix, "", name) + ".mlir")
    if os.path.exists(named):
        return [named]
    uses = re.compile(r"RUN:.*[-(,]" + re.escape(name) + r"(?![\w-])")
    files = sorted(glob.glob(os.path.join(options.tests, "**", "*.mlir"), recursive=True))
    return [f for f in files if uses.search(open(f).read())]


def run_lit(options, folder, test, out):
    command = [options.lit, "-q", "--no-progress-bar", "--skip-test-time-recording", "--param", f"bin={folder}", "--param", f"llvm={options.llvm}"]
    command += ["--param", f"out={out}", test]
    return subprocess.run(command, capture_output=True, text=True).returncode


def stand_in(folder, options, name):
    """A folder of programs like options.bin in which m3-opt does not know the pass."""
    for program in os.listdir(options.bin):
        if program != "m3-opt":
            os.symlink(os.path.join(options.bin, program), os.path.join(folder, program))
    path = os.path.join(folder, "m3-opt")
    with open(path, "w") as f:
        f.write(WRAPPER.format(python=sys.executable, name=name, real=os.path.join(options.bin, "m3-opt")))
    os.chmod(path, 0o755)


def passes_without(options, name, test):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        stand_in(folder, options, name)
        return run_lit(options, folder, test, out) == 0


def main():
    parser = argparse.ArgumentParser()
    for name in ("passes", "tests", "bin", "llvm"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--lit", default="lit")
    parser.add_argument("--prefix", default="[a-z0-9]+-", help="what test names leave out of pass names")
    options = parser.parse_args()
    faults = []
    names = pass_names(options.passes)
    for name in names:
        tests = tests_of(options, name)
        if not tests:
            faults.append(f"{name}: no test uses it")
        for test in tests:
            if not passes_without(options, "no-such-pass", test):
                faults.append(f"{name}: {test} fails as it is")
            if passes_without(options, name, test):
                faults.append(f"{name}: {test} passes without the pass")
    for fault in faults:
        print(fault)
    print(f"{len(names)} passes, {len(faults)} faults")
    return bool(faults) or not names


if __name__ == "__main__":
    sys.exit(main())
