"""What a bound run costs from Python: raw C calls of ONNX Runtime, this package and Python's own binding in turn, a few milliseconds
each, by the processor time of the thread that is at work.

usage: run.py [--turns N] [--raw LIBRARY] [--check]
  --turns N        how often each takes its turn (default 250)
  --raw LIBRARY    bench/java/raw.c's library (default: build/release-tests/lib/java_raw.so)
  --check          exit 1 where a limit is exceeded: a bound run 1.15 of raw C; data in, run and result out 0.65 of update_inplace; a
                   growing step by carry 1.25 of raw C; Session.run 1.00 of onnxruntime's

"least" is what no module that gives up the GIL can go below: floor.c, a call from Python that does that and makes the raw run. What it
costs over raw C depends on the processor. Its module lies beside raw.c's library.

Both sides run the ONNX Runtime of the installed onnxruntime package: raw C and iobind its C library, one thread for each session.
"""

import argparse
import ctypes
import importlib.machinery
import importlib.util
import pathlib
import statistics
import sys
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

import iobind

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = {"bound": ("raw C", 1.15), "step": ("onnxruntime", 0.65), "grow": ("raw C", 1.25), "once": ("onnxruntime", 1.0)}
GROW = 64  # steps of a cache that begins with nothing


def model(op, inputs, outputs, **attributes):
    values = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in side] for side in (inputs, outputs)]
    graph = helper.make_graph([helper.make_node(op, [name for name, _ in inputs], [outputs[0][0]], **attributes)], "bench", *values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


ONE = model("Identity", [("x", [1])], [("y", [1])])
CACHE = model("Concat", [("first", [1, 2, "past", 4]), ("second", [1, 2, "new", 4])], [("joined", [1, 2, "all", 4])], axis=2)


class Api(ctypes.Structure):
    _fields_ = [("get_api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)), ("version", ctypes.CFUNCTYPE(ctypes.c_char_p))]


class Raw:
    """bench/java/raw.c on the ONNX Runtime that iobind has loaded."""

    def __init__(self, library, model):
        ort = ctypes.CDLL(iobind.info()["ort_library"])
        ort.OrtGetApiBase.restype = ctypes.POINTER(Api)
        api = ort.OrtGetApiBase().contents.get_api(iobind.info()["ort_api_version"])
        self.library = ctypes.CDLL(str(library))
        self.library.raw_open.restype = self.library.raw_value.restype = ctypes.c_void_p
        self.raw = ctypes.c_void_p(self.library.raw_open(ctypes.c_void_p(api), model, ctypes.c_size_t(len(model))))
        self.kept = []

    def value(self, array):
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.kept.append((array, dims))
        return ctypes.c_void_p(self.library.raw_value(self.raw, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), dims,
                                                      ctypes.c_size_t(array.ndim), 1))


def floor_of(library, raw):
    """floor.c's module, which stands beside raw.c's library"""
    loader = importlib.machinery.ExtensionFileLoader("floor", str(library.with_name("floor.so")))
    floor = importlib.util.module_from_spec(importlib.util.spec_from_loader("floor", loader))
    floor.use(ctypes.cast(raw.library.raw_bound, ctypes.c_void_p).value, raw.raw.value)
    return floor


def ort_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def cases(library):
    """case -> side -> a function that takes so many steps"""
    x, y = numpy.ones(1, numpy.float32), numpy.zeros(1, numpy.float32)

    raw = Raw(library, ONE)
    raw.library.raw_bind_input(raw.raw, b"x", raw.value(x))
    raw.library.raw_bind_output(raw.raw, b"y", raw.value(y))

    binding = iobind.Session(ONE, threads=1, inter_threads=1).bind({"x": iobind.wrap(x)}, outputs={"y": numpy.zeros(1, numpy.float32)})
    own = ort_session(ONE)
    own_binding = own.io_binding()
    own_x, own_y = onnxruntime.OrtValue.ortvalue_from_numpy(x), onnxruntime.OrtValue.ortvalue_from_numpy(y)
    own_binding.bind_ortvalue_input("x", own_x)
    own_binding.bind_ortvalue_output("y", own_y)

    def raw_bound(times):
        raw.library.raw_bound(raw.raw, ctypes.c_long(times))

    floor = floor_of(library, raw)

    def least(times):
        for _ in range(times):
            floor.run()

    def bound(times):
        for _ in range(times):
            binding.run()

    def own_bound(times):
        for _ in range(times):
            own.run_with_iobinding(own_binding)

    copied = iobind.Session(ONE, threads=1, inter_threads=1).bind({"x": x}, outputs={"y": iobind.empty(1)})

    def step(times):
        for _ in range(times):
            copied["x"] = x
            copied.run()["y"].numpy()

    def own_step(times):
        for _ in range(times):
            own_x.update_inplace(x)
            own.run_with_iobinding(own_binding)
            own_y.numpy()

    entry = numpy.ones((1, 2, 1, 4), numpy.float32)
    raw_cache = Raw(library, CACHE)
    cache_session = iobind.Session(CACHE, threads=1, inter_threads=1)
    cache = cache_session.bind({"second": iobind.wrap(entry)}, carry={"joined": "first"}, carry_mode="move")
    nothing = numpy.zeros((1, 2, 0, 4), numpy.float32)
    own_cache = ort_session(CACHE)
    own_cache_binding = own_cache.io_binding()
    of_numpy = onnxruntime.OrtValue.ortvalue_from_numpy

    def raw_grow(times):
        raw_cache.library.raw_grow(raw_cache.raw, ctypes.c_long(times), ctypes.c_void_p(entry.ctypes.data))

    def grow(times):
        cache["first"] = nothing
        for _ in range(times):
            cache.run()

    def own_grow(times):
        past = of_numpy(nothing)
        own_cache_binding.bind_ortvalue_input("second", of_numpy(entry))
        for _ in range(times):
            own_cache_binding.bind_ortvalue_input("first", past)
            own_cache_binding.bind_output("joined", "cpu")
            own_cache.run_with_iobinding(own_cache_binding)
            past = own_cache_binding.get_outputs()[0]

    single, feed = iobind.Session(ONE, threads=1, inter_threads=1), {"x": x}

    def once(times):
        for _ in range(times):
            single.run(None, feed)

    def own_once(times):
        for _ in range(times):
            own.run(None, feed)

    return {"bound": {"raw C": raw_bound, "least": least, "iobind": bound, "onnxruntime": own_bound},
            "step": {"iobind": step, "onnxruntime": own_step},
            "grow": {"raw C": raw_grow, "iobind": grow, "onnxruntime": own_grow},
            "once": {"iobind": once, "onnxruntime": own_once}}


def measure(sides, turns, steps):
    times = {name: [] for name in sides}
    for turn in range(turns + 5):
        for name, take in sides.items():
            before = time.thread_time_ns()
            take(steps)
            if turn >= 5:
                times[name].append((time.thread_time_ns() - before) / steps)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--turns", type=int, default=250)
    parser.add_argument("--raw", type=pathlib.Path, default=PROJECT / "build/release-tests/lib/java_raw.so")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    passed = True
    print(f"Python {sys.version.split()[0]}, ONNX Runtime {iobind.info()['ort_version']}, iobind {iobind.__version__}")
    for case, sides in cases(arguments.raw).items():
        got = measure(sides, arguments.turns, GROW if case == "grow" else 500)
        than, limit = LIMITS[case]
        ratio = got["iobind"] / got[than]
        passed = passed and ratio <= limit
        print(f"{case:6} " + "  ".join(f"{name} {value:6.0f} ns" for name, value in got.items()) +
              f"  iobind is {ratio:.2f} of {than} (at most {limit:.2f})")
    return 1 if arguments.check and not passed else 0


if __name__ == "__main__":
    sys.exit(main())
