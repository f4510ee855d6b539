#!/usr/bin/env python3
"""That the checks of the documentation notice what they are there for: a small tree that is right, and each way to make it wrong.

usage: test_readme.py COMPILER LIBRARY [FLAG...]
"""
import pathlib
import subprocess
import sys
import tempfile

import console

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FENCE = "```"

TREE = {
    "Makefile": "demo: build\n\ttrue\nbuild:\n\ttrue\n",
    "CMakePresets.json": '{"configurePresets": [{"name": "dev"}, {"name": "base", "hidden": true}]}',
    "examples/quickstart.c": "/* quickstart */\nint main(void) {\n\n  return 0;\n}\n",
    "examples/cpp/loop.cpp": "// loop\nint main() {\n  return 2;\n}\n",
    "README.md": (f"# It\n\n{FENCE}c\nint one = 1;\n(void)one;\n{FENCE}\n\n{FENCE}python\nb = 1\n{FENCE}\n\n{FENCE}java\nint b;\n{FENCE}\n\n"
                  f"{FENCE}cpp\nstd::vector<float> scores(pictures.size());\n{FENCE}\n\n"
                  "Run `make demo`, or see [the tool](docs/tool.md#run).\n\n"
                  f"{FENCE}console\n$ iobind run MODEL --json\noutput --nonsense\n{FENCE}\n\n{FENCE}sh\ncmake --preset dev\nscripts/get --dir x\n{FENCE}\n"),
    "docs/quickstart.md": f"{FENCE}c\n/* quickstart */\nint main(void) {{\n{FENCE}\n\nand\n\n{FENCE}c\n  return 0;\n}}\n{FENCE}\n",
    "docs/README.md": ("## Start\n\n[1](quickstart.md) [2](concepts.md)\n\n## Guides\n\n[3](cpp.md)\n\n## Devices\n\n## Reference\n\n"
                       "[4](tool.md)\n\n## Internals\n\n[5](design.md)\n"),
    "CONTRIBUTING.md": "Nothing.\n",
    "docs/tool.md": "# The tool\n\n## Options of every command\n\n`--help`\n\n## run\n\n`--json`\n",
    "docs/cpp.md": f"{FENCE}cpp\n// loop\nint main() {{\n  return 2;\n}}\n{FENCE}\n",
    "docs/design.md": "Nothing.\n",
    "docs/concepts.md": (f"## One\n\n{FENCE}c\nstatic int two(void) {{ return 2; }}\n{FENCE}\n\n{FENCE}c\nint one = 1;\nTRY(IOBIND_OK);\n{FENCE}\n\n"
                         f'{FENCE}c\nprintf("%d\\n", one + two());\n{FENCE}\n\n{FENCE}text\n3\n{FENCE}\n\n## Two\n\n{FENCE}c\nint one;\n(void)one;\n{FENCE}\n'),
    "scripts/get": "#!/bin/sh\n# --dir DIR\n",
    "tool": '#!/bin/sh\ncase $1 in\n  run) echo "  --json  --help" ;;\n  *) printf "Commands:\\n  run   Run\\n\\nmore\\n" ;;\nesac\n',
}

# (check, file, what stands there, what stands there instead)
FAULTS = [
    ("example", "examples/quickstart.c", "return 0", "return 1"),
    ("example", "docs/quickstart.md", "  return 0", "  return 1"),
    ("example", "docs/quickstart.md", "/* quickstart", "/* slowstart"),
    ("example", "docs/quickstart.md", f"{FENCE}c\n/*", f"{FENCE}text\n/*"),
    ("example", "examples/cpp/loop.cpp", "return 2", "return 3"),
    ("example", "docs/cpp.md", "  return 2", "  return 3"),
    ("example", "docs/cpp.md", "// loop", "// lope"),
    ("example", "docs/cpp.md", f"{FENCE}cpp", f"{FENCE}text"),
    ("front", "README.md", "# It", "# It" + "\n" * 90),
    ("front", "README.md", "b = 1", "b = 1" + "\n" * 8),
    ("front", "README.md", f"{FENCE}java", f"{FENCE}text"),
    ("front", "docs/README.md", "[5](design.md)", ""),
    ("front", "docs/README.md", "(design.md)", "(design.md) [6](concepts.md)"),
    ("front", "docs/README.md", "## Devices", "## Hardware"),
    ("links", "README.md", "docs/tool.md#run", "docs/tools.md"),
    ("links", "README.md", "docs/tool.md#run", "docs/tool.md#walk"),
    ("links", "docs/design.md", "Nothing.", "![picture](nowhere.svg)"),
    ("commands", "README.md", "`make demo`", "`make dmo`"),
    ("commands", "README.md", "`make demo`", "`make -C .. dmo`"),
    ("commands", "README.md", "iobind run MODEL", "iobind walk MODEL"),
    ("commands", "README.md", "MODEL --json", "MODEL --jsn"),
    ("commands", "README.md", "--preset dev", "--preset base"),
    ("commands", "README.md", "scripts/get --dir", "scripts/got --dir"),
    ("commands", "README.md", "scripts/get --dir", "scripts/get --folder"),
    ("commands", "README.md", "cmake --preset dev", "cmaek --preset dev"),
    ("commands", "docs/tool.md", "## run", "## walk"),
    ("commands", "docs/tool.md", "`--json`", "nothing"),
    ("pieces", "README.md", "scores(pictures.size())", "scores(pictures.size()) +"),
    ("pieces", "README.md", "scores(pictures.size())", "scores(3)"),
    ("pieces", "docs/concepts.md", "TRY(IOBIND_OK);", "TRY(IOBIND_K);"),
    ("pieces", "docs/concepts.md", "TRY(IOBIND_OK);", "TRY(IOBIND_ERROR_INTERNAL);"),
    ("pieces", "docs/concepts.md", "one + two()", "one - two()"),
    ("pieces", "docs/concepts.md", "(void)one;", "if (malloc(8) == NULL) return 1;"),
]

# (command, what the document shows, what comes, whether that is the same)
SHOWN = [
    ("iobind run", "loaded in: 651 ms\nuploaded: 8 B\n", "loaded in:   1.2 s\nuploaded: 8 B\n", True),
    ("iobind run", "uploaded: 8 B\n", "uploaded: 9 B\n", False),
    ("iobind run", "DEVICE  WORKS\ncpu     yes\n", "DEVICE    WORKS\ncpu       yes\n", True),
    ("iobind run", "cpu  EP  CPU  Intel  0x8086:0x0000  host\n", "cpu  EP  GPU  A Co.  0x10de:0x0001  host\n", True),
    ("iobind run", "cpu  EP  CPU  Intel  0x8086:0x0000  host\n", "cpu  EP  CPU  Intel  0x8086:0x0000  GPU\n", False),
    ("iobind run", "first\n...\nlast\n", "first\nand\nmore\nlast\n", True),
    ("iobind run", "first\nlast\n", "first\nand\nlast\n", False),
    ("iobind bench", "a  8 B  1.2 ms  208  x46  8.42 ms  2 runs\n", "a  8 B  17 us  12345  x1.00  1 us  never\n", True),
    ("iobind bench", "a  8 B  1.2 ms  208  x46  8.42 ms  2 runs\n", "a  9 B  1.2 ms  208  x46  8.42 ms  2 runs\n", False),
    ("./example", "1.25 s\n", "1.26 s\n", False),
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
    (root / "include").symlink_to(ROOT / "include")
    (root / ".runtime").symlink_to(ROOT / ".runtime")


def passes(check, arguments, fault=None):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write(root, fault)
        if check == "pieces":
            command = ["pieces.py", "--root", folder, "cpu", arguments[1], arguments[0], *arguments[2:]]
        else:
            command = ["readme.py", "--root", folder, check] + ([str(root / "tool")] if check == "commands" else [])
        result = subprocess.run([sys.executable, str(HERE / command[0]), *command[1:]], capture_output=True, text=True)
        if result.returncode not in (0, 1) or "Traceback" in result.stderr:
            sys.exit(f"test_readme: {check} broke: {result.stderr}")
        return result.returncode == 0


def main(arguments):
    checks = ["example", "front", "links", "commands"]
    if (ROOT / ".runtime/models/pp-ocr-cls.onnx").exists():
        checks.append("pieces")
    else:
        print("the pieces of C are left out: no models; scripts/get-models fetches them", file=sys.stderr)
    failures = [f"{check}: a tree that is right does not pass" for check in checks if not passes(check, arguments)]
    failures += [f"{fault[0]}: not noticed: '{fault[3]}' in {fault[1]}" for fault in FAULTS
                 if fault[0] in checks and passes(fault[0], arguments, fault)]
    failures += [f"console: '{came}' for '{printed}'" for command, printed, came, equal in SHOWN
                 if console.shown(command, printed, came) != equal]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
