"""The measurements. Each gives one or more rows of the table; a new one is a function here and an entry in LINES."""
import os
import pathlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from driver.process import ProcessFailed, busy_neighbour, run
from driver.report import Result, at_least, at_most

# Ours over llama.cpp on the same file.
PREFILL_RATIO = {"Q4_1": 3.0, "Q8_0": None, "Q4_0": None}
DECODE_RATIO = {1: {"Q4_1": 1.5, "Q8_0": 1.3, "Q4_0": 1.15}, 16: {"Q4_1": 3.0, "Q8_0": 2.0, "Q4_0": None}}
BEST_PREFILL_RATIO, BEST_DECODE_16_RATIO = 1.3, 1.5  # our best file over its best file
STREAMS_64_RATE = 900     # tokens/s of 64 streams together
ADAPTER_COST = 1.3        # time of a token with a late8th CAL adapter over the base's
NEIGHBOUR_SHARE = 0.4     # of the quiet training speed, beside one busy process
DEMO_PEAK_GB = 2.5
PREFIX_CACHE = "train.prefix_cache_gib=2"
CACHED_PLACEMENTS = ("late-quarter", "late8th", "last")
CACHE_GAIN = 1.7          # of training time, over the runs whose first block is at late-quarter or later
WAIT_POLICY = {"GOMP_SPINCOUNT": "2000"}  # at OpenMP barriers, for every program: what this one sets itself
VERSION_SECONDS = 0.05
LOAD_SECONDS = 2.0


@dataclass(frozen=True)
class StepSize:
    """An optimiser step of training, for ours and for the peers, and what ours should reach over theirs."""

    name: str
    what: str
    settings: tuple[str, ...]  # of ours
    peer_words: tuple[str, ...]
    steps: int
    epoch_rows: int            # rows of an epoch where the rate of the later ones is measured
    epoch_steps: int           # steps that these rows make, rounded up
    ratio: float               # over PyTorch eager with the same CAL adapter
    cached_ratio: float        # the same with the prefix cache, from the second epoch on
    lora_ratio: float          # over PEFT LoRA with as many parameters


STEP_SIZES = {
    "8": StepSize("8", "8 chats a step", (), ("--batch-rows", "8"), 14, 64, 8, 2.5, 5.0, 4.0),
    "4096": StepSize("4096", "4,096 tokens a step", ("train.batch_examples=null", "train.batch_tokens=4096"),
                     ("--batch-rows", "8", "--batch-tokens", "4096"), 5, 136, 2, 3.0, 6.0, 5.0),
}
LLAMA_TYPES = ("Q4_1", "Q8_0", "Q4_0")


class Context:
    """What the measurements share: the program, the rows, the environment of every process."""

    failures = (ProcessFailed, OSError)

    def __init__(self, arguments, root, scratch):
        self.arguments = arguments
        self.root = root
        self.scratch = scratch
        self.environment = {"OMP_NUM_THREADS": str(arguments.threads), **WAIT_POLICY}
        self._rows = self._facts = self._peaks = None

    def program(self, *words, **options):
        return run([self.arguments.program, *words], environment=self.environment, **options)

    @property
    def rows(self):
        """Chats of the project's own rule data, the same for every program."""
        if self._rows is None:
            self.program("data", "build", "rules", "--output", self.scratch / "data", "--rows", "400", "--seed", "0")
            self._rows = self.scratch / "data" / "train.jsonl"
        return self._rows

    def first_rows(self, count):
        path = self.scratch / f"first-{count}.jsonl"
        if not path.exists():
            lines = pathlib.Path(self.rows).read_text().splitlines(keepends=True)
            path.write_text("".join(lines[:count]))
        return path

    def train(self, size=STEP_SIZES["8"], *settings, steps=0, skip=2, rows=None):
        """Real tokens a second of one training run of ours: late8th CAL."""
        result = self.program("bench", "train", "--json", "--model", self.arguments.model, "--data", rows or self.rows,
                              "--steps", steps or size.steps, "--skip", skip, *size.settings, *settings).last_json()
        return result["tokens_per_second"]

    def train_later(self, size, *settings):
        """The same from the second epoch on."""
        return self.train(size, *settings, steps=size.epoch_steps + size.steps, skip=size.epoch_steps,
                          rows=self.first_rows(size.epoch_rows))

    @property
    def model_file(self):
        if self.arguments.model == "default":
            return self.root / ".deps" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
        return pathlib.Path(self.arguments.model)

    def peer(self, script, *words):
        """Runs a Python peer with the packages that bench/run.sh fetched."""
        environment = dict(self.environment)
        sites = [str(site) for site in (self.arguments.peer_site, self.arguments.llama_site) if site is not None]
        if sites:
            environment["PYTHONPATH"] = os.pathsep.join(sites)
        return run([self.arguments.peer_python, self.root / "bench" / "peers" / script, *words], environment=environment)

    def train_peer(self, size, *words):
        """The same of the PyTorch eager loop."""
        return self.peer("train_eager.py", "--model", self.model_file, "--data", self.rows, "--steps", size.steps, *size.peer_words,
                         *words).last_json()["tokens_per_second"]

    def file_of_type(self, kind):
        """The model in another type of blocks, made by llama.cpp from its own file."""
        path = self.scratch / f"{kind}.gguf"
        if kind == self.facts["main_type"]:
            return self.model_file
        if not path.exists():
            self.peer("llama_cpp_speed.py", "--model", self.model_file, "--quantize", kind, "--output", path)
        return path

    @property
    def facts(self):
        """What `calyrex model info` says, and the type of most weights."""
        if self._facts is None:
            self._facts = self.program("model", "info", self.arguments.model, "--json").last_json()
            types = self._facts["types"]
            self._facts["main_type"] = max(types, key=lambda kind: types[kind]["parameters"])
        return self._facts

    @property
    def peaks(self):
        """The machine's best, measured once in this run."""
        if self._peaks is None:
            self._peaks = self.peer("machine_peaks.py").last_json()
        return self._peaks


def ratio_of(name, title, ours, theirs, limit):
    result = Result(name, title, "times", [a / b for a, b in zip(ours, theirs)], note="of each round")
    return result if limit is None else at_least(result, limit)


def measure_training(context, size):
    ours, cached, peer, careful, lora = [], [], [], [], []
    for _ in range(context.arguments.rounds):
        ours.append(context.train(size))
        peer.append(context.train_peer(size))
        cached.append(context.train_later(size, PREFIX_CACHE))
        careful.append(context.train_peer(size, "--logits", "labels"))
        lora.append(context.train_peer(size, "--method", "lora"))
    name = f"train_{size.name}"
    over = lambda key, mine, what, theirs, limit: ratio_of(f"{name}_{key}", f"{size.what}: {mine} over {what}", *theirs, limit)
    with_cache, eager = "ours with the prefix cache", "PyTorch eager"
    spared = "PyTorch eager that makes logits of labels alone"
    return [
        Result(name, f"training late8th CAL, {size.what}", "real tokens/s", ours),
        Result(f"{name}_cached", "the same from the second epoch on, with the prefix cache", "real tokens/s", cached),
        Result(f"{name}_peer", "the same in PyTorch eager, bf16 autocast, padded batches", "real tokens/s", peer),
        Result(f"{name}_careful", "and there with logits of label tokens alone", "real tokens/s", careful),
        Result(f"{name}_lora", "PEFT LoRA of rank 58 there", "real tokens/s", lora),
        over("ratio", "ours", eager, (ours, peer), size.ratio),
        over("cached_ratio", with_cache, eager, (cached, peer), size.cached_ratio),
        over("lora_ratio", "ours", "PEFT LoRA", (ours, lora), size.lora_ratio),
        over("careful_ratio", "ours", spared, (ours, careful), None),
        over("cached_careful_ratio", with_cache, spared, (cached, careful), None),
    ]


def measure_prefix_cache(context):
    """Training time from the second epoch on without and with the prefix cache, in pairs, and of the runs together."""
    size = STEP_SIZES["4096"]
    results, together = [], []
    pairs = {placement: [] for placement in CACHED_PLACEMENTS}
    for _ in range(context.arguments.rounds):
        for placement in CACHED_PLACEMENTS:
            setting = f"adapter.placement={placement}"
            pairs[placement].append((context.train_later(size, setting), context.train_later(size, setting, PREFIX_CACHE)))
    for placement, rates in pairs.items():
        results.append(Result(f"prefix_cache_{placement}", f"{size.what}, {placement}: training time without the prefix cache over with it",
                              "times", [cached / plain for plain, cached in rates], note="from the second epoch on"))
    for round_ in zip(*pairs.values()):
        together.append(sum(1 / plain for plain, _ in round_) / sum(1 / cached for _, cached in round_))
    results.append(at_least(Result("prefix_cache", f"the same of {len(CACHED_PLACEMENTS)} runs together", "times", together), CACHE_GAIN))
    return results


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


def _most_tokens(context, wanted):
    return min(wanted, context.facts["max_position_embeddings"] - 64)


def measure_prefill(context):
    results = []
    for tokens in (512, 1024, 2048, 4096, 8000):
        runs = _rates(context, "prefill", "--prompt-tokens", _most_tokens(context, tokens), "--repeat", 3 if tokens < 4096 else 1)
        results.append(Result(f"prefill_{tokens}", f"prefill of {tokens:,} tokens", "tokens/s", runs))
    return results


def measure_decode(context):
    results = []
    for streams in (1, 16, 64):
        runs = _rates(context, "decode", "--streams", streams, "--prompt-tokens", 64, "--new-tokens", 96)
        results.append(Result(f"decode_{streams}", f"decoding, {streams} stream{'s' * (streams > 1)}", "tokens/s", runs))
    at_least(results[-1], STREAMS_64_RATE)
    runs = _rates(context, "decode", "--streams", 64, "--prompt-tokens", 64, "--new-tokens", 512, "--repeat", 2)
    results.append(Result("decode_64_long", "decoding, 64 streams of 512 tokens", "tokens/s", runs))
    return results


def cache_bytes(facts, tokens):
    """Of keys and values of a sequence, in bfloat16."""
    return tokens * facts["num_hidden_layers"] * 2 * facts["num_key_value_heads"] * facts["head_dim"] * 2


def measure_context(context):
    """Time of a token behind a long context over that behind a short one, beside the bytes that it reads more."""
    short, long = 512, _most_tokens(context, 8000)
    rates = {tokens: _rates(context, "decode", "--prompt-tokens", tokens, "--new-tokens", 48) for tokens in (short, long)}
    grown = Result("context", f"time of a token behind {long:,} tokens over that behind {short}", "times",
                   [a / b for a, b in zip(rates[short], rates[long])])
    read = {tokens: context.facts["bytes"] + cache_bytes(context.facts, tokens) for tokens in rates}
    grown.note = f"of the cache alone {long / short:.1f} times the bytes, with the weights {read[long] / read[short]:.2f} times"
    return [Result("context_rate", f"decoding behind {long:,} tokens", "tokens/s", rates[long]),
            at_most(grown, round(read[long] / read[short], 2))]


def measure_adapter(context):
    folder = context.scratch / "late8th"
    context.program("adapter", "init", "--model", context.arguments.model, "--kind", "cal", "--placement", "late8th", "--output", folder)
    base, adapted = [], []
    for _ in range(context.arguments.rounds):
        base += _rates(context, "decode", "--repeat", 1)
        adapted += _rates(context, "decode", "--repeat", 1, "--adapter", folder)
    cost = Result("adapter_cost", "time of a token with a late8th CAL adapter over the base's", "times", [a / b for a, b in zip(base, adapted)])
    return [at_most(cost, ADAPTER_COST)]


def _beside_llama(context, kind, measure, streams, repeat):
    """Rates of ours and of llama.cpp in turn on one file, and the largest resident sizes in MiB."""
    file = context.file_of_type(kind)
    words = ["--prompt-tokens", 512 if measure == "prefill" else 64, "--repeat", 1]
    load = [] if measure == "prefill" else ["--streams", streams, "--new-tokens", 64]
    ours, theirs, memory = [], [], (0, 0)
    for _ in range(repeat):
        mine = context.program("bench", measure, "--json", "--model", file, *words, *load)
        other = context.peer("llama_cpp_speed.py", "--measure", measure, "--model", file, "--threads", context.arguments.threads, *words, *load)
        ours += mine.last_json()["tokens_per_second"]["runs"]
        theirs += other.last_json()["tokens_per_second"]["runs"]
        memory = (max(memory[0], mine.peak_mib), max(memory[1], other.peak_mib))
    return ours, theirs, memory


def measure_llama(context):
    results, best = [], {"prefill": ([], []), 16: ([], [])}
    for measure, streams, limits in (("prefill", 1, PREFILL_RATIO), ("decode", 1, DECODE_RATIO[1]), ("decode", 16, DECODE_RATIO[16])):
        what = "prefill of 512 tokens" if measure == "prefill" else f"decoding, {streams} stream{'s' * (streams > 1)}"
        for kind in LLAMA_TYPES:
            ours, theirs, memory = _beside_llama(context, kind, measure, streams, context.arguments.rounds)
            name = f"llama_{measure}_{streams}_{kind}"
            results.append(Result(name, f"{what}, {kind}", "tokens/s", ours, note=f"peak {memory[0]:.0f} MiB"))
            results.append(Result(f"{name}_peer", "the same in llama.cpp", "tokens/s", theirs, note=f"peak {memory[1]:.0f} MiB"))
            results.append(ratio_of(f"{name}_ratio", f"{what}, {kind}, ours over llama.cpp", ours, theirs, limits[kind]))
            key = measure if measure == "prefill" else streams
            if key in best:
                best[key] = tuple(max(old, new, key=lambda runs: statistics.median(runs) if runs else 0.0)
                                  for old, new in zip(best[key], (ours, theirs)))
    results.append(ratio_of("llama_best_prefill", "prefill of 512 tokens, our best file over its best", *best["prefill"], BEST_PREFILL_RATIO))
    results.append(ratio_of("llama_best_decode_16", "decoding, 16 streams, our best file over its best", *best[16], BEST_DECODE_16_RATIO))
    return results


def measure_limits(context):
    """How much of what the machine can do is reached."""
    facts, peaks = context.facts, context.peaks
    layers = facts["parameters"] - facts["vocab_size"] * facts["hidden_size"] * (1 if facts["tie_word_embeddings"] else 2)
    heads = facts["num_attention_heads"] * facts["head_dim"]
    prefill_flops = 2 * layers + 4 * facts["num_hidden_layers"] * heads * 256  # a token of 512 sees 256 others on average
    prefill = _rates(context, "prefill", "--prompt-tokens", 512)
    decode = _rates(context, "decode", "--new-tokens", 96)
    read = facts["bytes"] + cache_bytes(facts, 64 + 48)
    # late8th: all layers forward, what lies behind the first block backward (inputs alone), five blocks both ways.
    per_layer, blocks = layers / facts["num_hidden_layers"], 5
    block = per_layer
    train_flops = 2 * layers + 2 * per_layer * (blocks - 1) + 6 * block * blocks
    train = [context.train() for _ in range(context.arguments.rounds)]
    gemm, memory = peaks["gemm_bf16_flops"], peaks["memory_read_bytes"]
    share = lambda rates, amount, peak: [rate * amount / peak for rate in rates]
    return [
        Result("peak_gemm", "best matrix product in bfloat16", "GFLOP/s", [gemm / 1e9], note=f"float32 {peaks['gemm_float32_flops'] / 1e9:.0f}"),
        Result("peak_memory", "best rate of reading memory", "GB/s", [memory / 1e9]),
        Result("limit_train", "training, share of the best matrix product", "of 1", share(train, train_flops, gemm),
               note="products of layers and blocks alone, as if every row went through all of them"),
        Result("limit_prefill", "prefill of 512 tokens, share of the best bfloat16 product", "of 1", share(prefill, prefill_flops, gemm),
               note="its own products have 8-bit operands"),
        Result("limit_decode", "decoding, 1 stream, share of the best rate of memory", "of 1", share(decode, read, memory)),
    ]


@dataclass
class Line:
    title: str
    measure: Callable
    needs_peer: bool = False


LINES = {
    "version": Line("time of --version", measure_version),
    "load": Line("time until a model is ready", measure_load),
    "train": Line("training speed beside PyTorch eager", partial(measure_training, size=STEP_SIZES["8"]), needs_peer=True),
    "train_4096": Line("the same at larger steps", partial(measure_training, size=STEP_SIZES["4096"]), needs_peer=True),
    "prefix_cache": Line("training time without and with the prefix cache", measure_prefix_cache),
    "neighbour": Line("training speed beside a busy process", measure_neighbour),
    "demo": Line("memory and time of the demo", measure_demo),
    "prefill": Line("prefill speed", measure_prefill),
    "decode": Line("decoding speed", measure_decode),
    "context": Line("decoding behind a long context", measure_context),
    "adapter": Line("decoding with an adapter", measure_adapter),
    "llama": Line("prefill, decoding and memory beside llama.cpp", measure_llama, needs_peer=True),
    "limits": Line("shares of what the machine can do", measure_limits, needs_peer=True),
}
