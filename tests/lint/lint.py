"""Rules of the house that a program can check. Prints each fault as FILE:LINE: what.

usage: lint.py ROOT RULE
rules: names layers size words places links format recipes"""

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


def check_places(root):
    """Reports name the files that they are of, not the folders of the machine that made them."""
    place = re.compile(r'"(/|\.)[^"]*/[^"]*\.(m3plan|json|gguf)"')
    for path in tracked(root):
        if path.endswith(".json") and path.startswith("docs/benchmarks/"):
            for number, line in enumerate(lines_of(root, path), 1):
                found = place.search(line)
                if found:
                    yield f"{path}:{number}: {found.group()} is a place of one machine"


def headings(path):
    """Names by which links reach the headings of a page, as GitHub makes them."""
    with open(path, encoding="utf-8") as file:
        titles = re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_links(root):
    """Links of pages lead to files and headings of the tree."""
    for path in tracked(root):
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(lines_of(root, path), 1):
            for place, _, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]*))?\)", line):
                at = os.path.join(root, os.path.dirname(path), place) if place else os.path.join(root, path)
                if not os.path.exists(at):
                    yield f"{path}:{number}: there is no {place}"
                elif heading and heading not in headings(at):
                    yield f"{path}:{number}: {place} has no heading #{heading}"


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


def names_in(root, path, pattern):
    return re.findall(pattern, "\n".join(lines_of(root, path)), re.MULTILINE)


def check_recipes(root):
    """What CONTRIBUTING.md promises: one source and one row for each thing of a kind."""
    files = tracked(root)
    text_of = lambda path: "\n".join(lines_of(root, path))
    commands = text_of("tools/m3c/Commands.cpp")
    for path in files:
        command = re.fullmatch(r"tools/m3c/(\w+)Command\.cpp", path)
        if command and f"setUp{command.group(1)}}}" not in commands:
            yield f"{path}:1: no row in tools/m3c/Commands.cpp"
    rows = text_of("passes/kernel/Families.cpp")
    for name in names_in(root, "passes/kernel/Families.h", r"lower(\w+)\(mlir::Operation"):
        if f", lower{name}}}" not in rows:
            yield f"passes/kernel/Families.h:1: lower{name} has no row in Families.cpp"
    counts = "\n".join(text_of(path) for path in files if path.startswith("tests/lit/"))
    yield from check_labels(files, text_of, counts)
    for folder in ("graph", "kernel", "plan"):
        sources = [path for path in files if path.startswith(f"passes/{folder}/") and path.endswith(".cpp")]
        uses = "\n".join(text_of(path) for path in sources)
        for name in names_in(root, f"passes/{folder}/Passes.td", r"^def (\w+) : "):
            if f"GEN_PASS_DEF_{name.upper()}\n" not in uses:
                yield f"passes/{folder}/Passes.td:1: {name} has no source"
        for name in names_in(root, f"passes/{folder}/Passes.td", r'Statistic<"\w+", "([^"]+)"'):
            if f".{name} = " not in counts:
                yield f"passes/{folder}/Passes.td:1: no lit test counts '{name}'"
    targets = text_of("passes/targets/common/Target.cpp")
    for folder in {path.split("/")[2] for path in files if path.startswith("passes/targets/") and path.count("/") > 2}:
        if folder != "common" and f"passes/targets/{folder}/" not in targets:
            yield f"passes/targets/{folder}:1: no line in common/Target.cpp"
    yield from check_emulated(files, text_of)
    guide = text_of("docs/compile.md")
    for option in names_in(root, "tools/m3c/CompileCommand.cpp", r'"(?:-o,)?(--[a-z-]+)'):
        if option not in guide and option != "--output":
            yield f"tools/m3c/CompileCommand.cpp:1: {option} is not in docs/compile.md"


def check_labels(files, text_of, lit):
    """Every labelled rule of the tile dialect has a case that breaks it."""
    for path in files:
        if path.startswith("dialects/tile/") and path.endswith(".cpp"):
            for label in sorted(set(re.findall(r'"(T-[A-Z]+\d+)\b', text_of(path)))):
                if not re.search(rf"\b{label}\b", lit):
                    yield f"{path}:1: no lit test breaks {label}"


def check_emulated(files, text_of):
    """Every atom of a target that is emulated has an emulated form of the same parameters."""
    declared = re.compile(r"^(?:template <.*> )?M3_INLINE [^=;(]*?(\w+)\(([^{;]*)\) ?\{", re.MULTILINE)

    def functions(path):
        types = lambda text: re.sub(r"\b\w+(?=\)?(?:\[\d+\])?\s*(?:,|$))", "", re.sub(r"\s+", " ", text))
        return {(name, types(parameters)) for name, parameters in declared.findall(text_of(path))}

    for path in files:
        found = re.fullmatch(r"passes/targets/([\w/]+)/emulated/(\w+\.h)", path)
        device = f"passes/targets/{found.group(1)}/device/{found.group(2)}" if found else ""
        if device in files:
            for name, parameters in sorted(functions(device) - functions(path)):
                yield f"{device}:1: {name}({parameters}) has no emulated form in {path} (CONTRIBUTING.md)"


RULES = {
    "recipes": check_recipes,
    "names": check_names,
    "layers": check_layers,
    "size": check_size,
    "words": check_words,
    "places": check_places,
    "links": check_links,
    "format": check_format,
}


def main(root, rule):
    faults = list(RULES[rule](root))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
