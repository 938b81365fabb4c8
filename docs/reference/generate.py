"""Writes the operation and pass references of this folder from the .td files, or checks that they are up to date.

generate.py --tblgen mlir-tblgen --include MLIR_INCLUDE_DIR [--check]"""

import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGES = {
    "m3-dialect.md": ["-gen-dialect-doc", "-dialect=m3", "dialects/m3/M3Ops.td"],
    "tile-dialect.md": ["-gen-dialect-doc", "-dialect=tile", "dialects/tile/TileOps.td"],
    "plan-dialect.md": ["-gen-dialect-doc", "-dialect=plan", "dialects/plan/PlanOps.td"],
    "graph-passes.md": ["-gen-pass-doc", "passes/graph/Passes.td"],
    "kernel-passes.md": ["-gen-pass-doc", "passes/kernel/Passes.td"],
    "plan-passes.md": ["-gen-pass-doc", "passes/plan/Passes.td"],
}


def page(options, arguments):
    command = [options.tblgen, "-I", ROOT, "-I", options.include]
    command += [os.path.join(ROOT, a) if a.endswith(".td") else a for a in arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tblgen", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for name, arguments in PAGES.items():
        path, text = os.path.join(HERE, name), page(options, arguments)
        old = open(path).read() if os.path.exists(path) else None
        if old == text:
            continue
        stale.append(name)
        if not options.check:
            with open(path, "w") as f:
                f.write(text)
    if options.check and stale:
        print("out of date:", ", ".join(stale))
        print("run: cmake --build build --target reference-docs")
    return options.check and bool(stale)


if __name__ == "__main__":
    sys.exit(main())
