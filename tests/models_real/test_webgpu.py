"""PP-OCR on WebGPU, held against the processor. A software driver is slow: few runs, small pictures."""

import driver
import page


class Direction(driver.Case):
    model = "pp-ocr-cls"

    def test_line(self):
        picture, boxes = page.draw()
        line = page.for_line(page.crop(picture, boxes[0]).rotate(180), 192)[None]
        (answer,) = self.check_webgpu({"x": line}, "a line upside down").values()
        self.assertEqual(1, answer.argmax())


class Detection(driver.Case):
    model = "pp-ocr-det"

    def test_small_page(self):
        picture, _ = page.draw()
        (found,) = self.check_webgpu({"x": page.for_detection(picture, 64, 64)}, "64 x 64").values()
        self.assertEqual((1, 1, 64, 64), found.shape)


if __name__ == "__main__":
    driver.main()
