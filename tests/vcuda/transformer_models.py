"""Small models of the families with seeded weights: several steps on CUDA's EP with the cache carried, compared with the CPU EP."""
import functools
import typing

import numpy as np
import onnxruntime
import transformer_run as run
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
STEPS = 6
VOCAB, WIDTH, LAYERS, HEADS, GROUPS, SIZE, ROOM = 48, 64, 2, 4, 2, 16, 24
TOLERANCE = {TensorProto.FLOAT: 1e-3, TensorProto.FLOAT16: 2e-2}


class Graph:
    """Nodes and weights of a model with one float type."""

    def __init__(self, type, seed):
        self.type, self.random = type, np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def weight(self, *dims, scale=None):
        array = self.random.standard_normal(dims) * (dims[0] ** -0.5 if scale is None else scale)
        return self.constant(array.astype(np.float32))

    def constant(self, array):
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(run.rounded(array, self.type), name))
        return name

    def product(self, x, rows, columns, bits):
        """x times a matrix with 16 or 32 bits for each number, or with `bits` in blocks of 32."""
        if bits is None:
            return self.add("MatMul", x, self.weight(rows, columns))
        numbers = self.random.integers(0, 256, (columns, rows // 32, 32 * bits // 8), np.uint8)
        scales = np.full((columns, rows // 32), rows ** -0.5 * 2.0 ** (2 - bits), np.float32)
        return self.add("MatMulNBits", x, self.constant(numbers), self.constant(scales), domain=MS, K=rows, N=columns, bits=bits, block_size=32)

    def add(self, operator, *inputs, outputs=1, domain="", **attributes):
        names = [f"value{len(self.nodes)}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0]

    def input(self, name, type, dims):
        self.inputs.append(helper.make_tensor_value_info(name, type or self.type, dims))
        return name

    def output(self, name, type, dims):
        self.outputs.append(helper.make_tensor_value_info(name, type or self.type, dims))

    def model(self, opset=21):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, initializer=self.weights)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


def grouped_layers(g, x, last, total, size, bits=None):
    """RMS norms, GroupQueryAttention with rotary embedding inside and a cache of fixed size, gated networks."""
    angle = np.arange(ROOM)[:, None] * 0.5 ** np.arange(size // 2)[None]
    cosines, sines = g.constant(np.cos(angle).astype(np.float32)), g.constant(np.sin(angle).astype(np.float32))
    ones = g.constant(np.ones(WIDTH, np.float32))
    normed = g.add("SimplifiedLayerNormalization", x, ones)
    for layer in range(LAYERS):
        cache = [g.input(f"past_{kind}{layer}", None, [1, GROUPS, ROOM, size]) for kind in "kv"]
        present = [f"present_{kind}{layer}" for kind in "kv"]
        packed = g.product(normed, WIDTH, (HEADS + 2 * GROUPS) * size, bits)
        seen = g.add("GroupQueryAttention", packed, "", "", *cache, last, total, cosines, sines, outputs=[f"seen{layer}", *present], domain=MS,
                     num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1)
        for name in present:
            g.output(name, None, [1, GROUPS, ROOM, size])
        out = g.product(seen, HEADS * size, WIDTH, bits)
        sums = [f"sum{layer}a", f"sum{layer}b"]
        normed = g.add("SkipSimplifiedLayerNormalization", x, out, ones, outputs=[f"norm{layer}a", "", "", sums[0]], domain=MS)
        gate, up = g.product(normed, WIDTH, 96, bits), g.product(normed, WIDTH, 96, bits)
        down = g.product(g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), up), 96, WIDTH, bits)
        normed = g.add("SkipSimplifiedLayerNormalization", sums[0], down, ones, outputs=[f"norm{layer}b", "", "", sums[1]], domain=MS)
        x = sums[1]
    return normed


def grouped_decoder(type, bits=None):
    g = Graph(type, 1)
    token = g.input("token", TensorProto.INT64, [1, "tokens"])
    last, total = g.input("last", TensorProto.INT32, [1]), g.input("total", TensorProto.INT32, [1])
    normed = grouped_layers(g, g.add("Gather", g.weight(VOCAB, WIDTH, scale=1), token), last, total, SIZE, bits)
    g.add("MatMul", normed, g.weight(WIDTH, VOCAB), outputs=["logits"])
    g.output("logits", None, [1, "tokens", VOCAB])
    return g.model()


def endless_decoder(type, size):
    """The most likely token and the length are states too. The only other input is `total`, which is constant: the cache's rows."""
    g = Graph(type, 11)
    token = g.input("token", TensorProto.INT64, [1, 1])
    last, total = g.input("last", TensorProto.INT32, [1]), g.input("total", TensorProto.INT32, [1])
    normed = grouped_layers(g, g.add("Gather", g.weight(VOCAB, WIDTH, scale=1), token), last, total, size)
    logits = g.add("Cast", g.add("MatMul", normed, g.weight(WIDTH, VOCAB)), to=TensorProto.FLOAT)
    g.add("TopK", logits, g.constant(np.array([1], np.int64)), outputs=["likely", "most"], axis=-1)
    g.add("Reshape", "most", g.constant(np.array([1, 1], np.int64)), outputs=["next_token"])
    g.add("Add", last, g.constant(np.array([1], np.int32)), outputs=["next_last"])
    g.output("next_token", TensorProto.INT64, [1, 1])
    g.output("next_last", TensorProto.INT32, [1])
    return g.model()


def split_heads(g, x):
    """[1, tokens, width] as [1, heads, tokens, size]"""
    return g.add("Transpose", g.add("Reshape", x, g.constant(np.array([0, 0, HEADS, SIZE], np.int64))), perm=[0, 2, 1, 3])


def attend(g, query, key, value):
    scores = g.add("MatMul", g.add("Mul", query, g.constant(np.array(SIZE ** -0.5, np.float32))), g.add("Transpose", key, perm=[0, 1, 3, 2]))
    seen = g.add("MatMul", g.add("Softmax", scores, axis=-1), value)
    return g.add("Reshape", g.add("Transpose", seen, perm=[0, 2, 1, 3]), g.constant(np.array([0, 0, WIDTH], np.int64)))


def linear(g, x, columns, rows=WIDTH):
    return g.add("Add", g.add("MatMul", x, g.weight(rows, columns)), g.weight(columns, scale=0.1))


def layer_norm(g, x):
    return g.add("LayerNormalization", x, g.constant(np.ones(WIDTH, np.float32)), g.weight(WIDTH, scale=0.1))


def network(g, x):
    return linear(g, g.add("Gelu", linear(g, x, 4 * WIDTH)), WIDTH, 4 * WIDTH)


def plain_encoder(type):
    """BERT's and Whisper's layers as plain operators: embeddings, attention to all, a network."""
    g = Graph(type, 2)
    token = g.input("token", TensorProto.INT64, [1, "tokens"])
    x = g.add("Add", g.add("Gather", g.weight(VOCAB, WIDTH, scale=1), token),
              g.add("Slice", g.weight(ROOM, WIDTH, scale=1), g.constant(np.array([0], np.int64)), g.add("Shape", token, start=1),
                    g.constant(np.array([0], np.int64))))
    x = layer_norm(g, x)
    for _ in range(LAYERS):
        heads = [split_heads(g, linear(g, x, WIDTH)) for _ in range(3)]
        x = layer_norm(g, g.add("Add", x, linear(g, attend(g, *heads), WIDTH)))
        x = layer_norm(g, g.add("Add", x, network(g, x)))
    g.add("Tanh", linear(g, x, VOCAB), outputs=["logits"])
    g.output("logits", None, [1, "tokens", VOCAB])
    return g.model()


def fused_encoder(type):
    """BERT's layers as the operators that ORT fuses them into."""
    g = Graph(type, 5)
    token, kinds = g.input("token", TensorProto.INT32, [1, "tokens"]), g.input("kinds", TensorProto.INT32, [1, "tokens"])
    mask = g.input("mask", TensorProto.INT32, [1, "tokens"])
    ones = g.constant(np.ones(WIDTH, np.float32))
    tables = [g.weight(rows, WIDTH, scale=1) for rows in (VOCAB, ROOM, 2)]
    x = g.add("EmbedLayerNormalization", token, kinds, *tables, ones, g.weight(WIDTH, scale=0.1), mask, outputs=["embedded", "lengths"], domain=MS)
    for _ in range(LAYERS):
        seen = g.add("Attention", x, g.weight(WIDTH, 3 * WIDTH), g.weight(3 * WIDTH, scale=0.1), "lengths", domain=MS, num_heads=HEADS)
        x = g.add("SkipLayerNormalization", x, g.add("MatMul", seen, g.weight(WIDTH, WIDTH)), ones, g.weight(WIDTH, scale=0.1),
                  g.weight(WIDTH, scale=0.1), domain=MS)
        wide = g.add("BiasGelu", g.add("MatMul", x, g.weight(WIDTH, 4 * WIDTH)), g.weight(4 * WIDTH, scale=0.1), domain=MS)
        x = g.add("SkipLayerNormalization", x, g.add("MatMul", wide, g.weight(4 * WIDTH, WIDTH)), ones, g.weight(WIDTH, scale=0.1),
                  g.weight(WIDTH, scale=0.1), domain=MS)
    g.add("MatMul", x, g.weight(WIDTH, VOCAB), outputs=["logits"])
    g.output("logits", None, [1, "tokens", VOCAB])
    return g.model()


def crossed_decoder(type):
    """Whisper's decoder as plain operators: a cache that grows, and attention to an encoder's keys and values."""
    g = Graph(type, 3)
    token = g.input("token", TensorProto.INT64, [1, 1])
    x = g.add("Gather", g.weight(VOCAB, WIDTH, scale=1), token)
    for layer in range(LAYERS):
        normed = layer_norm(g, x)
        query, new = split_heads(g, linear(g, normed, WIDTH)), [split_heads(g, linear(g, normed, WIDTH)) for _ in "kv"]
        present = []
        for kind, fresh in zip("kv", new):
            past = g.input(f"past_{kind}{layer}", None, [1, HEADS, "past", SIZE])
            present.append(g.add("Concat", past, fresh, outputs=[f"present_{kind}{layer}"], axis=2))
            g.output(present[-1], None, [1, HEADS, "all", SIZE])
        x = g.add("Add", x, linear(g, attend(g, query, *present), WIDTH))
        crossed = [g.input(f"heard_{kind}{layer}", None, [1, HEADS, 7, SIZE]) for kind in "kv"]
        x = g.add("Add", x, linear(g, attend(g, split_heads(g, linear(g, layer_norm(g, x), WIDTH)), *crossed), WIDTH))
        x = g.add("Add", x, network(g, layer_norm(g, x)))
    g.add("MatMul", layer_norm(g, x), g.weight(WIDTH, VOCAB), outputs=["logits"])
    g.output("logits", None, [1, 1, VOCAB])
    return g.model()


class Model(typing.NamedTuple):
    name: str
    build: typing.Callable  # of a type
    prompt: list
    types: tuple
    states: dict = {}  # inputs to their first values; each comes from the output that is named `present` instead of `past`
    others: dict = {}  # other constant inputs
    in_place: bool = False
    counts: bool = False  # it has the inputs `last` and `total`
    token: typing.Any = np.int64
    needs_cudnn: bool = False


def first_states(groups, rows):
    return {f"past_{kind}{layer}": np.zeros((1, groups, rows, SIZE), np.float32) for layer in range(LAYERS) for kind in "kv"}


def heard():
    random = np.random.default_rng(4)
    return {f"heard_{kind}{layer}": random.standard_normal((1, HEADS, 7, SIZE)).astype(np.float32) for layer in range(LAYERS) for kind in "kv"}


MODELS = [
    Model("decoder of groups", grouped_decoder, [3, 1, 4, 1, 5], (TensorProto.FLOAT16,), first_states(GROUPS, ROOM), in_place=True, counts=True),
    *(Model(f"decoder of {bits} bits", functools.partial(grouped_decoder, bits=bits), [3, 1, 4, 1, 5], (TensorProto.FLOAT16,),
            first_states(GROUPS, ROOM), in_place=True, counts=True) for bits in (4, 8)),
    Model("encoder", plain_encoder, [2, 7, 1, 8, 2, 8], (TensorProto.FLOAT, TensorProto.FLOAT16)),
    Model("encoder, fused", fused_encoder, [2, 7, 1, 8, 2, 8], (TensorProto.FLOAT, TensorProto.FLOAT16), token=np.int32, needs_cudnn=True,
          others={"kinds": np.array([[0, 0, 0, 1, 1, 1]], np.int32), "mask": np.array([[1, 1, 1, 1, 0, 0]], np.int32)}),
    Model("decoder with an encoder", crossed_decoder, [5], (TensorProto.FLOAT, TensorProto.FLOAT16), first_states(HEADS, 0), heard()),
]


def present_of(past):
    return past.replace("past", "present")


def counts(model, seen, new):
    return {"last": np.array([seen + new - 1], np.int32), "total": np.array([seen + new], np.int32)} if model.counts else {}


def on_cpu(model, type):
    """The input tokens of each step, and the logits."""
    session = run.session_of(model.build(TensorProto.FLOAT), False)
    constants = {name: run.rounded(array, type).astype(array.dtype) for name, array in model.others.items()}
    states, tokens, seen, fed, logits = dict(model.states), model.prompt, 0, [], []
    for _ in range(STEPS):
        feeds = {"token": np.array([tokens], model.token), **counts(model, seen, len(tokens)), **constants, **states}
        names = ["logits", *map(present_of, states)]
        results = dict(zip(names, session.run(names, feeds)))
        seen += len(tokens)
        fed.append(tokens)
        logits.append(results["logits"])
        states = {name: results[present_of(name)] for name in states}
        tokens = [int(results["logits"][0, -1].argmax())] if model.states else tokens
    return fed, logits


def on_cuda(model, type, fed):
    session = run.session_of(model.build(type), True)
    states = {name: run.to_device(array, type) for name, array in model.states.items()}
    constants = {name: run.to_device(array, type) for name, array in model.others.items()}
    seen = 0
    for tokens in fed:
        binding = session.io_binding()
        binding.bind_ortvalue_input("token", onnxruntime.OrtValue.ortvalue_from_numpy(np.array([tokens], model.token), "cuda", 0))
        for name, array in counts(model, seen, len(tokens)).items():
            binding.bind_cpu_input(name, array)
        for name, value in (constants | states).items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output("logits", "cuda")
        for name, value in states.items():
            if model.in_place:
                binding.bind_ortvalue_output(present_of(name), value)
            else:
                binding.bind_output(present_of(name), "cuda")
        session.run_with_iobinding(binding)
        seen += len(tokens)
        results = binding.get_outputs()
        states = dict(zip(states, results[1:]))
        yield run.to_host(results[0])


def judge(model):
    """A description of the failure: logits out of tolerance, or another most likely token."""
    for type in model.types:
        name = TensorProto.DataType.Name(type).lower()
        try:
            fed, expected = on_cpu(model, type)
            for step, (one, got) in enumerate(zip(expected, on_cuda(model, type, fed))):
                wrong = run.difference(one, got, TOLERANCE[type])
                if wrong or (one.argmax(-1) != got.argmax(-1)).any():
                    return f"{name}, step {step + 1}: {wrong or 'another token'}"
        except Exception as error:  # of any class: ORT has many
            return f"{name}: {str(error).splitlines()[0][:600]}"
    return ""
