"""Magika says what type some bytes are: real files of this project and ones that Python writes."""

import io
import pathlib
import zipfile

import driver
import numpy as np
from PIL import Image

SIDE, BLOCK, PADDING = 1024, 4096, 256
C_FILES = ["include/iobind/iobind.h", "src/tensor/tensor.c"]
PYTHON_FILES = ["tests/models_real/driver.py", "tests/models_real/test_magika.py"]


def features(content):
    """The first and the last bytes behind blanks, and a number that is not a byte where there are fewer."""
    first = content[:BLOCK].lstrip()[:SIDE]
    last = content[-BLOCK:].rstrip()[-SIDE:]
    row = np.full(2 * SIDE, PADDING, np.int32)
    row[:len(first)] = list(first)
    row[2 * SIDE - len(last):] = list(last)
    return row


def written():
    """A picture and an archive, in memory."""
    picture, archive = io.BytesIO(), io.BytesIO()
    Image.linear_gradient("L").save(picture, "png")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("page.txt", "Tensors stay where the model runs. " * 200)
    return [picture.getvalue(), archive.getvalue()]


class FileTypes(driver.Case):
    model = "magika"

    def contents(self):
        files = [driver.ROOT / name for name in C_FILES + PYTHON_FILES]
        return [file.read_bytes() for file in files] + [pathlib.Path(self.tool.path).read_bytes()] + written()

    def test_files(self):
        rows = np.stack([features(content) for content in self.contents()])
        (scores,) = self.check_cpu({"bytes": rows}, "seven files").values()
        kinds = scores.argmax(axis=1).tolist()
        self.assertEqual(kinds[0], kinds[1], "two C files")
        self.assertEqual(kinds[2], kinds[3], "two Python files")
        self.assertEqual(5, len({kinds[0], kinds[2], *kinds[4:]}), f"C, Python, a program, a picture, an archive: {kinds}")
        self.assertGreater(scores.max(axis=1).min(), 0.5, "the surest answer for each file")

    def test_one_by_one(self):
        for content in self.contents()[:3]:
            self.check_cpu({"bytes": features(content)[None]}, "one file")

    def test_webgpu(self):
        rows = np.stack([features(content) for content in self.contents()[:2]])
        self.check_webgpu({"bytes": rows}, "two files", bind="host")


if __name__ == "__main__":
    driver.main()
