#!/usr/bin/env python3
"""Writes bench/peers/requirements.lock: every package that bench/peers/requirements.txt pulls in, with version and digest.

usage: lock_peers.py      (Python 3.11 on x86_64 Linux, as the set-up has it; run it after changing requirements.txt)
"""
import json
import pathlib
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
HEADER = "# Made by bench/lock_peers.py from requirements.txt; wheels for CPython 3.11 on x86_64 Linux.\n"


def resolve():
    """What pip would install, without installing it."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
               "--only-binary=:all:", "--report", "-", "-r", str(PEERS / "requirements.txt")]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["install"]


def main():
    lines = []
    for package in resolve():
        name, version = package["metadata"]["name"].lower(), package["metadata"]["version"]
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    (PEERS / "requirements.lock").write_text(HEADER + "".join(sorted(lines)))


if __name__ == "__main__":
    main()
