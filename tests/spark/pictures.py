"""What the tests with Spark work on: pictures of lines of text, some upside down, and what PP-OCR's classifier says of each in one
process."""

import os
import pathlib

import numpy

import iobind
from iobind import spark

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MODEL = PROJECT / ".runtime/models/pp-ocr-cls.onnx"
HEIGHT, WIDTH = 48, 192
COUNT = int(os.environ.get("IOBIND_SPARK_PICTURES", "240"))


def picture(number):
    """Bytes of uint8[48, 192, 3]: dark strokes along a line, by the number, on light paper."""
    random = numpy.random.default_rng(number)
    page = numpy.full((HEIGHT, WIDTH, 3), 235, numpy.uint8)
    for x in range(6, WIDTH - 6, 9):
        top, bottom = random.integers(6, 18), random.integers(30, 42)
        page[top:bottom, x:x + random.integers(2, 6)] = random.integers(0, 90, 3)
    return (page[::-1] if number % 3 == 0 else page).tobytes()


def prepare(rows):
    """uint8[rows, bytes] to what the classifier takes: float32[rows, 3, 48, 192], from -1 to 1."""
    pictures = rows.reshape(-1, HEIGHT, WIDTH, 3).astype(numpy.float32) / 127.5 - 1
    return numpy.ascontiguousarray(pictures.transpose(0, 3, 1, 2))


def alone(batch=8):
    """{number: scores} by one session of this process, on the CPU."""
    session = iobind.Session(str(MODEL), device="cpu", threads=1)
    found = {}
    for first in range(0, COUNT, batch):
        numbers = range(first, min(first + batch, COUNT))
        rows = numpy.frombuffer(b"".join(picture(number) for number in numbers), numpy.uint8).reshape(len(numbers), -1)
        scores, = session.run(None, {session.inputs[0].name: prepare(rows)})
        found.update(zip(numbers, scores.tolist()))
    return found


def predictor(device, batch=8, **options):
    """The classifier for mapInArrow."""
    return spark.predictor(spark.SessionSpec(str(MODEL), device, **options), columns={"x": "picture"},
                           outputs={"scores": output_name()}, keep=["number"], prepare={"x": prepare}, batch_size=batch)


def output_name():
    """The classifier's output, by its name in the model."""
    return iobind.Session(str(MODEL), device="cpu").outputs[0].name
