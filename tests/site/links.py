#!/usr/bin/env python3
"""The built site as files: each link leads to a file and an anchor of it, nothing is loaded from elsewhere, the search has the interface,
and each document of docs/ is a page.

usage: links.py SITE   77 (skipped) if the site was not built, as site.build says then
"""
import functools
import html.parser
import pathlib
import re
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
SEARCHED = ["iobind_binding_run", "iobind::binding", "Session.bind", "OrtIoBindingFFM"]


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in LOADED and attributes.get(LOADED[tag]):
            self.loaded.append(attributes[LOADED[tag]])


@functools.cache
def page(path):
    return Page(path)


def broken(path, target):
    address = urllib.parse.urlsplit(target)
    if address.scheme or address.netloc:
        return None
    file = (path.parent / urllib.parse.unquote(address.path)).resolve() if address.path else path
    if not file.is_file():
        return "the file does not exist"
    anchor = urllib.parse.unquote(address.fragment)
    if anchor and file.suffix == ".html" and anchor not in page(file).anchors:
        return "the page does not have the anchor"
    return None


def check(site):
    version = next(path.parent for path in site.glob("*/objects.inv"))
    paths = [site / "index.html", *version.rglob("*.html")]
    for path in paths:
        name = path.relative_to(site)
        for target in [*page(path).links, *page(path).loaded]:
            if problem := broken(path, target):
                yield f"{name}: '{target}': {problem}"
        for target in page(path).loaded:
            if urllib.parse.urlsplit(target).netloc:
                yield f"{name}: loads '{target}': the site must work without a network"
    for style in version.rglob("*.css"):
        for target in re.findall(r"url\(\s*['\"]?(https?:[^)]*)|@import\s+['\"](https?:[^'\"]*)", style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)}: loads '{''.join(target)}': the site must work without a network"
    search = (version / "searchindex.js").read_text(encoding="utf-8")
    for name in SEARCHED:
        if not re.search(rf"\b{re.escape(name.split('::')[-1].split('.')[-1])}\b", search):
            yield f"searchindex.js: has no '{name}'"
    for document in (ROOT / "docs").rglob("*.md"):
        name = document.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        if not (version / re.sub(r"README\.html$", "index.html", name)).is_file():
            yield f"docs/{name}: is not a page"
    for name in re.findall(r"\b(iobind_\w+)\(", "".join(path.read_text() for path in sorted((ROOT / "include/iobind").glob("*.h")))):
        if f'id="c.{name}"' not in "".join(reference(version)):
            yield f"{name}: is not in the reference of C"


@functools.cache
def reference(version):
    return [path.read_text(encoding="utf-8") for path in (version / "reference/c").glob("*.html")]


def main(site):
    site = pathlib.Path(site).resolve()
    if not any(site.glob("*/objects.inv")):
        print("skipped: the site was not built (site.build says why)")
        return 77
    problems = sorted(set(check(site)))
    for problem in problems[:50]:
        print(problem, file=sys.stderr)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
