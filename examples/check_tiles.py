"""Runs the example on a page drawn here, and compares what it finds with what one run over the whole page does.

usage: check_tiles.py TILES DETECTOR.onnx DEVICE
Ends with 77 (skipped) where the model, Pillow or Python's ONNX Runtime is not there."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, detector, device = sys.argv[1:]
required = device in os.environ.get("IOBIND_REQUIRE", "").split(",")
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/models_real"))

try:
    import onnxruntime
    import page
except ImportError as missing:
    sys.exit(f"{missing}: scripts/get-python fetches it" if required else 77)
if not os.path.exists(detector):
    sys.exit(f"{detector} is not there: scripts/get-models fetches it" if required else 77)

picture, _ = page.draw()
picture = picture.crop((0, 0, 640, 320))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "page.png")
    picture.save(path)
    result = subprocess.run([program, detector, path, device], capture_output=True, text=True)
print(result.stdout, result.stderr, sep="")
assert result.returncode == 0, f"the example ended with {result.returncode}"
(found,) = onnxruntime.InferenceSession(detector).run(None, {"x": page.planes(picture)[None]})
share = 100 * (found > 0.3).mean()
tiles, text, size = re.search(r"^(\d+) tiles: text on ([\d.]+) % of (\d+ x \d+) pixels$", result.stdout, re.M).groups()
assert (tiles, size) == ("3", "640 x 320"), (tiles, size)
assert share > 5 and abs(float(text) - share) < 2, f"{text} % of the pixels; one run finds {share:.2f} %"
