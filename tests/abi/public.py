#!/usr/bin/env python3
"""The public binary interface: what a program compiled against include/iobind/iobind.h relies on.

usage: public.py show              prints the interface as JSON: layouts, values, signatures
       public.py write             writes it to abi.json beside this file: after each change of the header
       public.py check             the stored abi.json is what the header says now
       public.py compatible        every version under clients/ finds its interface in the header of now
       public.py freeze            keeps the header, abi.json and client.c of now as clients/MAJOR.MINOR, for good
       public.py table HEADER_DIR  prints a C file that holds the address of every function of that header
Environment: CC, the compiler that is asked (default: cc).
Option: --header FILE  the header to read instead

The header is read as the preprocessor leaves it, declaration by declaration; what is left over after all that this script
understands is an error, so that nothing public can be missing. A C program that is made of the names measures the rest.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parents[1] / "include" / "iobind" / "interop.h"  # it includes iobind.h
STORED, CLIENTS, CLIENT = HERE / "abi.json", HERE / "clients", HERE / "client.c"
CC = os.environ.get("CC", "cc")
NOT_ABI = re.compile(r"IOBIND_(H|[A-Z]+_H|NO_TIMEOUT|BATCH_ALL|VERSION_\w+|API|CHECK|BUILD|STATIC|STATUS_MAP)$")


class Failed(Exception):
    """The comparison cannot be made: the message says why."""


def run(command, text=None):
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{' '.join(str(word) for word in command)}: {result.stderr.strip()}")
    return result.stdout


# ---- reading -----------------------------------------------------------------------------------------------------------

def own_lines(header):
    """What the preprocessor leaves of the header and of those beside it, without the system's."""
    own, lines = False, []
    for line in run([CC, "-std=c17", "-E", "-dD", header]).splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            own = pathlib.Path(marker[1]).parent == header.parent
        elif own:
            lines.append(line)
    return lines


def spaced(text):
    """One way to write a type: "const char *const *"."""
    return re.sub(r"\* ", "*", " ".join(text.replace("*", " * ").split())).replace("*const *", "*const *").strip()


class Interface:
    """The names that the header declares, in its order."""

    def __init__(self, header):
        self.structs, self.enums, self.callbacks, self.functions = {}, {}, {}, {}
        self.opaque, self.numbers, self.inits = [], [], {}
        lines = own_lines(header)
        for line in lines:
            if line.startswith("#define "):
                self.take_macro(line)
        code = "\n".join(line for line in lines if not line.startswith("#"))
        code = " ".join(re.sub(r"__attribute__\s*\(\(.*?\)\)\)?(?=\s)", " ", code).split())
        self.anonymous = []
        self.take(code)

    def take_macro(self, line):
        name, value = re.match(r"#define (\w+)(?:\([^)]*\))?\s*(.*)", line).groups()
        if name.endswith("_INIT") and (struct := re.match(r"\{\s*sizeof\((\w+)\)", value)):
            self.inits[struct[1]] = name
        elif re.fullmatch(r"\(?-?(0x[0-9A-Fa-f]+|\d+)[uUlL]*\)?", value) and not NOT_ABI.match(name):
            self.numbers.append(name)
        elif not NOT_ABI.match(name) and name != "IOBIND_STATUS_VALUE":
            raise Failed(f"{name}: a macro that this comparison does not know: {value}")

    def take(self, code):
        def cut(pattern, handle):
            nonlocal code
            code = re.sub(pattern, lambda match: handle(*match.groups()) or " ", code)

        cut(r"typedef struct (\w+) \{([^{}]*)\} \1 ?;", self.take_struct)
        cut(r"typedef enum (\w+) \{([^{}]*)\} \1 ?;", lambda name, body: self.enums.update({name: self.constants(body)}))
        cut(r"\benum \{([^{}]*)\} ?;", lambda body: self.anonymous.extend(self.constants(body)))
        cut(r"typedef struct (\w+) \1 ?;", lambda name: self.opaque.append(name))
        cut(r"typedef ([\w *]+?)\( ?\* ?(\w+) ?\) ?\(([^()]*)\) ?;",
            lambda returns, name, parameters: self.callbacks.update({name: self.signature(returns, parameters)}))
        cut(r"([\w *]+?\b|\w[\w ]*\*) ?\b(\w+) ?\(([^()]*)\) ?;",
            lambda returns, name, parameters: self.functions.update({name: self.signature(returns, parameters)}))
        if code.strip():
            raise Failed(f"a declaration that this comparison does not know: {code.strip()[:120]}")

    def take_struct(self, name, body):
        fields = {}
        for part in filter(None, (one.strip() for one in body.split(";"))):
            match = re.fullmatch(r"([\w *]+?[ *])(\w+)((?: ?\[\d+\])*)", part)
            if not match:
                raise Failed(f"{name}: a field that this comparison does not know: {part}")
            fields[match[2]] = spaced(match[1]) + match[3].replace(" ", "")
        self.structs[name] = fields

    @staticmethod
    def constants(body):
        return [re.match(r"\w+", part.strip())[0] for part in body.split(",") if part.strip()]

    @staticmethod
    def signature(returns, parameters):
        one = [] if parameters.strip() == "void" else [spaced(parameter) for parameter in parameters.split(",")]
        return {"returns": spaced(returns), "parameters": one}


# ---- measuring ---------------------------------------------------------------------------------------------------------

def program(interface, header):
    """The C program that prints what only a compiler knows, as JSON."""
    out = ['#include <stddef.h>', '#include <stdio.h>', '#include <string.h>', f'#include "{header}"',
           'static int set(const void *data, size_t bytes) {', '  const unsigned char *byte = data;', '  int any = 0;',
           '  for (size_t i = 0; i < bytes; i++) any |= byte[i];', '  return any != 0;', '}',
           'static long long number(const void *data, size_t bytes) {', '  unsigned long long value = 0;',
           '  memcpy(&value, data, bytes < sizeof value ? bytes : sizeof value);', '  return (long long)value;', '}',
           'int main(void) {', '  const char *comma;', '  puts("{\\"structs\\": {");']
    for index, (name, fields) in enumerate(interface.structs.items()):
        out += [f'  printf("%s\\"{name}\\": {{\\"size\\": %zu, \\"align\\": %zu, \\"fields\\": {{", '
                f'"{"," if index else ""}", sizeof({name}), _Alignof({name}));']
        for position, field in enumerate(fields):
            out += [f'  printf("%s\\"{field}\\": [%zu, %zu]", "{"," if position else ""}", offsetof({name}, {field}), '
                    f'sizeof((({name} *)0)->{field}));']
        out += ['  puts("}, \\"init\\": ");']
        if name in interface.inits:
            out += ['  {', f'    {name} init = {interface.inits[name]};', '    comma = "{";']
            for field in fields:
                out += [f'    if (set(&init.{field}, sizeof init.{field})) {{',
                        f'      printf("%s\\"{field}\\": %lld", comma, number(&init.{field}, sizeof init.{field}));',
                        '      comma = ", ";', '    }']
            out += ['    puts("}}");', '  }']
        else:
            out += ['  puts("null}");']
    out += ['  puts("}, \\"sizes\\": {");', '  comma = "";']
    for name in interface.enums:
        out += [f'  printf("%s\\"{name}\\": %zu", comma, sizeof({name}));', '  comma = ", ";']
    out += ['  puts("}, \\"constants\\": {");', '  comma = "";']
    constants = [name for names in interface.enums.values() for name in names] + interface.anonymous + interface.numbers
    for name in constants:
        out += [f'  printf("%s\\"{name}\\": %lld", comma, (long long){name});', '  comma = ", ";']
    return "\n".join(out + ['  puts("}}");', '  return 0;', '}', ''])


def holes(structs):
    """Bytes of a struct that belong to no field and are no alignment: a field that was not seen."""
    for name, struct in structs.items():
        end = 0
        for field in struct["fields"]:
            if not 0 <= field["offset"] - end < 8:
                raise Failed(f"{name}: {field['offset'] - end} bytes before {field['name']} belong to no field")
            end = field["offset"] + field["size"]
        if not 0 <= struct["size"] - end < struct["align"]:
            raise Failed(f"{name}: {struct['size'] - end} bytes at its end belong to no field")


def measure(header):
    interface = Interface(header)
    with tempfile.TemporaryDirectory() as folder:
        source, binary = pathlib.Path(folder, "program.c"), pathlib.Path(folder, "program")
        source.write_text(program(interface, header), encoding="utf-8")
        run([CC, "-std=c17", source, "-o", binary])
        measured = json.loads(run([binary]))
    structs = {}
    for name, types in interface.structs.items():
        known = measured["structs"][name]
        fields = [{"name": field, "type": types[field], "offset": offset, "size": size}
                  for field, (offset, size) in known["fields"].items()]
        structs[name] = {"size": known["size"], "align": known["align"], "init": known["init"], "fields": fields}
    holes(structs)
    values = measured["constants"]
    return {
        "opaque": interface.opaque,
        "structs": structs,
        "enums": {name: {"size": measured["sizes"][name], "values": {value: values[value] for value in names}}
                  for name, names in interface.enums.items()},
        "constants": {name: values[name] for name in interface.anonymous + interface.numbers},
        "callbacks": interface.callbacks,
        "functions": interface.functions,
    }


def written(interface):
    """JSON that a person can read in a diff: a field, a value or a function a line."""
    text = json.dumps(interface, indent=1, ensure_ascii=False)
    text = re.sub(r"\{\s*(\"(?:name|returns)\":[^{}]*?)\s*\}", lambda match: "{" + " ".join(match[1].split()) + "}", text)
    return text.replace("[ ", "[").replace(" ]", "]") + "\n"


# ---- comparing ---------------------------------------------------------------------------------------------------------

def broken_struct(name, old, new):
    """What a program that was compiled with the old struct would find changed."""
    fields = {field["name"]: field for field in new["fields"]}
    by_offset = {field["offset"]: field["name"] for field in new["fields"]}
    for field in old["fields"]:
        if field["name"].startswith("reserved") and field["name"] not in fields:
            # What every program has set to 0 may get a name.
            now = fields.pop(by_offset.get(field["offset"]), None)
            if now and (now["offset"], now["size"]) == (field["offset"], field["size"]):
                continue
        now = fields.pop(field["name"], None)
        if now != field:
            yield f"{name}.{field['name']}: was {field}, is {now}"
    has_size = old["fields"][0]["name"] == "struct_size"
    if new["size"] < old["size"] or new["size"] > old["size"] and not has_size:
        yield f"{name}: had {old['size']} bytes, has {new['size']}"
    # Bytes that were padding hold anything in an old program: nothing new may lie there.
    yield from (f"{name}.{field['name']}: lies within the {old['size']} bytes that the struct had"
                for field in fields.values() if field["offset"] < old["size"])
    changed = {key: value for key, value in (old["init"] or {}).items() if key != "struct_size"}
    for key, value in changed.items():
        if (new["init"] or {}).get(key) != value:
            yield f"{name}.{key}: its _INIT macro set {value}, now {(new['init'] or {}).get(key, 0)}"


def broken(old, new):
    for name in old["opaque"]:
        if name not in new["opaque"]:
            yield f"{name}: is gone"
    for name, struct in old["structs"].items():
        if name in new["structs"]:
            yield from broken_struct(name, struct, new["structs"][name])
        else:
            yield f"{name}: is gone"
    values = {"constants": old["constants"], **{name: enum["values"] for name, enum in old["enums"].items()}}
    now = {"constants": new["constants"], **{name: enum["values"] for name, enum in new["enums"].items()}}
    for group, names in values.items():
        for name, value in names.items():
            if now.get(group, {}).get(name) != value:
                yield f"{name}: was {value}, is {now.get(group, {}).get(name, 'gone')}"
    for group in ("callbacks", "functions"):
        for name, signature in old[group].items():
            if new[group].get(name) != signature:
                yield f"{name}: was {signature}, is {new[group].get(name, 'gone')}"


def frozen_header(version):
    """Of a version's headers the one that includes the others."""
    folder = version / "include" / "iobind"
    return folder / "interop.h" if (folder / "interop.h").exists() else folder / "iobind.h"


def compatible(header):
    new, problems = measure(header), []
    versions = sorted(path.parent for path in CLIENTS.glob("*/abi.json"))
    for version in versions:
        old = json.loads((version / "abi.json").read_text(encoding="utf-8"))
        recorded = written(measure(frozen_header(version)))
        if recorded != (version / "abi.json").read_text(encoding="utf-8"):
            problems.append(f"{version.name}: its frozen header and its abi.json no longer agree: neither may be edited")
        problems += [f"{version.name}: {problem}" for problem in broken(old, new)]
    return problems, f"{len(versions)} frozen versions: {', '.join(version.name for version in versions) or 'none yet'}"


def check(header):
    new = written(measure(header))
    old = STORED.read_text(encoding="utf-8") if STORED.exists() else ""
    if new == old:
        known = json.loads(new)
        return [], ", ".join(f"{len(known[group])} {group}" for group in known)
    missing = [f"the header says now: {line.strip()}" for line in new.splitlines() if line not in old.splitlines()]
    gone = [f"abi.json says: {line.strip()}" for line in old.splitlines() if line not in new.splitlines()]
    return (missing + gone)[:20] + ["if that is meant: tests/abi/public.py write"], ""


def freeze(header):
    numbers = dict(re.findall(r"#define IOBIND_VERSION_(MAJOR|MINOR) (\d+)", (header.parent / "version.h").read_text()))
    target = CLIENTS / f"{numbers['MAJOR']}.{numbers['MINOR']}"
    if target.exists():
        raise Failed(f"{target.name} is frozen already: programs that were compiled with it exist")
    STORED.write_text(written(measure(header)), encoding="utf-8")
    (target / "include" / "iobind").mkdir(parents=True)
    for path in sorted(header.parent.glob("*.h")):
        shutil.copy(path, target / "include" / "iobind")
    shutil.copy(STORED, target)
    shutil.copy(CLIENT, target)
    return [], f"{target.name}: frozen; commit {target}"


def table(folder):
    names = Interface(pathlib.Path(folder).resolve() / "iobind" / "iobind.h").functions
    rows = "\n".join(f'    {{"{name}", (function){name}}},' for name in names)
    print(f'/* Every function of the interface, by address: the library must have them all. */\n'
          f'#include "iobind/iobind.h"\n\n#include "table.h"\n\nconst entry abi_functions[] = {{\n{rows}\n'
          f'    {{NULL, NULL}},\n}};')


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command", choices=["show", "write", "check", "compatible", "freeze", "table"])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--header", type=pathlib.Path, default=HEADER)
    arguments = parser.parse_args()
    header = arguments.header.resolve()
    problems, summary = [], ""
    try:
        if arguments.command == "show":
            print(written(measure(header)), end="")
        elif arguments.command == "table":
            table(arguments.folder)
        elif arguments.command == "write":
            STORED.write_text(written(measure(header)), encoding="utf-8")
            summary = f"written: {STORED.relative_to(HERE.parents[1])}"
        else:
            problems, summary = {"check": check, "compatible": compatible, "freeze": freeze}[arguments.command](header)
    except Failed as failure:
        problems = [str(failure)]
    for problem in problems:
        print(f"abi: {problem}", file=sys.stderr)
    if not problems and summary:
        print(summary)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
