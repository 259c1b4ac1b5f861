"""What a result was measured on."""
import datetime
import os
import pathlib
import platform
import subprocess

SIMD_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def cores():
    return len(os.sched_getaffinity(0))


def load_average():
    return round(os.getloadavg()[0], 2)


def _first_value(path, key):
    """The value of the first `key : value` line of a /proc file."""
    for line in pathlib.Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _commit(root):
    """The commit that was measured, with a plus sign when files differ from it."""
    run = lambda *command: subprocess.run(["git", *command], cwd=root, text=True, capture_output=True, check=False).stdout
    commit = run("rev-parse", "--short=12", "HEAD").strip()
    return commit + ("+" if run("status", "--porcelain", "--untracked-files=no").strip() else "")


def describe(root, threads):
    flags = _first_value("/proc/cpuinfo", "flags").split()
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "cores": cores(),
        "simd": [flag for flag in SIMD_FLAGS if flag in flags],
        "memory_gib": round(int(_first_value("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "system": f"{platform.system()} {platform.release()}",
        "threads": threads,
        "commit": _commit(root),
        "date": datetime.date.today().isoformat(),
        "load_average_before": load_average(),
    }
