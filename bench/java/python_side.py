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


def cached(times):
    for step in range(times):
        binding.bind_ortvalue_input("x", values[step % 2])
        session.run_with_iobinding(binding)


def stateful(times, source, target, room):
    for step in range(times):
        binding.bind_ortvalue_input(target, first if step % room == 0 else past)
        binding.bind_output(source, "cpu")
        session.run_with_iobinding(binding)
        outputs = binding.get_outputs()
        past = outputs[1]
        outputs[0].numpy()


def voice(times):
    stateful(times, "stateN", "state", sys.maxsize)


def decoder(times):
    stateful(times, "state", "past", 64)


if case == "cached":
    values = [of_numpy(numpy.ones(1, dtype=numpy.float32)) for _ in range(2)]
    binding.bind_ortvalue_output("y", of_numpy(numpy.zeros(1, dtype=numpy.float32)))
elif case == "voice":
    first = of_numpy(numpy.zeros((2, 1, 128), dtype=numpy.float32))
    binding.bind_cpu_input("input", numpy.zeros((1, 512), dtype=numpy.float32))
    binding.bind_cpu_input("sr", numpy.array(16000, dtype=numpy.int64))
    binding.bind_ortvalue_output("output", of_numpy(numpy.zeros((1, 1), dtype=numpy.float32)))
elif case == "decoder":
    first = of_numpy(numpy.zeros((4, 2, 0, 8), dtype=numpy.float32))
    binding.bind_cpu_input("tokens", numpy.array([3], dtype=numpy.int64))
    binding.bind_ortvalue_output("logits", of_numpy(numpy.zeros((1, 32), dtype=numpy.float32)))
elif case == "bound":
    binding.bind_ortvalue_input("x", of_numpy(numpy.ones(1, dtype=numpy.float32)))
    binding.bind_ortvalue_output("y", of_numpy(numpy.zeros(1, dtype=numpy.float32)))
elif case == "grow":
    binding.bind_ortvalue_input("second", of_numpy(numpy.ones((1, 2, 1, 4), dtype=numpy.float32)))
elif case == "data":
    binding.bind_ortvalue_input("x", of_numpy(numpy.arange(16, dtype=numpy.float32) % 2))
steps = {"bound": bound, "cached": cached, "naive": naive, "grow": grow, "data": data, "voice": voice, "decoder": decoder}[case]
print(onnxruntime.__version__, flush=True)
for line in sys.stdin:
    start = time.thread_time_ns()
    steps(int(line))
    print(time.thread_time_ns() - start, flush=True)
