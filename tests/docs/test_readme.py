#!/usr/bin/env python3
"""That readme.py notices what it is there for: a small tree that is right, and each way to make it wrong.

usage: test_readme.py COMPILER
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FENCE = "```"

TREE = {
    "Makefile": "demo: build\n\ttrue\nbuild:\n\ttrue\n",
    "CMakePresets.json": '{"configurePresets": [{"name": "dev"}, {"name": "base", "hidden": true}]}',
    "examples/quickstart.c": "int main(void) {\n  return 0;\n}\n",
    "include/iobind/iobind.h": ("#include <stddef.h>\n#include <stdint.h>\n#define IOBIND_OK 0\n#define IOBIND_ERROR_INIT {0}\n"
                                "typedef struct iobind_error { int status; } iobind_error;\n"
                                + "".join(f"typedef struct iobind_{noun} iobind_{noun};\n"
                                          for noun in ["runtime", "device", "session", "binding", "tensor"])),
    "README.md": (f"# It\n\n{FENCE}c\nint main(void) {{\n  return 0;\n}}\n{FENCE}\n\nRun `make demo`, or see [the tool](docs/tool.md#run).\n\n"
                  f"{FENCE}console\n$ iobind run MODEL --json\noutput --nonsense\n{FENCE}\n\n{FENCE}sh\ncmake --preset dev\nscripts/get --dir x\n{FENCE}\n"),
    "CONTRIBUTING.md": "Nothing.\n",
    "docs/tool.md": "# The tool\n\n## Options of every command\n\n`--help`\n\n## run\n\n`--json`\n",
    "docs/design.md": "Nothing.\n",
    "docs/concepts.md": f"{FENCE}c\nuse(image);\nTRY(IOBIND_OK);\n{FENCE}\n",
    "scripts/get": "#!/bin/sh\n# --dir DIR\n",
    "tool": '#!/bin/sh\ncase $1 in\n  run) echo "  --json  --help" ;;\n  *) printf "Commands:\\n  run   Run\\n\\nmore\\n" ;;\nesac\n',
}

# (check, file, what stands there, what stands there instead)
FAULTS = [
    ("example", "examples/quickstart.c", "return 0", "return 1"),
    ("example", "README.md", f"{FENCE}c\n", f"{FENCE}text\n"),
    ("links", "README.md", "docs/tool.md#run", "docs/tools.md"),
    ("links", "README.md", "docs/tool.md#run", "docs/tool.md#walk"),
    ("links", "docs/design.md", "Nothing.", "![picture](nowhere.svg)"),
    ("commands", "README.md", "`make demo`", "`make dmo`"),
    ("commands", "README.md", "iobind run MODEL", "iobind walk MODEL"),
    ("commands", "README.md", "MODEL --json", "MODEL --jsn"),
    ("commands", "README.md", "--preset dev", "--preset base"),
    ("commands", "README.md", "scripts/get --dir", "scripts/got --dir"),
    ("commands", "README.md", "scripts/get --dir", "scripts/get --folder"),
    ("commands", "README.md", "cmake --preset dev", "cmaek --preset dev"),
    ("commands", "docs/tool.md", "## run", "## walk"),
    ("commands", "docs/tool.md", "`--json`", "nothing"),
    ("fragments", "docs/concepts.md", "use(image);", "use(imag);"),
    ("fragments", "docs/concepts.md", f"{FENCE}c", f"{FENCE}text"),
]


def write(root, fault=None):
    for name, text in TREE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if fault and fault[1] == name:
            if fault[2] not in text:
                sys.exit(f"test_readme: {name} does not have '{fault[2]}'")
            text = text.replace(fault[2], fault[3], 1)
        path.write_text(text)
    (root / "tool").chmod(0o755)
    (root / "scripts/get").chmod(0o755)


def passes(check, compiler, fault=None):
    extra = {"commands": ["tool"], "fragments": [compiler]}.get(check, [])
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write(root, fault)
        extra = [str(root / word) if word == "tool" else word for word in extra]
        result = subprocess.run([sys.executable, str(HERE / "readme.py"), "--root", folder, check, *extra],
                                capture_output=True, text=True)
        if result.returncode not in (0, 1) or "Traceback" in result.stderr:
            sys.exit(f"test_readme: {check} broke: {result.stderr}")
        return result.returncode == 0


def main(arguments):
    compiler = arguments[0]
    failures = [f"{check}: a tree that is right does not pass" for check in ["example", "links", "commands", "fragments"]
                if not passes(check, compiler)]
    failures += [f"{fault[0]}: not noticed: '{fault[3]}' in {fault[1]}" for fault in FAULTS if passes(fault[0], compiler, fault)]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
