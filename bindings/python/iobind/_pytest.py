"""The pytest plugin: the fixture `vdev`, and the mark that configures it, @pytest.mark.vdev(race="fail")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .vdev import Vdev


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark. config: pytest's."""
    config.addinivalue_line("markers", "vdev(**settings): settings of the virtual accelerator for the fixture vdev, such as race='fail'")


@pytest.fixture
def vdev(request: pytest.FixtureRequest) -> Iterator[Vdev]:
    """The virtual accelerator under onnxruntime: an iobind.vdev.Vdev with the mark's settings and counters at 0. A setting that does not
    exist, or that applies to the whole process, fails the test. Raises ImportError without onnxruntime."""
    from ._errors import InvalidState
    from .vdev import Vdev

    settings: dict[str, object] = {}
    for mark in reversed(list(request.node.iter_markers("vdev"))):
        if mark.args:
            pytest.fail("vdev: the mark takes settings by name: @pytest.mark.vdev(race='fail')", pytrace=False)
        settings.update(mark.kwargs)
    try:
        made = Vdev(**settings)
    except (ValueError, InvalidState) as wrong:
        pytest.fail(str(wrong), pytrace=False)
    for device in range(len(made.devices)):
        made._native.vdev_reset(device)
    yield made
    made.reset()
