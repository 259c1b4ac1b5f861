"""The measurements. Each gives one or more rows of the table; a new one is a function here and an entry in LINES."""
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from driver.process import ProcessFailed, busy_neighbour, run
from driver.report import Result, at_least, at_most

TRAINING_RATIO = 2.0      # our real tokens a second over those of a plain PyTorch eager loop
NEIGHBOUR_SHARE = 0.4     # of the quiet training speed, beside one busy process
DEMO_PEAK_GB = 2.5
VERSION_SECONDS = 0.05
LOAD_SECONDS = 2.0


class Context:
    """What the measurements share: the program, the rows, the environment of every process."""

    failures = (ProcessFailed, OSError)

    def __init__(self, arguments, root, scratch):
        self.arguments = arguments
        self.root = root
        self.scratch = scratch
        self.environment = {"OMP_NUM_THREADS": str(arguments.threads)}
        self._rows = None

    def program(self, *words, **options):
        return run([self.arguments.program, *words], environment=self.environment, **options)

    @property
    def rows(self):
        """Chats of the project's own rule data, the same for every program."""
        if self._rows is None:
            self.program("data", "build", "rules", "--output", self.scratch / "data", "--rows", "400", "--seed", "0")
            self._rows = self.scratch / "data" / "train.jsonl"
        return self._rows

    def train(self, *settings):
        """Real tokens a second of one training run of ours: late8th CAL, 8 rows a step."""
        result = self.program("bench", "train", "--json", "--model", self.arguments.model, "--data", self.rows,
                              "--steps", self.arguments.steps, *settings).last_json()
        return result["tokens_per_second"]

    def train_peer(self):
        """The same of the PyTorch eager loop."""
        model = self.arguments.model
        if model == "default":
            model = self.root / ".deps" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
        environment = dict(self.environment)
        if self.arguments.peer_site is not None:
            environment["PYTHONPATH"] = str(self.arguments.peer_site)
        command = [self.arguments.peer_python, self.root / "bench" / "peers" / "train_eager.py", "--model", model, "--data", self.rows,
                   "--steps", self.arguments.steps, "--batch-rows", "8"]
        return run(command, environment=environment).last_json()["tokens_per_second"]


def measure_training(context):
    ours, peer = [], []
    for _ in range(context.arguments.rounds):
        ours.append(context.train())
        peer.append(context.train_peer())
    ratio = Result("train_ratio", "training, ours over PyTorch eager", "times", [a / b for a, b in zip(ours, peer)],
                   note="of each round")
    return [
        Result("train", "training late8th CAL, 8 rows a step", "real tokens/s", ours),
        Result("train_peer", "the same in PyTorch eager, bf16 autocast, padded batches", "real tokens/s", peer),
        at_least(ratio, TRAINING_RATIO),
    ]


def measure_neighbour(context):
    quiet, busy = [], []
    for _ in range(context.arguments.rounds):
        quiet.append(context.train())
        with busy_neighbour():
            busy.append(context.train())
    share = Result("neighbour", "training beside one busy process, share of the quiet speed", "times",
                   [b / a for a, b in zip(quiet, busy)], note=f"{statistics.median(busy):.0f} of {statistics.median(quiet):.0f} tokens/s")
    return [at_least(share, NEIGHBOUR_SHARE)]


def measure_demo(context):
    finished = context.program("demo", "--model", context.arguments.model, "--output", context.scratch / "demo")
    peak = Result("demo_memory", "peak memory of the demo", "GB", [finished.peak_mib * 2**20 / 1e9])
    time = Result("demo_seconds", "the demo from start to end", "s", [finished.seconds])
    return [at_most(peak, DEMO_PEAK_GB), time]


def measure_version(context):
    runs = [context.program("--version").seconds for _ in range(20)]
    return [at_most(Result("version", "`calyrex --version`", "s", runs), VERSION_SECONDS)]


def measure_load(context):
    runs = [context.program("bench", "load", "--model", context.arguments.model) for _ in range(5)]
    return [at_most(Result("load", "start of the program until the model is ready", "s", [r.seconds for r in runs],
                           note=f"peak {statistics.median(r.peak_mib for r in runs):.0f} MiB"), LOAD_SECONDS)]


def _rates(context, *words):
    return context.program("bench", *words, "--json", "--model", context.arguments.model).last_json()["tokens_per_second"]["runs"]


def measure_prefill(context):
    runs = _rates(context, "prefill", "--prompt-tokens", 1024)
    return [Result("prefill", "prefill of 1,024 tokens", "tokens/s", runs)]


def measure_decode(context):
    results = []
    for streams in (1, 16, 64):
        runs = _rates(context, "decode", "--streams", streams, "--prompt-tokens", 64, "--new-tokens", 96)
        results.append(Result(f"decode_{streams}", f"decoding, {streams} stream{'s' * (streams > 1)}", "tokens/s", runs))
    return results


@dataclass
class Line:
    title: str
    measure: Callable
    needs_peer: bool = False


LINES = {
    "version": Line("time of --version", measure_version),
    "load": Line("time until a model is ready", measure_load),
    "train": Line("training speed beside PyTorch eager", measure_training, needs_peer=True),
    "neighbour": Line("training speed beside a busy process", measure_neighbour),
    "demo": Line("memory and time of the demo", measure_demo),
    "prefill": Line("prefill speed", measure_prefill),
    "decode": Line("decoding speed", measure_decode),
}
