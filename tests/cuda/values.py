#!/usr/bin/env python3
"""The CUDA EP's values beside the CPU EP's: each option in each position, runs one after another, shapes that change.

usage: values.py [--device SPEC] [--models FOLDER] [--table] [--small] [MODEL...]
  --device SPEC    another device than cuda
  --models FOLDER  what scripts/get-models has fetched: those models take part, too
  --table          also a row for each model, with the largest difference for each tolerance
  --small          the models that are generated, and of the others the smallest

A difference is the largest one of an output, relative to its largest value, or to 0.1 where all are smaller. A session that the EP refuses is counted, by the reason's
first line. Exit status: 0 nothing is wrong, 1 a value is wrong, 77 Python lacks a package."""
import argparse
import collections
import pathlib
import sys

try:
    import iobind
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    sys.exit(print(f"skipped: {missing}") or 77)

FLOAT32, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16
# With TF32, which is the default, a product has 10 bits behind the point; without it float32's 23.
LIMITS = {"float32": 2e-4, "tf32": 2e-2, "float16": 2e-2}
# All values of an option, the default among them. What needs a GPU's architecture or ends in a refusal elsewhere is in options.tsv.
OPTIONS = [
    {}, {"use_tf32": "0"}, {"cudnn_conv_algo_search": "HEURISTIC"}, {"cudnn_conv_algo_search": "DEFAULT"},
    {"cudnn_conv_use_max_workspace": "0"}, {"cudnn_conv1d_pad_to_nc1d": "1"}, {"do_copy_in_default_stream": "0"}, {"prefer_nhwc": "1"},
    {"fuse_conv_bias": "1", "prefer_nhwc": "1"}, {"enable_skip_layer_norm_strict_mode": "1"},
    {"use_ep_level_unified_stream": "1"}, {"tunable_op_enable": "1"}, {"tunable_op_enable": "1", "tunable_op_tuning_enable": "1"},
    {"arena_extend_strategy": "kSameAsRequested"}]
RUNS = [0, 0, 0, 1, 1, 0]  # which of two shapes each run has


def weights(shape, dtype, seed):
    return (np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(dtype)


def model(nodes, inputs, outputs, dtype, opset=20, **constants):
    kind = FLOAT16 if dtype == "float16" else FLOAT32
    graph = helper.make_graph(
        nodes, "values",
        [helper.make_tensor_value_info(name, kind, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, of, None) for name, of in ((o, kind) if isinstance(o, str) else o for o in outputs)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def one(operator, inputs, dims, dtype, outputs=("y",), opset=20, attributes=None, **constants):
    """One node, its first inputs the model's, the others constants."""
    node = helper.make_node(operator, [*inputs, *constants], [o if isinstance(o, str) else o[0] for o in outputs], **(attributes or {}))
    return model([node], dict(zip(inputs, dims)), outputs, dtype, opset, **constants)


def generated():
    """NAME -> (the model, its element type, two lists of the inputs' dims)."""
    pictures, picture = [[[2, 8, 20, 24]], [[1, 8, 33, 17]]], [["n", 8, "h", "w"]]
    rows, row = [[[4, 64]], [[7, 64]]], [["n", 64]]
    for dtype in ["float32", "float16"]:
        w, b = weights((16, 8, 3, 3), dtype, 1), weights((16,), dtype, 2)
        conv = {"pads": [1, 1, 1, 1]}
        yield f"Conv {dtype}", one("Conv", "x", picture, dtype, attributes=conv, w=w), dtype, pictures
        yield f"Conv bias {dtype}", one("Conv", "x", picture, dtype, attributes=conv, w=w, b=b), dtype, pictures
        relu = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **conv), helper.make_node("Relu", ["c"], ["y"])]
        yield f"Conv bias Relu {dtype}", model(relu, {"x": picture[0]}, ["y"], dtype, w=w, b=b), dtype, pictures
        add = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **conv), helper.make_node("Conv", ["c", "v", "a"], ["d"], **conv),
               helper.make_node("Add", ["c", "d"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
        yield (f"Conv twice Add Relu {dtype}", model(add, {"x": picture[0]}, ["y"], dtype, w=w, b=b, v=weights((16, 16, 3, 3), dtype, 3),
                                                     a=weights((16,), dtype, 4)), dtype, pictures)
        yield (f"Conv depthwise strides {dtype}", one("Conv", "x", picture, dtype, attributes={"group": 8, "strides": [2, 2]},
                                                      w=weights((8, 1, 3, 3), dtype, 5), b=weights((8,), dtype, 6)), dtype, pictures)
        yield (f"Conv dilations uneven pads {dtype}", one("Conv", "x", picture, dtype, attributes={"dilations": [2, 2], "pads": [2, 0, 1, 3]},
                                                          w=w, b=b), dtype, pictures)
        yield (f"Conv 1d {dtype}", one("Conv", "x", [["n", 8, "l"]], dtype, attributes={"pads": [1, 1]}, w=weights((16, 8, 3), dtype, 7),
                                       b=b), dtype, [[[2, 8, 50]], [[3, 8, 77]]])
        yield (f"ConvTranspose bias {dtype}", one("ConvTranspose", "x", picture, dtype, attributes={"strides": [2, 2]},
                                                  w=weights((8, 16, 3, 3), dtype, 8), b=b), dtype, pictures)
        for pool in ["MaxPool", "AveragePool"]:
            yield f"{pool} {dtype}", one(pool, "x", picture, dtype, attributes={"kernel_shape": [3, 3], "strides": [2, 2]}), dtype, pictures
        yield f"GlobalAveragePool {dtype}", one("GlobalAveragePool", "x", picture, dtype), dtype, pictures
        eight = {name: weights((8,), dtype, seed) for seed, name in enumerate("sbm", 9)}
        yield f"BatchNormalization {dtype}", one("BatchNormalization", "x", picture, dtype, **eight, v=np.full(8, 0.7, dtype)), dtype, pictures
        yield f"InstanceNormalization {dtype}", one("InstanceNormalization", "x", picture, dtype, s=eight["s"], b=eight["b"]), dtype, pictures
        yield f"LRN {dtype}", one("LRN", "x", picture, dtype, attributes={"size": 3}), dtype, pictures
        yield (f"Resize {dtype}", one("Resize", ["x", ""], picture, dtype, attributes={"mode": "linear"},
                                      scales=np.array([1, 1, 2, 2], "float32")), dtype, pictures)
        yield f"MatMul {dtype}", one("MatMul", "x", row, dtype, w=weights((64, 96), dtype, 12)), dtype, rows
        yield f"Gemm {dtype}", one("Gemm", "x", row, dtype, w=weights((64, 96), dtype, 13), b=weights((96,), dtype, 14)), dtype, rows
        yield f"Softmax {dtype}", one("Softmax", "x", row, dtype), dtype, rows
        yield (f"LayerNormalization {dtype}", one("LayerNormalization", "x", row, dtype, s=weights((64,), dtype, 15),
                                                  b=weights((64,), dtype, 16)), dtype, rows)
        for reduce in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"]:
            yield f"{reduce} {dtype}", one(reduce, "x", picture, dtype, axes=np.array([2, 3])), dtype, pictures
        yield f"ArgMax {dtype}", one("ArgMax", "x", row, dtype, outputs=[("y", TensorProto.INT64)], attributes={"axis": 1}), dtype, rows
        steps, step = [[[5, 2, 12]], [[9, 3, 12]]], [["t", "n", 12]]
        for cell, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
            yield (f"{cell} {dtype}", one(cell, "x", step, dtype, outputs=["y", "h"], opset=14,
                                          attributes={"hidden_size": 16, "direction": "bidirectional",
                                                      **({"linear_before_reset": 1} if cell == "GRU" else {})},
                                          w=weights((2, gates * 16, 12), dtype, 17), r=weights((2, gates * 16, 16), dtype, 18),
                                          b=weights((2, 2 * gates * 16), dtype, 19)), dtype, steps)


# The files that scripts/get-models fetches, and two sets of the dims of their inputs.
FETCHED = {
    "pp-ocr-cls": [[[1, 3, 48, 192]], [[3, 3, 48, 192]]],
    "pp-ocr-det": [[[1, 3, 160, 224]], [[1, 3, 96, 320]]],
    "pp-ocr-rec": [[[1, 3, 48, 160]], [[2, 3, 48, 320]]],
}

SMALLEST = "pp-ocr-cls"


def models(folder, chosen):
    rows = list(generated())
    for name, dims in FETCHED.items() if folder else []:
        file = pathlib.Path(folder, f"{name}.onnx")
        if file.exists():
            rows.append((name, file.read_bytes(), "float32", dims))
    return [row for row in rows if not chosen or row[0] in chosen]


def difference(got, expected):
    """Infinite where the dims differ or a value is none."""
    if got.shape != expected.shape:
        return np.inf
    if not expected.size:
        return 0.0
    got, expected = got.astype("float64"), expected.astype("float64")
    largest = np.abs(got - expected).max() / max(np.abs(expected).max(), 0.1)
    return largest if np.isfinite(largest) else np.inf


class Check:
    def __init__(self, device):
        self.device = device
        self.counts, self.refused, self.wrong = collections.Counter(), collections.Counter(), []

    def model(self, name, content, dtype, dims):
        reference = iobind.Session(content, device="cpu", optimization="none")
        random = np.random.default_rng(20)
        sets = [{value.name: random.standard_normal(one_dims).astype(dtype) for value, one_dims in zip(reference.inputs, of_shape)}
                for of_shape in dims]
        expected = [reference.run(None, inputs) for inputs in sets]
        largest = {}
        for options in OPTIONS:
            words = " ".join(f"{key}={value}" for key, value in options.items()) or "defaults"
            kind = "float16" if dtype == "float16" else "float32" if options.get("use_tf32") == "0" else "tf32"
            limit = LIMITS[kind]
            try:
                session = iobind.Session(content, device=self.device, ep_options=options)
                for number, which in enumerate(RUNS, 1):
                    got = session.run(None, sets[which])
                    worst = max(difference(np.asarray(a), np.asarray(b)) for a, b in zip(got, expected[which]))
                    self.counts["runs"] += 1
                    if worst > limit:
                        self.wrong.append(f"{name}, {words}, run {number}, dims {dims[which]}: differs by {worst:.3g}, {limit:g} is allowed")
                        break
                    largest[kind] = max(largest.get(kind, 0.0), worst)
                self.counts["sessions"] += 1
            except iobind.Error as error:
                self.refused[f"{name}, {words}: {str(error).splitlines()[0][:200]}"] += 1
        return largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("chosen", nargs="*")
    arguments = parser.parse_args()
    check = Check(arguments.device)
    if arguments.table:
        print(f"{'largest difference; allowed:':40}", *(f"{kind} {limit:<8g}" for kind, limit in LIMITS.items()))
    for name, content, dtype, dims in models(arguments.models, arguments.chosen):
        if arguments.small and name in FETCHED and name != SMALLEST:
            continue
        largest = check.model(name, content, dtype, dims)
        if arguments.table:
            figures = [f"{largest[kind]:.2g}" if kind in largest else "-" for kind in LIMITS]
            print(f"{name:40}", *(f"{figure:<{len(kind) + 9}}" for kind, figure in zip(LIMITS, figures)), flush=True)
    for text in [*check.wrong, *(f"refused: {reason}" for reason in check.refused)]:
        print(text)
    print(f"{check.counts['sessions']} sessions, {check.counts['runs']} runs, {len(check.wrong)} wrong, {len(check.refused)} refused")
    return 1 if check.wrong or not check.counts["sessions"] else 0


if __name__ == "__main__":
    sys.exit(main())
