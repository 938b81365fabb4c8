"""Rules of the house that a program can check. Prints each fault as FILE:LINE: what.

usage: lint.py ROOT RULE
rules: names layers size words format"""

import os
import re
import subprocess
import sys

SOURCE = (".h", ".cpp", ".td", ".c")

# A chip or target by name stands only where chips are known, and in tests and docs.
TARGET_NAMES = re.compile(
    r"\b(x86|x86_64|avx2?|avx512\w*|sm_?\d{2,3}[a-z]?|gfx\d+\w*|zmm\d*|ymm\d*)\b", re.IGNORECASE
)
TARGET_FOLDERS = ("passes/targets/", "compiler/toolchains/", "runtime/drivers/")
NAMED_ELSEWHERE = ("tests/", "docs/", "examples/")

FORBIDDEN_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MAX_LINES = 600
MAX_FILES = 15  # sources of one folder, headers and build files not counted


def tracked(root):
    out = subprocess.run(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    return [path for path in out.stdout.splitlines() if os.path.isfile(os.path.join(root, path))]


def lines_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().split("\n")


def sources(root):
    return [path for path in tracked(root) if path.endswith(SOURCE)]


def check_names(root):
    for path in sources(root):
        if path.startswith(TARGET_FOLDERS + NAMED_ELSEWHERE):
            continue
        for number, line in enumerate(lines_of(root, path), 1):
            found = TARGET_NAMES.search(line)
            if found:
                yield f"{path}:{number}: the name '{found.group()}' belongs below {', '.join(TARGET_FOLDERS)}"


def check_layers(root):
    include = re.compile(r'#include "(compiler|dialects|passes|models)/')
    for path in sources(root):
        if not path.startswith("runtime/"):
            continue
        for number, line in enumerate(lines_of(root, path), 1):
            if include.match(line):
                yield f"{path}:{number}: runtime includes nothing of the compiler"


def check_size(root):
    folders = {}
    for path in sources(root):
        count = len(lines_of(root, path))
        if count > MAX_LINES:
            yield f"{path}:{count}: more than {MAX_LINES} lines"
        if path.endswith(".cpp"):
            folders.setdefault(os.path.dirname(path), []).append(path)
    for folder, files in folders.items():
        if len(files) > MAX_FILES:
            yield f"{folder}:1: {len(files)} sources, more than {MAX_FILES}"


def check_words(root):
    for path in sources(root):
        lines = lines_of(root, path)
        for number, line in enumerate(lines, 1):
            if FORBIDDEN_WORDS.search(line):
                yield f"{path}:{number}: unfinished work belongs into an issue"
        # A C header has a guard by name; the precompiled header is never included.
        guarded = any(line == "#pragma once" or line.startswith("#ifndef M3C_") for line in lines)
        if path.endswith(".h") and not guarded and not path.startswith("cmake/"):
            yield f"{path}:1: no #pragma once"


def check_format(root):
    files = [path for path in sources(root) if path.endswith((".h", ".cpp", ".c"))]
    out = subprocess.run(
        ["clang-format-22", "--dry-run", "--ferror-limit=1"] + files, cwd=root, capture_output=True, text=True
    )
    yield from re.findall(r"^(\S+:\d+):\d+: \w+: code should be", out.stderr, re.MULTILINE)


RULES = {
    "names": check_names,
    "layers": check_layers,
    "size": check_size,
    "words": check_words,
    "format": check_format,
}


def main(root, rule):
    faults = list(RULES[rule](root))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
