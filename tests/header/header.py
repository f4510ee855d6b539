#!/usr/bin/env python3
"""What the public header promises, checked on its text, on what compilers make of it, and on the library.

usage: header.py comments            every function's comment carries its tags, and they hold
       header.py flat                nothing in it that another language needs a shim for
       header.py callers             every function is called by a test, an example, a benchmark or the tool
       header.py symbols LIBRARY     the header's functions == src/iobind.map == what LIBRARY exports
       header.py vdev LIBRARY        the functions of vdev/vdev.h, and a plugin's two entries, == what LIBRARY exports
       header.py java LIBRARY        the functions of bindings/java/native/callback.h == what LIBRARY exports
       header.py compile COMPILER STD  it compiles by itself without a warning, its enums have 4 bytes and its _INIT
                                     macros set whole structs; 77 where there is no such compiler
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = PROJECT / "include" / "iobind"
PARTS = re.findall(r'#include "(\w+\.h)"', (HEADERS / "iobind.h").read_text(encoding="utf-8"))
TEXT = "\n".join((HEADERS / name).read_text(encoding="utf-8") for name in ("iobind.h", *PARTS, "interop.h"))
VERSION = (PROJECT / "include" / "iobind" / "version.h").read_text(encoding="utf-8")
CODE = re.sub(r"/\*.*?\*/|//[^\n]*", "", TEXT, flags=re.S)
CALLERS = ["tests", "examples", "bench", "tool", "bindings/python"]
NOT_CALLERS = [pathlib.Path("tests", name) for name in ("abi", "structure")]
FROZEN = PROJECT / "tests" / "abi" / "clients"
SKIPPED = 77
# What a parameter of a plain C type is, its comment says. These mean the same everywhere.
EVERYWHERE = {"dtype", "dims", "rank", "context", "key", "value"}
# What these do takes as long as a device, a driver or a file: their comments say when.
MAY_WAIT = r"(?<!_announce)_(run|wait|synchronize|write|read|copy|write_input|map|find_device|device_check)$|_stream_destroy$|_session_create"


class Function:
    def __init__(self, comment, prototype):
        self.comment = " ".join(re.sub(r"^\s*\*", "", comment, flags=re.M).split())
        self.prototype = " ".join(prototype.split())
        self.name = re.search(r"(\w+)\(", self.prototype)[1]
        self.returns_status = re.search(r"\biobind_status iobind_", self.prototype) is not None
        self.parameters = [part.strip() for part in self.prototype[self.prototype.index("(") + 1:-1].split(",")]


def functions():
    """Each declaration with the comment that ends right above it."""
    found = []
    for match in re.finditer(r"^IOBIND_API\b(?!__)([^;{}#]*\));", TEXT, flags=re.M):
        above = TEXT[:match.start()].rstrip()
        comment = above[above.rindex("/*"):-2] if above.endswith("*/") else ""
        found.append(Function(comment[3:] if comment.startswith("/**") else "", match[1]))
    return found


def structs():
    return dict(re.findall(r"typedef struct (iobind_\w+) \{(.*?)\} \1;", CODE, flags=re.S))


def enums():
    return dict(re.findall(r"typedef enum (iobind_\w+) \{(.*?)\} \1;", CODE, flags=re.S))


def init_macros():
    """Macro -> the struct that it says it initialises."""
    return dict(re.findall(r"^#define (IOBIND_\w+_INIT)\s*(?:\\\n)?\s*\{\s*sizeof\((\w+)\)", CODE, flags=re.M))


def version(text):
    return tuple(int(part) for part in text.split("."))


def first_versions():
    """Function -> the oldest frozen version that has it."""
    first = {}
    for path in FROZEN.glob("*/abi.json"):
        for name in json.loads(path.read_text(encoding="utf-8"))["functions"]:
            first[name] = min(path.parent.name, first.get(name, path.parent.name), key=version)
    return first


def unexplained(function):
    """Parameters of plain C types that the comment does not name; a type of iobind's own says what it is."""
    for parameter in function.parameters:
        name = re.search(r"\w+$", parameter)[0]
        plain = "iobind_" not in parameter and parameter != "void" and name not in EVERYWHERE
        if plain and not re.search(rf"\b{name}s?\b", function.comment, flags=re.I):
            yield name


def comment_problems(function, names, since):
    comment = function.comment
    inherits = re.search(r"\b[Aa]s iobind_\w+", comment)
    if not comment:
        return ["no /** comment */ right above it"]
    problems = []
    if not re.search(r"@threads (any|serial|shared-read)\b", comment):
        problems.append("no '@threads any|serial|shared-read'")
    said = re.search(r"@since (\d+\.\d+)", comment)
    if not said or said[1] != since:
        problems.append(f"expected '@since {since}', got '{said[0] if said else 'none'}'")
    if function.returns_status and "@return" not in comment and not inherits:
        problems.append("returns a status, but has no '@return' and is not 'as iobind_...'")
    if inherits and inherits[0][3:] not in names:
        problems.append(f"'{inherits[0]}' is no function")
    if re.search(MAY_WAIT, function.name) and "@blocks" not in comment:
        problems.append("may wait, but no '@blocks' says when")
    if re.search(r"@blocks(?! (yes|if|for)\b)", comment):
        problems.append("expected '@blocks yes|if ...|for ...'")
    unknown = set(re.findall(r"@(\w+)", comment)) - {"param", "return", "threads", "blocks", "since"}
    problems += [f"'@{tag}' is no tag" for tag in sorted(unknown)]
    for name in re.findall(r"@param\s+(\w+(?:, \w+)*)", comment):
        problems += [f"'@param {one}' is no parameter" for one in name.split(", ")
                     if not any(re.search(rf"\b{one}$", parameter) for parameter in function.parameters)]
    if not inherits:
        problems += [f"its comment says nothing of '{name}'" for name in unexplained(function)]
    return problems


def comments():
    now = ".".join(re.search(rf"#define IOBIND_VERSION_{part} (\d+)", VERSION)[1] for part in ("MAJOR", "MINOR"))
    first, found = first_versions(), functions()
    names = {function.name for function in found}
    problems = [f"{function.name}: {problem}" for function in found
                for problem in comment_problems(function, names, first.get(function.name, now))]
    return problems, f"{len(found)} functions, each with its tags"


def flat():
    problems = []
    for name, body in structs().items():
        problems += [f"{name}: a bit field" for _ in re.findall(r"\w\s*:\s*\d", body)]
        problems += [f"{name}: a union" for _ in re.findall(r"\bunion\b", body)]
        if "_options" in name or "_info" in name or name == "iobind_error":
            if not body.split(";")[0].split() == ["uint32_t", "struct_size"]:
                problems.append(f"{name}: does not begin with uint32_t struct_size")
    for function in functions():
        for parameter in function.parameters:
            if "..." in parameter:
                problems.append(f"{function.name}: variable arguments")
            by_value = re.match(r"(?:const )?(iobind_\w+) \w+$", parameter)
            if by_value and by_value[1] in structs():
                problems.append(f"{function.name}: {by_value[1]} by value")
        if function.returns_status and not re.search(r"\biobind_error \*error$", function.parameters[-1]):
            problems.append(f"{function.name}: returns a status, but does not take an iobind_error last")
        if function.returns_status and "IOBIND_CHECK" not in function.prototype:
            problems.append(f"{function.name}: returns a status that may be ignored: no IOBIND_CHECK")
    problems += [f"{name}: no FORCE32 value" for name, body in enums().items() if "FORCE32 = 0x7FFFFFFF" not in body]
    with_size = {name for name, body in structs().items() if "struct_size" in body}
    problems += [f"{name}: no _INIT macro" for name in sorted(with_size - set(init_macros().values()))]
    for macro, name in init_macros().items():
        if macro != name.upper() + "_INIT":
            problems.append(f"{macro}: initialises {name}")
    written = len(re.findall(r"^#define IOBIND_\w+_INIT\b", CODE, flags=re.M))
    if written != len(init_macros()):
        problems.append(f"{written} _INIT macros, but {len(init_macros())} of the form {{sizeof(iobind_x), ...")
    return problems, f"{len(structs())} structs, {len(enums())} enums, {len(functions())} functions: flat"


def callers():
    text = []
    for folder in CALLERS:
        for path in sorted((PROJECT / folder).rglob("*.c")) + sorted((PROJECT / folder).rglob("*.h")):
            if not any(other in path.relative_to(PROJECT).parents for other in NOT_CALLERS):
                text.append(re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.S))
    called = set(re.findall(r"\b(iobind_\w+)\s*\(", "\n".join(text)))
    names = [function.name for function in functions()]
    problems = [f"{name}: not called from {', '.join(CALLERS)}" for name in names if name not in called]
    return problems, f"{len(names)} functions, all called"


def compare(what, found, names):
    problems = [f"{name}: in the header, but not in {what}" for name in sorted(names - found)]
    return problems + [f"{name}: in {what}, but not in the header" for name in sorted(found - names)]


def exports(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    # An absolute symbol is the name of a version in the map, not something to call.
    return {line.split()[2].split("@")[0] for line in listing.splitlines() if line.split()[1] != "A"}


def symbols(library):
    names = {function.name for function in functions()}
    script = re.sub(r"/\*.*?\*/|#[^\n]*", "", (PROJECT / "src" / "iobind.map").read_text(encoding="utf-8"), flags=re.S)
    mapped = {name for section in re.findall(r"global:(.*?)(?:local:|\})", script, flags=re.S)
              for name in re.findall(r"([^\s;]+);", section)}
    names |= {"CreateEpFactories", "ReleaseEpFactory"}  # of an EP library, as which it gets the ORT of a host program
    problems = compare("src/iobind.map", mapped, names)
    problems += compare(pathlib.Path(library).name, exports(library), names)
    return problems, f"{len(names)} functions: the header, the map and the library agree"


def vdev(library):
    text = (PROJECT / "vdev" / "vdev.h").read_text(encoding="utf-8")
    names = set(re.findall(r"^VDEV_API\b[^;{}#]*?\b(vdev_\w+)\(", text, flags=re.M)) | {"CreateEpFactories", "ReleaseEpFactory"}
    return compare(pathlib.Path(library).name, exports(library), names), f"{len(names)} functions: header and library agree"


def java(library):
    text = (PROJECT / "bindings" / "java" / "native" / "callback.h").read_text(encoding="utf-8")
    names = set(re.findall(r"^IOBIND_JAVA_API\b[^;{}#]*?\b(iobind_java_\w+)\(", text, flags=re.M))
    return compare(pathlib.Path(library).name, exports(library), names), f"{len(names)} functions: header and library agree"


def program():
    lines = ["#include <iobind/iobind.h>", "#include <iobind/interop.h>", "#include <iobind/interop.h>", "#include <stdio.h>"]
    lines += [f"typedef char size_of_{name}[sizeof({name}) == 4 ? 1 : -1];" for name in enums()]
    lines += [f"static const {name} init_{name} = {macro};" for macro, name in init_macros().items()]
    lines += ["static int wrong;",
              "static void check(const char *name, const void *value, size_t size, size_t struct_size) {",
              "  const unsigned char *byte = (const unsigned char *)value;", "  size_t i;",
              "  int set = 0;", "  for (i = sizeof(uint32_t); i < size; i++)", "    set |= byte[i];",
              "  if (set || struct_size != size) {", "    wrong = 1;",
              "    fprintf(stderr, \"%s: its _INIT macro sets more, or less, than the size\\n\", name);", "  }", "}",
              "int main(void) {"]
    lines += [f"  check(\"{name}\", &init_{name}, sizeof(init_{name}), init_{name}.struct_size);"
              for name in init_macros().values()]
    return "\n".join(lines + ["  return wrong;", "}", ""])


def compile_with(compiler, standard):
    if not shutil.which(compiler):
        print(f"header: no compiler '{compiler}' here")
        sys.exit(SKIPPED)
    language = "c++" if "++" in standard else "c"
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder, "program")
        command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                   "-Wshadow", "-Wconversion", f"-I{PROJECT / 'include'}", "-", "-o", binary]
        built = subprocess.run(command, input=program(), capture_output=True, text=True)
        if built.returncode != 0:
            return built.stderr.splitlines(), ""
        ran = subprocess.run([binary], capture_output=True, text=True)
        if ran.returncode != 0:
            return ran.stderr.splitlines() or [f"the program ended with {ran.returncode}"], ""
    return [], f"{compiler} {standard}: {len(init_macros())} _INIT macros, {len(enums())} enums, no warning"


def main(arguments):
    commands = {"comments": (comments, 0), "flat": (flat, 0), "callers": (callers, 0), "symbols": (symbols, 1), "vdev": (vdev, 1), "java": (java, 1),
                "compile": (compile_with, 2)}
    if not arguments or arguments[0] not in commands or len(arguments) - 1 != commands[arguments[0]][1]:
        print(__doc__, file=sys.stderr)
        return 2
    problems, summary = commands[arguments[0]][0](*arguments[1:])
    for problem in problems:
        print(f"header: {problem}", file=sys.stderr)
    if not problems:
        print(summary)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
