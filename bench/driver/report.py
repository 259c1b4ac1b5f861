"""Results as a table and as JSON."""
import json
import statistics
import sys
from dataclasses import dataclass, field


@dataclass
class Result:
    """One row of the table. `runs` are the single values; the figure is their median."""

    name: str
    title: str
    unit: str
    runs: list = field(default_factory=list)
    target: str = ""
    met: bool | None = None  # None: no target, or not measured
    note: str = ""
    error: str = ""

    @property
    def median(self):
        return statistics.median(self.runs) if self.runs else None

    def to_json(self):
        keys = ("name", "title", "unit", "runs", "target", "met", "note", "error")
        return {**{key: getattr(self, key) for key in keys}, "median": self.median}


def failed(name, title, error):
    return Result(name, title, "", met=False, error=str(error))


def at_least(result, limit):
    result.target, result.met = f"at least {limit:g}", result.median >= limit
    return result


def at_most(result, limit):
    result.target, result.met = f"at most {limit:g}", result.median <= limit
    return result


def number(value):
    """Three to four digits, as a person would write it."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table_row(result):
    if result.error:
        return [result.title, "failed", "", "", result.target, "no", result.error]
    spread = f"{number(min(result.runs))} – {number(max(result.runs))}" if len(result.runs) > 1 else ""
    met = {True: "yes", False: "**no**", None: ""}[result.met]
    return [result.title, number(result.median), result.unit, spread, result.target, met, result.note]


def markdown(document, results):
    machine = document["machine"]
    lines = [
        f"Measured on {machine['date']}, commit {machine['commit']}: {machine['cpu']}, {machine['cores']} cores "
        f"({', '.join(machine['simd']) or 'no AVX2'}), {machine['memory_gib']} GiB, {machine['system']}; {machine['threads']} threads "
        f"for every program. Load average before: {machine['load_average_before']}, after: {document['load_average_after']}.",
        "",
        "| what | median | unit | range | target | met | note |",
        "|---|---:|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(table_row(result)) + " |" for result in results]
    return "\n".join(lines)


PAGE = """# Benchmarks

`./run bench` measures this program on this machine and prints the table below; `./run bench --docs` also writes it here, so every figure on
this page was printed by it. Each figure is the median of several runs, with its range. Programs that are compared run in turn (A B A B), on the same
rows of the project's own rule data, with the same number of threads; the rate of a training run leaves out its first two steps. PyTorch eager is
`bench/peers/train_eager.py`: transformers, padded batches of 8 rows, bf16 autocast, the same CAL blocks, no gradient below the first, the loss over
logits of every position as transformers' own; or LoRA by PEFT of as many parameters. A careful loop makes logits of the tokens with a label alone: it
has lines of its own. llama.cpp runs through llama-cpp-python, built for the same processor, on the same file or one that it made of it. Real tokens
are those of rows, without padding. Peaks of memory are the largest resident size of the process; llama.cpp's holds a Python interpreter. A machine that does other work at the same time gives figures that mean nothing: look at the load average. Every
program spins briefly at OpenMP barriers before it sleeps (GOMP_SPINCOUNT=2000, which this program sets itself unless the user has set a policy).

The first run fetches the programs to compare with (2.7 GB; 9 GB of disk for a moment); `./run bench --no-peers` leaves them out.
`./run bench --help` lists what can be measured.

"""

BY_HAND = "<!-- What follows is written by hand; `./run bench --docs` leaves it as it is. -->\n"


def write(document, results, output, docs):
    output.mkdir(parents=True, exist_ok=True)
    text = markdown(document, results)
    (output / "bench.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    (output / "bench.md").write_text(text + "\n")
    if docs is not None:
        docs.parent.mkdir(parents=True, exist_ok=True)
        old = docs.read_text() if docs.exists() else ""
        at = old.find(BY_HAND)
        docs.write_text(PAGE + text + "\n" + ("" if at < 0 else "\n" + old[at:]))


def warn_when_busy(machine):
    """Figures taken beside other work are worthless; whoever measures should know."""
    if machine["load_average_before"] > 0.5 * machine["cores"]:
        print(f"[bench] warning: this machine is busy (load average {machine['load_average_before']}): the figures will be too low",
              file=sys.stderr, flush=True)
