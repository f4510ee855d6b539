"""ONNX's node cases on vdev, through Python's ONNX Runtime: the outputs must be the CPU EP's.

usage: run_nodes.py LIBRARY [--sample] [--compute-us N] [--verbose] [CASE...]

Each case that the CPU EP runs is run on vdev unbound and, where all its values are tensors of the device, once more with
everything bound there and a run that does not wait. Kernels run at once, or with --compute-us on the workers of their streams.
Wrong is another output, a byte that stays in use, an error counted or a race. The runs are in processes of their own: one that
dies or hangs fails its case, and the rest goes on."""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading

import vdev  # noqa: F401  (it says what is missing)

SHARES = 2
SECONDS = 600  # without output: it hangs; on a machine with much else to do, to collect the cases alone takes minutes
WORDS = {
    "claimed": "run on vdev, and are the CPU EP's",
    "left": "left to the CPU EP, and the same",
    "cannot": "not run by the CPU EP itself",
    "wrong": "wrong",
    "failed": "failed on vdev",
    "crashed": "crashed on vdev",
}
BAD = ("wrong", "failed", "crashed")
LEAST_CLAIMED = 0.95  # of those that run at all and whose values are tensors of the device; with fewer, too little is shown


class Share:
    def __init__(self, chosen, number):
        self.chosen, self.number = chosen, number
        self.rows = []

    def run_from(self, start):
        """Run until the end, or until the process dies; true at the end."""
        chosen = self.chosen
        environment = dict(os.environ, VDEV_RACE="count", ALLOW_RELEASED_ONNX_OPSET_ONLY="0",
                           VDEV_COMPUTE_US=str(chosen.compute_us))
        program = [sys.executable, pathlib.Path(__file__).with_name("one_node.py"), chosen.library, str(int(chosen.sample)),
                   str(self.number), str(SHARES), str(start), *chosen.cases]
        step, done = "", False
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment) as process:
            timer = threading.Timer(SECONDS, process.kill)
            timer.start()
            for text in process.stdout:
                timer.cancel()
                timer = threading.Timer(SECONDS, process.kill)
                timer.start()
                line = json.loads(text)
                if "begin" in line:
                    self.rows.append({"index": line["begin"], **line})
                elif "verdict" in line:
                    self.rows[-1].update(line)
                else:
                    step, done = line.get("step", step), line.get("done", False)
            timer.cancel()
        if done and process.returncode == 0:
            return True
        if not self.rows or "verdict" in self.rows[-1]:
            raise RuntimeError(f"one_node.py ended with {process.returncode} outside of a case")
        verdict = "cannot" if step == "cpu" else "crashed"
        self.rows[-1].update(verdict=verdict, words=f"in the step '{step}', exit code {process.returncode}")
        return False

    def run(self):
        start = 0
        while not self.run_from(start):
            start = self.rows[-1]["index"] + 1
        return self.rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBRARY")
    parser.add_argument("--sample", action="store_true", help="some 250 cases with every element type and all control flow")
    parser.add_argument("--compute-us", type=int, default=0, metavar="N", help="what each kernel takes on the real clock")
    parser.add_argument("--verbose", action="store_true", help="also say which cases are left, and which the CPU EP cannot run")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these")
    chosen = parser.parse_intermixed_args()
    with concurrent.futures.ThreadPoolExecutor(SHARES) as pool:
        rows = [row for share in pool.map(Share.run, [Share(chosen, n) for n in range(SHARES)]) for row in share]
    for row in sorted(rows, key=lambda row: row["name"]):
        if row["verdict"] in BAD or (chosen.verbose and row["verdict"] != "claimed"):
            print(f"{row['name']}: {WORDS[row['verdict']]}: {row['words']}")
    count = collections.Counter(row["verdict"] for row in rows)
    inside = collections.Counter(row["verdict"] for row in rows if row["graphs"])
    for verdict, words in WORDS.items():
        print(f"{count[verdict]:5} {words} ({inside[verdict]} with graphs inside)")
    print(f"{len(rows):5} cases")
    missing = set(chosen.cases) - {row["name"] for row in rows}
    if missing:
        print(f"no such case: {' '.join(sorted(missing))}")
    plain = collections.Counter(row["verdict"] for row in rows if row.get("plain") and row["verdict"] != "cannot")
    few = not chosen.cases and (plain["claimed"] < LEAST_CLAIMED * plain.total() or not inside["claimed"])
    if few:
        print("too few ran on vdev to show anything")
    return 1 if few or missing or not rows or any(count[verdict] for verdict in BAD) else 0


sys.exit(main())
