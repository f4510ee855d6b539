#!/usr/bin/env python3
"""The rules of the tree that a compiler does not know.

usage: structure.py [ROOT]   every rule, over the files under version control (or all files where there is none)

- The modules under src/ point one way: a module includes those above it in MODULES, never one below. Nor does it use what a module
  below defines by another way: a declaration of its own, or one in the public header.
- So do the folders of tool/, in the order of TOOL_MODULES. The tool uses the public interface alone: nothing of src/.
- abi/ is included by the few that speak ORT's language; everything else goes through src/ort.
- A module above session does not name a session.
- vdev and vcuda are products of their own: nothing under src/ names them, not even a comment, but src/ep/vdev.c and the list that it is in.
- Only src/ep, src/d3d12 and the drivers' files (src/*/driver*) know one execution provider from another, and only src/ort
  and src/ep compare a version of ORT. Comments may give examples.
- The structs that everything else meets in have few fields; FIELDS has the limits.
- No file is too long, none is a bag called utils; nothing is left for later; no path of one machine and no host of a
  package registry stands anywhere.
- No script of bash has a pipe into a program that ends before it has read everything: its writer may die of that, and with pipefail so
  may the script.
- The documents in language.toml use none of the words listed there; nor do the messages of the library and the tool, nor a comment
  in C.
- The library neither prints nor aborts, nothing in it depends on the program's locale, and only src/ort reads ORT's words.
"""
import pathlib
import re
import subprocess
import sys
import tomllib

LANGUAGE = pathlib.Path(__file__).with_name("language.toml")
TOOL_MODULES = ["formats", "shared", "kernels", "pictures", "commands"]
MODULES = ["support", "d3d12", "ort", "ep", "runtime", "memory", "tensor", "session", "binding", "state", "audit", "flow", "batch"]
SPEAKS_ORT = ["src/ort", "vdev", "tests/fake_ort", "tests/dml", "tests/abi", "tests/vdev", "tests/vcuda", "tests/rig", "tests/cuda", "tests/verify", "tests/ports", "bench/overhead", "bench/carry", "bench/rebind", "bench/java"]
KNOWS_EPS = r"src/(ep|d3d12)/|src/\w+/driver(_\w+)?\.[ch]$"
INCLUDE_PATH = ["include", "src", "abi", "onnx", "tool", "."]
LINES, HEADER_LINES, PUBLIC_HEADER = 900, 400, r"(^|/)include/iobind/\w+\.h$" # a public header is one page
FIELDS = {"iobind_binding": 20, "iobind_session": 42, "iobind_stream": 15}
CODE = {".c", ".h", ".cpp", ".java", ".py", ".sh", ".cmake"}
BINARY = {".png", ".npy", ".npz", ".xz", ".onnx", ".ort", ".jar", ".so", ".gz", ".pdf"}

# The words are put together here, so that this file does not find itself.
LEFT_FOR_LATER = r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b"
OF_ONE_MACHINE = r"(?<![\w.$}*])(/(home|Users|root|work)/|[A-Z]:\\+Users\\)"
# What a module defines at the start of a line: a function with its body, an object with its value, a struct. Not what is static.
FUNCTION = r"^(?!static\b|extern\b|typedef\b)[A-Za-z_](?:[\w \t*]|\n(?=iobind_))*?\b(iobind_\w+)\s*\([^;{}]*\)\s*\{"
OBJECT = r"^(?!static\b|extern\b|typedef\b)[A-Za-z_][\w \t*]*?\b(iobind_\w+)(?:\[[^\]]*\])*\s*="
STRUCT = r"^(?:typedef\s+)?struct\s+(iobind_\w+)\s*\{"
REGISTRY_HOST = (r"\b[\w.-]*(pypi|pythonhosted|npmjs|crates|debian|ubuntu|golang|conda|repo\d*\.maven)"
                 r"[\w-]*\.(org|com|io|net|dev)\b")
# Execution providers, what their vendors call things, and what stood in general files for one of them.
OF_ONE_EP = (r"(?i)cuda|cudnn|nvidia|tensorrt|trt_|webgpu|dawn|openvino|directml|dml|direct3d|iobind__d3d12|vulkan|swiftshader|qnn|migraphx|vitisai|coreml|ggml"
             r"|\blane\b|lane_|is_resource|compute_stream|enable_graph_capture")
OF_A_PRODUCT = r"(?i)(?<![a-z])(vdev|vcuda)|virtual\s+accelerator"
PRODUCTS_ROW, LISTED, LISTS = "src/ep/vdev.c", r"\biobind__ep_vdev\b", ["src/ep/ep.h", "src/ep/catalogue.c"]
VERSION_COMPARED = (r"\b(minor|api_version)\b\s*([<>]|[!=]=)|((?<!-)[<>]=?|[!=]=)\s*[\w.>-]*(\.|->)(minor|api_version)\b"
                    r"|\b(strcmp|strncmp|strchr|strstr)\s*\([^;]*\bort\.version\b")
LITERAL = r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*'  # also one that goes on in the next line
CHARACTER = r"'(?:\\.|[^'\\\n])+'"
COMMENT = r"/\*.*?\*/|//[^\n]*"
STOPS_OR_PRINTS = r"\b(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|abort|exit|_exit|assert)\s*\("

ENDS_EARLY = (r"[^|]\|\s*\\?\n?\s*((?:\w+=\S+\s+)*(?:grep\s+(?:-\w+\s+)*-\w*[mq]|head\b|sed\s[^|\n]*\dq\b|sed\s[^|\n]*;q\}|awk\s[^|\n]*\bexit\b))")
BY_LOCALE = r"\b(strto[dfl]d?|ato[fil]l?|v?[fs]?scanf|to(?:lower|upper)|is(?:alpha|alnum|space|print|punct|upper|lower)|strn?casecmp|strcoll|setlocale)\s*\("
NUMBER_WITH_A_POINT = r"\"(?:\\.|[^\"\\\n])*%[-+ #0-9.*]*[aAeEfFgG](?![a-zA-Z])"


def listed(root):
    """The files of the tree: what git tracks or would track, or everything if the tree is not a clone."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(command, capture_output=True, text=True)
    if known.returncode == 0 and known.stdout:
        files = [root / name for name in known.stdout.split("\0") if name]
    else:
        files = list(root.rglob("*"))
    return sorted(path for path in files if path.is_file() and not path.is_symlink())


def without_comments(text, keep_strings=False):
    def replaced(match):
        return match[0] if keep_strings and match[0][0] == '"' else "\n" * match[0].count("\n")
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", replaced, text, flags=re.S)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def prose_of(text):
    """A Markdown document without its blocks of code and its `code`."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", lambda match: "\n" * match[0].count("\n"), text, flags=re.M | re.S)


def comments_of(text):
    """(line, prose) for each comment in C, without its `code`, and without the '*' at the start of its lines."""
    for match in re.finditer(f"{LITERAL}|{CHARACTER}|{COMMENT}", text, flags=re.S):
        if match[0].startswith("/"):
            yield line_of(text, match.start()), prose_of(re.sub(r"\n[ \t]*\*", "\n", match[0]))


class Tree:
    def __init__(self, root):
        self.root = root
        self.text = {}
        for path in listed(root):
            name = path.relative_to(root).as_posix()
            if path.suffix not in BINARY:
                self.text[name] = path.read_text(encoding="utf-8", errors="replace")
        self.problems = []
        self.resolved = {}

    def fault(self, name, message, line=None):
        self.problems.append(f"{name}:{line}: {message}" if line else f"{name}: {message}")

    def c_files(self, *folders):
        return {name: text for name, text in self.text.items()
                if name.endswith((".c", ".h")) and (not folders or name.startswith(tuple(f + "/" for f in folders)))}

    def resolve(self, name, included):
        """The file of the tree that an #include "..." means, looked for as a compiler does; None for a foreign one."""
        folder = pathlib.PurePosixPath(name).parent.as_posix()
        if (folder, included) not in self.resolved:
            self.resolved[folder, included] = self.look_up(folder, included)
        return self.resolved[folder, included]

    def look_up(self, own, included):
        for folder in [own] + INCLUDE_PATH:
            candidate = (self.root / folder / included).resolve()
            if candidate.is_relative_to(self.root) and candidate.is_file():
                return candidate.relative_to(self.root).as_posix()
        return None

    def includes(self, name, text):
        """(line, file of the tree) for each #include; the file is None for one in quotes that is nowhere."""
        for match in re.finditer(r"^[ \t]*#[ \t]*include[ \t]*([\"<])([^\">]+)[\">]", text, flags=re.M):
            target = self.resolve(name, match[2])
            if target or match[1] == '"':
                yield line_of(text, match.start()), target

    def check_modules(self):
        for name, text in self.c_files("src").items():
            module = name.split("/")[1]
            if name.count("/") != 2 or module not in MODULES:
                self.fault(name, f"lies in no module; the modules are {', '.join(MODULES)}")
                continue
            for line, target in self.includes(name, text):
                if not target:
                    self.fault(name, "includes a file that is nowhere in the tree", line)
                    continue
                parts = target.split("/")
                if parts[0] == "src" and MODULES.index(parts[1]) > MODULES.index(module):
                    self.fault(name, f"module {module} includes module {parts[1]}, which stands below it", line)
                elif parts[0] not in ("src", "include", "abi", "onnx"):
                    self.fault(name, f"the library includes {target}", line)
            if MODULES.index(module) < MODULES.index("session"):
                code = without_comments(text)
                for match in re.finditer(r"\biobind_session\w*", code):
                    self.fault(name, f"names {match[0]}, but stands above the sessions", line_of(code, match.start()))

    def check_tool(self):
        for name, text in self.c_files(*(f"tool/{module}" for module in TOOL_MODULES)).items():
            module = name.split("/")[1]
            for line, target in self.includes(name, text):
                parts = target.split("/") if target else []
                if parts[:1] == ["tool"] and parts[1] in TOOL_MODULES and TOOL_MODULES.index(parts[1]) > TOOL_MODULES.index(module):
                    self.fault(name, f"tool/{module} includes tool/{parts[1]}, which stands on it", line)
                if parts[:1] == ["src"]:
                    self.fault(name, f"includes {target}: the tool uses the public interface alone", line)

    def check_uses(self):
        """A linker would not mind a use of what a module below defines: it knows no modules."""
        defined = {}
        code = {name: without_comments(text) for name, text in self.c_files("src").items() if name.split("/")[1] in MODULES}
        for name, text in code.items():
            for pattern in (FUNCTION, OBJECT, STRUCT):
                for match in re.finditer(pattern, text, flags=re.M):
                    defined[match[1]] = name.split("/")[1]
        for name, text in code.items():
            module = name.split("/")[1]
            for match in re.finditer(r"\biobind_\w+", text):
                home = defined.get(match[0], module)
                if MODULES.index(home) > MODULES.index(module):
                    self.fault(name, f"module {module} uses {match[0]} of module {home}, which stands below it",
                               line_of(text, match.start()))

    def check_eps(self):
        for name, text in self.c_files("src").items():
            code = without_comments(text, keep_strings=True)
            for match in re.finditer(OF_ONE_EP, "" if re.match(KNOWS_EPS, name) else code):
                self.fault(name, f"knows one execution provider: {match[0]}; that belongs to src/ep or to a driver_*.c",
                           line_of(code, match.start()))
            for match in re.finditer(VERSION_COMPARED, "" if name.startswith(("src/ep/", "src/ort/")) else code):
                self.fault(name, "compares a version of ORT: make it a quirk of src/ep, or a question in src/ort/api.h",
                           line_of(code, match.start()))

    def check_fields(self):
        for name, text in self.c_files("src").items():
            for match in re.finditer(r"^struct (\w+) \{$(.*?)^\};$", without_comments(text), flags=re.M | re.S):
                inner, outer = 1, match[2]
                while inner:  # a struct inside is one field
                    outer, inner = re.subn(r"\{[^{}]*\}", "", outer)
                fields = outer.count(";") + outer.count(",")
                if fields > FIELDS.get(match[1], fields):
                    self.fault(name, f"{match[1]} has {fields} fields, {FIELDS[match[1]]} are allowed: give some of them a noun of their own")

    def check_products(self):
        for name, text in self.c_files("src").items():
            looked_at = re.sub(LISTED, "", text) if name in LISTS else text
            for match in re.finditer(OF_A_PRODUCT, "" if name == PRODUCTS_ROW else looked_at):
                self.fault(name, f"names {' '.join(match[0].split())}, which only {PRODUCTS_ROW} knows", line_of(looked_at, match.start()))

    def check_abi(self):
        speakers = ("abi/",) + tuple(folder + "/" for folder in SPEAKS_ORT)
        for name, text in self.c_files().items():
            for line, target in self.includes(name, text):
                if target and target.startswith("abi/") and not name.startswith(speakers):
                    self.fault(name, f"includes {target}; only {', '.join(SPEAKS_ORT)} may", line)
        for name, text in self.c_files("abi").items():
            if re.search(r"\)\s*\{", without_comments(text)):
                self.fault(name, "has code; abi/ declares only")

    def check_files(self):
        for name, text in self.text.items():
            path = pathlib.PurePosixPath(name)
            is_script = text.startswith("#!")
            limit = HEADER_LINES if re.search(PUBLIC_HEADER, name) else LINES
            if (path.suffix in CODE or is_script) and text.count("\n") > limit:
                self.fault(name, f"{text.count(chr(10))} lines, {limit} are allowed: split it by noun")
            if re.fullmatch(r"utils?|helpers?|misc", path.stem.lower()) and path.suffix in CODE:
                self.fault(name, "a file is named after what it holds")
            for pattern, fault in ((LEFT_FOR_LATER, "left for later"), (OF_ONE_MACHINE, "a path of one machine"),
                                   (REGISTRY_HOST, "a package registry's host")):
                for match in re.finditer(pattern, text):
                    self.fault(name, f"{fault}: {match[0].strip()}", line_of(text, match.start()))
            for match in re.finditer(ENDS_EARLY, text if re.match(r"#!.*\bbash\b|# shellcheck shell=bash", text) else ""):
                self.fault(name, f"a pipe into '{match[1]}', which ends before it has read everything", line_of(text, match.start(1)))
            here = str(self.root) + "/"
            if here in text:
                self.fault(name, "a path of this machine", line_of(text, text.index(here)))

    def check_language(self):
        language = tomllib.loads(LANGUAGE.read_text(encoding="utf-8"))
        words = {word: re.compile(r"\b" + r"\s+".join(map(re.escape, word.split())) + r"\b", flags=re.I) for word in language["words"]}
        self.any_word = re.compile("|".join(pattern.pattern for pattern in words.values()), flags=re.I)
        for name, text in self.text.items():
            if any(name == path or path.endswith("/") and name.startswith(path) for path in language["paths"]):
                self.check_words(name, prose_of(text) if name.endswith(".md") else text, 1, language, words)
        for name, text in self.c_files("src", "tool").items():
            code = without_comments(text, keep_strings=True)
            for match in re.finditer(LITERAL, code):
                self.check_words(name, re.sub(r'"\s*"', "", match[0]), line_of(code, match.start()), language, words)

        for name, text in self.c_files().items():
            for line, prose in comments_of(text):
                self.check_words(name, prose, line, language, words)

    def check_words(self, name, prose, line, language, words):
        for word, pattern in words.items() if self.any_word.search(prose) else ():
            for match in pattern.finditer(prose):
                self.fault(name, f"says '{word}'; write '{language['words'][word]}'", line + line_of(prose, match.start()) - 1)

    def check_library(self):
        for name, text in self.c_files("src").items():
            code = without_comments(text)
            for match in re.finditer(STOPS_OR_PRINTS, code):
                self.fault(name, f"the library calls {match[1]}", line_of(code, match.start()))
            for match in re.finditer(BY_LOCALE, code):
                self.fault(name, f"the library calls {match[1]}, which goes by the locale", line_of(code, match.start()))
            for match in re.finditer(r"\bGetErrorMessage\b", "" if name.startswith("src/ort/") else code):
                self.fault(name, "reads ORT's words, as only src/ort does", line_of(code, match.start()))
            for match in re.finditer(NUMBER_WITH_A_POINT, text):
                self.fault(name, "the library prints a number whose point goes by the locale", line_of(text, match.start()))


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    tree = Tree(root)
    tree.check_modules()
    tree.check_uses()
    tree.check_eps()
    tree.check_fields()
    tree.check_products()
    tree.check_tool()
    tree.check_abi()
    tree.check_files()
    tree.check_language()
    tree.check_library()
    for problem in tree.problems:
        print(problem, file=sys.stderr)
    if tree.problems:
        return 1
    print(f"{len(tree.text)} files, {len(tree.c_files('src'))} of them in {len(MODULES)} modules: no rule broken")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
