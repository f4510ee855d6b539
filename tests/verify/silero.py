"""Five models that WebGPU's EP computes wrongly over the software Vulkan driver, silently: `iobind run --verify` refuses each by name, and without it
they run as before. silero.py TOOL RUNTIME, where RUNTIME has the fetched packages. 77: the models or the device are not here."""
import json
import pathlib
import subprocess
import sys
import tempfile

TOOL, RUNTIME = sys.argv[1], pathlib.Path(sys.argv[2])
SKIPPED = 77
SHAPE = ["--dim", "input[0]=1", "--dim", "input[1]=576", "--dim", "state[1]=1"]
# An int64 that is 16000, as numpy writes it.
RATE = (b"\x93NUMPY\x01\x00\x38\x00{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n" + (16000).to_bytes(8, "little"))
MODELS = {
    "silero_vad": [*SHAPE, "--input", "sr=RATE"],
    "silero_vad_16k_op15": SHAPE,
    "silero_vad_16k_sequence": ["--dim", "input[0]=3"],
    "silero_vad_half": SHAPE,
    "silero_vad_openvino_16k": SHAPE,
}


def run(model, *words):
    return subprocess.run([TOOL, "run", str(model), "--device", "webgpu", "--random", *words], capture_output=True, text=True, timeout=300)


def main():
    folder = next(RUNTIME.glob("packages/silero-vad-*"), None)
    devices = json.loads(subprocess.run([TOOL, "devices", "--json"], capture_output=True, text=True, timeout=300).stdout)
    if folder is None or "webgpu" not in json.dumps(devices).lower():
        print("skipped: the models of silero-vad, or a device of WebGPU, are not here")
        return SKIPPED
    with tempfile.TemporaryDirectory() as place:
        rate = pathlib.Path(place, "rate.npy")
        rate.write_bytes(RATE)
        for name, words in MODELS.items():
            words = [word.replace("RATE", str(rate)) for word in words]
            verified = run(folder / f"{name}.onnx", *words, "--verify")
            assert verified.returncode == 1 and "[RESULT]" in verified.stderr, (name, verified)
            assert "as on the CPU" in verified.stderr and "iobind compare --nodes" in verified.stderr, verified.stderr
            plain = run(folder / f"{name}.onnx", *words)
            assert plain.returncode == 0, (name, plain)
    print(f"{len(MODELS)} models are refused by name")
    return 0


sys.exit(main())
