#!/usr/bin/env python3
"""Measures speed and memory of the built program, beside its peers, and prints one table.

Every line is a median of several runs with its range; where two programs are compared they run in turn (A B A B), on the same rows,
with the same number of threads. Targets are those the project has set itself. See --help for choosing lines.
"""
import argparse
import pathlib
import sys
import tempfile

from driver import machine, report
from driver.lines import LINES, Context

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", default=",".join(LINES), help=f"which to measure, in order: {', '.join(LINES)}")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each training measurement (default: 3)")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "calyrex")
    parser.add_argument("--model", default="default", help="backbone (default: the one that set-up fetched)")
    parser.add_argument("--no-peers", action="store_true", help="leave out what compares with other programs")
    parser.add_argument("--peer-site", type=pathlib.Path, help="folder with the peers' Python packages")
    parser.add_argument("--llama-site", type=pathlib.Path, help="folder with llama-cpp-python")
    parser.add_argument("--peer-python", default=sys.executable, help="Python that runs the peers")
    parser.add_argument("--threads", type=int, default=machine.cores(), help="threads of every program (default: all cores)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs" / "bench", help="folder for bench.json, bench.md")
    parser.add_argument("--docs", action="store_true", help="write the table to docs/benchmarks.md as well")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when a target is missed")
    arguments = parser.parse_args()
    arguments.lines = [name.strip() for name in arguments.lines.split(",") if name.strip()]
    for name in arguments.lines:
        if name not in LINES:
            parser.error(f"there is no line '{name}'; known: {', '.join(LINES)}")
    return arguments


def measure(arguments, context, finished):
    """Results of the chosen lines, in order; one that fails is reported and does not stop the others. `finished` is called with
    the results so far after each, so that an interrupted run keeps them."""
    results = []
    for name in arguments.lines:
        line = LINES[name]
        if line.needs_peer and arguments.no_peers:
            print(f"[bench] {name}: left out (--no-peers)", file=sys.stderr)
            continue
        print(f"[bench] {name}: {line.title}", file=sys.stderr, flush=True)
        try:
            results += line.measure(context)
        except context.failures as error:
            results.append(report.failed(name, line.title, error))
            print(f"[bench] {name}: FAILED: {error}", file=sys.stderr)
        finished(results)
    return results


def main():
    arguments = parse_arguments()
    if not arguments.program.exists():
        sys.exit(f"error: {arguments.program} is missing; './run build' makes it")
    document = {"machine": machine.describe(ROOT, arguments.threads)}
    report.warn_when_busy(document["machine"])

    def write(results):
        document["load_average_after"] = machine.load_average()
        document["results"] = [result.to_json() for result in results]
        report.write(document, results, arguments.output, ROOT / "docs" / "benchmarks.md" if arguments.docs else None)

    with tempfile.TemporaryDirectory(prefix="calyrex-bench-") as scratch:
        results = measure(arguments, Context(arguments, ROOT, pathlib.Path(scratch)), write)
    write(results)
    print(report.markdown(document, results))
    missed = [result for result in results if result.met is False]
    return 1 if arguments.gate and missed else 0


if __name__ == "__main__":
    sys.exit(main())
