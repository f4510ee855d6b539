#!/usr/bin/env python3
"""What the documentation says, checked against what is there.

usage: readme.py [--root ROOT] example            programs in the documents are those of examples/
       readme.py [--root ROOT] front              README.md is short, with a short piece in each language; docs/README.md lists
                                                  every page of docs/ once, in five groups
       readme.py [--root ROOT] links              every local link of a Markdown file leads to a file and a heading
       readme.py [--root ROOT] run                each block of a language belongs to a document whose blocks of it a test runs or compares
       readme.py [--root ROOT] commands TOOL      commands in the documents exist, with the options that are shown, and
                                                  docs/tool.md tells every command and option of TOOL
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

import markdown
import pieces

# Programs of others, which only need to be spelled as they are.
OTHERS = {"cc", "c++", "git", "cmake", "ctest", "cd", "export", "mkdir", "pkg-config", "apt-get", "python3", "mvn"}
README_LINES, PIECE_LINES = 90, 8
GROUPS = ["Start", "Guides", "Devices", "Reference", "Internals"]
# The documents whose blocks of a language a test runs or compares. Every document may have the others: pieces.py, console.py and the checks
# here take each block of C, "console" and "sh"; "text" is what programs print, or a pattern.
RUN = {
    "cpp": {"README.md", "cpp.md", "coming-from.md"},
    "python": {"README.md", "python.md", "devices.md", "states.md", "vdev.md", "coming-from.md", "spark.md"},
    "java": {"README.md", "java.md", "java-official.md", "vdev.md", "cuda.md", "spark.md"},
    "xml": {"java.md", "spark.md"}, "kotlin": {"java.md"}, "cmake": {"install.md"}, "yaml": {"vdev.md"},
    "rust": {"coming-from.md"},
}
FREE = {"", "c", "console", "sh", "text"}
NOT_OURS = {".git", ".runtime", "build", "dist"}


def programs(root, path):
    """(first line, blocks, the example that the first line names or None) of each program in a document."""
    for language, beginning, folder in (("c", r"/\* (\w+)", "examples"), ("cpp", r"// (\w+)", "examples/cpp")):
        for line, code, _ in pieces.sections(path, language):
            if pieces.is_program(code):
                name = re.match(beginning, code[0][1])
                yield line, code, root / folder / f"{name[1]}.{language}" if name else None


def check_example(root):
    """A program in a document, in one block or several under one heading, is the example that its first line names."""
    found = set()
    for path in pieces.documents(root):
        for line, code, example in programs(root, path):
            where = f"{path.relative_to(root)}:{line}"
            if example is None or not example.exists():
                yield f"{where}: a program whose first line names no example"
                continue
            found.add((path.name, example.suffix))
            told, real = "".join(content for _, content in code).splitlines(), example.read_text().splitlines()
            # Between two blocks the program may have an empty line, which a document does not show.
            told, real = [line for line in told if line], [line for line in real if line]
            if told != real:
                at = next((i for i, (a, b) in enumerate(zip(told, real)) if a != b), min(len(told), len(real)))
                yield f"{where}: is not {example.relative_to(root)}: '{(told + [''])[at]}' there, '{(real + [''])[at]}' here"
    for name, suffix in (("quickstart.md", ".c"), ("cpp.md", ".cpp")):
        if (name, suffix) not in found:
            yield f"{name}: has no program that is an example ({suffix})"


def check_front(root):
    text = (root / "README.md").read_text()
    if text.count("\n") > README_LINES:
        yield f"README.md: {text.count(chr(10))} lines, {README_LINES} are allowed"
    pieces_of = {language: content for language, _, content in markdown.blocks(text)}
    for language in ("python", "cpp", "java", "c"):
        if language not in pieces_of:
            yield f"README.md: has no piece of {language}"
        elif pieces_of[language].count("\n") > PIECE_LINES:
            yield f"README.md: the piece of {language} is longer than {PIECE_LINES} lines"
    index = root / "docs/README.md"
    groups = re.findall(r"^## (.*)$", index.read_text(), flags=re.M)
    if groups != GROUPS:
        yield f"docs/README.md: expected the groups {', '.join(GROUPS)}, got {', '.join(groups)}"
    listed = [target for target in markdown.links(index.read_text()) if re.fullmatch(r"[\w-]+\.md", target)]
    for path in sorted((root / "docs").glob("*.md")):
        if path != index and listed.count(path.name) != 1:
            yield f"docs/README.md: expected {path.name} once, got it {listed.count(path.name)} times"


def check_run(root):
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        for language, line, _ in markdown.blocks(path.read_text()):
            if language not in FREE and path.name not in RUN.get(language, ()):
                yield f"{path.relative_to(root)}:{line}: no test runs the blocks of {language} of this document"


def documents(root):
    for path in sorted(root.rglob("*.md")):
        if not NOT_OURS & set(path.relative_to(root).parts):
            yield path


def check_links(root):
    for path in documents(root):
        name = path.relative_to(root).as_posix()
        for target in markdown.links(path.read_text()):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, heading = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.exists():
                yield f"{name}: link to '{target}': no such file"
            elif heading and there.suffix == ".md" and heading not in markdown.anchors(there.read_text()):
                yield f"{name}: link to '{target}': the document has no such heading"


class Commands:
    def __init__(self, root, tool):
        self.root = root
        rules = re.findall(r"^([\w-]+(?: [\w-]+)*):", (root / "Makefile").read_text(), flags=re.M)
        self.targets = {target for rule in rules for target in rule.split()}
        presets = json.loads((root / "CMakePresets.json").read_text())
        self.presets = {preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")}
        self.tool = tool
        self.help = {"": self.run_help()}
        listed = self.help[""].partition("Commands:")[2].partition("\n\n")[0]
        for command in re.findall(r"^  (\w+) ", listed, flags=re.M):
            self.help[command] = self.run_help(command)

    def run_help(self, *words):
        result = subprocess.run([self.tool, *words, "--help"], capture_output=True, text=True, check=True)
        return result.stdout

    @staticmethod
    def options_of(text):
        return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))

    def check(self, line):
        """What is wrong with a command line; nothing if it is not a command of the project."""
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], flags=re.S):
            words.pop(0)
        if not words or words[0] in OTHERS or words[0].endswith("/bin/java"):
            yield from self.check_preset(words)
            return
        program, arguments = words[0], words[1:]
        options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
        if program == "make":
            for word in arguments[2:] if arguments[:1] == ["-C"] else arguments:
                if "=" not in word and word not in self.targets:
                    yield f"make has no target '{word}'"
        elif pathlib.PurePosixPath(program).name == "iobind":
            command = arguments[0] if arguments and not arguments[0].startswith("-") else ""
            if command not in self.help:
                yield f"iobind has no command '{command}'"
            else:
                for option in sorted(options - self.options_of(self.help[command])):
                    yield f"iobind {command} has no option {option}"
        elif pathlib.PurePosixPath(program).name == "with-cuda":
            known = self.options_of((self.root / "vcuda/with-cuda").read_text())
            while arguments and arguments[0].startswith("--"):
                if arguments[0] not in known:
                    yield f"with-cuda has no option {arguments[0]}"
                arguments = arguments[2 if arguments[0] == "--gpus" else 1:]
            if arguments and pathlib.PurePosixPath(arguments[0]).name == "iobind":
                yield from self.check(shlex.join(arguments))
        elif program.startswith(("scripts/", "./scripts/")):
            script = self.root / program
            if not script.is_file() or not script.stat().st_mode & 0o100:
                yield f"{program} is no script of the project"
            else:
                for option in sorted(options - self.options_of(script.read_text())):
                    yield f"{program} has no option {option}"
        elif not program.startswith(("build/", "./")):
            yield f"'{program}' is a program that this check does not know"

    def check_preset(self, words):
        for flag, name in zip(words, words[1:]):
            if flag == "--preset" and name not in self.presets:
                yield f"there is no preset '{name}'"


def command_lines(text):
    """(line number, command) of every command that a reader is shown: after '$ ' and in blocks of sh, and in `code`."""
    for language, first, content in markdown.blocks(text):
        number = first
        for line in re.sub(r"\\\n", "\0", content).split("\n"):
            shown = line.replace("\0", " ")
            if language == "console" and shown.startswith("$ "):
                yield number, shown[2:]
            elif language == "sh" and shown.strip():
                yield number, shown
            number += 1 + line.count("\0")
    prose = markdown.without_blocks(text)
    for match in re.finditer(r"`((?:make|iobind|scripts/[\w-]+)(?: [^`\n]*)?)`", prose):
        if not re.search(r"[A-Z]{3,}|\.\.\.", match[1]):  # a pattern such as `iobind COMMAND --help` is no command
            yield prose.count("\n", 0, match.start()) + 1, match[1]


def check_commands(root, tool):
    commands = Commands(root, tool)
    for path in [root / "CONTRIBUTING.md", *pieces.documents(root)]:
        for number, line in command_lines(path.read_text()):
            for problem in commands.check(line):
                yield f"{path.relative_to(root)}:{number}: {problem}"
    told = (root / "docs/tool.md").read_text()
    for command, text in commands.help.items():
        if not command:
            continue
        section = re.search(rf"^## `?(?:iobind )?{command}`?\n(.*?)(?=^## |\Z)", told, flags=re.M | re.S)
        common = "".join(re.findall(r"^## Options of [^\n]*\n(.*?)(?=^## |\Z)", told, flags=re.M | re.S))
        if not section:
            yield f"docs/tool.md: has no section '## {command}'"
            continue
        known = commands.options_of(section[1] + common)
        for option in sorted(commands.options_of(text) - known):
            yield f"docs/tool.md: '{command}' does not tell {option}"


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[2]
    if arguments[:1] == ["--root"]:
        root = pathlib.Path(arguments[1]).resolve()
        arguments = arguments[2:]
    checks = {"example": check_example, "front": check_front, "links": check_links, "run": check_run, "commands": check_commands}
    if not arguments or arguments[0] not in checks:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    problems = list(checks[arguments[0]](root, *arguments[1:]))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
