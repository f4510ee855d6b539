"""recording.py FILE: what the documents call recording.raw, a voice between two silences; 16-bit samples, mono, 16,000 a second."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models_real"))
try:
    import numpy
    import speech
except ImportError as missing:
    sys.exit(f"recording.py: {missing}")

silence = numpy.zeros(speech.RATE // 5)
samples = numpy.concatenate([silence, speech.vowels(), silence])  # not spoken(): the same everywhere
pathlib.Path(sys.argv[1]).write_bytes((samples * 32767).astype("<i2").tobytes())
