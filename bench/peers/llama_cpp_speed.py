#!/usr/bin/env python3
"""Speed of llama.cpp on a GGUF file, measured as `calyrex bench decode` and `calyrex bench prefill` measure this program.

usage: llama_cpp_speed.py --model FILE [--measure decode|prefill] [--streams N] [--prompt-tokens N] [--new-tokens N]
                          [--repeat N] [--threads N]
       llama_cpp_speed.py --model FILE --quantize Q8_0|Q4_0|Q4_1 --output FILE      (makes a file of another type, for comparison)

Needs llama-cpp-python, built for the native processor. Prints one line of JSON: tokens per second of each run after one to warm up, all streams
together. Tokens are random ids; each stream continues with its likeliest token.
"""
import argparse
import ctypes
import json
import random
import resource
import statistics
import sys
import time

import llama_cpp
import numpy


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--measure", choices=["decode", "prefill"], default="decode")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--prompt-tokens", type=int, default=None, help="default: 64 for decode, 512 for prefill")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quantize", choices=["Q8_0", "Q4_0", "Q4_1"])
    parser.add_argument("--output")
    arguments = parser.parse_args()
    if arguments.prompt_tokens is None:
        arguments.prompt_tokens = 512 if arguments.measure == "prefill" else 64
    return arguments


def quantize(source, kind, target):
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    parameters.allow_requantize = True
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters)) != 0:
        sys.exit(f"error: {source} cannot be quantised to {kind}")


class Streams:
    """A model with one context for several sequences."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.model = llama_cpp.llama_model_load_from_file(arguments.model.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            sys.exit(f"error: {arguments.model}: llama.cpp cannot load it")
        tokens = arguments.streams * (arguments.prompt_tokens + arguments.new_tokens + 1)
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = tokens
        parameters.n_batch = parameters.n_ubatch = max(512, arguments.prompt_tokens, arguments.streams)
        parameters.n_seq_max = arguments.streams
        parameters.n_threads = parameters.n_threads_batch = arguments.threads
        parameters.kv_unified = True
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        if not self.context:
            sys.exit(f"error: llama.cpp has no memory for a context of {tokens} tokens")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(parameters.n_batch, 0, 1)

    def run(self, rows):
        """rows: (token, position, sequence, wants logits)."""
        self.batch.n_tokens = len(rows)
        for n, (token, position, sequence, wanted) in enumerate(rows):
            self.batch.token[n] = token
            self.batch.pos[n] = position
            self.batch.n_seq_id[n] = 1
            self.batch.seq_id[n][0] = sequence
            self.batch.logits[n] = wanted
        if llama_cpp.llama_decode(self.context, self.batch) != 0:
            sys.exit("error: llama_decode failed")

    def likeliest(self, row):
        logits = llama_cpp.llama_get_logits_ith(self.context, row)
        return int(numpy.ctypeslib.as_array(logits, shape=(self.vocabulary,)).argmax())

    def measure(self, seed):
        arguments, choose = self.arguments, random.Random(seed)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        last = []
        start = time.perf_counter()
        for sequence in range(arguments.streams):
            prompt = [choose.randrange(1000, self.vocabulary) for _ in range(arguments.prompt_tokens)]
            self.run([(token, n, sequence, n + 1 == len(prompt)) for n, token in enumerate(prompt)])
            last.append(self.likeliest(len(prompt) - 1))
        if arguments.measure == "prefill":
            return arguments.streams * arguments.prompt_tokens / (time.perf_counter() - start)
        start = time.perf_counter()
        for step in range(arguments.new_tokens):
            position = arguments.prompt_tokens + step
            self.run([(token, position, sequence, True) for sequence, token in enumerate(last)])
            last = [self.likeliest(row) for row in range(arguments.streams)]
        return arguments.streams * arguments.new_tokens / (time.perf_counter() - start)


def main():
    arguments = parse_arguments()
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, None)
    llama_cpp.llama_backend_init()
    if arguments.quantize:
        quantize(arguments.model, arguments.quantize, arguments.output)
        return
    streams = Streams(arguments)
    rates = [streams.measure(run) for run in range(arguments.repeat + 1)][1:]
    print(json.dumps({"measurement": arguments.measure, "program": "llama.cpp", "version": llama_cpp.__version__, "model": arguments.model,
                      "requests": arguments.streams, "prompt_tokens": arguments.prompt_tokens, "new_tokens": arguments.new_tokens,
                      "threads": arguments.threads,
                      "tokens_per_second": {"median": statistics.median(rates), "low": min(rates), "high": max(rates), "runs": rates},
                      "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
