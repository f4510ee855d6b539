"""Each test that takes `device` runs on every device that is there."""

import os

import pytest

import iobind

REQUIRED = os.environ.get("IOBIND_REQUIRE", "").split(",")
DEVICES = os.environ.get("IOBIND_PYTHON_DEVICES", "cpu,vdev,webgpu").split(",")
iobind.configure(software_devices=True, log_level="error")


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", DEVICES, indirect=True)


@pytest.fixture
def device(request):
    try:
        iobind.device(request.param)
    except iobind.Error as reason:
        if request.param in REQUIRED:
            raise
        pytest.skip(str(reason))
    return request.param
