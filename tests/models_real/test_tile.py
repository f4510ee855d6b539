"""`iobind tile` finds text on pages that are several times larger than its tile; beside it one run over the whole page.

Two things keep PP-OCR's detector from giving the same map. Ten GlobalAveragePool nodes weigh its channels by means over all that is
seen, which are a tile's here and the page's there. And what a place becomes depends on up to 450 pixels around it. Where neither
is in the way, the maps are the same."""

import os
import unittest

import driver
import numpy as np
import page
from PIL import Image, ImageDraw, ImageFont

try:
    import onnx
except ImportError as missing:
    driver.leave(f"{missing}; scripts/get-python fetches it")

TEXT = 0.3  # above it a place is text


def strip(width, height):
    """One long line."""
    picture = Image.new("RGB", (width, height), "white")
    words = " ".join(page.LINES * 6)
    ImageDraw.Draw(picture).text((40, 6), words, fill=(20, 20, 60), font=ImageFont.load_default(40))
    return picture


class Tiles(driver.Case):
    model = "pp-ocr-det"

    def tile(self, model, picture, *words):
        """From the picture itself; the model's numbers come from the tool's own options."""
        given, made = os.path.join(self.folder, "page.png"), os.path.join(self.folder, "map.npy")
        picture.save(given)
        self.tool.call("tile", model, "--input", given, "--output", made, "--bgr", "--mean", "127.5", "--std", "127.5", *words)
        return np.load(made)

    def whole(self, picture):
        (found,) = self.reference({"x": page.planes(picture)[None]}).values()
        return found

    def with_means_of(self, picture):
        """The model with the means over this picture in place of its GlobalAveragePool nodes."""
        model = onnx.load(self.path)
        pools = [node for node in model.graph.node if node.op_type == "GlobalAveragePool"]
        model.graph.output.extend(onnx.helper.make_tensor_value_info(pool.output[0], 1, None) for pool in pools)
        session = driver.onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [pool.output[0] for pool in pools]
        means = session.run(names, {"x": page.planes(picture)[None]})
        del model.graph.output[1:]
        for pool, mean in zip(pools, means):
            model.graph.node.remove(pool)
            model.graph.initializer.append(onnx.numpy_helper.from_array(mean, pool.output[0]))
        path = os.path.join(self.folder, "means.onnx")
        onnx.save(model, path)
        return path

    def test_a_page_of_six_tiles(self):
        picture = page.four()
        expected = self.whole(picture)
        found = self.tile(self.path, picture, "--tile", "640x640", "--overlap", "160")
        self.assertEqual(expected.shape, found.shape)
        text, seen = expected > TEXT, found > TEXT
        print(f"text or not: {100 * (text == seen).mean():.2f} % of the page agree, mean difference {abs(expected - found).mean():.4f}")
        self.assertGreater((text == seen).mean(), 0.995)
        self.assertGreater((text & seen).sum() / (text | seen).sum(), 0.95)
        self.assertLess(abs(expected - found).mean(), 0.005)

    def test_the_same_map_where_receptive_fields_allow(self):
        picture = strip(5376, 64)
        expected = self.whole(picture)
        self.assertGreater((expected > TEXT).mean(), 0.1)
        words = ["--tile", "64x3584", "--overlap", "1792"]  # two tiles, whose outer 448 columns count for nothing
        found = self.tile(self.with_means_of(picture), picture, *words)
        print(f"the page's means put in: the largest difference is {abs(expected - found).max():.1e}")
        np.testing.assert_allclose(found, expected, atol=1e-3)
        own = self.tile(self.path, picture, *words)
        print(f"means of each tile: the mean difference is {abs(expected - own).mean():.1e}")
        self.assertGreater(abs(expected - own).max(), 1e-3, "the means of a tile are not the page's")


if __name__ == "__main__":
    driver.main()
