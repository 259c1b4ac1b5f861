#!/usr/bin/env python3
"""tools/test_summary.py: the closing line and the exit code of ./run test."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "test_summary.py"
PASSED = '<testcase name="A.Pass" status="run"/>'
FAILED = '<testcase name="A.Fail" status="fail"><failure message=""/></testcase>'
SKIPPED = '<testcase name="A.Skip" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
MISSING = ('<testcase name="a_NOT_BUILT" status="notrun"><skipped message=""/>'
           "<system-out>Unable to find executable: a_NOT_BUILT</system-out></testcase>")


def run(status, *suites):
    """Exit code and output lines for JUnit files with the given cases."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, f"{index}.xml") for index in range(len(suites) + 1)]  # the last does not exist
        for path, cases in zip(files, suites):
            path.write_text(f"<testsuite>{cases}</testsuite>")
        command = [sys.executable, SCRIPT, "--status", str(status), *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


class TestSummaryTest(unittest.TestCase):
    def test_all_pass(self):
        self.assertEqual(run(0, PASSED, PASSED), (0, ["2 passed, 0 failed, 0 skipped"]))

    def test_skipped_are_named_and_do_not_fail(self):
        self.assertEqual(run(0, PASSED + SKIPPED), (0, ["SKIPPED A.Skip", "1 passed, 0 failed, 1 skipped"]))

    def test_one_failure_fails_the_run(self):
        self.assertEqual(run(1, PASSED, FAILED), (1, ["FAILED A.Fail", "1 passed, 1 failed, 0 skipped"]))

    def test_failure_counts_even_if_ctest_says_ok(self):
        self.assertEqual(run(0, PASSED, FAILED)[0], 1)

    def test_missing_program_is_a_failure(self):
        self.assertEqual(run(1, PASSED + MISSING), (1, ["FAILED a_NOT_BUILT", "1 passed, 1 failed, 0 skipped"]))

    def test_ctest_that_breaks_down_is_a_failure(self):
        code, lines = run(1, PASSED)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_no_test_at_all_is_a_failure(self):
        code, lines = run(0, "")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
