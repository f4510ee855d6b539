"""Run a model with ONNX Runtime's own I/O binding: run_with_iobinding.py JOB. Prints the version of ONNX Runtime.

JOB is a JSON file: {"model", "inputs": [{"name", "type", "shape", "file"}], "outputs": [{"name", "file"}]}. The contents are raw
bytes; each output is written behind one line of JSON with its type and shape."""
import json
import sys

import numpy
import onnxruntime

with open(sys.argv[1], encoding="utf-8") as file:
    job = json.load(file)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(job["model"], options, providers=["CPUExecutionProvider"])
binding = session.io_binding()
for given in job["inputs"]:
    data = numpy.fromfile(given["file"], dtype=given["type"]).reshape(given["shape"])
    binding.bind_ortvalue_input(given["name"], onnxruntime.OrtValue.ortvalue_from_numpy(data))
for wanted in job["outputs"]:
    binding.bind_output(wanted["name"], "cpu")
session.run_with_iobinding(binding)
for wanted, output in zip(job["outputs"], binding.copy_outputs_to_cpu()):
    with open(wanted["file"], "wb") as file:
        file.write((json.dumps({"type": str(output.dtype), "shape": list(output.shape)}) + "\n").encode())
        file.write(numpy.ascontiguousarray(output).tobytes())
print(onnxruntime.__version__)
