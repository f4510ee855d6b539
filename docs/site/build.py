#!/usr/bin/env python3
"""Make the sources of the site and run Sphinx on them: scripts/build-site calls this.

usage: build.py ROOT WORK OUT
"""
import pathlib
import shutil
import sys

import java
import pages
import reference
from sphinx.cmd.build import build_main


def main(root, work, out):
    root, work = pathlib.Path(root), pathlib.Path(work)
    sources = work / "sources"
    shutil.rmtree(work, ignore_errors=True)
    sources.mkdir(parents=True)
    pages.write_pages(root, sources)
    reference.write_reference(root, sources, work)
    java.write_reference(root, sources, work / "javadoc")
    (sources / "reference/python.rst").write_text(pathlib.Path(__file__).with_name("python.rst").read_text(encoding="utf-8"), encoding="utf-8")
    return build_main(["-W", "--keep-going", "-q", "-j", "auto", "-b", "html", "-c", str(pathlib.Path(__file__).parent),
                       "-d", str(work / "doctrees"), str(sources), str(out)])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
