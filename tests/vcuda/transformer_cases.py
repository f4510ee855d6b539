"""The cases: each builds nodes for a float type, and has inputs with its own seed."""
import os
import typing
import zlib

import numpy as np
import transformer_run as run
from onnx import TensorProto, helper

FLOAT, HALF, BFLOAT = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
MS = "com.microsoft"


class Case(typing.NamedTuple):
    name: str
    nodes: typing.Callable  # of a type
    inputs: dict
    outputs: list
    types: tuple = (FLOAT, HALF)
    weights: dict = {}
    on_host: tuple = ()  # inputs
    in_place: dict = {}  # outputs to the inputs whose memory they write
    output_types: dict = {}
    rows: dict = {}  # of caches that are outputs: the number of valid rows of each sequence
    provider: dict = {}
    opset: int = 21
    reference: typing.Callable | None = None
    slack: float = 1
    needs_cudnn: bool = False  # the EP creates a handle, even if it does not use it


def random_of(name):
    """Random numbers that depend only on the name."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return lambda *dims: generator.standard_normal(dims).astype(np.float32)


def angles(rows, half):
    angle = np.arange(rows)[:, None] * 0.5 ** np.arange(half)[None]
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


# ---- GroupQueryAttention ----

def group_query(name, batch=2, tokens=1, heads=4, groups=2, size=32, past=(8, 5), capacity=0, packed=False, rotary=True, sink=False,
                further={}, types=(HALF, BFLOAT), provider={}, **attributes):
    """`capacity`: the rows of a cache that is written in place."""
    random = random_of(name)
    past = np.resize(np.array(past, np.int32), batch)
    rows = capacity or int(past.max())
    inputs = {"query": random(batch, tokens, (heads + 2 * groups if packed else heads) * size)}
    if not packed:
        inputs |= {"key": random(batch, tokens, groups * size), "value": random(batch, tokens, groups * size)}
    inputs |= {"past_key": random(batch, groups, rows, size), "past_value": random(batch, groups, rows, size)}
    inputs |= {"last": past + tokens - 1, "total": np.array([past.max() + tokens], np.int32)}
    if rotary:
        inputs["cosines"], inputs["sines"] = angles(int(past.max()) + tokens + 3, size // 2)
    if sink:
        inputs["sink"] = random(heads)
    inputs |= further
    order = ["query", "key", "value", "past_key", "past_value", "last", "total", "cosines", "sines", "positions", "bias", "sink", "", "", "query_norm",
             "key_norm"]
    names = [each if each in inputs else "" for each in order]
    while names[-1] == "":
        names = names[:-1]
    outputs = ["out", "present_key", "present_value"]
    attributes |= {"num_heads": heads, "kv_num_heads": groups, "do_rotary": int(rotary)}

    def nodes(_):
        return [helper.make_node("GroupQueryAttention", names, outputs, domain=MS, **attributes)]

    in_place = {"present_key": "past_key", "present_value": "past_value"} if capacity else {}
    return Case(name, nodes, inputs, outputs, types, on_host=("total",), in_place=in_place, provider=provider,
                rows={"present_key": past + tokens, "present_value": past + tokens})


def normalised(array, weights):
    """Each head divided by its root mean square."""
    heads = array.reshape(*array.shape[:-1], -1, weights.size)
    return (heads / np.sqrt((heads ** 2).mean(-1, keepdims=True) + 1e-6) * weights).reshape(array.shape)


def group_query_with_norms(name, **options):
    """The CPU EP lacks these norms: for the reference the inputs are normalised first."""
    random, plain = random_of(f"{name} norms"), group_query(name, **options)

    def reference(feeds):
        heads = {key: normalised(feeds[key], feeds[f"{key}_norm"]) for key in ("query", "key")}
        inputs = {key: heads.get(key, array) for key, array in feeds.items() if key in plain.inputs}
        return run.on_cpu(plain._replace(inputs=inputs), FLOAT)

    return group_query(name, further={"query_norm": random(32), "key_norm": random(32)}, **options)._replace(reference=reference)


def group_query_cases():
    yield group_query("gqa prompt", tokens=5, past=(0,))
    yield group_query("gqa step")
    yield group_query("gqa step in place", capacity=64)  # flash attention appends
    yield group_query("gqa step in place, packed", capacity=16, packed=True)
    yield group_query("gqa step in place, head 64", capacity=16, size=64)  # XQA
    yield group_query("gqa step in place, head 128", capacity=64, size=128, batch=3, heads=8)
    yield group_query("gqa prompt in place", tokens=4, past=(0,), capacity=16)
    yield group_query("gqa window", local_window_size=4)
    yield group_query("gqa cap", softcap=5.0)
    yield group_query("gqa sink", sink=True)
    yield group_query("gqa many keys", batch=1, heads=2, groups=1, past=(1500,), types=(HALF,))  # split


def group_query_long():
    for way, number in (("efficient", "2"), ("steps", "16")):
        yield group_query(f"gqa prompt, {way}", tokens=5, past=(0,), provider={"sdpa_kernel": number})
        yield group_query(f"gqa step, {way}", provider={"sdpa_kernel": number})
        yield group_query(f"gqa step in place, {way}", capacity=16, provider={"sdpa_kernel": number})
        yield group_query(f"gqa window, {way}", local_window_size=4, provider={"sdpa_kernel": number})
        yield group_query(f"gqa large, {way}", heads=16, groups=4, size=256, provider={"sdpa_kernel": number})
    random = random_of("gqa further")
    yield group_query_with_norms("gqa norms")
    yield group_query_with_norms("gqa norms in place", capacity=16)
    yield group_query("gqa positions", further={"positions": np.array([[3], [9]], np.int64)})
    yield group_query("gqa bias", further={"bias": random(2, 4, 1, 9)})
    yield group_query("gqa bias for all", tokens=5, past=(0,), further={"bias": random(1, 1, 5, 5)})
    yield group_query("gqa cap, steps", softcap=5.0, provider={"sdpa_kernel": "16"})
    yield group_query("gqa prompt packed", tokens=7, past=(0,), packed=True)
    yield group_query("gqa prompt padded, long", tokens=70, past=(0,), batch=1, size=80, heads=4, groups=4)
    yield group_query("gqa chunk in place", batch=1, tokens=4, past=(4,), capacity=64)
    yield group_query("gqa neighbours", rotary_interleaved=1)
    yield group_query("gqa neighbours in place", rotary_interleaved=1, capacity=16)
    yield group_query("gqa without rotary", rotary=False)
    yield group_query("gqa without rotary in place", rotary=False, capacity=16)
    yield group_query("gqa window in place", local_window_size=4, capacity=16)
    yield group_query("gqa window in place, head 64", local_window_size=4, capacity=16, size=64)
    yield group_query("gqa sink in place, head 64", sink=True, capacity=16, size=64)
    yield group_query("gqa smooth", smooth_softmax=1)
    yield group_query("gqa cap in place", softcap=5.0, capacity=16)
    yield group_query("gqa many keys in place", batch=1, heads=2, groups=1, past=(1500,), capacity=1600)
    yield group_query("gqa many keys in a window", batch=1, heads=2, groups=1, past=(1500,), capacity=1600, local_window_size=700)
    yield group_query("gqa head 256 in place", capacity=16, size=256, heads=8, groups=1)


# ---- operators with a few attributes ----

def one(name, operator, inputs, outputs=1, domain="", types=(FLOAT, HALF, BFLOAT), weights=None, opset=21, order=None, fields=None, **attributes):
    """A case with one node, whose inputs are the case's inputs and weights in `order`; `fields` are further fields of the case."""
    names = order or [*inputs, *(weights or {})]
    while names[-1] == "":
        names = names[:-1]
    outs = [f"out{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs

    def nodes(_):
        return [helper.make_node(operator, names, outs, domain=domain, **attributes)]

    return Case(name, nodes, inputs, [out for out in outs if out], types, weights=weights or {}, opset=opset, **(fields or {}))


def normalisation_cases():
    random = random_of("norm")
    x, skip, scale, bias = random(3, 5, 32), random(3, 5, 32), random(32), random(32)
    yield one("skip norm", "SkipLayerNormalization", {"x": x, "skip": skip, "gamma": scale, "beta": bias}, domain=MS, types=(FLOAT, HALF))
    yield one("skip norm, all", "SkipLayerNormalization", {"x": x, "skip": skip, "gamma": scale, "beta": random(32), "bias": bias},
              ["out", "", "", "sum"], domain=MS, types=(FLOAT, HALF))
    yield one("skip rms norm", "SkipSimplifiedLayerNormalization", {"x": x, "skip": skip, "gamma": scale}, ["out", "", "", "sum"], domain=MS)
    yield one("rms norm, simplified", "SimplifiedLayerNormalization", {"x": x, "gamma": scale})
    yield one("rms norm", "RMSNormalization", {"x": x, "gamma": scale}, opset=23)
    yield one("layer norm", "LayerNormalization", {"x": random(2, 3, 130), "gamma": random(130), "beta": random(130)})


def activation_cases():
    random = random_of("activation")
    x, bias = random(3, 5, 32), random(32)
    yield one("bias gelu", "BiasGelu", {"x": x, "bias": bias}, domain=MS)
    yield one("fast gelu", "FastGelu", {"x": x, "bias": bias}, domain=MS)
    yield one("fast gelu, odd", "FastGelu", {"x": random(3, 5), "bias": random(5)}, domain=MS)
    yield one("quick gelu", "QuickGelu", {"x": x}, domain=MS, types=(FLOAT, HALF))
    yield one("gelu", "Gelu", {"x": x}, types=(FLOAT, HALF))


def rotary_cases():
    random = random_of("rotary")
    cosines, sines = angles(20, 8)
    offset, each = np.array([3], np.int64), np.array([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]], np.int64)
    for name, x, position, extra in [("offset", random(2, 5, 64), offset, {}), ("each", random(2, 4, 5, 16), each, {}),
                                     ("neighbours", random(2, 5, 64), each, {"interleaved": 1}),
                                     ("part", random(2, 5, 128), each, {"rotary_embedding_dim": 16, "num_heads": 4})]:
        yield one(f"rotary {name}", "RotaryEmbedding", {"x": x, "position": position, "cosines": cosines, "sines": sines}, domain=MS, **extra)
    yield one("rotary 23", "RotaryEmbedding", {"x": random(2, 5, 64), "cosines": cosines, "sines": sines, "position": each}, opset=23, num_heads=4)
    yield one("rotary 23, heads", "RotaryEmbedding", {"x": random(2, 4, 5, 16), "cosines": cosines, "sines": sines, "position": each}, opset=23,
              interleaved=1)
    yield one("rotary 23, rows", "RotaryEmbedding", {"x": random(2, 4, 5, 16), "cosines": random(2, 5, 8), "sines": random(2, 5, 8)}, opset=23)


# ---- MatMulNBits ----

def n_bits(name, bits=4, rows=1, inner=64, columns=48, block=32, zeros=False, bias=False, types=(FLOAT, HALF, BFLOAT)):
    generator, random = np.random.default_rng(zlib.crc32(name.encode())), random_of(name)
    blocks = -(-inner // block)
    weights = {"b": generator.integers(0, 256, (columns, blocks, block * bits // 8), np.uint8), "scales": np.abs(random(columns, blocks)) / 8}
    order = ["a", "b", "scales"]
    if zeros:
        weights["zeros"] = generator.integers(0, 256, (columns, -(-blocks * bits // 8)), np.uint8)
    if bias:
        weights["bias"] = random(columns)
    order += ["zeros" if zeros else "", "", "bias" if bias else ""]
    return one(name, "MatMulNBits", {"a": random(2, rows, inner)[:1] if rows == 1 else random(2, rows, inner)}, domain=MS, types=types, weights=weights,
               order=order, K=inner, N=columns, bits=bits, block_size=block)


def n_bits_ordered(name, bits, rows, zeros=True, columns=48, blocks=3, block=32):
    """g_idx gives the block whose scale and zero apply to a row. The CPU EP of 1.31.1 has no 8 bits here, and other zeros for 4 bits."""
    generator, random = np.random.default_rng(zlib.crc32(name.encode())), random_of(name)
    numbers = generator.integers(0, 1 << bits, (columns, blocks * block), np.uint8)
    middles = generator.integers(0, 1 << bits, (columns, blocks), np.uint8) if zeros else np.full((columns, blocks), 1 << (bits - 1), np.uint8)
    scales, places = np.exp2(generator.integers(-5, -2, (columns, blocks))).astype(np.float32), generator.integers(0, blocks, blocks * block, np.int32)

    def packed(array):
        padded = np.pad(array, [(0, 0), (0, array.shape[1] % 2)])
        return array if bits == 8 else padded[:, ::2] | padded[:, 1::2] << 4

    def reference(feeds):
        unpacked = (numbers.astype(np.float32) - middles[:, places]) * scales[:, places]
        return {"out0": feeds["a"] @ unpacked.T}

    weights = {"b": packed(numbers).reshape(columns, blocks, -1), "scales": scales, "zeros": packed(middles), "places": places}
    if not zeros:
        del weights["zeros"]
    return one(name, "MatMulNBits", {"a": random(rows, blocks * block)}, domain=MS, types=(FLOAT, HALF), weights=weights,
               order=["a", "b", "scales", "zeros" if zeros else "", "places"], K=blocks * block, N=columns, bits=bits,
               block_size=block)._replace(reference=reference)


def n_bits_cases():
    for bits in (4, 8):
        yield n_bits(f"n bits {bits}", bits)
        yield n_bits(f"n bits {bits}, zeros", bits, zeros=True)
        yield n_bits(f"n bits {bits}, rows", bits, rows=5, zeros=True)
        yield n_bits(f"n bits {bits}, bias", bits, bias=True, types=(HALF,))
        yield n_bits(f"n bits {bits}, block 16", bits, block=16, inner=96)
        yield n_bits(f"n bits {bits}, block 128, rows", bits, block=128, inner=256, rows=3, columns=64)
        for rows in (1, 5):
            yield n_bits_ordered(f"n bits {bits}, ordered, rows {rows}", bits, rows)
        yield n_bits_ordered(f"n bits {bits}, ordered, middle", bits, rows=2, zeros=False)
        yield n_bits(f"n bits {bits}, many rows", bits, rows=40, inner=128, columns=32)


def n_bits_long():
    for bits in (2, 8):
        yield n_bits(f"n bits {bits}, few rows", bits, rows=3, columns=64, types=(HALF, BFLOAT))
    yield n_bits("n bits 2", 2, columns=64, types=(HALF,))
    yield n_bits("n bits 2, zeros", 2, columns=64, zeros=True, types=(HALF,))
    yield n_bits("n bits 2, many rows", 2, rows=40, columns=64, zeros=True, types=(FLOAT, HALF))


# ---- attention of ONNX ----

def attention(name, tokens=4, keys=0, past=0, heads=4, groups=4, size=16, batch=2, mask=None, flat=False, values=0, outputs=None, used=None,
              types=(FLOAT, HALF, BFLOAT), opset=23, fields=None, **attributes):
    random = random_of(name)
    keys, values = keys or tokens, values or size
    shape = (lambda t, h, s: (batch, t, h * s)) if flat else (lambda t, h, s: (batch, h, t, s))
    inputs = {"q": random(*shape(tokens, heads, size)), "k": random(*shape(keys, groups, size)), "v": random(*shape(keys, groups, values))}
    if mask in ("bool", "blind"):
        inputs["mask"] = np.random.default_rng(1).integers(0, 2, (tokens, keys + past)).astype(bool) | np.eye(tokens, keys + past, dtype=bool)
        if mask == "blind":  # the first query sees no key
            inputs["mask"][0] = False
    elif mask is not None:
        inputs["mask"] = random(*mask)
    if past:
        inputs |= {"past_key": random(batch, groups, past, size), "past_value": random(batch, groups, past, values)}
    if used is not None:
        inputs["used"] = np.array(used, np.int64)
    order = [each if each in inputs else "" for each in ["q", "k", "v", "mask", "past_key", "past_value", "used"]]
    if flat:
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    outputs = outputs or (["out", "present_key", "present_value"] if past else ["out"])
    return one(name, "Attention", inputs, outputs, types=types, opset=opset, order=order, fields=fields, **attributes)


def attention_cases():
    yield attention("attention")
    yield attention("attention causal", is_causal=1)
    yield attention("attention flat", flat=True, is_causal=1)
    yield attention("attention bool", mask="bool")
    for keys in (4, 5):  # memory-efficient attention, and steps
        yield attention(f"attention blind, {keys} keys", tokens=4, keys=keys, mask="blind")
    yield attention("attention mask", mask=(2, 4, 4, 4))
    yield attention("attention mask of all", mask=(4, 4), is_causal=1)
    yield attention("attention cross", tokens=3, keys=7)
    yield attention("attention groups", groups=2, is_causal=1)
    yield attention("attention past", past=6, tokens=1)
    yield attention("attention past, groups", past=6, tokens=1, groups=2, flat=True, is_causal=1)
    yield attention("attention cap", softcap=3.0)
    yield attention("attention products", qk_matmul_output_mode=0, outputs=["out", "", "", "products"])
    yield attention("attention used", tokens=3, keys=8, used=(8, 5), opset=24)
    yield attention("attention used, causal", tokens=1, keys=8, used=(8, 5), opset=24, groups=2, is_causal=1)
    yield attention("attention head 64", size=64, tokens=8, is_causal=1)


def attention_long():
    yield attention("attention groups, bool", groups=2, mask="bool", tokens=3)
    yield attention("attention groups, mask", groups=2, mask=(2, 1, 4, 4), is_causal=1, softcap=3.0)
    yield attention("attention groups, mask of heads", groups=2, mask=(1, 4, 4, 4))
    yield attention("attention past, mask", past=4, tokens=4, mask=(4, 8))
    yield attention("attention past, bool", past=3, tokens=2, mask="bool", is_causal=1)
    yield attention("attention cross causal", tokens=3, keys=7, is_causal=1)
    yield attention("attention values", size=16, values=24)
    yield attention("attention head 80, many", size=80, tokens=70, is_causal=1)
    yield attention("attention scale", scale=0.2)
    yield attention("attention used, heads", tokens=2, keys=8, used=(8, 5), opset=24, is_causal=1, size=64)
    yield attention("attention used, mask", tokens=4, keys=8, used=(8, 5), opset=24, mask=(4, 8))


def scatter_cases():
    random = random_of("scatter")
    cache, new = random(2, 3, 8, 4), random(2, 3, 2, 4)
    indices = np.array([6, 1], np.int64)
    yield one("tensor scatter", "TensorScatter", {"cache": cache, "new": new, "indices": indices}, opset=24)
    yield one("tensor scatter in place", "TensorScatter", {"cache": cache, "new": new, "indices": indices}, ["out"], opset=24,
              fields={"in_place": {"out": "cache"}})
    yield one("tensor scatter circular", "TensorScatter", {"cache": cache, "new": new, "indices": np.array([7, 1], np.int64)}, opset=24, mode="circular")


# ---- attention of encoders and older decoders ----

# Without TensorRT's kernels, which are not part of ORT.
OWN_KERNELS = {"sdpa_kernel": "19"}


def multi_head(name, tokens=4, keys=0, heads=4, size=16, batch=2, bias=False, padding=None, mask=None, past=0, types=(FLOAT, HALF),
               provider=OWN_KERNELS, **attributes):
    random = random_of(name)
    keys = keys or tokens
    inputs = {"q": random(batch, tokens, heads * size), "k": random(batch, keys, heads * size), "v": random(batch, keys, heads * size)}
    if bias:
        inputs["bias"] = random(3 * heads * size)
    if padding is not None:
        inputs["padding"] = np.array(padding, np.int32)
    if mask is not None:
        inputs["mask"] = random(*mask)
    if past:
        inputs |= {"past_key": random(batch, heads, past, size), "past_value": random(batch, heads, past, size)}
    order = [each if each in inputs else "" for each in ["q", "k", "v", "bias", "padding", "mask", "past_key", "past_value"]]
    outputs = ["out", "present_key", "present_value"] if past else ["out"]
    return one(name, "MultiHeadAttention", inputs, outputs, domain=MS, types=types, order=order, num_heads=heads,
               fields={"provider": provider, "needs_cudnn": True}, **attributes)


def multi_head_cases():
    yield multi_head("multi head")
    yield multi_head("multi head bias", bias=True)
    yield multi_head("multi head cross", tokens=3, keys=7)
    yield multi_head("multi head lengths", padding=(4, 2))
    yield multi_head("multi head padding", padding=((1, 1, 1, 1), (1, 1, 0, 0)))
    yield multi_head("multi head mask", mask=(2, 4, 4, 4))
    yield multi_head("multi head causal", unidirectional=1)
    yield multi_head("multi head past", past=5, tokens=1)
    yield multi_head("multi head scale", scale=0.3)


def multi_head_long():
    yield multi_head("multi head by default", provider={})
    yield multi_head("multi head large", size=128, heads=16, bias=True, tokens=3)
    yield multi_head("multi head odd", size=7, bias=True)
    yield multi_head("multi head many", tokens=300, size=32, batch=1, mask=(1, 1, 300, 300))
    yield multi_head("multi head padding, many", tokens=1200, size=8, heads=1, batch=1, padding=((1,) * 1000 + (0,) * 200,))
    yield multi_head("multi head many causal", tokens=1100, size=8, heads=1, batch=1, unidirectional=1, mask=(1, 1, 1100, 1100))
    yield bert_attention("bert attention start", mask=(4, 3, 0, 1))
    yield bert_attention("bert attention start, causal", mask=(4, 4, 2, 1), unidirectional=1)
    yield bert_attention("bert attention mask of queries", mask=np.tril(np.ones((2, 4, 4), np.int32)))
    yield bert_attention("bert attention large", size=64, heads=20, provider=OWN_KERNELS)


def bert_attention(name, tokens=4, heads=4, size=8, batch=2, mask=None, types=(FLOAT, HALF), past=0, provider={}, **attributes):
    random, hidden = random_of(name), heads * size
    inputs = {"x": random(batch, tokens, hidden)}
    weights = {"w": random(hidden, 3 * hidden) / np.sqrt(np.float32(hidden)), "b": random(3 * hidden)}
    if mask is not None:
        inputs["mask"] = np.array(mask, np.int32)
    if past:
        inputs["past"] = random(2, batch, heads, past, size)
    order = [each if each in inputs or each in weights else "" for each in ["x", "w", "b", "mask", "past"]]
    outputs = ["out", "present"] if past else ["out"]
    return one(name, "Attention", inputs, outputs, domain=MS, types=types, weights=weights, order=order, num_heads=heads,
               fields={"provider": provider, "needs_cudnn": True}, **attributes)


def bert_cases():
    yield bert_attention("bert attention")
    yield bert_attention("bert attention lengths", mask=(4, 2))
    yield bert_attention("bert attention mask", mask=((1, 1, 1, 1), (1, 1, 1, 0)))
    yield bert_attention("bert attention causal", unidirectional=1)
    yield bert_attention("bert attention past", tokens=1, past=3, unidirectional=1)
    random = random_of("embed")
    ids, segments = np.array([[1, 5, 2], [9, 0, 0]], np.int32), np.array([[0, 0, 1], [1, 0, 0]], np.int32)
    tables = {"words": random(10, 16), "positions": random(6, 16), "kinds": random(2, 16), "gamma": random(16), "beta": random(16)}
    mask = np.array([[1, 1, 1], [1, 0, 0]], np.int32)
    yield one("embed", "EmbedLayerNormalization", {"ids": ids, "segments": segments}, ["out", "lengths"], domain=MS, types=(FLOAT, HALF), weights=tables,
              order=["ids", "segments", "words", "positions", "kinds", "gamma", "beta"], fields={"output_types": {"lengths": TensorProto.INT32}})
    yield one("embed mask", "EmbedLayerNormalization", {"ids": ids, "segments": segments, "mask": mask}, ["out", "lengths", "sum"], domain=MS,
              types=(FLOAT, HALF), weights=tables, order=["ids", "segments", "words", "positions", "kinds", "gamma", "beta", "mask"],
              fields={"output_types": {"lengths": TensorProto.INT32}})


# ---- attention by cuDNN, which only some versions of cuDNN have ----

CUDNN = {"sdpa_kernel": "8"}


def cudnn_cases():
    some = {"provider": CUDNN, "types": (HALF,)}
    yield multi_head("cudnn", **some)
    yield multi_head("cudnn bias", bias=True, **some)
    yield multi_head("cudnn cross", tokens=3, keys=7, **some)
    yield multi_head("cudnn lengths", padding=(4, 2), **some)
    yield multi_head("cudnn mask", mask=(2, 4, 4, 4), **some)
    yield multi_head("cudnn mask of all", mask=(1, 1, 4, 4), **some)
    yield multi_head("cudnn lengths and mask", padding=(4, 2), mask=(1, 4, 4, 4), **some)
    yield multi_head("cudnn causal", unidirectional=1, **some)
    yield multi_head("cudnn past", past=5, tokens=1, **some)
    if int(os.environ.get("VCUDA_CUDNN", "0")) >= 90600:  # earlier versions only for sizes that are multiples of 64
        yield multi_head("cudnn past and causal", past=5, tokens=3, unidirectional=1, **some)
    yield multi_head("cudnn scale", scale=0.3, **some)
    yield group_query("cudnn gqa prompt", tokens=5, past=(0,), provider=CUDNN)
    yield group_query("cudnn gqa step", provider=CUDNN)
    yield group_query("cudnn gqa step in place", capacity=64, batch=1, past=(9,), provider=CUDNN)
    yield attention("cudnn attention used", tokens=1, keys=8, used=(8, 5), opset=24, groups=2, is_causal=1, types=(HALF, BFLOAT),
                    fields={"provider": CUDNN})
    yield attention("cudnn attention of no key", tokens=1, keys=8, used=(0, 5), opset=24, groups=2, is_causal=1, types=(HALF,), fields={"provider": CUDNN})
    yield multi_head("cudnn large", heads=8, size=64, tokens=70, batch=1, **some)


SHORT = [group_query_cases, normalisation_cases, activation_cases, rotary_cases, n_bits_cases, attention_cases, scatter_cases,
         multi_head_cases, bert_cases]
LONG = [group_query_long, n_bits_long, attention_long, multi_head_long]


def collect(all_of_them):
    return [case for family in SHORT + (LONG if all_of_them else []) for case in family()]
