#!/usr/bin/env python3
"""The benchmark driver's own decisions: measuring a process, judging a target, printing the table."""
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from driver import lines, process, report  # noqa: E402

MACHINE = {"date": "2026-01-02", "commit": "abc", "cpu": "A CPU", "cores": 2, "simd": ["avx2"], "memory_gib": 8.0,
           "system": "Linux 6", "threads": 2, "load_average_before": 0.1}


class ProcessTest(unittest.TestCase):
    def test_peak_memory_is_that_of_the_process(self):
        small = process.run([sys.executable, "-c", "pass"])
        large = process.run([sys.executable, "-c", "x = b'x' * (200 << 20)"])
        self.assertGreater(large.peak_mib, small.peak_mib + 190)

    def test_time_is_that_of_the_process(self):
        self.assertGreater(process.run(["sleep", "0.2"]).seconds, 0.2)

    def test_a_failure_names_command_code_and_last_line(self):
        with self.assertRaisesRegex(process.ProcessFailed, "ended with 3: no such thing"):
            process.run([sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(3)"])

    def test_a_process_that_hangs_is_ended(self):
        with self.assertRaisesRegex(process.ProcessFailed, "ended with -9"):
            process.run(["sleep", "60"], timeout=0.1)

    def test_the_neighbour_is_gone_afterwards(self):
        with process.busy_neighbour():
            pass
        self.assertEqual(process.run(["true"]).stdout, "")

    def test_output_without_json_is_a_failure(self):
        with self.assertRaisesRegex(process.ProcessFailed, "no JSON"):
            process.run(["echo", "hello"]).last_json()


class ReportTest(unittest.TestCase):
    def test_targets_are_judged_by_the_median(self):
        runs = [1.0, 2.5, 3.0]
        self.assertIs(report.at_least(report.Result("a", "a", "times", runs), 2.5).met, True)
        self.assertIs(report.at_least(report.Result("a", "a", "times", runs), 2.6).met, False)
        self.assertIs(report.at_most(report.Result("a", "a", "s", runs), 2.5).met, True)
        self.assertIs(report.at_most(report.Result("a", "a", "s", runs), 2.4).met, False)

    def test_table(self):
        results = [report.at_most(report.Result("a", "start", "s", [0.011, 0.012, 0.030]), 0.05),
                   report.Result("b", "speed", "tokens/s", [1234.5]), report.failed("c", "demo", "it broke")]
        table = report.markdown({"machine": MACHINE, "load_average_after": 0.2}, results)
        self.assertIn("| start | 0.012 | s | 0.011 – 0.03 | at most 0.05 | yes |  |", table)
        self.assertIn("| speed | 1,234 | tokens/s |  |  |  |  |", table)
        self.assertIn("| demo | failed |  |  |  | no | it broke |", table)
        self.assertIn("A CPU, 2 cores (avx2)", table)


class LinesTest(unittest.TestCase):
    """Measurements over a program that is played."""

    def context(self, ours, peer=()):
        ours, peer = iter(ours), iter(peer)
        return types.SimpleNamespace(arguments=types.SimpleNamespace(rounds=3), train=lambda: next(ours),
                                     train_peer=lambda: next(peer))

    def test_training_is_compared_round_by_round(self):
        ours, peer, ratio = lines.measure_training(self.context([600, 660, 500], [300, 300, 300]))
        self.assertEqual((ours.runs, peer.runs, ratio.runs), ([600, 660, 500], [300, 300, 300], [2.0, 2.2, 500 / 300]))
        self.assertIs(ratio.met, True)

    def test_quiet_and_busy_runs_alternate(self):
        (share,) = lines.measure_neighbour(self.context([100, 30, 100, 50, 100, 20]))
        self.assertEqual(share.runs, [0.3, 0.5, 0.2])
        self.assertIs(share.met, False)


if __name__ == "__main__":
    unittest.main()
