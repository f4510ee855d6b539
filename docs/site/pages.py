"""The documents of the repository as the sources of a site.

A document of docs/ becomes a page under the same name; a README.md is the index of its directory. What the documents link to
elsewhere comes along under source/: a Markdown file as a page, any other file as a page that shows it, and a directory as a list.
A public header leads to its page of the reference. The groups of docs/README.md become the site's sections.
"""
import pathlib
import posixpath
import re
import shutil

FENCE = re.compile(r"^```.*?^```[ \t]*$", flags=re.M | re.S)
LINK = re.compile(r"(`[^`\n]*`)|(\]\()([^)\s]+)(?=[^)]*\))")
LANGUAGES = {".c": "c", ".h": "c", ".hpp": "cpp", ".cpp": "cpp", ".java": "java", ".py": "python", ".gradle": "groovy", ".xml": "xml"}
# What the reference is made from, and its pages.
REFERENCE = {
    "include/iobind/iobind.h": "reference/c/index.rst",
    "include/iobind/iobind.hpp": "reference/cpp/iobind.rst",
    "include/iobind/interop.hpp": "reference/cpp/interop.rst",
    "bindings/python/iobind": "reference/python.rst",
    "bindings/java/src/main/java/io/github/iobind/api": "reference/java.rst",
}
PICTURES = (".svg", ".png")
SUMMARY = {
    "Start": "Install iobind, and run a first program.",
    "Guides": "How to do one thing each, with programs that tests compile and run.",
    "Devices": "Execution providers, and devices in software for tests.",
    "Reference": "The interface in C, C++, Python and Java, the tool, and what ONNX Runtime does.",
    "Internals": "How iobind is built, and why.",
}


def without_links(text, replace):
    """The text with each link's target replaced, except in blocks and in `code`."""
    def one(match):
        return match[0] if match[1] else match[2] + replace(match[3])

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(one, text[end:fence.start()]), fence[0]]
        end = fence.end()
    return "".join(parts + [LINK.sub(one, text[end:])])


def page_of(name):
    """The page of a file of the repository, by its name from the root."""
    if name in REFERENCE:
        return REFERENCE[name]
    if header := re.fullmatch(r"include/iobind/(\w+)\.h", name):
        return f"reference/c/{header[1]}.rst"
    page = name.removeprefix("docs/") if name.startswith("docs/") else f"source/{name}"
    if name.endswith(PICTURES):
        return page
    if name.endswith(".md"):
        return re.sub(r"(^|/)README\.md$", r"\1index.md", page)
    return f"{page}.md"


class Site:
    def __init__(self, root, target):
        self.root, self.target = root, target
        self.waiting, self.written = [], set()

    def write(self, page, text):
        path = self.target / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def link(self, name, page, target):
        """A link's target on a page; what it leads to is written, too."""
        if re.match(r"[a-z][a-z0-9+.-]*:|#", target):
            return target
        file, hash_sign, heading = target.partition("#")
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(name), file))
        if not (self.root / linked).exists():
            raise SystemExit(f"{name}: a link to '{target}': the file does not exist")
        self.waiting.append(linked)
        return posixpath.relpath(page_of(linked), posixpath.dirname(page) or ".") + hash_sign + heading

    def add(self, name):
        page = page_of(name)
        if page in self.written or page.startswith("reference/"):
            return
        self.written.add(page)
        path = self.root / name
        if name.endswith(PICTURES):
            shutil.copy(path, self.target / page)
        elif path.is_dir():
            listed = "".join(f"- [{file.name}]({file.name})\n" for file in sorted(path.iterdir()) if file.suffix in LANGUAGES)
            self.write(page, self.literal(name) + without_links(listed, lambda target: self.link(f"{name}/.", page, target)))
        elif name.endswith(".md"):
            text = without_links(path.read_text(encoding="utf-8"), lambda target: self.link(name, page, target))
            self.write(page, text if name.startswith("docs/") else f"---\norphan: true\n---\n{text}")
        else:
            language = LANGUAGES.get(path.suffix, "text")
            self.write(page, f"{self.literal(name)}```{{literalinclude}} {path.name}\n:language: {language}\n```\n")
            shutil.copy(path, (self.target / page).with_suffix(""))

    @staticmethod
    def literal(name):
        return f"---\norphan: true\nnosearch: true\n---\n# {posixpath.basename(name)}\n\n`{name}` in the repository.\n\n"

    def add_all(self, names):
        self.waiting += names
        while self.waiting:
            self.add(self.waiting.pop())

    def append_contents(self, index):
        """A page that lists others has them as its children."""
        pages = re.findall(r"\]\(([\w-]+\.(?:md|txt))", (self.root / index).read_text(encoding="utf-8"))
        page = page_of(index)
        children = [page_of(posixpath.join(posixpath.dirname(index), name)) for name in dict.fromkeys(pages)]
        with open(self.target / page, "a", encoding="utf-8") as file:
            file.write(contents(posixpath.relpath(child, posixpath.dirname(page)) for child in children))

    def add_groups(self):
        """The site's front page and its sections, by the groups of docs/README.md."""
        index = "docs/README.md"
        text = (self.root / index).read_text(encoding="utf-8")
        groups = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
        for group, body in groups:
            page = f"{group.lower()}/index.md"
            linked = without_links(body, lambda target: self.link(index, page, target))
            children = dict.fromkeys(re.findall(r"\]\(((?!\.\./reference/c/(?!index))[^)#]+\.(?:md|rst))\)", linked))
            self.write(page, f"# {group}\n\n{SUMMARY[group]}\n{linked}{contents(children)}")
        rows = "".join(f"| [{group}]({group.lower()}/index.md) | {SUMMARY[group]} |\n" for group, _ in groups)
        readme = (self.root / "README.md").read_text(encoding="utf-8")
        front = without_links(readme, lambda target: self.link("README.md", "index.md", target))
        self.write("index.md", f"{front}\n## Contents\n\n| Section | Content |\n|---|---|\n{rows}"
                   + contents(f"{group.lower()}/index.md" for group, _ in groups))
        self.written.add("index.md")


def contents(pages):
    return "\n```{toctree}\n:hidden:\n:maxdepth: 2\n\n" + "".join(f"{page}\n" for page in pages) + "```\n"


def write_pages(root, target):
    site = Site(pathlib.Path(root), pathlib.Path(target))
    site.add_groups()
    site.add_all(path.relative_to(root).as_posix() for path in sorted(pathlib.Path(root, "docs").rglob("*.md")) if path.name != "README.md")
    for index in ("docs/decisions/README.md", "docs/results/README.md"):
        site.add_all([index])
        site.append_contents(index)
