#!/usr/bin/env python3
"""Holds every folder to the dependencies that its CMakeLists.txt declares; run by each build.

usage: check_includes.py [ROOT]

Reads the calyrex_library(), calyrex_program(), calyrex_module() and calyrex_test() calls below ROOT/calyrex and ROOT/tests
and reports, one line each: an include of a folder that is not among the (transitive) DEPS; a torch header or a torch target's header in a
target without TORCH; a third-party header outside the folder that wraps it; an include that is not written from the root; a cycle; a
dependency on a higher layer; a source file of no target.
"""
import pathlib
import re
import sys
from dataclasses import dataclass, field

# Folder -> layer. A folder depends on its own layer or lower ones only.
LAYERS = {
    "base": 0,
    "weights": 1, "text": 1, "data": 1, "lm": 1, "kernels": 1,
    "model": 2,
    "train": 3, "infer": 3, "eval": 3, "serve": 3,
    "study": 4,
    "cli": 5,
}
# Third-party headers that one folder hides from the others.
OWNERS = {"spdlog/": "base", "yaml-cpp/": "base", "nlohmann/": "base", "CLI/": "cli", "hwy/": "kernels"}
TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
CALL = re.compile(r"\b(calyrex_(?:library|program|module|test))\s*\(([^()]*)\)")
KEYWORDS = {"SOURCES", "DEPS", "LIBS", "LABEL", "TORCH"}


@dataclass
class Target:
    name: str
    folder: pathlib.Path  # relative to the root
    torch: bool
    sources: list = field(default_factory=list)
    deps: list = field(default_factory=list)

    @property
    def layer(self):
        """The first folder below calyrex/ or tests/."""
        return self.folder.parts[1]


def parse_targets(root, cmake_file):
    """The targets that one CMakeLists.txt declares."""
    text = re.sub(r"#[^\n]*", "", cmake_file.read_text())
    targets = []
    for _, body in CALL.findall(text):
        words = body.split()
        target = Target(words[0], cmake_file.parent.relative_to(root), "TORCH" in words)
        lists = {"SOURCES": target.sources, "DEPS": target.deps}
        current = None
        for word in words[1:]:
            if word in KEYWORDS:
                current = lists.get(word)
            elif current is not None:
                current.append(word)
        targets.append(target)
    return targets


def closure(name, libraries, seen=None):
    """`name` and all that it depends on, directly or not."""
    seen = set() if seen is None else seen
    if name not in seen and name in libraries:
        seen.add(name)
        for dep in libraries[name].deps:
            closure(dep, libraries, seen)
    return seen


def visible_folders(target, libraries):
    """Names of the folders that a target's files may include."""
    return {libraries[name].layer for dep in target.deps for name in closure(dep, libraries)}


def check_graph(libraries):
    """Faults of the declared dependencies themselves."""
    for name, library in libraries.items():
        where = library.folder / "CMakeLists.txt"
        for dep in library.deps:
            if dep not in libraries:
                yield f"{where}: {name} depends on {dep}, which no calyrex_library declares"
            elif LAYERS.get(libraries[dep].layer, 0) > LAYERS.get(library.layer, 0):
                yield f"{where}: {name} depends on {dep}, which is in a higher layer"
            elif name in closure(dep, libraries):
                yield f"{where}: {name} and {dep} depend on each other"
            elif libraries[dep].torch and not library.torch:
                yield f"{where}: {name} is torch-free but depends on {dep}, which is not"


def check_file(path, root, own_folder, allowed, torch):
    """Faults of one file's includes. `allowed`: names of the folders it may include."""
    where = path.relative_to(root)
    text = path.read_text(errors="replace")
    for match in INCLUDE.finditer(text):
        quote, header = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if TORCH_HEADER.match(header):
            if not torch:
                yield f"{where}:{line}: torch header {header} in a torch-free target"
        elif header.startswith("calyrex/"):
            folder = header.split("/")[1]
            if folder != own_folder and folder not in allowed:
                yield f"{where}:{line}: {header} is not among the declared dependencies (add {folder} to DEPS?)"
        elif own_folder and OWNERS.get(header.split("/")[0] + "/", own_folder) != own_folder:
            yield f"{where}:{line}: {header} belongs behind a file of {OWNERS[header.split('/')[0] + '/']}"
        elif quote == '"' and not (root / header).exists() and (path.parent / header).exists():
            yield f'{where}:{line}: "{header}" must be written from the root of the project'


def source_files(root, folder):
    """The C++ files of a folder, and of its subfolders that have no CMakeLists.txt of their own."""
    for path in sorted((root / folder).iterdir()):
        if path.is_dir() and not (path / "CMakeLists.txt").exists():
            yield from source_files(root, path.relative_to(root))
        elif path.suffix in (".h", ".cc"):
            yield path


def header_readers(root, folder, users_of):
    """Header -> the folder's targets with a source that includes it."""
    readers = {}
    for source, users in users_of.items():
        path = root / folder / source
        if path.exists():
            for _, header in INCLUDE.findall(path.read_text(errors="replace")):
                readers.setdefault(header, []).extend(users)
    return readers


def check_folder(root, folder, targets, libraries):
    """Faults of the files of one folder with a CMakeLists.txt."""
    users_of = {}
    for target in targets:
        for source in target.sources:
            users_of.setdefault(source, []).append(target)
    own_folder = folder.parts[1] if folder.parts[0] == "calyrex" else ""
    readers = header_readers(root, folder, users_of)
    for path in source_files(root, folder):
        users = users_of.get(path.relative_to(root / folder).as_posix())
        if users is None and path.suffix == ".cc":
            yield f"{path.relative_to(root)}: not among the SOURCES of any target"
            continue
        # A header may use only what every target that reads it may use; one that no source here names, what all may.
        users = users or readers.get(path.relative_to(root).as_posix()) or targets
        allowed = set.intersection(*(visible_folders(user, libraries) for user in users))
        yield from check_file(path, root, own_folder, allowed, all(user.torch for user in users))


def check(root):
    """All faults of the tree at `root`, in order."""
    folders = {}
    for top in ("calyrex", "tests"):
        for cmake_file in sorted((root / top).rglob("CMakeLists.txt")):
            targets = parse_targets(root, cmake_file)
            if targets:
                folders[cmake_file.parent.relative_to(root)] = targets
            elif top == "calyrex" and not list(cmake_file.parent.glob("*/CMakeLists.txt")):
                yield f"{cmake_file.relative_to(root)}: declares no target that this check can read"
    libraries = {t.name: t for folder, targets in folders.items() if folder.parts[0] == "calyrex" for t in targets}
    yield from check_graph(libraries)
    for folder, targets in folders.items():
        yield from check_folder(root, folder, targets, libraries)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    faults = list(check(root))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
