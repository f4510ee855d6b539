"""The Python side of bench/java: python_side.py CASE MODEL. Says which ONNX Runtime it has; then reads numbers of steps, a line
each, takes them, and answers with the nanoseconds of processor time that they took."""
import sys
import time

import numpy
import onnxruntime

case, model = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
binding = session.io_binding()
of_numpy = onnxruntime.OrtValue.ortvalue_from_numpy


def bound(times):
    for _ in range(times):
        session.run_with_iobinding(binding)


def naive(times):
    for step in range(times):
        binding.bind_ortvalue_input("x", of_numpy(numpy.array([step], dtype=numpy.float32)))
        binding.bind_output("y", "cpu")
        session.run_with_iobinding(binding)
        binding.copy_outputs_to_cpu()[0]


def grow(times):
    past = of_numpy(numpy.zeros((1, 2, 0, 4), dtype=numpy.float32))
    for _ in range(times):
        binding.bind_ortvalue_input("first", past)
        binding.bind_output("joined", "cpu")
        session.run_with_iobinding(binding)
        past = binding.get_outputs()[0]


def data(times):
    for _ in range(times):
        binding.bind_output("y", "cpu")
        session.run_with_iobinding(binding)
        binding.get_outputs()[0].shape()


if case == "bound":
    binding.bind_ortvalue_input("x", of_numpy(numpy.ones(1, dtype=numpy.float32)))
    binding.bind_ortvalue_output("y", of_numpy(numpy.zeros(1, dtype=numpy.float32)))
elif case == "grow":
    binding.bind_ortvalue_input("second", of_numpy(numpy.ones((1, 2, 1, 4), dtype=numpy.float32)))
elif case == "data":
    binding.bind_ortvalue_input("x", of_numpy(numpy.arange(16, dtype=numpy.float32) % 2))
steps = {"bound": bound, "naive": naive, "grow": grow, "data": data}[case]
print(onnxruntime.__version__, flush=True)
for line in sys.stdin:
    start = time.thread_time_ns()
    steps(int(line))
    print(time.thread_time_ns() - start, flush=True)
