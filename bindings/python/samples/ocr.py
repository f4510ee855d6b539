"""ocr.py MODEL PICTURE OUTPUT [DEVICE]: PP-OCR's detector finds the text in a picture; the boxes are drawn into a copy of it.

The detector's input stays where the model runs; in a run only the picture and the map of text cross the link.
"""

import sys

import numpy
from PIL import Image, ImageDraw

import iobind

MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
DEVIATION = numpy.array([0.229, 0.224, 0.225], numpy.float32)


def boxes(text: "numpy.ndarray[tuple[int, int], numpy.dtype[numpy.bool_]]") -> list[tuple[int, int, int, int]]:
    """The rectangles around connected parts of a map: each row's runs join those of the row above that they touch."""
    found: list[list[int]] = []
    above: list[tuple[int, int, list[int]]] = []
    for y, row in enumerate(text):
        edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[0], row.view(numpy.int8), [0]])))
        here = []
        for left, right in edges.reshape(-1, 2).tolist():
            touching = [box for start, end, box in above if start < right and left < end]
            box = touching[0] if touching else [left, y, right, y + 1]
            for other in touching[1:]:
                if other is not box and other in found:
                    found.remove(other)
                    box[:] = [min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3])]
            box[:] = [min(box[0], left), min(box[1], y), max(box[2], right), y + 1]
            if box not in found:
                found.append(box)
            here.append((left, right, box))
        above = here
    return [(left, top, right, bottom) for left, top, right, bottom in found if right - left > 3 and bottom - top > 3]


def main(model: str, picture: str, output: str, device: str = "gpu,cpu") -> int:
    """Find, draw, print the boxes."""
    image = Image.open(picture).convert("RGB")
    width, height = (max(32, round(side / 32) * 32) for side in image.size)
    pixels = (numpy.asarray(image.resize((width, height)), numpy.float32) / 255 - MEAN) / DEVIATION
    session = iobind.Session(model, device=device)
    binding = session.bind({session.inputs[0].name: numpy.ascontiguousarray(pixels.transpose(2, 0, 1)[None], numpy.float32)},
                           outputs={session.outputs[0].name: "cpu"})
    text = binding.run()[session.outputs[0].name].numpy()[0, 0] > 0.3
    drawing = ImageDraw.Draw(image)
    across, down = image.width / width, image.height / height
    found = boxes(text)
    for left, top, right, bottom in found:
        margin = bottom - top  # the detector is trained on shrunk boxes
        drawing.rectangle(((left - margin) * across, (top - margin) * down, (right + margin) * across, (bottom + margin) * down),
                          outline=(220, 30, 30), width=2)
    image.save(output)
    print(f"{len(found)} lines of text on {session.inputs[0].device}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
