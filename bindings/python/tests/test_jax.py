"""JAX by DLPack, both ways, on the CPU: each in a process of its own, since JAX starts threads and has its own end of a process."""

from support import SMALL, child

JAX = SMALL + """
import gc, threading
import jax, jax.numpy as jnp
iobind.configure(log_level="error")
x = numpy.arange(6, dtype="f4")
"""


def test_there_and_back_without_a_copy():
    assert child(JAX + """
tensor = iobind.tensor(x.reshape(2, 3))
array = jnp.from_dlpack(tensor)
assert array.shape == (2, 3) and array.unsafe_buffer_pointer() == tensor.address
del tensor
gc.collect()
assert float(array.sum()) == 15

made = jnp.arange(4, dtype=jnp.float32) * 2
taken = iobind.from_dlpack(made)
assert taken.address == made.unsafe_buffer_pointer()
del made
gc.collect()
assert taken.numpy().tolist() == [0, 2, 4, 6]

binding = iobind.Session(twice()).bind({"x": taken})
step = jax.jit(lambda value: value + 1)
result = step(jnp.from_dlpack(binding.run()["y"]))
binding["x"] = iobind.from_dlpack(result)  # and on
assert binding.run()["y"].numpy().tolist() == [2, 10, 18, 26]
print(result.tolist())
""") == "[1.0, 5.0, 9.0, 13.0]\n"


def test_each_type():
    child(JAX + """
import ml_dtypes
for dtype in ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", ml_dtypes.bfloat16):
    array = numpy.array([[0, 1], [1, 0]]).astype(dtype)
    there = jnp.from_dlpack(iobind.tensor(array))
    assert there.dtype == array.dtype, (dtype, there.dtype)
    assert iobind.from_dlpack(there).numpy().tolist() == array.tolist()
""")


def test_what_cannot_be_handed_over():
    child(JAX + """
try:
    jnp.from_dlpack(iobind.tensor(x, "vdev"))
except Exception as reason:  # JAX's own
    assert "12" in str(reason), reason
else:
    raise SystemExit("JAX took a device that it does not know")
try:
    jnp.from_dlpack(iobind.wrap(x, writable=False))  # JAX asks for a struct from before DLPack 1.0
except BufferError as reason:
    assert "read-only" in str(reason), reason
else:
    raise SystemExit("JAX got read-only memory without being told")
""")


def test_exit_with_everything_held():
    """Arrays over tensors, tensors over arrays, capsules that nobody used, and threads that still exchange them."""
    assert child(JAX + """
kept = [jnp.from_dlpack(iobind.wrap(x)), jnp.from_dlpack(iobind.from_dlpack(x)), iobind.from_dlpack(jnp.arange(3.0))]
binding = iobind.Session(twice()).bind({"x": iobind.from_dlpack(kept[0])})
kept.append(jnp.from_dlpack(binding.run()["y"]))
kept += [kept[-1] + 1, binding.run()["y"].__dlpack__(max_version=(1, 1)), kept[0].__dlpack__()]
cycle = [kept]
cycle.append(cycle)

def exchange():
    for number in range(20):
        iobind.from_dlpack(jnp.from_dlpack(iobind.tensor(x)) * number)

threads = [threading.Thread(target=exchange) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads[:2]:
    thread.join()
print("end", flush=True)
""") == "end\n"
