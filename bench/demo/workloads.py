#!/usr/bin/env python3
"""The demo's four workloads: their virtual times are exact, and docs/demo.svg shows them as they are drawn now.

usage: workloads.py WORKLOADS ROOT"""
import pathlib
import subprocess
import sys
import tempfile

# workload, way, milliseconds, copies, megabytes
EXPECTED = """\
iterate direct 420.0 200 5016.0
iterate bound 4.2 2 50.2
decode direct 159.6 600 1843.2
decode bound 2.9 202 10.0
tiles direct 115.0 64 895.8
tiles bound 42.0 64 895.8
sequence direct 106.2 120 1259.7
sequence bound 35.6 60 419.9
"""
BELOW = '<svg width="1200" height="50">\n<text>measured</text></svg>\n'


def main(program, root):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        below, stacked = folder / "below.svg", folder / "stacked.svg"
        if subprocess.run([program, "--plot", stacked, "--below", below], capture_output=True).returncode != 1:
            return "a picture that does not exist is not reported"
        below.write_text(BELOW)
        ran = subprocess.run([program, "--plot", stacked, "--below", below], capture_output=True, text=True, check=True)
        rows = [line.split() for line in ran.stdout.splitlines()[1:]]
        printed = "".join(f"{row[0]} {row[1]} {row[2]} {row[4]} {row[5]}\n" for row in rows)
        if printed != EXPECTED:
            return f"expected\n{EXPECTED}got\n{printed}"
        upper, _, lower = stacked.read_text().split("\n", 1)[1].partition('<svg y="')
        if "<text>measured</text>" not in lower or not upper.startswith("<svg ") or not upper.endswith("</svg>\n"):
            return "--below does not put the other picture below"
        if upper not in (pathlib.Path(root) / "docs/demo.svg").read_text():
            return "docs/demo.svg shows something else: run 'make demo' and copy build/demo/demo.svg"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
