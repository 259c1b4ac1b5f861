#!/usr/bin/env python3
"""tools/check_includes.py on small trees, each with one fault."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_includes.py"

GOOD = {
    "calyrex/base/CMakeLists.txt": "calyrex_library(base SOURCES error.cc LIBS fmt::fmt)",
    "calyrex/base/error.h": "#pragma once\n#include <spdlog/spdlog.h>\n",
    "calyrex/base/error.cc": '#include "calyrex/base/error.h"\n',
    "calyrex/weights/CMakeLists.txt": "calyrex_library(weights SOURCES tensor.cc DEPS base)",
    "calyrex/weights/tensor.cc": '#include <vector>\n#include "calyrex/base/error.h"\n',
    "calyrex/weights/tensor.h": "",
    "calyrex/model/CMakeLists.txt": "calyrex_library(model TORCH SOURCES cal.cc DEPS weights)  # and base by it\n",
    "calyrex/model/cal.h": "#include <ATen/ATen.h>\n",
    "calyrex/model/cal.cc": '#include "calyrex/base/error.h"\n#include "calyrex/model/cal.h"\n',
    "tests/CMakeLists.txt": "add_subdirectory(base)",
    "tests/support/files.h": "",
    "tests/base/CMakeLists.txt": "calyrex_test(error_test SOURCES error_test.cc DEPS base LABEL unit)",
    "tests/base/error_test.cc": '#include "calyrex/base/error.h"\n#include "tests/support/files.h"\n',
}


def run(changes):
    """The check's exit code and messages for the good tree with some files changed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (GOOD | changes).items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


class CheckIncludesTest(unittest.TestCase):
    def assert_fault(self, changes, message):
        code, messages = run(changes)
        self.assertEqual(code, 1)
        self.assertIn(message, messages)
        self.assertEqual(messages.count("\n"), 1, messages)

    def test_good_tree_passes(self):
        self.assertEqual(run({}), (0, ""))

    def test_undeclared_folder(self):
        self.assert_fault({"calyrex/base/error.cc": '\n#include "calyrex/weights/tensor.h"\n'},
                          "calyrex/base/error.cc:2: calyrex/weights/tensor.h is not among the declared")

    def test_undeclared_folder_in_header(self):
        self.assert_fault({"calyrex/weights/tensor.h": '#include "calyrex/model/cal.h"\n'},
                          "calyrex/weights/tensor.h:1: calyrex/model/cal.h is not among the declared")

    def test_undeclared_folder_in_test(self):
        self.assert_fault({"tests/base/error_test.cc": '#include "calyrex/weights/tensor.h"\n'},
                          "tests/base/error_test.cc:1: calyrex/weights/tensor.h is not among the declared")

    def test_torch_header_in_torch_free_folder(self):
        for header in ("torch/torch.h", "ATen/ATen.h", "c10/util/Half.h"):
            self.assert_fault({"calyrex/weights/tensor.h": f"#include <{header}>\n"},
                              f"calyrex/weights/tensor.h:1: torch header {header} in a torch-free target")

    def test_a_header_has_the_rights_of_those_who_read_it(self):
        two = {"calyrex/model/CMakeLists.txt": "calyrex_library(model TORCH SOURCES cal.cc DEPS weights)\n"
                                               "calyrex_library(plan SOURCES plan.cc DEPS base)\n",
               "calyrex/model/plan.cc": ""}
        self.assertEqual(run(two), (0, ""))
        self.assert_fault(two | {"calyrex/model/plan.cc": '#include "calyrex/model/cal.h"\n'},
                          "calyrex/model/cal.h:1: torch header ATen/ATen.h in a torch-free target")

    def test_torch_free_folder_that_depends_on_torch(self):
        self.assert_fault(
            {"calyrex/eval/CMakeLists.txt": "calyrex_library(eval SOURCES DEPS model)"},
            "eval is torch-free but depends on model, which is not")

    def test_cycle(self):
        code, messages = run({
            "calyrex/text/CMakeLists.txt": "calyrex_library(text SOURCES DEPS data)",
            "calyrex/data/CMakeLists.txt": "calyrex_library(data SOURCES DEPS text)"})
        self.assertEqual(code, 1)
        self.assertIn("text and data depend on each other", messages)

    def test_higher_layer(self):
        self.assert_fault({"calyrex/train/CMakeLists.txt": "calyrex_library(train TORCH SOURCES)",
                           "calyrex/model/CMakeLists.txt": "calyrex_library(model TORCH SOURCES cal.cc DEPS weights train)"},
                          "model depends on train, which is in a higher layer")

    def test_unknown_dependency(self):
        self.assert_fault({"calyrex/weights/CMakeLists.txt": "calyrex_library(weights SOURCES tensor.cc DEPS base bass)"},
                          "weights depends on bass, which no calyrex_library declares")

    def test_wrapped_third_party_header(self):
        self.assert_fault({"calyrex/weights/tensor.h": "#include <nlohmann/json.hpp>\n"},
                          "calyrex/weights/tensor.h:1: nlohmann/json.hpp belongs behind a file of base")

    def test_relative_include(self):
        self.assert_fault({"calyrex/weights/tensor.cc": '#include "tensor.h"\n'},
                          'calyrex/weights/tensor.cc:1: "tensor.h" must be written from the root')

    def test_forgotten_source(self):
        self.assert_fault({"calyrex/weights/gguf.cc": ""}, "calyrex/weights/gguf.cc: not among the SOURCES")


if __name__ == "__main__":
    unittest.main()
