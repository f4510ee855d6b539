"""Runs the example on a picture made here, and looks at what it prints: where the text is, and what crossed the link.

usage: check.py AGNOSTIC DETECTOR.onnx DEVICE
Ends with 77 (skipped) where the model or Pillow is not there."""
import os
import re
import subprocess
import sys
import tempfile

program, detector, device = sys.argv[1:]
runs, width, height = 2, 120, 60  # the example pads to multiples of 32
plane = 128 * 64 * 4
required = device.split(",")[0] in os.environ.get("IOBIND_REQUIRE", "").split(",")

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError:
    sys.exit("Pillow is not there: scripts/get-python fetches it" if required else 77)
if not os.path.exists(detector):
    sys.exit(f"{detector} is not there: scripts/get-models fetches it" if required else 77)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "text.png")
    picture = Image.new("RGBA", (width, height), (255, 255, 255, 0))
    draw = ImageDraw.Draw(picture)
    place, words, font = (12, 12), "binding", ImageFont.load_default(size=26)
    draw.text(place, words, fill=(0, 0, 0, 255), font=font)
    drawn = draw.textbbox(place, words, font=font)
    picture.save(path)
    result = subprocess.run([program, detector, path, device, str(runs)], capture_output=True, text=True)

print(result.stdout, result.stderr, sep="")
if result.returncode != 0 and "NOT_FOUND" in result.stderr and not required:
    sys.exit(77)
assert result.returncode == 0, f"the example ended with {result.returncode}"

found = re.search(r"text between \((\d+),(\d+)\) and \((\d+),(\d+)\)", result.stdout)
assert found, "no text was found"
# The detector marks the core of a line of text: within what was drawn, but for a few pixels, and most of its width.
left, top, right, bottom = map(int, found.groups())
assert left >= drawn[0] - 8 and top >= drawn[1] - 8 and right <= drawn[2] + 8 and bottom <= drawn[3] + 8, (found[0], drawn)
assert right - left > (drawn[2] - drawn[0]) * 0.7, (found[0], drawn)

moved = {way: tuple(map(int, re.search(rf"^{way} +(\d+) +(\d+)", result.stdout, re.M).groups())) for way in ("direct", "bound")}
if device == "cpu":
    assert moved == {"direct": (0, 0), "bound": (0, 0)}, moved
else:
    assert moved["direct"] == (3 * plane * runs, plane * runs), moved
    # One picture up and one map down; a device that can only be waited for by a copy may read a few bytes each run.
    up, down = moved["bound"]
    assert up == 3 * plane and plane <= down <= plane + 64 * (runs + 2), moved
