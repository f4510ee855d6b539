"""Sphinx's settings for the site; build.py makes the sources."""
import os
import re
import time

from docutils import nodes

VERSION = os.environ["IOBIND_SITE_VERSION"]

project = "iobind"
version = release = VERSION
copyright = f"{time.strftime('%Y', time.gmtime(int(os.environ['SOURCE_DATE_EPOCH'])))} the iobind authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
default_role = "literal"
highlight_language = "text"
templates_path = ["templates"]
html_static_path = ["static"]
html_extra_path = [os.environ["IOBIND_SITE_EXTRA"]]
exclude_patterns = ["extra"]
toc_object_entries_show_parents = "hide"
html_theme = "pydata_sphinx_theme"
html_title = f"iobind {VERSION}"
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": f"iobind {VERSION}"},
    "navbar_align": "left",
    "navbar_end": ["versions", "theme-switcher"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_toc_level": 2,
    "search_bar_text": "Search",
}
html_sidebars = {"index": []}

myst_heading_anchors = 6
myst_links_external_new_tab = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
suppress_warnings = ["myst.header"]


def plain_docstring(app, what, name, obj, options, lines):
    """The docstrings are plain text with `code`: an asterisk or a bar in the text is one. Of a module only the first paragraph."""
    if what == "module" and "" in lines:
        del lines[lines.index(""):]
    lines[:] = [re.sub(r"(`[^`]*`)|([*|])", lambda match: match[1] or "\\" + match[2], line) for line in lines]


def name_empty_headers(app, doctree, docname):
    """A table's corner is empty to the eye; a screen reader reads what the rows are."""
    for header in doctree.findall(nodes.thead):
        for entry in header.findall(nodes.entry):
            if not entry.astext().strip():
                entry[:] = [nodes.paragraph("", "", nodes.inline("", "Subject", classes=["visually-hidden"]))]


def setup(app):
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("doctree-resolved", name_empty_headers)
