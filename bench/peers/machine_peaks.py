"""What this machine can do at best, to compare with: prints FLOP/s of matrix products and bytes/s read from memory as JSON.

usage: machine_peaks.py [--seconds N]
"""
import argparse
import json
import time

import torch

# Rows, inner and outer size of products: a large square, and those of small language models.
SHAPES = [(2048, 2048, 2048), (2048, 576, 3072), (2048, 1536, 1536), (4096, 1536, 576)]
BYTES = 1 << 30  # read at a time, far more than any cache holds


def best_rate(work, amount, seconds):
    """The highest of `amount` a second over repetitions of `work`."""
    best, end = 0.0, time.perf_counter() + seconds
    work()
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        best = max(best, amount / (time.perf_counter() - begin))
    return best


def gemm_peak(dtype, seconds):
    rates = []
    for rows, inner, columns in SHAPES:
        a, b = torch.randn(rows, inner, dtype=dtype), torch.randn(inner, columns, dtype=dtype)
        rates.append(best_rate(lambda: torch.mm(a, b), 2 * rows * inner * columns, seconds / len(SHAPES)))
    return max(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    values = torch.ones(BYTES // 4)
    print(json.dumps({
        "gemm_bf16_flops": gemm_peak(torch.bfloat16, seconds),
        "gemm_float32_flops": gemm_peak(torch.float32, seconds),
        "memory_read_bytes": best_rate(values.sum, BYTES, seconds),
        "threads": torch.get_num_threads(),
    }))


if __name__ == "__main__":
    main()
