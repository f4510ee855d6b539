"""A page of text, and pictures as the PP-OCR models take them."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LINES = ["Tensors stay where", "the model runs", "upload once, run often", "ONNX 1234567890"]
SIZE = (640, 480)


def draw():
    """The page, and the box (left, top, right, bottom) of each of LINES on it."""
    page = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(page)
    font = ImageFont.load_default(48)  # part of pillow: the same on every machine
    boxes = []
    for number, line in enumerate(LINES):
        place = (40, 40 + number * 105)
        pen.text(place, line, fill=(20, 20, 60), font=font)
        boxes.append(tuple(int(side) for side in pen.textbbox(place, line, font=font)))
    return page, boxes


def four():
    """Four pages as one."""
    one, _ = draw()
    whole = Image.new("RGB", (2 * one.width, 2 * one.height))
    for place in ((0, 0), (one.width, 0), (0, one.height), one.size):
        whole.paste(one, place)
    return whole


def crop(page, box, margin=6):
    left, top, right, bottom = box
    return page.crop((left - margin, top - margin, right + margin, bottom + margin))


def planes(picture):
    """Channels first, -1 to 1, blue before red as the models were trained."""
    values = np.asarray(picture, dtype=np.float32)[:, :, ::-1] / 255
    return np.ascontiguousarray(((values - 0.5) / 0.5).transpose(2, 0, 1))


def for_detection(page, height, width):
    return planes(page.resize((width, height), Image.Resampling.BILINEAR))[None]


def for_line(picture, width, height=48):
    """As high as the model wants it; what is left of the width is grey."""
    taken = min(width, round(picture.width * height / picture.height))
    line = np.zeros((3, height, width), np.float32)
    line[:, :, :taken] = planes(picture.resize((taken, height), Image.Resampling.BILINEAR))
    return line
