#!/usr/bin/env python3
"""Counts CTest's JUnit files: names the skipped and failed tests, ends with `N passed, N failed, N skipped`.

usage: test_summary.py --status STATUS FILE...
STATUS is what ctest returned, worst first; the exit code is 0 only if it was 0, nothing failed and a test ran.
"""
import argparse
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count(files):
    """Names of the passed, failed and skipped tests of all files."""
    passed, failed, skipped = [], [], []
    for path in files:
        if not path.is_file():  # ctest writes none where a label has no test
            continue
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            status = case.get("status")
            kind = passed if status == "run" else failed if status == "fail" else skipped
            # A test whose program is missing is `notrun`, like a skipped one, but it is a failure.
            if kind is skipped and "Unable to find" in (case.findtext("system-out") or ""):
                kind = failed
            kind.append(case.get("name"))
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--status", type=int, required=True)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    passed, failed, skipped = count(arguments.files)
    for name in skipped:
        print(f"SKIPPED {name}")
    for name in failed:
        print(f"FAILED {name}")
    broken = not failed and (arguments.status != 0 or not passed)
    if broken:
        print("FAILED ctest itself (its message is above), or no test ran")
    print(f"{len(passed)} passed, {len(failed) + broken} failed, {len(skipped)} skipped", flush=True)
    return 1 if failed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
