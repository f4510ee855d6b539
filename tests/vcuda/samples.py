"""Every example, sample and row of the demo whose model has a convolution, on CUDA over vcuda, with each run compared with the CPU EP.

usage: samples.py BIN MODELS [ROW...]        under with-cuda; BIN has the tool and the examples, MODELS what scripts/get-models fetches

IOBIND_VERIFY makes the programs compare. To show that it does, each program is also run with convolutions of cuDNN whose results are wrong: it
must fail and report that the outputs differ. CudaTest.java has the same test for Java."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/models_real"))
import driver  # noqa: E402

try:
    import page  # noqa: E402
    import speech  # noqa: E402
except ImportError as missing:
    driver.leave(f"{missing}; scripts/get-python fetches it", "cuda")

import numpy as np  # noqa: E402

RUNS = 3
WIDE = ("--dim", "x[0]=1", "--dim", "x[2]=48", "--dim", "x[3]=96")


def bench(model, *more):
    return ["iobind", "bench", model, "--device", "cuda", "--seconds", "0.05", *WIDE, *more]


def run(model, *more):
    return ["iobind", "run", model, "--device", "cuda", "--random", *more]


def rows(models, folder):
    """Names and commands of the rows. The first word is a program in BIN, or an absolute path."""
    cls, det, rec, vad = (models / f"{name}.onnx" for name in ("pp-ocr-cls", "pp-ocr-det", "pp-ocr-rec", "silero-vad"))
    square, step = ("--dim", "x[0]=1", "--dim", "x[2]=64", "--dim", "x[3]=64"), ("--dim", "input[0]=1", "--dim", "input[1]=576")
    sound, picture = folder / "sound.raw", folder / "page.png"
    yield "quickstart", ["quickstart", cls, "cuda"]
    yield "speech", ["speech", vad, sound, "cuda"]
    yield "tiles", ["tiles", det, picture, "cuda"]
    yield "agnostic", ["agnostic", det, picture, "cuda", "2"]
    yield "demo, classifier", bench(cls)
    yield "demo, classifier, captured", bench(cls, "--graph")
    for search in "EXHAUSTIVE", "HEURISTIC", "DEFAULT":
        yield f"classifier, {search}", run(cls, *WIDE, "--ep-option", f"cudnn_conv_algo_search={search}")
    for option in "cudnn_conv_use_max_workspace=0", "cudnn_conv1d_pad_to_nc1d=1", "use_tf32=0", "prefer_nhwc=1":
        yield f"classifier, {option}", run(cls, *WIDE, "--ep-option", option)
    yield "classifier, fused", run(cls, *WIDE, "--ep-option", "prefer_nhwc=1", "--ep-option", "fuse_conv_bias=1")
    yield "detector", run(det, *square)
    yield "recogniser", run(rec, *WIDE)
    yield "voices", run(vad, *step, "--input", f"sr={folder / 'rate.npy'}", "--dim", "state[1]=1")
    yield "voices, steps", ["iobind", "loop", vad, "--device", "cuda", "--carry", "stateN=state,swap", "--steps", "3", "--random", *step,
                            "--input", f"sr={folder / 'rate.npy'}", "--dim", "state[1]=1"]
    yield "tile", ["iobind", "tile", det, "--device", "cuda", "--input", picture, "--output", folder / "map.npy", "--tile", "64x64"]


def prepare(folder):
    picture, _ = page.draw()
    picture.crop((0, 0, 128, 64)).save(folder / "page.png")
    samples, silent = speech.make()
    (samples[silent:silent + 512 * 6] * 32767).astype("<i2").tofile(folder / "sound.raw")
    np.save(folder / "rate.npy", np.array(16000, np.int64))


def call(directory, command, **environment):
    program = directory / command[0]
    ran = subprocess.run([str(program), *map(str, command[1:])], capture_output=True, text=True, timeout=300,
                         env={**os.environ, "IOBIND_VERIFY": str(RUNS), **environment})
    return ran.returncode, (ran.stdout + ran.stderr).strip()


def judge(directory, command):
    """A description of the failure, or an empty text."""
    code, text = call(directory, command)
    if code != 0:
        return f"exit code {code}: {text[-600:]}"
    code, text = call(directory, command, VCUDA_WRONG_COMPUTE="every:1,name:cudnnBackendExecute")
    if code == 0 or "differ" not in text:
        return f"wrong results were not found: exit code {code}: {text[-600:]}"
    return ""


def main():
    directory, models, chosen = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    if not driver.Tool(directory / "iobind").works("cuda"):
        driver.leave("no CUDA device works; run it by with-cuda", "cuda")
    if not (models / "pp-ocr-rec.onnx").exists():
        driver.leave("no models: scripts/get-models fetches them", "cuda")
    failed = count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        for name, command in rows(models, folder):
            if chosen and name not in chosen:
                continue
            count += 1
            wrong = judge(directory, command)
            failed += bool(wrong)
            if wrong:
                print(f"{name}: {wrong}")
    print(f"{count} rows, {failed} wrong")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
