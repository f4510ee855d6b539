"""`iobind tile` beside the same computed at once: tile.py TOOL, with the fetched Python (numpy, onnx, Pillow).

Where a model looks no farther than a quarter of the overlap, tiles give what the whole picture gives. Ends with 77 (skipped) where a
package is not there."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    import PIL.Image
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}; scripts/get-python fetches it", file=sys.stderr)
    sys.exit(1 if "cpu" in os.environ.get("IOBIND_REQUIRE", "").split(",") else 77)

TOOL = os.path.abspath(sys.argv.pop(1))
FAILED, MISUSED = 1, 2
noise = np.random.default_rng(6)


def model(nodes, given, taken, weights=(), dtype=TensorProto.FLOAT, out=TensorProto.FLOAT, opset=21):
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", dtype, given)],
                              [helper.make_tensor_value_info(f"y{i or ''}", out, dims) for i, dims in enumerate(taken)],
                              [numpy_helper.from_array(value, name) for name, value in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def blur(radius, channels=3):
    """Each place is the mean of those around; beyond the edges there are zeros, which tiles must not let in."""
    side = 2 * radius + 1
    weight = np.full((channels, 1, side, side), 1 / side ** 2, np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[radius] * 4, group=channels)
    dims = ["n", channels, "h", "w"]
    return model([node], dims, [dims], [("w", weight)])


def blurred(picture, radius):
    side = 2 * radius + 1
    padded = np.pad(picture.astype(np.float64), [(0, 0), (0, 0), (radius, radius), (radius, radius)])
    return np.lib.stride_tricks.sliding_window_view(padded, (side, side), (2, 3)).mean((4, 5))


class Tile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, name, value):
        path = self.path(name)
        if isinstance(value, onnx.ModelProto):
            onnx.save(value, path)
        elif isinstance(value, bytes):
            with open(path, "wb") as file:
                file.write(value)
        elif name.endswith(".png"):
            PIL.Image.fromarray(value).save(path)
        else:
            np.save(path, value)
        return path

    def call(self, network, picture, *words, output="out.npy", kind="in.npy", **more):
        command = [TOOL, "tile", self.save("model.onnx", network), "--input", self.save(kind, picture), "--output",
                   self.path(output), *words]
        return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, ORT_DISABLE_TELEMETRY="1", **more))

    def tile(self, network, picture, *words, output="out.npy", kind="in.npy", **more):
        """What was written, and the report."""
        ran = self.call(network, picture, "--json", *words, output=output, kind=kind, **more)
        self.assertEqual((0, ""), (ran.returncode, ran.stderr))
        path = self.path(output)
        return np.asarray(PIL.Image.open(path)) if output.endswith(".png") else np.load(path), json.loads(ran.stdout)

    def refuse(self, code, part, network, picture, *words, **how):
        ran = self.call(network, picture, *words, **how)
        self.assertEqual((code, ""), (ran.returncode, ran.stdout), ran.stderr)
        self.assertEqual(1, len(ran.stderr.splitlines()), ran.stderr)
        self.assertIn(part, ran.stderr)
        self.assertFalse(os.path.exists(self.path(how.get("output", "out.npy"))))

    # ---- as the whole -------------------------------------------------------------------------------------------------

    def test_as_one_run_where_the_model_looks_that_far(self):
        picture = noise.random((1, 3, 71, 90), np.float32)
        for device in ("cpu", "vdev"):
            for words in (["--tile", "32x40"], ["--tile", "32x40", "--batch", "3"], ["--tile", "71x33", "--slots", "1"]):
                with self.subTest(device=device, words=words):
                    got, _ = self.tile(blur(2), picture, "--overlap", "8", "--device", device, *words)
                    np.testing.assert_allclose(got, blurred(picture, 2), atol=1e-6)
        picture = noise.random((1, 3, 56, 72), np.float32)  # no more is shared than was asked for
        got, _ = self.tile(blur(2), picture, "--overlap", "8", "--tile", "32x40")
        np.testing.assert_allclose(got, blurred(picture, 2), atol=1e-6)
        seen, _ = self.tile(blur(3), picture, "--overlap", "8", "--tile", "32x40")
        self.assertGreater(abs(seen - blurred(picture, 3)).max(), 1e-3, "what looks farther is seen at the seams")

    def test_one_tile_is_the_whole(self):
        picture = noise.random((1, 3, 20, 30), np.float32)
        got, report = self.tile(blur(4), picture, "--tile", "20x30")
        np.testing.assert_allclose(got, blurred(picture, 4), atol=1e-6)
        self.assertEqual(1, report["tile_count"])

    def test_a_picture_smaller_than_a_tile_is_filled_up_with_its_edge(self):
        picture = noise.random((1, 3, 10, 40), np.float32)
        got, _ = self.tile(blur(1), picture, "--tile", "16x16", "--overlap", "4")
        filled = np.pad(picture, [(0, 0), (0, 0), (0, 6), (0, 0)], mode="edge")
        np.testing.assert_allclose(got, blurred(filled, 1)[:, :, :10], atol=1e-6)

    def test_several_pictures(self):
        pictures = noise.random((3, 3, 50, 20), np.float32)
        got, report = self.tile(blur(1), pictures, "--tile", "20x20", "--overlap", "4", "--batch", "4")
        np.testing.assert_allclose(got, blurred(pictures, 1), atol=1e-6)
        self.assertEqual((9, 3), (report["tile_count"], report["item_count"]))

    # ---- sizes and layouts ---------------------------------------------------------------------------------------------

    def test_larger_and_smaller_outputs(self):
        picture = noise.random((1, 2, 30, 45), np.float32)
        dims = ["n", 2, "h", "w"]
        larger = model([helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest", nearest_mode="floor",
                                         coordinate_transformation_mode="asymmetric")],
                       dims, [["n", 2, "a", "b"]], [("s", np.float32([1, 1, 3, 3]))])
        got, report = self.tile(larger, picture, "--tile", "16x20", "--overlap", "6")
        np.testing.assert_allclose(got, picture.repeat(3, 2).repeat(3, 3), rtol=1e-6)
        self.assertEqual([1, 2, 90, 135], report["output_dims"])
        smaller = model([helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[4, 4], strides=[4, 4])],
                        dims, [["n", 2, "a", "b"]])
        got, _ = self.tile(smaller, picture, "--tile", "16x20", "--overlap", "6")
        filled = np.pad(picture, [(0, 0), (0, 0), (0, 2), (0, 3)], mode="edge")  # whole places of 4 x 4 pixels
        np.testing.assert_allclose(got, filled.reshape(1, 2, 8, 4, 12, 4).mean((3, 5)), rtol=1e-5)

    def test_channels_last_and_outputs_without_channels(self):
        picture = noise.random((2, 30, 40, 3), np.float32)
        last = model([helper.make_node("Add", ["x", "x"], ["y"])], ["n", 16, 16, 3], [["n", 16, 16, 3]])
        np.testing.assert_allclose(self.tile(last, picture)[0], 2 * picture, rtol=1e-6)  # the tile is the model's own
        flat = model([helper.make_node("ReduceMax", ["x", "a"], ["y"], keepdims=0)], ["n", "h", "w", 3], [["n", "h", "w"]],
                     [("a", np.int64([3]))])
        np.testing.assert_allclose(self.tile(flat, picture, "--tile", "8x16", "--overlap", "4")[0], picture.max(3), rtol=1e-6)
        plane = model([helper.make_node("Add", ["x", "x"], ["y"])], ["h", "w"], [["h", "w"]])
        got, _ = self.tile(plane, picture[0, :, :, 0], "--tile", "8x16", "--layout", "HW")
        np.testing.assert_allclose(got, 2 * picture[0, :, :, 0], rtol=1e-6)

    def test_the_first_output_that_fits(self):
        dims = ["n", 3, "h", "w"]
        both = model([helper.make_node("GlobalAveragePool", ["x"], ["y"]), helper.make_node("Add", ["x", "x"], ["y1"])], dims,
                     [["n", 3, 1, "one"], dims])
        picture = noise.random((1, 3, 20, 20), np.float32)
        ran = self.call(both, picture, "--tile", "8x7")
        self.assertEqual(0, ran.returncode, ran.stderr)
        self.assertIn("of 2 outputs 'y1' is used", ran.stderr)
        np.testing.assert_allclose(np.load(self.path("out.npy")), 2 * picture, rtol=1e-6)

    # ---- pixels --------------------------------------------------------------------------------------------------------

    def test_pixels(self):
        pixels = noise.integers(0, 256, (40, 50, 3), np.uint8)
        dims = ["n", 3, "h", "w"]
        same = model([helper.make_node("Identity", ["x"], ["y"])], dims, [dims])
        planes = pixels.transpose(2, 0, 1)[None].astype(np.float32)
        words = ["--tile", "16x16", "--overlap", "4"]
        np.testing.assert_allclose(self.tile(same, pixels, *words, kind="in.png")[0], planes / 255, rtol=1e-6)
        np.testing.assert_array_equal(self.tile(same, pixels, *words, kind="in.png", output="out.png")[0], pixels)
        np.testing.assert_array_equal(self.tile(same, pixels, *words, "--bgr", kind="in.png", output="out.png")[0], pixels)
        mean, deviation = np.float32([10, 20, 30]).reshape(1, 3, 1, 1), np.float32([2, 4, 8]).reshape(1, 3, 1, 1)
        got, _ = self.tile(same, pixels, *words, "--mean", "10,20,30", "--std", "2,4,8", "--bgr", kind="in.png")
        np.testing.assert_allclose(got, (planes[:, ::-1] - mean) / deviation, rtol=1e-5, atol=1e-5)
        got, _ = self.tile(same, planes.astype(np.uint8), *words, "--mean", "127.5", "--std", "127.5")
        np.testing.assert_allclose(got, planes / 127.5 - 1, rtol=1e-5, atol=1e-6)

    def test_bytes(self):
        pixels = noise.integers(0, 256, (40, 50), np.uint8)
        dims = ["n", 1, "h", "w"]
        same = model([helper.make_node("Identity", ["x"], ["y"])], dims, [dims], dtype=TensorProto.UINT8, out=TensorProto.UINT8)
        words = ["--tile", "16x16", "--overlap", "4"]
        np.testing.assert_array_equal(self.tile(same, pixels, *words, kind="in.png", output="out.png")[0], pixels)
        got, _ = self.tile(same, pixels[None, None], *words)
        self.assertEqual(np.uint8, got.dtype)
        np.testing.assert_array_equal(got[0, 0], pixels)

    def test_halves(self):
        dims = ["n", 3, "h", "w"]
        picture = noise.random((1, 3, 40, 50), np.float32)
        halved = model([helper.make_node("Add", ["x", "x"], ["y"])], dims, [dims], dtype=TensorProto.FLOAT16,
                       out=TensorProto.FLOAT16)
        for device in ("cpu", "vdev"):
            got, _ = self.tile(halved, picture, "--tile", "16x16", "--device", device)
            self.assertEqual(np.float32, got.dtype)
            np.testing.assert_array_equal(got, (2 * picture.astype(np.float16)).astype(np.float32))
        got, _ = self.tile(halved, picture.astype(np.float16), "--tile", "16x16")
        np.testing.assert_array_equal(got, (2 * picture.astype(np.float16)).astype(np.float32))
        same = model([helper.make_node("Identity", ["x"], ["y"])], dims, [dims], dtype=TensorProto.FLOAT16,
                     out=TensorProto.FLOAT16)
        extremes = np.float32([0, 1e-8, 2.98e-8, 3e-8, 6e-8, 6.1e-5, 1, 1.00048828125, 1.0009765625, 1.00146484375, 2049, 2051,
                               65504, 65519, 65520, 1e30])
        extremes = np.concatenate([extremes, -extremes]).reshape(1, 1, 4, 8).repeat(3, 1)
        with np.errstate(over="ignore"):
            expected = extremes.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(self.tile(same, extremes, "--tile", "4x8")[0], expected)
        pixels = noise.integers(0, 256, (40, 50, 3), np.uint8)
        np.testing.assert_array_equal(self.tile(same, pixels, "--tile", "16x16", kind="in.png", output="out.png")[0], pixels)

    # ---- what the stages did -------------------------------------------------------------------------------------------

    def test_trace_and_figures(self):
        picture = noise.random((1, 3, 64, 64), np.float32)
        words = ["--tile", "16x16", "--trace", self.path("trace.json"), "--device"]
        _, report = self.tile(blur(1), picture, *words, "vdev")
        with open(self.path("trace.json")) as file:
            events = json.load(file)["traceEvents"]
        rows = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual({1: "upload", 2: "compute", 3: "download"}, rows)
        for row, name in rows.items():
            bars = [event for event in events if event["ph"] == "X" and event["tid"] == row]
            self.assertEqual([f"item {i}" for i in range(16)], [bar["name"] for bar in bars])
            busy = sum(bar["dur"] for bar in bars) * 1000
            self.assertAlmostEqual(busy, next(stage["busy_ns"] for stage in report["stages"] if stage["stage"] == name), delta=1)
            for bar, after in zip(bars, bars[1:]):  # one after the other in each row
                self.assertLessEqual(bar["ts"] + bar["dur"], after["ts"] + 0.001)
        self.assertEqual(report["sequential_ns"], sum(stage["busy_ns"] for stage in report["stages"]))
        self.assertIsInstance(report["overlap"], float)
        _, report = self.tile(blur(1), picture, *words, "cpu")
        self.assertEqual((["compute"], None), ([stage["stage"] for stage in report["stages"]], report["overlap"]))

    def test_a_virtual_clock(self):
        """4 ms for an upload, 24 for a run, 4 for a download; what takes no modelled time takes none."""
        picture = noise.random((1, 3, 64, 64), np.float32)
        rate = str(16 * 16 * 3 * 4 / 4e-3 / 1e9)
        modelled = {"VDEV_CLOCK": "virtual", "VDEV_H2D_GBPS": rate, "VDEV_D2H_GBPS": rate, "VDEV_COMPUTE_US": "24000"}
        words = ["--tile", "16x16", "--device", "vdev"]
        _, report = self.tile(blur(1), picture, *words, **modelled)
        busy = {stage["stage"]: round(stage["busy_ns"] / 1e6, 2) for stage in report["stages"]}
        self.assertEqual(({"upload": 64, "compute": 384, "download": 64}, "virtual"), (busy, report["clock"]))
        self.assertAlmostEqual(4 + 16 * 24 + 4, report["pipeline_ns"] / 1e6, 2)
        self.assertAlmostEqual((64 + 384 + 64 - 392) / 128, report["overlap"], 6)
        _, alone = self.tile(blur(1), picture, *words, "--slots", "1", **modelled)
        self.assertEqual((512, 0), (round(alone["pipeline_ns"] / 1e6, 2), alone["overlap"]))
        self.refuse(MISUSED, "VDEV_TRACE_FILE", blur(1), picture, *words, "--trace", self.path("trace.json"), output="no.npy", **modelled)

    def test_open_dims_of_outputs_that_the_inputs_fix(self):
        """Left open they would be waited for in each run, and nothing would overlap."""
        picture = noise.random((1, 3, 64, 64), np.float32)
        modelled = {"VDEV_CLOCK": "virtual", "VDEV_H2D_GBPS": "0.001", "VDEV_COMPUTE_US": "3000"}
        network = model([helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[1, 1])], ["n", 3, "h", "w"],
                        [["other", 3, "more", "last"]])
        for words in ([], ["--dim", "h=16"], ["--dim", "x[2]=16"], ["--dim", "x[0]=1", "--dim", "w=16"]):
            got, report = self.tile(network, picture, "--tile", "16x16", "--device", "vdev", *words, **modelled)
            np.testing.assert_array_equal(got, picture)
            self.assertGreater(report["overlap"], 0.9)
        self.refuse(FAILED, "expected a tile's height of 8, got 16", network, picture, "--tile", "16x16", "--dim", "x[2]=8",
                    output="no.npy")
        self.refuse(FAILED, "expected a tile's height of 8, got 16", network, picture, "--tile", "16x16", "--dim", "h=8",
                    output="no.npy")
        self.refuse(FAILED, "'z'", network, picture, "--tile", "16x16", "--dim", "z=8", output="no.npy")
        self.refuse(FAILED, "'z'", network, picture, "--tile", "16x16", "--dim", "z[1]=8", output="no.npy")
        square = model([helper.make_node("Relu", ["x"], ["y"])], ["n", 3, "s", "s"], [["n", 3, "s", "s"]])
        self.refuse(FAILED, "got float32[1,3,16,32]", square, picture, "--tile", "16x32", output="no.npy")

    # ---- refused -------------------------------------------------------------------------------------------------------

    def test_models_that_cannot_be_tiled(self):
        picture = noise.random((1, 3, 20, 20), np.float32)
        dims = ["n", 3, "h", "w"]
        classes = model([helper.make_node("GlobalAveragePool", ["x"], ["y"])], dims, [["n", 3, "a", "b"]])
        self.refuse(FAILED, "output 'y' of a tile of 8 x 7 is float32[1,3,1,1]", classes, picture, "--tile", "8x7")
        cut = model([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], dims, [["n", 3, "a", "b"]])
        self.refuse(FAILED, "float32[1,3,7,7]", cut, picture, "--tile", "8x8")
        whole = model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64)], dims, [dims], out=TensorProto.INT64)
        self.refuse(FAILED, "int64[1,3,8,8]: expected float32, float16 or uint8", whole, picture, "--tile", "8x8")
        self.refuse(FAILED, "expected float32, float16 or uint8", model([helper.make_node("Identity", ["x"], ["y"])], dims, [dims],
                    dtype=TensorProto.DOUBLE, out=TensorProto.DOUBLE), picture, "--tile", "8x8")
        two = blur(1)
        two.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]))
        self.refuse(FAILED, "has 2 inputs: expected one", two, picture, "--tile", "8x8")

    def test_an_item_that_fails_says_why(self):
        picture = noise.random((1, 3, 64, 64), np.float32)
        for fault, part in (("VDEV_FAIL_COMPUTE", "fail_compute"), ("VDEV_FAIL_COPY", "fail_copy")):
            for number in range(3, 9):
                with self.subTest(fault=fault, number=number):
                    ran = self.call(blur(1), picture, "--tile", "16x16", "--device", "vdev", **{fault: str(number)})
                    self.assertEqual((FAILED, ""), (ran.returncode, ran.stdout))
                    self.assertIn(part, ran.stderr)

    def test_what_does_not_fit(self):
        picture = noise.random((1, 3, 20, 20), np.float32)
        self.refuse(FAILED, "it leaves the tile's size open; give --tile", blur(1), picture)
        self.refuse(MISUSED, "--overlap: expected at most half of a tile of 8 x 8, got 5", blur(1), picture, "--tile", "8x8",
                    "--overlap", "5")
        fixed = model([helper.make_node("Identity", ["x"], ["y"])], [2, 3, 8, 8], [[2, 3, 8, 8]])
        self.refuse(FAILED, "expected a tile's height of 8, got 9", fixed, picture, "--tile", "9x8")
        self.refuse(FAILED, "expected --batch 2, got 1", fixed, picture, "--batch", "1")
        self.refuse(FAILED, "with C = 3, got dims [1,2,20,20]", blur(1), picture[:, :2], "--tile", "8x8")
        self.refuse(FAILED, "got dims [3,20,20]", blur(1), picture[0], "--tile", "8x8")
        self.refuse(FAILED, "expected float32, float16 or uint8, got an array of type <f8", blur(1), picture.astype(float), "--tile", "8x8")
        self.refuse(FAILED, "the picture is empty", blur(1), picture[:, :, :0], "--tile", "8x8")
        self.refuse(FAILED, "is not a PNG", blur(1), b"\x89PNG\r\n\x1a\n", "--tile", "8x8", kind="in.png")
        open_dims = model([helper.make_node("Identity", ["x"], ["y"])], list("abcd"), [list("abcd")])
        self.refuse(FAILED, "cannot be inferred; give --layout", open_dims, picture, "--tile", "8x8")
        self.refuse(FAILED, "another number of dims", open_dims, picture, "--tile", "8x8", "--layout", "HW")
        many = model([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], ["n", 3, "h", "w"], [["n", 6, "h", "w"]])
        self.refuse(FAILED, "has 6 channels, a PNG 1, 3 or 4", many, picture, "--tile", "8x8", output="out.png")

    def test_wrong_usage(self):
        picture = noise.random((1, 3, 20, 20), np.float32)
        for words, part in ((["--tile", "8"], "expected HEIGHTxWIDTH"), (["--tile", "0x8"], "expected HEIGHTxWIDTH"),
                            (["--tile", "8x8", "--mean", "1,2"], "one number or 3"), (["--tile", "8x8", "--std", "0"], "above 0"),
                            (["--tile", "8x8", "--mean", "a"], "numbers with commas"), (["--slots", "0"], "--slots"),
                            (["--tile", "8x8", "--layout", "NCHH"], "expected letters"), (["--batch", "0"], "--batch")):
            with self.subTest(words=words):
                self.refuse(MISUSED, part, blur(1), picture, *words)
        self.refuse(MISUSED, "ends in .png or .npy", blur(1), picture, output="out.jpg")
        self.refuse(MISUSED, "is also the file of --output", blur(1), picture, "--trace", self.path("out.npy"))
        ran = subprocess.run([TOOL, "tile", "m.onnx", "--input", "x.png"], capture_output=True, text=True)
        self.assertEqual((MISUSED, True), (ran.returncode, "--output FILE is missing" in ran.stderr))


if __name__ == "__main__":
    unittest.main()
