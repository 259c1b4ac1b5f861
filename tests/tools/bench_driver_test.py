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

    def context(self, **rates):
        played = {name: iter(values) for name, values in rates.items()}
        return types.SimpleNamespace(arguments=types.SimpleNamespace(rounds=3), train=lambda size=None: next(played["train"]),
                                     train_later=lambda size, *settings: next(played["plain" if settings[-1] != lines.PREFIX_CACHE else "cached"]),
                                     train_peer=lambda size, *words: next(played[words[-1] if words else "all"]))

    def test_training_is_compared_round_by_round(self):
        rates = {"train": [600, 900, 500], "cached": [1500, 1800, 1500], "all": [300, 300, 300], "labels": [400, 450, 400],
                 "lora": [150, 150, 150]}
        results = [result for size in lines.STEP_SIZES.values() for result in lines.measure_training(self.context(**rates), size)]
        by_name = {result.name: result for result in results}
        self.assertEqual([by_name[f"train_8{key}"].runs for key in ("", "_cached", "_peer", "_careful", "_lora")], list(rates.values()))
        self.assertEqual(by_name["train_8_ratio"].runs, [2.0, 3.0, 500 / 300])
        self.assertEqual(by_name["train_8_careful_ratio"].runs, [1.5, 2.0, 1.25])
        met = lambda size: [by_name[f"train_{size}_{key}"].met for key in ("ratio", "cached_ratio", "lora_ratio", "careful_ratio")]
        self.assertEqual(met("8"), [False, True, True, None])
        self.assertEqual(met("4096"), [False, False, False, None])

    def test_time_spared_by_the_prefix_cache_is_that_of_pairs_and_of_all_runs(self):
        results = lines.measure_prefix_cache(self.context(plain=[1, 2, 4] * 3, cached=[2, 3, 16, 2, 3, 16, 1, 2, 4]))
        by_name = {result.name: result for result in results}
        self.assertEqual(by_name["prefix_cache_late-quarter"].runs, [2.0, 2.0, 1.0])
        self.assertEqual(by_name["prefix_cache_last"].runs, [4.0, 4.0, 1.0])
        spared = (1 + 1 / 2 + 1 / 4) / (1 / 2 + 1 / 3 + 1 / 16)
        self.assertEqual(by_name["prefix_cache"].runs, [spared, spared, 1.0])
        self.assertIs(by_name["prefix_cache"].met, True)
        self.assertIsNone(by_name["prefix_cache_late-quarter"].met)

    def test_step_sizes_name_what_ours_and_the_peers_take(self):
        self.assertEqual(list(lines.STEP_SIZES), ["8", "4096"])
        self.assertIn("train.batch_tokens=4096", lines.STEP_SIZES["4096"].settings)
        self.assertIn("--batch-tokens", lines.STEP_SIZES["4096"].peer_words)

    def test_quiet_and_busy_runs_alternate(self):
        (share,) = lines.measure_neighbour(self.context(train=[100, 30, 100, 50, 100, 20]))
        self.assertEqual(share.runs, [0.3, 0.5, 0.2])
        self.assertIs(share.met, False)


if __name__ == "__main__":
    unittest.main()
