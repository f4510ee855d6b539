"""drawing.py FILE.png: the page that the documents cut into tiles."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models_real"))
try:
    import page
except ImportError as missing:
    sys.exit(f"drawing.py: {missing}")

page.four().save(sys.argv[1])
