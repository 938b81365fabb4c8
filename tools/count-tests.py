"""Prints "passed failed skipped" of a JUnit file that CTest wrote.

usage: count-tests.py junit.xml"""

import sys
import xml.etree.ElementTree as tree


def main(path):
    passed = failed = skipped = 0
    for case in tree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status == "run":
            passed += 1
        elif status in ("notrun", "disabled"):
            # A test whose program is missing did not run either; that is no skip.
            message = (case.find("skipped").get("message") or "") if case.find("skipped") is not None else ""
            if "SKIP" in message.upper() or status == "disabled":
                skipped += 1
            else:
                failed += 1
        else:
            failed += 1
    print(passed, failed, skipped)


if __name__ == "__main__":
    main(sys.argv[1])
