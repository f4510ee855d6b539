"""The virtual accelerator in Python's ONNX Runtime."""

import ctypes
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "models_real"), str(TESTS / "onnx_node")]

import driver  # noqa: E402  (it also says what is missing)

try:
    import onnx  # noqa: E402, F401
except ImportError as missing:
    driver.leave(f"{missing}; scripts/get-python fetches it")
import onnxruntime  # noqa: E402

onnxruntime.set_default_logger_severity(3)  # what it warns of is true of the CPU EP's sessions too

EP = "VirtualDeviceExecutionProvider"
VENDOR = 0x1DEF  # what the library gives its devices unless it is told another one


class Library:
    """libiobind_vdev, registered with ONNX Runtime, and its native functions."""

    def __init__(self, path, name="vdev"):
        onnxruntime.register_execution_provider_library(name, path)
        self.devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP]
        self.native = ctypes.CDLL(path)
        self.native.vdev_get.restype = ctypes.c_int64
        self.native.vdev_last_race.restype = ctypes.c_char_p
        self.native.vdev_last_error.restype = ctypes.c_char_p

    def get(self, statistic, device=0):
        value = self.native.vdev_get(device, statistic.encode())
        if value < 0:
            raise ValueError(self.native.vdev_last_error().decode())
        return value

    def set(self, name, value, device=0):
        if self.native.vdev_set(device, name.encode(), str(value).encode()) != 0:
            raise ValueError(self.native.vdev_last_error().decode())

    def reset(self, device=0):
        self.native.vdev_reset(device)

    def session(self, model, device=0, options=None, **settings):
        options = options or onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_provider_for_devices([self.devices[device]], {key: str(value) for key, value in settings.items()})
        # Python's ONNX Runtime would otherwise put up with the CPU where this fails, and nobody would see it.
        return onnxruntime.InferenceSession(model, options, enable_fallback=0)


def on_device(array, device=0):
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", device, VENDOR)


def empty(shape, element_type, device=0):
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), element_type, "gpu", device, VENDOR)
