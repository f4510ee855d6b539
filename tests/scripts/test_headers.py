"""bindings/python/CMakeLists.txt with the headers of a Debian: its pyconfig.h includes one of the platform, which lies where only the system's
own compiler looks."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
TRIPLET = "some-linux-gnu"
FILES = {
    "CMakeLists.txt": ("cmake_minimum_required(VERSION 3.25)\nproject(headers C)\nfind_package(Threads REQUIRED)\nadd_library(iobind INTERFACE)\n"
                       "add_subdirectory(python)\n"),
    "python/src/one.c": '#include <Python.h>\nint one(void);\nint one(void) { return PLATFORM; }\n',
    "include/python3.11/Python.h": "#include <pyconfig.h>\n",
    "include/python3.11/pyconfig.h": f"#include <{TRIPLET}/python3.11/pyconfig.h>\n",
    f"include/{TRIPLET}/python3.11/pyconfig.h": "#define PLATFORM 1\n",
    "interpreter": '#!/bin/sh\ncase $2 in *MULTIARCH*) echo {triplet} ;; *) echo "{folder}/include/python3.11" ;; esac\n',
}


class Headers(unittest.TestCase):
    def test_the_platform_s_pyconfig(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in FILES.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text.replace("{folder}", name).replace("{triplet}", TRIPLET), encoding="utf-8")
            (folder / "interpreter").chmod(0o755)
            shutil.copy(PROJECT / "bindings/python/CMakeLists.txt", folder / "python")
            environment = {**os.environ, "IOBIND_PYTHON": str(folder / "interpreter")}
            for arguments in (["-S", name, "-B", folder / "build"], ["--build", folder / "build", "--target", "iobind_python"]):
                made = subprocess.run(["cmake", *arguments], env=environment, capture_output=True, text=True)
                self.assertEqual(made.returncode, 0, made.stdout + made.stderr)


if __name__ == "__main__":
    unittest.main()
