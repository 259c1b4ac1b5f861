"""Running programs and measuring them from outside."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass


class ProcessFailed(RuntimeError):
    """A measured program that ended with an error."""


@dataclass
class Finished:
    seconds: float
    peak_mib: float
    stdout: str

    def last_json(self):
        """The JSON value on the last line of the output."""
        try:
            return json.loads(self.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError) as error:
            raise ProcessFailed(f"no JSON on the last line of the output: {self.stdout[-200:]!r}") from error


def run(command, environment=None, timeout=3600):
    """Runs a command to its end. The peak is the largest resident size that the process itself had."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env={**os.environ, **(environment or {})})
        usage = _wait(process, start + timeout)
        seconds = time.perf_counter() - start
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read(), err.read()
    if process.returncode != 0:
        last = (stderr.strip().splitlines() or ["no message"])[-1]
        raise ProcessFailed(f"'{' '.join(command)}' ended with {process.returncode}: {last}")
    return Finished(seconds, usage.ru_maxrss / 1024, stdout)


def _wait(process, deadline):
    """wait4 gives the usage of this one child, which subprocess does not."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage
        if time.perf_counter() > deadline:
            process.kill()
            deadline = float("inf")
        time.sleep(0.001)


@contextlib.contextmanager
def busy_neighbour():
    """One process that computes without end while the block runs."""
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()
