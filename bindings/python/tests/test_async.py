"""Runs that are awaited, and tasks that are cancelled meanwhile."""

import asyncio
import gc
import threading
import time

import numpy
import pytest

import iobind
from support import slow, twice

ZEROS = numpy.zeros((64, 64), numpy.float32)


class Watched(iobind.Binding):
    """Counts the runs that a thread of the pool has begun."""

    def __init__(self, session):
        super().__init__(session)
        self.begun = 0
        self.calls = 0  # of cancel()
        self["x"] = ZEROS

    def _make_announced_run(self):
        self.begun += 1
        return super()._make_announced_run()


class DeafAtFirst(Watched):
    """Its run goes on for a while after it was cancelled."""

    def cancel(self):
        self.calls += 1
        threading.Timer(0.05, super().cancel).start()


class Sleepy(iobind.Binding):
    """The thread of the pool begins its run late."""

    def _make_announced_run(self):
        time.sleep(0.02)
        return super()._make_announced_run()


class Late(Watched):
    """Its cancel() takes longer than the run."""

    def cancel(self):
        for _ in range(300):
            time.sleep(0.001)
            if self.begun > 1:  # the run behind the one that was cancelled, which it must not hit
                time.sleep(0.05)
                break
        super().cancel()


async def begin(binding):
    """A task of a run that a thread has begun."""
    task = asyncio.create_task(binding.run_async())
    while not binding.begun:
        await asyncio.sleep(0.001)
    return task


async def is_cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_runs_of_several_bindings():
    async def all_of_them():
        session = iobind.Session(twice())
        bindings = [session.bind({"x": numpy.full(2, number, numpy.float32)}) for number in range(3)]
        outs = await asyncio.gather(*(binding.run_async() for binding in bindings))
        return [out["y"].numpy().tolist() for out in outs]

    assert asyncio.run(all_of_them()) == [[0, 0], [2, 2], [4, 4]]


def test_cancelling_a_task_cancels_its_run():
    async def cancelled():
        binding = Watched(iobind.Session(slow(1000), threads=1))
        await is_cancelled(await begin(binding))
        binding["x"] = ZEROS  # it is idle again

    asyncio.run(cancelled())


def test_cancelling_a_task_leaves_the_run_of_another():
    async def both():
        binding = Watched(iobind.Session(slow(0.3), threads=1))
        first = await begin(binding)
        waiting = asyncio.create_task(binding.run_async())
        await asyncio.sleep(0)
        await is_cancelled(waiting)
        return (await first)["y"].shape, (await binding.run_async())["y"].shape

    assert asyncio.run(both()) == ((64, 64), (64, 64))


def test_a_run_that_waits_outlives_the_one_before_it():
    async def both():
        binding = Late(iobind.Session(slow(0.1), threads=1))
        first = await begin(binding)
        waiting = asyncio.create_task(binding.run_async())
        await asyncio.sleep(0)
        await is_cancelled(first)
        return (await waiting)["y"].shape

    assert asyncio.run(both()) == (64, 64)


def test_a_task_that_is_cancelled_twice_waits_for_its_run():
    reported = []

    async def twice_cancelled():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))
        binding = DeafAtFirst(iobind.Session(slow(1000), threads=1))
        task = await begin(binding)
        task.cancel()
        while binding.calls == 0:
            await asyncio.sleep(0)
        await is_cancelled(task)
        binding["x"] = ZEROS
        assert binding.calls == 1

    asyncio.run(twice_cancelled())
    gc.collect()
    assert reported == []


def test_access_is_ordered_after_a_run_that_has_not_begun():
    async def accesses():
        session = iobind.Session(twice())
        x, y = iobind.empty(2, "float32"), iobind.empty(2, "float32")
        binding = Sleepy(session)
        binding.bind({"x": x}, outputs={"y": y})
        for _ in range(3):
            x.write(numpy.float32([1, 2]))
            y.write(numpy.float32([0, 0]))
            running = asyncio.create_task(binding.run_async())
            await asyncio.sleep(0)
            with pytest.raises(iobind.InvalidState):
                binding["x"] = ZEROS
            assert y.numpy().tolist() == [2, 4]
            await running
            running = asyncio.create_task(binding.run_async())
            await asyncio.sleep(0)
            x.write(numpy.float32([8, 9]))
            await running
            assert y.numpy().tolist() == [2, 4]

    asyncio.run(accesses())


def test_a_run_that_no_thread_makes_is_withdrawn():
    class NoThread:
        def submit(self, _):
            raise RuntimeError("can't start new thread")

    async def refused():
        binding = iobind.Session(twice()).bind({"x": numpy.float32([1, 2])})
        await binding.run_async()
        pool, binding._pool = binding._pool, NoThread()
        with pytest.raises(RuntimeError):
            await binding.run_async()
        binding._pool = pool
        assert (await binding.run_async())["y"].tolist() == binding.run()["y"].tolist() == [2, 4]

    asyncio.run(refused())


def test_a_loop_that_drops_its_results_keeps_none():
    async def steps():
        binding = iobind.Session(twice()).bind({"x": numpy.float32([1, 2])})
        seen = set()
        for _ in range(8):
            seen.add((await binding.run_async())["y"].numpy().ctypes.data)
        return len(seen)

    assert asyncio.run(steps()) <= 2
