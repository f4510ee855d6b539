#!/usr/bin/env python3
"""Make the sources of the site and run Sphinx on them: scripts/build-site calls this.

usage: build.py ROOT WORK OUT
"""
import pathlib
import re
import shutil
import sys

import iobind
import java
import pages
import reference
from sphinx.cmd.build import build_main


def write_python(sources):
    """The page of Python lists each public name, by subject."""
    page = pathlib.Path(__file__).with_name("python.rst").read_text(encoding="utf-8")
    missing = set(iobind.__all__) - set(re.findall(r"^\.\. auto\w+:: (\w+)$", page, flags=re.M))
    if missing:
        raise SystemExit(f"docs/site/python.rst: lacks {', '.join(sorted(missing))}")
    (sources / "reference/python.rst").write_text(page, encoding="utf-8")


def main(root, work, out):
    root, work = pathlib.Path(root), pathlib.Path(work)
    sources = work / "sources"
    shutil.rmtree(work, ignore_errors=True)
    sources.mkdir(parents=True)
    pages.write_pages(root, sources)
    reference.write_reference(root, sources, work)
    java.write_reference(root, sources, work / "javadoc")
    write_python(sources)
    return build_main(["-W", "--keep-going", "-q", "-j", "auto", "-b", "html", "-c", str(pathlib.Path(__file__).parent),
                       "-d", str(work / "doctrees"), str(sources), str(out)])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
