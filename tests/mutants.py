#!/usr/bin/env python3
"""Plant the defects of mutants.tsv, which tests in C found until rows of conformance took their place, and expect the rows to find each.

It is fuzz/mutants.py, which says what its options and the columns are, with another table; DIR of --build counts from the project's directory. The
column `was` has the program in C that found the defect, and which cases of it, now gone, if that was tried for this defect.
The rows run under the settings that ctest has for them."""
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fuzz"))
import mutants  # noqa: E402

SETTINGS = {"VDEV_DENY": "Loop", "VDEV_RACE": "fail", "ASAN_OPTIONS": "allocator_may_return_null=1"}


class Build(mutants.Build):
    """A defect is linked into a program: one of the shared library becomes one of the static library."""

    def link_command(self, program):
        return re.sub(r"lib/libiobind\.so\S*", "lib/libiobind.a", super().link_command(program))


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    os.chdir(HERE.parent)
    mutants.HERE = HERE
    mutants.Build = Build
    mutants.unlisted = lambda defects: []
    sys.exit(mutants.main())
