"""The reference of Java: the JDK's javadoc, below the site, and a page of Sphinx that lists its classes and members, so that the
site's search finds them."""
import json
import os
import pathlib
import re
import shutil
import subprocess

PACKAGE = "io.github.iobind.api"
# All of the annotations' module that javadoc needs to know: the package is read without its jar.
ANNOTATION = """package org.jspecify.annotations;
import java.lang.annotation.*;
@Documented @Target({{ElementType.TYPE_USE, ElementType.TYPE, ElementType.PACKAGE}}) public @interface {name} {{}}
"""
INTRODUCTION = """Java
====

The package ``io.github.iobind.api``: :doc:`its page </java>` explains it, and its Javadoc is the reference. Each name below leads there;
`all classes <../javadoc/index.html>`__ has an overview.

"""


def run_javadoc(root, work, out):
    sources = pathlib.Path(work, "sources")
    shutil.copytree(pathlib.Path(root, "bindings/java/src/main/java"), sources, ignore=shutil.ignore_patterns("module-info.java"))
    (sources / "org/jspecify/annotations").mkdir(parents=True)
    for name in ("Nullable", "NullMarked"):
        (sources / f"org/jspecify/annotations/{name}.java").write_text(ANNOTATION.format(name=name), encoding="utf-8")
    style = pathlib.Path(__file__).with_name("javadoc.css")
    command = [pathlib.Path(os.environ["JAVA_HOME"], "bin/javadoc"), "-quiet", "-notimestamp", "-Xdoclint:none", "-Werror", "--release", "22",
               "-encoding", "UTF-8", "-charset", "UTF-8", "-windowtitle", "iobind for Java", "--add-stylesheet", style, "-bottom",
               '<a href="{@docRoot}/../reference/java.html">Documentation of iobind</a>', "-d", out, "-sourcepath", sources, PACKAGE]
    subprocess.run(list(map(str, command)), check=True)


def index(path):
    """What one of javadoc's own search indices has."""
    return json.loads(re.search(r"=\s*(\[.*?\]);updateSearchResults", path.read_text(encoding="utf-8"), flags=re.S)[1])


def write_reference(root, target, work):
    """The Javadoc as files that the site copies as they are, and the page that leads to it."""
    out = pathlib.Path(target, "extra/javadoc")
    run_javadoc(root, work, out)
    members = {}
    for member in index(out / "member-search-index.js"):
        members.setdefault(member["c"], []).append(member)
    page, base = INTRODUCTION, f"../javadoc/{PACKAGE.replace('.', '/')}"
    for name in sorted(row["l"] for row in index(out / "type-search-index.js") if row.get("p") == PACKAGE):
        page += f"{name}\n{'-' * len(name)}\n\n`Javadoc of {name} <{base}/{name}.html>`__\n\n"
        for member in members.get(name, []):
            # An address has the erased types; a label has what a person writes.
            page += f"- `{member['l']} <{base}/{name}.html#{member.get('u', member['l'])}>`__\n"
        page += "\n"
    pathlib.Path(target, "reference/java.rst").write_text(page, encoding="utf-8")
