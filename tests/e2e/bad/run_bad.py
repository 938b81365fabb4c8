"""Runs a program on broken copies of a good checkpoint and checks what it says of each.

usage: run_bad.py --good MODEL_DIR [--structure-only | --values-only] [--except CASE] -- PROGRAM ARG…

{ckpt} in the arguments stands for the broken folder and {out} for an output that must not exist
afterwards. With --structure-only, faults of values are left out: they are found when weights are
read; with --values-only nothing else is tried. Every case must end with exit code 1 within 10 s and within 256 MiB of what the good model
takes, with a message that names what expect.json asks for, without output on standard output or in
{out}, and without opening a file outside the folder."""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Cases of make_bad.py whose fault is a value.
VALUE_CASES = {"nan_e8m0_scale", "nan_e4m3_scale", "nan_global_scale", "inf_global_scale",
               "nan_weight_e4m3"}
IN_OPEN = 0x20


class Watch:
    """Tells whether a file was opened (inotify)."""

    def __init__(self, path):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK)
        if self.fd < 0 or self.libc.inotify_add_watch(self.fd, path.encode(), IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify", path)

    def opened(self):
        try:
            return bool(os.read(self.fd, 4096))
        except BlockingIOError:
            return False
        finally:
            os.close(self.fd)


def run(command, folder, out):
    """Exit code, standard output, standard error, seconds, peak memory in KiB."""
    args = [part.replace("{ckpt}", folder).replace("{out}", out) for part in command]
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        begin = time.monotonic()
        process = subprocess.Popen(args, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begin > 600:  # seconds: it hangs
                process.kill()
            time.sleep(0.002)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (stdout, stderr):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return process.returncode, texts[0], texts[1], seconds, usage.ru_maxrss


def faults(expect, result, out, memory_limit):
    code, stdout, stderr, seconds, memory = result
    found = []
    if code == 0 and expect.get("warning_enough"):
        stdout = ""
    elif code != 1:
        found.append(f"exit code {code}")
    if stdout:
        found.append("wrote to standard output")
    if os.path.lexists(out):
        found.append("left an output behind")
    for name in (expect["file"], expect["tensor"]):
        if name and name not in stderr:
            found.append(f"does not name {name}")
    if expect.get("tensor_any") and not any(name in stderr for name in expect["tensor_any"]):
        found.append(f"names none of {expect['tensor_any']}")
    for group in expect["mention"]:
        if not any(word.lower() in stderr.lower() for word in group):
            found.append(f"says none of {group}")
    if "root:" in stdout + stderr:
        found.append("prints a file outside the folder")
    if seconds > 10:
        found.append(f"took {seconds:.1f} s")
    if memory > memory_limit:
        found.append(f"took {memory // 1024} MiB, the limit is {memory_limit // 1024}")
    return found


def check(root, command, good_memory, options):
    with open(os.path.join(root, "expect.json"), encoding="utf-8") as file:
        expectations = json.load(file)
    failed = done = 0
    for name, expect in expectations.items():
        is_value = name in VALUE_CASES or bool(expect.get("value"))
        if (options.structure_only and is_value) or (options.values_only and not is_value):
            continue
        if name in options.leave_out:
            continue
        out = os.path.join(root, name + ".out")
        watch = Watch(expect["outside"]) if expect.get("outside") else None
        result = run(command, os.path.join(root, name), out)
        problems = faults(expect, result, out, good_memory + 256 * 1024)
        if watch and watch.opened():
            problems.append("opened a file outside the folder")
        done += 1
        if problems:
            failed += 1
            print(f"FAILED {name}: {'; '.join(problems)}\n{result[2]}")
    return done, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--good", required=True)
    parser.add_argument("--structure-only", action="store_true")
    parser.add_argument("--values-only", action="store_true")
    parser.add_argument("--except", action="append", default=[], dest="leave_out")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "good.out")
        code, _, stderr, _, memory = run(options.command, options.good, out)
        if code != 0:
            sys.exit(f"the good checkpoint fails with {code}:\n{stderr}")
        done = failed = 0
        for maker in ("make_bad.py", "more_bad.py"):
            root = os.path.join(folder, maker)
            os.makedirs(root)
            subprocess.run([sys.executable, "-B", os.path.join(HERE, maker), options.good, root],
                           check=True)
            counts = check(root, options.command, memory, options)
            done, failed = done + counts[0], failed + counts[1]
    print(f"{done} broken checkpoints, {failed} failed")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
