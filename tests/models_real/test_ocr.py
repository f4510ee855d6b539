"""PP-OCR reads a page: its three models, with pictures of several sizes."""

import unittest

import driver
import numpy as np
import page


class Detection(driver.Case):
    """Where is text?"""

    model = "pp-ocr-det"

    def test_finds_the_lines(self):
        picture, boxes = page.draw()
        (found,) = self.check_cpu({"x": page.for_detection(picture, 480, 640)}, "480 x 640").values()
        text = np.zeros(found.shape[2:], bool)
        for left, top, right, bottom in boxes:
            middle = found[0, 0, (top + bottom) // 2, left + 20:right - 20]
            self.assertGreater(middle.mean(), 0.5, "the middle of a line")
            text[top - 20:bottom + 20, left - 20:right + 20] = True
        self.assertLess(found[0, 0][~text].mean(), 0.05, "where there is no text")

    def test_sizes(self):
        picture, _ = page.draw()
        for height, width in [(32, 32), (96, 320), (224, 160)]:
            result = self.check_cpu({"x": page.for_detection(picture, height, width)}, f"{height} x {width}")
            self.assertEqual([(1, 1, height, width)], [value.shape for value in result.values()])

    def test_batch(self):
        picture, _ = page.draw()
        both = [page.for_detection(one, 96, 128) for one in (picture, picture.rotate(180))]
        self.check_cpu({"x": np.concatenate(both)}, "two pages")


class Direction(driver.Case):
    """Is a line upside down?"""

    model = "pp-ocr-cls"

    def test_lines_and_their_turned_ones(self):
        picture, boxes = page.draw()
        lines = [page.crop(picture, box) for box in boxes]
        lines += [line.rotate(180) for line in lines]
        inputs = {"x": np.stack([page.for_line(line, 192) for line in lines])}
        (answer,) = self.check_cpu(inputs, "eight lines").values()
        self.assertEqual([0, 0, 0, 0, 1, 1, 1, 1], answer.argmax(axis=1).tolist())

    def test_widths(self):
        picture, boxes = page.draw()
        for width in (96, 192, 320):
            self.check_cpu({"x": page.for_line(page.crop(picture, boxes[0]), width)[None]}, f"width {width}")


class Recognition(driver.Case):
    """What does a line say?"""

    model = "pp-ocr-rec"

    def read(self, scores):
        """The best class at each step; repeated ones are one, and class 0 stands between two of the same."""
        characters = ["", *self.session.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
        best = scores.argmax(axis=1)
        return "".join(characters[c] for c, before in zip(best, [0, *best]) if c != before)

    def test_reads_each_line(self):
        picture, boxes = page.draw()
        for line, box in zip(page.LINES, boxes):
            cut = page.crop(picture, box)
            width = round(cut.width * 48 / cut.height)
            (scores,) = self.check_cpu({"x": page.for_line(cut, width)[None]}, f"width {width}").values()
            self.assertEqual(line.replace(" ", ""), self.read(scores[0]).replace(" ", ""))

    def test_batch(self):
        picture, boxes = page.draw()
        inputs = {"x": np.stack([page.for_line(page.crop(picture, box), 480) for box in boxes[:3]])}
        (scores,) = self.check_cpu(inputs, "three lines", binds=("device",)).values()
        self.assertEqual([line.replace(" ", "") for line in page.LINES[:3]],
                         [self.read(row).replace(" ", "") for row in scores])


if __name__ == "__main__":
    driver.main()
