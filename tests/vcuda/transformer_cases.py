"""The cases: each builds nodes for a type of floats, and has inputs with a seed of its own."""
import typing
import zlib

import numpy as np
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
    rows: dict = {}  # of caches that are outputs: how many of each sequence's rows mean something
    provider: dict = {}
    opset: int = 21
    reference: typing.Callable | None = None
    slack: float = 1


def random_of(name):
    """Numbers that depend on the name alone."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return lambda *dims: generator.standard_normal(dims).astype(np.float32)


def angles(rows, half):
    angle = np.arange(rows)[:, None] * 0.5 ** np.arange(half)[None]
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


# ---- GroupQueryAttention ----

def group_query(name, batch=2, tokens=1, heads=4, groups=2, size=32, past=(8, 5), capacity=0, packed=False, rotary=True, sink=False,
                types=(HALF, BFLOAT), provider={}, **attributes):
    """`capacity`: the cache has so many rows, and is written in place."""
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
    order = ["query", "key", "value", "past_key", "past_value", "last", "total", "cosines", "sines", "", "", "sink"]
    names = [each if each in inputs else "" for each in order]
    outputs = ["out", "present_key", "present_value"]
    attributes |= {"num_heads": heads, "kv_num_heads": groups, "do_rotary": int(rotary)}

    def nodes(_):
        return [helper.make_node("GroupQueryAttention", names, outputs, domain=MS, **attributes)]

    in_place = {"present_key": "past_key", "present_value": "past_value"} if capacity else {}
    return Case(name, nodes, inputs, outputs, types, on_host=("total",), in_place=in_place, provider=provider,
                rows={"present_key": past + tokens, "present_value": past + tokens})


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


def collect(all_of_them):
    cases = list(group_query_cases())
    if all_of_them:
        cases += group_query_long()
    return cases
