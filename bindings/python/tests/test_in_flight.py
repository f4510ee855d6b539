"""Access of the host to tensors that runs and copies in flight use: it comes after them."""

import threading

import numpy
import pytest

import iobind
from support import slow

WHERE = ["cpu", "vdev"]  # WebGPU's provider has no loop
LOOKS = {
    "numpy": lambda tensor: tensor.numpy(),
    "asarray": lambda tensor: numpy.asarray(tensor.to("cpu")),
    "tolist": lambda tensor: numpy.array(tensor.tolist()),
    "copy": lambda tensor: tensor.copy().numpy(),
    "slice": lambda tensor: tensor[0:1].numpy(),
}


def on_stream(device):
    """A binding whose runs take a while on the stream, its input, its output and the stream."""
    session = iobind.Session(slow(0.2), device=device, threads=1)
    x = iobind.tensor(numpy.ones((64, 64), "f4"), device=device)
    y = iobind.tensor(numpy.full((64, 64), 7, "f4"), device=device)
    binding = session.bind({"x": x}, outputs={"y": y})
    return binding, x, y, iobind.Stream(y.device)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("where", WHERE)
def test_an_output_of_a_run_on_a_stream(where, look):
    binding, _, y, stream = on_stream(where)
    binding.run(stream=stream)
    assert not LOOKS[look](y).any()  # the run gives zeros


@pytest.mark.parametrize("where", WHERE)
def test_a_target_of_a_copy_on_a_stream(where):
    binding, _, y, stream = on_stream(where)
    q = iobind.tensor(numpy.full((64, 64), 5, "f4"), device="cpu")
    binding.run(stream=stream)
    q.copy_from(y, stream=stream)
    assert not q.numpy().any()


def test_an_input_of_a_run_in_another_thread_is_not_overwritten():
    session = iobind.Session(slow(0.3), threads=1)
    x = iobind.tensor(numpy.ones((64, 64), "f4"))
    y = iobind.tensor(numpy.full((64, 64), 7, "f4"))
    binding = session.bind({"x": x}, outputs={"y": y})
    started = threading.Event()

    def run():
        started.set()
        binding.run()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    while True:  # until the run is seen
        try:
            binding.bind(outputs={"y": y})
        except iobind.InvalidState:
            break
        if not thread.is_alive():
            pytest.fail("the run was over before it was seen")
    x.write(numpy.full((64, 64), 3, "f4"))
    binding.bind(outputs={"y": y})  # it is idle: the write has come after the run
    assert not y.numpy().any()
    thread.join()
