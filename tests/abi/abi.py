#!/usr/bin/env python3
"""What abi/ declares of ORT's binary interface, beside the facts that it stands on: the rows in this folder.

usage: abi.py coverage ABI_DIR           every declaration has its row, every row its declaration; no slot is newer than
                                         the oldest ORT unless newer_slots.tsv says where it is guarded
       abi.py program ABI_DIR            prints a C program that compares the declarations with the rows
       abi.py program --official DIR     the same for ORT's own headers in DIR
       abi.py extract FACTS_DIR ABI_DIR  writes the rows again, from tables of the whole interface with these columns
Option: --rows DIR  the rows lie elsewhere than beside this file
"""
import argparse
import csv
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = {
    "functions": ["table", "slot", "offset", "name", "since", "returns", "parameters"],
    "structs": ["struct", "size", "field", "offset", "name", "type", "since"],
    "enums": ["enum", "name", "value"],
    "typedefs": ["name", "returns", "parameters", "convention"],
    "newer_slots": ["table", "name", "since", "file", "guard"],
}


class Failed(Exception):
    """The comparison cannot be made: the message says why."""


def read_table(folder, name):
    path = pathlib.Path(folder) / f"{name}.tsv"
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if rows.fieldnames != COLUMNS[name]:
            raise Failed(f"{path}: expected the columns {COLUMNS[name]}, got {rows.fieldnames}")
        return list(rows)


def version(text):
    """'1.24' as a tuple; no entry means that it was always there."""
    return tuple(int(part) for part in text.split(".")) if text else (1, 0)


class Declared:
    """What the headers of a folder declare: structs with their members in order, enums, function types."""

    def __init__(self, folder):
        self.structs, self.enums, self.function_types, self.numbers = {}, {}, {}, {}
        self.problems = []
        headers = sorted(pathlib.Path(folder).glob("*.h"))
        if not headers:
            raise Failed(f"{folder}: no header there")
        for header in headers:
            self.read(header.name, header.read_text(encoding="utf-8"))

    def read(self, header, text):
        text = re.sub(r"/\*\s*(\d+)\b[^*]*\*/", r"@\1@", text)  # a slot number behind a member is checked, too
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
        for name, value in re.findall(r"^#define\s+(\w+)\s+(\d+)\s*(?:@\d+@)?\s*$", text, flags=re.M):
            self.numbers[name] = int(value)
        text = re.sub(r"^#(?:\\\n|.)*$", "", text, flags=re.M)
        text = re.sub(r"\bextern \"C\" \{|^\}\s*$", "", text, flags=re.M)

        def take(pattern, handle):
            nonlocal text
            text = re.sub(pattern, lambda match: handle(header, match) or "", text, flags=re.S)

        take(r"(?:typedef )?struct (\w+) \{([^{}]*)\}(?: \1)?;", self.take_struct)
        take(r"typedef enum (\w+) \{([^{}]*)\} \1;", self.take_enum)
        take(r"typedef ([\w\s*]+?)\((ORT_CALL )?\*\s*(\w+)\)\s*\(([^()]*)\);", self.take_function_type)
        take(r"typedef struct (\w+) \1;", lambda *_: None)
        take(r"typedef (?:char|wchar_t) ort_char;", lambda *_: None)
        rest = re.sub(r"@\d+@", "", text).strip()
        if rest:
            self.problems.append(f"{header}: a declaration that this comparison does not know: {rest.splitlines()[0]}")

    def take_struct(self, header, match):
        name, body = match.groups()
        members = []
        for statement, number in re.findall(r"([^;@]+);\s*(?:@(\d+)@)?", body):
            statement = " ".join(statement.split())
            padding = re.fullmatch(r"ort_slot slots_(\d+)\[(\d+)\]", statement)
            function = re.fullmatch(r"[\w\s*]+\((ORT_CALL )?\*\s*(\w+)\)\s*\(.*\)", statement)
            field = re.fullmatch(r"[\w\s*]+?(\w+)(?:\[\d+\])?", statement)
            if padding:
                members.append(("padding", int(padding[1]), int(padding[2])))
            elif function:
                members.append(("function", function[2], number))
                if not function[1]:
                    self.problems.append(f"{header}: {name}.{function[2]}: declared without ORT_CALL")
            elif field:
                members.append(("field", field[1], number))
            else:
                self.problems.append(f"{header}: {name}: a member that this comparison does not know: {statement}")
        self.structs[name] = members

    def take_enum(self, header, match):
        name, body = match.groups()
        values = re.findall(r"(\w+)\s*=\s*[^,]+", body)
        if len(values) != body.count("=") or re.search(r"(?:^|,)\s*\w+\s*(?:,|$)", body):
            self.problems.append(f"{header}: {name}: every value must be written out")
        self.enums[name] = values

    def take_function_type(self, _, match):
        name = match[3]
        if name != "ort_slot":
            self.function_types[name] = bool(match[2])

    def members(self, kind):
        return [(name, member[1]) for name, members in self.structs.items() for member in members if member[0] == kind]


def declared_name(row):
    """The type that abi/ has for a row of typedefs.tsv: an exported function X has the type XFunction."""
    name, _, exported = row["name"].partition(" ")
    return name + "Function" if exported else name


class Rows:
    def __init__(self, folder):
        self.functions = read_table(folder, "functions")
        self.structs = read_table(folder, "structs")
        self.enums = read_table(folder, "enums")
        self.typedefs = read_table(folder, "typedefs")


def compare_sets(what, declared, rows):
    problems = [f"{what} {'.'.join(key)} is declared, but has no row" for key in declared if key not in rows]
    problems += [f"{what} {'.'.join(key)} has a row, but is not declared" for key in rows if key not in declared]
    problems += [f"{what} {'.'.join(key)} stands twice" for key in set(declared) if declared.count(key) > 1]
    return problems


def check_order(declared, rows):
    """Slot numbers: the running count, the row, the comment and the name of the padding must agree."""
    slots = {(row["table"], row["name"]): int(row["slot"]) for row in rows.functions}
    slots.update({(row["struct"], row["name"]): int(row["field"]) for row in rows.structs})
    problems = []
    for name, members in declared.structs.items():
        position = 0
        for kind, *member in members:
            if kind == "padding":
                if member[0] != position:
                    problems.append(f"{name}.slots_{member[0]} stands at slot {position}")
                position += member[1]
                continue
            slot = slots.get((name, member[0]), position)
            if slot != position:
                problems.append(f"{name}.{member[0]} is slot {slot}, but stands at slot {position}")
            if member[1] and int(member[1]) != slot:
                problems.append(f"{name}.{member[0]} is slot {slot}, but its comment says {member[1]}")
            position = slot + 1
    return problems


def check_since(declared, rows, newer, root):
    """What is newer than the oldest ORT is used behind a guard only, and newer_slots.tsv says where that stands."""
    if "ORT_API_OLDEST" not in declared.numbers:
        return ["no header defines ORT_API_OLDEST"]
    oldest = (1, declared.numbers["ORT_API_OLDEST"])
    since = {(row["table"], row["name"]): row["since"] for row in rows.functions}
    since.update({(row["struct"], row["name"]): row["since"] for row in rows.structs})
    allowed = {(row["table"], row["name"]): row for row in newer}
    problems = []
    for key, text in since.items():
        if version(text) > oldest and key not in allowed:
            problems.append(f"{'.'.join(key)} is there since ORT {text} only: "
                            "guard its use and say where in newer_slots.tsv")
    for key, row in allowed.items():
        if key not in since or version(since[key]) <= oldest:
            problems.append(f"{'.'.join(key)} stands in newer_slots.tsv for nothing")
        elif row["since"] != since[key]:
            problems.append(f"{'.'.join(key)}: newer_slots.tsv says since {row['since']}, the row {since[key]}")
        guard = root / row["file"]
        if not guard.is_file() or row["guard"] not in guard.read_text(encoding="utf-8"):
            problems.append(f"{'.'.join(key)}: its guard '{row['guard']}' is not in {row['file']}")
    return problems


def coverage(abi, rows_folder):
    declared, rows = Declared(abi), Rows(rows_folder)
    problems = list(declared.problems)
    in_rows = [(row["table"], row["name"]) for row in rows.functions]
    problems += compare_sets("function", declared.members("function"), in_rows)
    problems += compare_sets("field", declared.members("field"), [(r["struct"], r["name"]) for r in rows.structs])
    values = [(name, value) for name, values in declared.enums.items() for value in values]
    problems += compare_sets("value", values, [(r["enum"], r["name"]) for r in rows.enums])
    types = [(name,) for name in declared.function_types]
    problems += compare_sets("function type", types, [(declared_name(r),) for r in rows.typedefs])
    for row in rows.typedefs:
        if declared.function_types.get(declared_name(row), True) != (row["convention"] == "ORT_API_CALL"):
            problems.append(f"{declared_name(row)}: its calling convention is not '{row['convention']}'")
    problems += check_order(declared, rows)
    problems += check_since(declared, rows, read_table(rows_folder, "newer_slots"), pathlib.Path(abi).resolve().parent)
    for problem in problems:
        print(f"abi: {problem}", file=sys.stderr)
    if not problems:
        print(f"{len(rows.functions)} functions, {len(rows.structs)} fields, {len(rows.enums)} values and "
              f"{len(rows.typedefs)} function types: each declared once, each with its row")
    return 1 if problems else 0


PROLOGUE = """#include <stddef.h>
#include <stdio.h>
{include}
#define SAME_TYPE(expression, type) _Generic((expression), type: 1, default: 0)
static int compared, failed;
static void equal(const char *what, long long is, long long expected) {{
  compared++;
  if (is == expected)
    return;
  failed++;
  fprintf(stderr, "abi: %s: expected %lld, got %lld\\n", what, expected, is);
}}
static void same(const char *what, int is_same, const char *expected) {{
  compared++;
  if (is_same)
    return;
  failed++;
  fprintf(stderr, "abi: %s: expected the type %s\\n", what, expected);
}}
"""


def function_type(row, call, name):
    # An array parameter is a pointer, and the facts write its brackets in front of the name.
    parameters = row["parameters"].replace("[] ", "* ") or "void"
    return f"{row['returns']} ({call}*{name})({parameters})"


class Official:
    """ORT's own headers: what an older version has not yet is left out and counted, not compared."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        header = folder / "onnxruntime_c_api.h"
        if not header.is_file():
            raise Failed(f"{folder}: no onnxruntime_c_api.h there")
        self.text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("onnxruntime_*c*.h")))
        found = re.search(r"^#define ORT_API_VERSION (\d+)", self.text, flags=re.M)
        if not found:
            raise Failed(f"{header}: does not define ORT_API_VERSION")
        self.version, self.name = (1, int(found[1])), f"1.{found[1]}"

    def lacks(self, row):
        if "since" in row:
            return version(row["since"]) > self.version
        return not re.search(rf"\b{re.escape(row['name'].split()[0])}\b", self.text)


def program(rows_folder, official=None, newest=None):
    rows = Rows(rows_folder)
    left_out = []

    def present(table):
        for row in table:
            if official and official.lacks(row):
                left_out.append(row["name"])
            else:
                yield row

    call = "ORT_API_CALL " if official else "ORT_CALL "
    body = []
    types = []
    for row in present(rows.functions):
        table, name = row["table"], row["name"]
        expected = f"expected_{table}_{name}"
        types.append(f"typedef {function_type(row, call, expected)};")
        text = function_type(row, "", "").replace("\\", "")
        body.append(f"equal(\"offset of {table}.{name}\", (long long)offsetof({table}, {name}), {row['offset']});")
        body.append(f"same(\"{table}.{name}\", SAME_TYPE((({table} *)0)->{name}, {expected}), \"{text}\");")
    tables = {row["table"] for row in rows.functions}
    for row in present(rows.structs):
        struct, name, kind = row["struct"], row["name"], row["type"]
        body.append(f"equal(\"offset of {struct}.{name}\", (long long)offsetof({struct}, {name}), {row['offset']});")
        body.append(f"same(\"{struct}.{name}\", SAME_TYPE((({struct} *)0)->{name}, {kind}), \"{kind}\");")
        if struct not in tables:
            body.append(f"equal(\"size of {struct}\", (long long)sizeof({struct}), {row['size']});")
    if not official:  # a table of functions may be declared as far as it is used, and no further
        whole = {row["struct"]: int(row["size"]) for row in rows.structs}
        for table in sorted(tables):
            # what a plugin implements is declared whole, for ORT reads it up to its own version
            end = whole[table] if table in whole else max(int(row["offset"]) for row in rows.functions if row["table"] == table) + 8
            body.append(f"equal(\"size of {table} up to its last function\", (long long)sizeof({table}), {end});")
    for row in present(rows.enums):
        body.append(f"equal(\"{row['enum']}.{row['name']}\", (long long){row['name']}, {row['value']}LL);")
    for enum in sorted({row["enum"] for row in rows.enums}):
        body.append(f"equal(\"size of {enum}\", (long long)sizeof({enum}), 4);")
    for row in present(rows.typedefs):
        name, exported = declared_name(row), " " in row["name"]
        expected = f"expected_{name}"
        types.append(f"typedef {function_type(row, call if row['convention'] == 'ORT_API_CALL' else '', expected)};")
        value = f"&{row['name'].split()[0]}" if exported and official else f"({name})0"
        body.append(f"same(\"{name}\", SAME_TYPE({value}, {expected}), \"{function_type(row, '', '')}\");")

    if official:
        include = "#include <onnxruntime_c_api.h>"
        if newest and official.version >= newest and left_out:
            raise Failed(f"these headers are of ORT {official.name} and lack {', '.join(left_out)}")
        note = f", {len(left_out)} newer than these headers (ORT {official.name})"
    else:
        include = "#define ORTCHAR_T ort_char"
        note = ""
    closing = f"  printf(\"%d facts compared, %d wrong{note}\\n\", compared, failed);\n  return failed ? 1 : 0;\n"
    return (PROLOGUE.format(include=include) + "\n".join(types) + "\nint main(void) {\n  "
            + "\n  ".join(body) + "\n" + closing + "}\n")


def abi_program(abi, rows_folder):
    includes = "".join(f"#include \"{path.name}\"\n" for path in sorted(pathlib.Path(abi).glob("*.h")))
    return includes + program(rows_folder)


def extract(facts, abi, rows_folder):
    declared = Declared(abi)
    if declared.problems:
        raise Failed("; ".join(declared.problems))
    functions, fields = set(declared.members("function")), set(declared.members("field"))
    values = {(name, value) for name, values in declared.enums.items() for value in values}
    wanted = {
        "functions": lambda row: (row["table"], row["name"]) in functions,
        "structs": lambda row: (row["struct"], row["name"]) in fields,
        "enums": lambda row: (row["enum"], row["name"]) in values,
        "typedefs": lambda row: declared_name(row) in declared.function_types,
    }
    for name, is_wanted in wanted.items():
        rows = [row for row in read_table(facts, name) if is_wanted(row)]
        lines = ["\t".join(row[column] for column in COLUMNS[name]) for row in rows]
        path = pathlib.Path(rows_folder) / f"{name}.tsv"
        path.write_text("\n".join(["\t".join(COLUMNS[name])] + lines) + "\n", encoding="utf-8")
        print(f"{len(rows)} rows: {path.name}")
    return coverage(abi, rows_folder)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=HERE)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("coverage").add_argument("abi")
    source = commands.add_parser("program").add_mutually_exclusive_group(required=True)
    source.add_argument("abi", nargs="?")
    source.add_argument("--official", metavar="DIR")
    whole = commands.add_parser("extract")
    whole.add_argument("facts")
    whole.add_argument("abi")
    options = parser.parse_args(arguments)
    try:
        if options.command == "coverage":
            return coverage(options.abi, options.rows)
        if options.command == "extract":
            return extract(options.facts, options.abi, options.rows)
        if options.official:
            newest = (1, Declared(HERE.parent.parent / "abi").numbers["ORT_API_NEWEST"])
            sys.stdout.write(program(options.rows, Official(options.official), newest))
        else:
            sys.stdout.write(abi_program(options.abi, options.rows))
        return 0
    except (Failed, OSError) as problem:
        print(f"abi: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
