"""Markdown documents: their fenced blocks, headings and links."""

import re

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", flags=re.M | re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def blocks(text):
    """(language, first line's number, content) of each fenced block."""
    for match in FENCE.finditer(text):
        yield match[1], line_of(text, match.start(2)), match[2]


def without_blocks(text):
    return FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def sections(text):
    """(heading, its blocks) of the document's beginning and of each heading of the first and second level."""
    marks = [(match.start(), match[1]) for match in re.finditer(r"^##?[ \t]+(.*?)[ \t]*$", without_blocks(text), flags=re.M)]
    # Blocks are emptied, not removed, so that lines agree; offsets do not.
    starts = [(0, "")] + [(line_of(without_blocks(text), offset), heading) for offset, heading in marks]
    ends = [line for line, _ in starts[1:]] + [text.count("\n") + 2]
    for (start, heading), end in zip(starts, ends):
        yield heading, [block for block in blocks(text) if start <= block[1] < end]


def anchors(text):
    """The headings of a document as the fragments of links to them."""
    found = set()
    for heading in re.findall(r"^#{1,6}[ \t]+(.*?)[ \t]*$", without_blocks(text), flags=re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-")
        count = 0
        while (unique := f"{slug}-{count}" if count else slug) in found:
            count += 1
        found.add(unique)
    return found


def links(text):
    prose = re.sub(r"`[^`\n]*`", "", without_blocks(text))
    return re.findall(r"\]\(([^)\s]+)[^)]*\)", prose) + re.findall(r"<img[^>]*\bsrc=\"([^\"]+)\"", prose)
