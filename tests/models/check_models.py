"""Reads what the writer wrote with ONNX's own Python package: check_models.py MAKE_MODEL WRITE_EVERYTHING

Each model that make-model knows must pass ONNX's checker with shape inference, for every element type that its operator takes;
the model with everything in it must come back field by field."""

import os
import subprocess
import sys
import tempfile

try:
    import onnx
    from onnx import checker, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DTYPES = """float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128 bfloat16
float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2 int2""".split()
SHAPES = ["scalar", "n", "?", "0", "2,n,?", "1,2,3,4,5,6,7,8"]


def equal(what, expected, got):
    if expected != got:
        sys.exit(f"everything: {what}: expected {expected!r}, got {got!r}")


def check_everything(program, folder):
    path = os.path.join(folder, "everything.onnx")
    subprocess.run([program, path], check=True)
    model = onnx.load(path, load_external_data=False)
    equal("texts", ("producer", "1.2", "test.model", "all that there is"),
          (model.producer_name, model.producer_version, model.domain, model.doc_string))
    equal("versions", (11, 42), (model.ir_version, model.model_version))
    equal("opsets", [("", 21), ("test.domain", 3)], [(o.domain, o.version) for o in model.opset_import])
    equal("metadata", [("key", "value")], [(e.key, e.value) for e in model.metadata_props])
    graph = model.graph
    equal("graph", "outer", graph.name)
    for value in (graph.input[0], graph.output[0]):
        dims = value.type.tensor_type.shape.dim
        equal("dims", [("dim_param", "batch"), ("dim_value", 3), (None, None)],
              [(d.WhichOneof("value"), getattr(d, d.WhichOneof("value")) if d.WhichOneof("value") else None) for d in dims])
    equal("value info", ("between", onnx.TensorProto.BOOL),
          (graph.value_info[0].name, graph.value_info[0].type.tensor_type.elem_type))

    tensors = {t.name: t for t in graph.initializer}
    equal("floats", [[1, 2, 3], [4, 5, 6]], numpy_helper.to_array(tensors["floats"]).tolist())
    equal("int4", [1, 2, 3, 4, 5], [int(v) for v in numpy_helper.to_array(tensors["int4"])])
    equal("blob", bytes([1, 2, 3]) + bytes(19997), tensors["blob"].raw_data)
    equal("strings", [b"alpha", b"beta"], list(tensors["strings"].string_data))
    equal("external", {"location": "everything.data", "offset": "5000000000", "length": "24"},
          {e.key: e.value for e in tensors["external"].external_data})
    equal("external location", onnx.TensorProto.EXTERNAL, tensors["external"].data_location)

    node = graph.node[0]
    equal("node", ("Everything", "test.domain", "node of all attributes", ["x", ""], ["y"]),
          (node.op_type, node.domain, node.name, list(node.input), list(node.output)))
    attributes = {a.name: a for a in node.attribute}
    values = {n: helper.get_attribute_value(a) for n, a in attributes.items()}
    equal("int", -7, values["int"])
    equal("float", 0.1, round(values["float"], 7))
    equal("string", b"a\0b", values["string"])
    equal("ints", [1, -2, 2**63 - 1, -(2**63)], list(values["ints"]))
    equal("floats", [0.5, -1.25], list(values["floats"]))
    equal("strings", [b"one", b"", "dréi".encode()], list(values["strings"]))
    equal("tensor", 1.0, numpy_helper.to_array(values["tensor"]).item())
    equal("tensors", [(2, 3), (0, 4)], [numpy_helper.to_array(t).shape for t in values["tensors"]])
    equal("type", "sequence_type", values["type"].WhichOneof("value"))
    equal("types", ["sequence_type", "map_type", "optional_type", "sparse_tensor_type"],
          [t.WhichOneof("value") for t in values["types"]])
    equal("map", (onnx.TensorProto.INT64, onnx.TensorProto.FLOAT16),
          (values["types"][1].map_type.key_type, values["types"][1].map_type.value_type.tensor_type.elem_type))
    equal("no shape", False, values["types"][0].sequence_type.elem_type.tensor_type.HasField("shape"))
    equal("no ints", [], list(values["no_ints"]))
    equal("graph", ("inner", "Identity", "inner_y"),
          (values["graph"].name, values["graph"].node[0].op_type, values["graph"].output[0].name))
    equal("graphs", ["first", "second"], [g.name for g in values["graphs"]])


def specs(program):
    lines = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.split()[0] for line in lines if not line.startswith("each")]
    yield from names
    for dtype in DTYPES:
        yield f"identity dtype={dtype}"
    for dims in SHAPES:
        yield f"identity dims={dims}"
    yield from ("lookup rows=4096 columns=1024", "cast from=int4 to=float32", "add dtype=float16 dims=n,3",
                "concat dims=1,2,past,4 dims2=1,2,new,4 axis=2", "constant dtype=int64 dims=scalar",
                "identity opset=13 ir=8 producer=someone domain=d description=text version=7")


def main():
    make_model, write_everything = sys.argv[1:3]
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        check_everything(write_everything, folder)
        path = os.path.join(folder, "model.onnx")
        for spec in specs(make_model):
            subprocess.run([make_model, *spec.split(), path], check=True)
            try:
                checker.check_model(path, full_check=True)
            except Exception as refused:
                sys.exit(f"{spec}: ONNX's checker refuses it: {refused}")
            count += 1
    print(f"{count} models pass the checker; the one with everything in it reads back")


main()
