"""Runs `iobind bench` on the look-up model: what it says of bytes, runs and figures, what it draws, and what it refuses.

usage: bench_cli.py IOBIND MAKE_LOOKUP
No time is looked at. A device that is not there is skipped, unless IOBIND_REQUIRE names it."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

IOBIND, MAKE_LOOKUP = sys.argv[1:3]
TABLE, INDEX, FOUND = 4096 * 1024 * 4, 4, 1024 * 4
WAYS = ["unbound", "read", "written", "resident"]


def bench(*arguments):
    return subprocess.run([IOBIND, "bench", *map(str, arguments)], capture_output=True, text=True, timeout=300)


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        subprocess.run([MAKE_LOOKUP, cls.path], check=True)
        cls.model = cls.path / "lookup.onnx"
        cls.fed = ["--input", f"index={cls.path / 'index.npy'}"]

    def measure(self, *arguments):
        result = bench(self.model, *self.fed, "--iterations", 4, "--json", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stderr)
        return json.loads(result.stdout)

    def refuse(self, code, words, *arguments):
        result = bench(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(words, result.stderr)

    def moved(self, result):
        return {way["way"]: (way["upload_bytes"], way["download_bytes"]) for way in result["ways"]}

    def test_cpu_moves_nothing(self):
        result = self.measure("--device", "cpu")
        self.assertEqual([way["way"] for way in result["ways"]], WAYS)
        self.assertEqual(self.moved(result), dict.fromkeys(WAYS, (0, 0)))
        self.assertTrue(all(way["host_memory"] for way in result["ways"]))

    def test_webgpu_moves_what_is_not_kept(self):
        if not self.has("webgpu"):
            self.skipTest("no WebGPU device")
        everything = self.measure("--device", "webgpu")
        kept = self.measure("--device", "webgpu", "--keep", "table")
        self.assertEqual(self.moved(everything), {"unbound": (TABLE + INDEX, FOUND), "read": (TABLE + INDEX, FOUND),
                                                  "written": (TABLE + INDEX, 0), "resident": (0, 0)})
        self.assertEqual(self.moved(kept), {"unbound": (TABLE + INDEX, FOUND), "read": (INDEX, FOUND), "written": (INDEX, 0),
                                            "resident": (0, 0)})
        for way in kept["ways"][1:]:
            self.assertEqual(way["set_up_bytes"], TABLE + INDEX)

    def test_a_virtual_clock(self):
        os.environ.update(VDEV_CLOCK="virtual", VDEV_H2D_GBPS="1", VDEV_LATENCY_US="10")
        self.addCleanup(lambda: [os.environ.pop(name) for name in ("VDEV_CLOCK", "VDEV_H2D_GBPS", "VDEV_LATENCY_US")])
        ways = {way["way"]: way for way in self.measure("--device", "vdev", "--keep", "table")["ways"]}
        self.assertEqual({way["clock"] for way in ways.values()}, {"virtual"})
        # each copy takes 10 us, and an upload of so many bytes as many nanoseconds; the bound ways leave outputs there
        self.assertEqual({way: set(figures["samples_ns"]) for way, figures in ways.items()},
                         {"unbound": {TABLE + 10000 + INDEX + 10000 + 10000},
                          "read": {INDEX + 10000 + 10000}, "written": {INDEX + 10000}, "resident": {0}})
        self.assertEqual((ways["resident"]["ratio"], ways["resident"]["runs_per_second"]), (None, None))
        said = bench(self.model, *self.fed, "--iterations", 4, "--device", "vdev", "--keep", "table")
        self.assertIn("a run takes no modelled time", said.stdout)
        self.assertIn("The times on vdev:0 are those of its virtual clock", said.stdout)
        self.assertEqual({way["clock"] for way in self.measure("--device", "cpu")["ways"]}, {"real"})

    def has(self, device):
        found = json.loads(subprocess.run([IOBIND, "devices", "--json"], capture_output=True, text=True).stdout)
        specs = [one["spec"].split(":")[0] for one in found["devices"]]
        if device in os.environ.get("IOBIND_REQUIRE", "").split(","):
            self.assertIn(device, specs)
        return device in specs

    def test_figures_follow_from_the_samples(self):
        for way in self.measure("--device", "cpu")["ways"]:
            samples = way["samples_ns"]
            self.assertEqual((len(samples), way["runs"]), (4, 4))
            self.assertAlmostEqual(way["median_ns"], statistics.median(samples), delta=0.01)
            self.assertAlmostEqual(way["mean_ns"], statistics.mean(samples), delta=0.01)
            self.assertEqual(way["minimum_ns"], min(samples))
            self.assertEqual((way["median_low_ns"], way["median_high_ns"]), (min(samples), max(samples)))
            self.assertAlmostEqual(way["runs_per_second"] * way["median_ns"], 1e9, delta=1)
            self.assertGreater(way["first_ns"], 0)

    def test_ratio_is_to_unbound(self):
        ways = self.measure("--device", "cpu")["ways"]
        for way in ways:
            self.assertAlmostEqual(way["ratio"], ways[0]["median_ns"] / way["median_ns"], places=6)

    def test_inputs_are_said(self):
        table, index = self.measure("--device", "cpu", "--keep", "table")["inputs"]
        self.assertEqual((table["name"], table["random"], table["kept"], table["dims"]), ("table", True, True, [4096, 1024]))
        self.assertEqual((index["name"], index["random"], index["kept"], index["dims"]), ("index", False, False, [1]))

    def test_open_dims_become_one_and_are_said(self):
        self.fed, fed = [], self.fed
        try:
            self.assertEqual(self.measure("--device", "cpu")["inputs"][1]["axes_set_to_1"], [0])
            given = self.measure("--device", "cpu", "--dim", "n=3")["inputs"][1]
            self.assertEqual((given["dims"], given["axes_set_to_1"]), ([3], []))
        finally:
            self.fed = fed

    def test_earlier_results_stand_first_and_in_the_picture(self):
        earlier, picture = self.path / "earlier.json", self.path / "picture.svg"
        first = self.measure("--device", "cpu")
        for way in first["ways"]:
            way["model"] = "<earlier>"
        earlier.write_text(json.dumps(first))
        both = self.measure("--device", "cpu", "--with", earlier, "--plot", picture)
        self.assertEqual([way["model"] for way in both["ways"]], ["<earlier>"] * 4 + ["lookup"] * 4)
        for was, way in zip(first["ways"], both["ways"]):
            self.assertEqual({key: was[key] for key in was if key != "ratio"}, {key: way[key] for key in was if key != "ratio"})
        texts = [element.text for element in xml.etree.ElementTree.parse(picture).iter() if element.tag.endswith("}text")]
        self.assertIn("<earlier> on cpu", texts)
        self.assertIn("lookup on cpu", texts)
        self.assertEqual([texts.count(words) for words in ("unbound", "bound, results read")], [2, 2])

    def test_the_picture_says_that_a_device_is_virtual(self):
        picture = self.path / "virtual.svg"
        self.measure("--device", "vdev", "--plot", picture)
        self.assertIn("lookup on vdev:0 (virtual device)", picture.read_text())
        os.environ["VDEV_CLOCK"] = "virtual"
        self.addCleanup(os.environ.pop, "VDEV_CLOCK")
        self.measure("--device", "vdev", "--plot", picture)
        self.assertIn("lookup on vdev:0 (virtual device, modelled time)", picture.read_text())

    def test_table_for_a_person(self):
        result = bench(self.model, *self.fed, "--iterations", 2, "--device", "cpu")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for words in ("bound, all resident", "no data cross a link", "input table: float32[4096,1024], random"):
            self.assertIn(words, result.stdout)

    def test_no_result_is_refused(self):
        good = self.measure("--device", "cpu")
        way = good["ways"][0]
        broken = {
            "empty": "",
            "cut": json.dumps(good)[:-20],
            "list": "[1, 2]",
            "deep": "[" * 5000,
            "other": '{"ways": []}',
            "three ways": json.dumps({"ways": good["ways"][:3]}),
            "wrong order": json.dumps({"ways": good["ways"][::-1]}),
            "no samples": json.dumps({"ways": [{**way, "samples_ns": []}] + good["ways"][1:]}),
            "negative": json.dumps({"ways": [{**way, "samples_ns": [-1]}] + good["ways"][1:]}),
            "text for a number": json.dumps({"ways": [{**way, "first_ns": "1"}] + good["ways"][1:]}),
            "no model": json.dumps({"ways": [{**way, "model": None}] + good["ways"][1:]}),
        }
        for name, text in broken.items():
            with self.subTest(name):
                path = self.path / "broken.json"
                path.write_text(text)
                self.refuse(1, "--with", self.model, "--iterations", 1, "--device", "cpu", "--with", path)
        self.refuse(1, "--with", self.model, "--with", self.path)

    def test_wrong_words_are_refused(self):
        self.refuse(2, "MODEL")
        self.refuse(2, "--iterations", self.model, "--iterations", 0)
        self.refuse(2, "--seconds", self.model, "--seconds", "nan")
        self.refuse(2, "--warmup", self.model, "--warmup", -1)
        self.refuse(2, "--plot", self.model, "--plot", "a.svg", "--plot", "b.svg")
        self.refuse(1, "--keep", self.model, "--device", "cpu", "--keep", "nothing")
        self.refuse(1, "none.onnx", self.path / "none.onnx", "--device", "cpu")

    def test_a_picture_that_cannot_be_saved_loses_no_figures(self):
        result = bench(self.model, *self.fed, "--iterations", 1, "--device", "cpu", "--json", "--plot", self.path / "no" / "a.svg")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--plot", result.stderr)
        self.assertEqual(len(json.loads(result.stdout)["ways"]), 4)
        self.assertNotIn("plot", json.loads(result.stdout))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
