"""What EP libraries need, and `iobind options`: doctor_cli.py TOOL MAKE_MODEL RUNTIME_FOLDER. Libraries are made up: NVIDIA's are names."""
import json
import os
import re
import struct
import subprocess
import sys
import unittest

from case import FAILED, MISUSED, RUNTIME, TOOL, Case

WITH_GPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fakegpu/with-gpus")
THIRTEEN = ("libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10", "libcudart.so.13", "libcuda.so.1")


def windows_library(*needed):
    """A PE file of 64 bits with one section, whose imports are these libraries."""
    names = b"".join(name.encode() + b"\0" for name in needed)
    starts = [0x1000 + 20 * (len(needed) + 1) + sum(len(name) + 1 for name in needed[:i]) for i in range(len(needed))]
    section = b"".join(struct.pack("<5I", 0, 0, 0, start, 0) for start in starts) + bytes(20) + names
    optional = bytearray(240)
    struct.pack_into("<H", optional, 0, 0x20B)
    struct.pack_into("<II", optional, 120, 0x1000, 20 * (len(needed) + 1))
    header = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0)
    table = b".idata\0\0" + struct.pack("<IIII", len(section), 0x1000, len(section), 0x400) + bytes(16)
    return (header + bytes(optional) + table).ljust(0x400, b"\0") + section


class Doctor(Case):
    software_gpu = True

    def setUp(self):
        self.made = self.path(self.id().rsplit(".", 1)[1])
        os.makedirs(self.made + "/ep")
        os.makedirs(self.made + "/lib")

    def library(self, name, source="", *needed, soname=None):
        path = f"{self.made}/{name}"
        with open(path + ".c", "w") as file:
            file.write(source)
        subprocess.run(["cc", "-shared", "-nostdlib", "-o", path, "-Wl,--no-as-needed", f"-Wl,-soname,{soname or os.path.basename(name)}",
                        path + ".c", *needed], check=True)
        return path

    def ep(self, *needed):
        """An EP library that needs these, which then are gone; it is no EP, and is not asked to be one."""
        made = [self.library(f"lib/{name}") for name in needed]
        self.library("ep/libonnxruntime_providers_cuda.so", "", *made)
        for path in made:
            os.remove(path)

    def doctor(self, *words):
        environment = {name: value for name, value in self.environment.items() if name != "ORT_NATIVE_LIB_PATH"}
        ran = self.call("doctor", "--ep-library", self.made + "/ep", *words,
                        env=dict(environment, LD_LIBRARY_PATH=self.made + "/lib", VIRTUAL_ENV="", CONDA_PREFIX=""))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout) if "--json" in words else ran.stdout

    def needs(self):
        return {row["name"]: row for row in self.doctor("--json")["libraries"] if row["ep"] == "cuda"}

    def test_all_is_missing(self):
        self.ep(*THIRTEEN)
        rows = self.needs()
        for name in (*THIRTEEN, "libcudnn.so.9", "libcufft.so.12"):
            self.assertIsNone(rows[name]["path"])
            self.assertTrue(rows[name]["reason"] and rows[name]["cure"])
            self.assertEqual(rows[name]["first_use"], name in ("libcudnn.so.9", "libcufft.so.12"))
        said = self.doctor()
        self.assertIn("cuda: libcudart.so.13 is missing: pip install nvidia-cuda-runtime",
                      said)
        self.assertIn("cuda: libcuda.so.1 is missing: install NVIDIA's driver, 580 or newer", said)
        self.assertIn("libcudnn.so.9 is missing, for convolutions and others: pip install nvidia-cudnn-cu13", said)

    def test_the_line_that_cures_each(self):
        """Python's packages for CUDA 13 are named without a number, but for cuDNN's; those for CUDA 12 with one."""
        for suffix, names in (("", (*THIRTEEN, "libnvrtc.so.13", "libcufft.so.12", "libcudnn.so.9")),
                              ("-cu12", ("libcublasLt.so.12", "libcublas.so.12", "libcurand.so.10", "libcudart.so.12", "libcufft.so.11",
                                         "libnvrtc.so.12", "libcudnn.so.9"))):
            self.ep(*names)
            packages = {"libcublasLt": "cublas", "libcublas": "cublas", "libcurand": "curand", "libcudart": "cuda-runtime",
                        "libcufft": "cufft", "libnvrtc": "cuda-nvrtc", "libcudnn": "cudnn"}
            rows = self.needs()
            for name in names:
                package = packages.get(name.split(".")[0])
                if package is None:
                    continue
                number = "-cu13" if package == "cudnn" and suffix == "" else suffix
                self.assertEqual(rows[name]["cure"], f"pip install nvidia-{package}{number}", name)

    def test_the_wrong_cuda(self):
        self.ep("libcudart.so.13")
        other = self.library("lib/libcudart.so.12")
        row = self.needs()["libcudart.so.13"]
        self.assertEqual(row["reason"], "found libcudart.so.12, another version; this ONNX Runtime is built for CUDA 13")
        os.remove(other)
        self.ep("libcudart.so.12", "libcublas.so.12")
        self.library("lib/libcudart.so.13")
        self.assertIn("libcudart.so.12 is missing: found libcudart.so.13, another version; this ONNX Runtime is built for CUDA 12: "
                      "pip install nvidia-cuda-runtime-cu12", self.doctor())

    def test_what_is_found(self):
        self.ep("libcudart.so.13", "libcublas.so.13")
        cudart = self.library("lib/libcudart.so.13", "int cudaRuntimeGetVersion(int *v) { *v = 13010; return 0; }")
        self.library("lib/libcublas.so.13.0.2.14", soname="libcublas.so.13")
        os.symlink("libcublas.so.13.0.2.14", self.made + "/lib/libcublas.so.13")
        rows = self.needs()
        self.assertEqual((rows["libcudart.so.13"]["path"], rows["libcudart.so.13"]["version"]), (cudart, "13.1"))
        self.assertEqual(rows["libcublas.so.13"]["version"], "13.0.2.14")

    def driver(self, version, init=0, devices=1):
        return self.library("lib/libcuda.so.1", f"int cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}"
                            f"int cuInit(unsigned f) {{ return {init}; }} int cuDeviceGetCount(int *n) {{ *n = {devices}; return 0; }}")

    def test_the_driver_that_only_the_runtime_loads(self):
        """CUDA's EP up to 1.27 does not ask the loader for it."""
        self.ep("libcudart.so.12")
        self.assertIn("cuda: libcuda.so.1 is missing: install NVIDIA's driver, 525 or newer", self.doctor())
        driver = self.driver(12040)
        self.assertEqual(self.needs()["libcuda.so.1"]["path"], driver)
        self.assertEqual([row["name"] for row in self.doctor("--json")["libraries"]].count("libcuda.so.1"), 1)
        self.assertNotIn("libcuda.so.1 is missing", self.doctor())

    def test_drivers(self):
        self.ep("libcudart.so.13", "libcuda.so.1")
        for version, init, devices, part in ((12040, 0, 1, "the driver is too old: it is for CUDA 12.4, and this ONNX Runtime is built for "
                                              "CUDA 13. Install driver 580 or newer"),
                                             (13000, 100, 0, "the driver finds no device (error 100)"),
                                             (13000, 0, 0, "the driver finds no device (error 0)"),
                                             (13020, 0, 2, "NVIDIA driver: for CUDA 13.2, 2 devices")):
            self.driver(version, init, devices)
            self.assertIn(part, self.doctor())
        said = self.doctor("--json")
        self.assertEqual((said["driver"], said["cuda_devices"]), ("13.2", 2))
        self.assertNotIn("too old", self.doctor())

    def test_a_library_of_windows(self):
        with open(self.made + "/ep/onnxruntime_providers_cuda.dll", "wb") as file:
            file.write(windows_library("cudart64_13.dll", "KERNEL32.dll"))
        rows = self.needs()
        self.assertEqual(list(rows), ["cudart64_13.dll", "KERNEL32.dll"])

    def test_damaged_files(self):
        """A file that is not a library, or is cut off, needs nothing. An ELF file that is cut off later ends in the loader itself."""
        self.ep("libcudart.so.13")
        with open(self.made + "/ep/libonnxruntime_providers_cuda.so", "rb") as file:
            whole = file.read()
        self.assertIn("libcudart.so.13", self.needs())
        pe = windows_library("cudart64_13.dll")
        for name, content, cuts in (("libonnxruntime_providers_cuda.so", whole, (0, 3, 63)),
                                    ("onnxruntime_providers_cuda.dll", pe, (2, 63, 88, 200, 0x400, len(pe) - 5))):
            for old in os.listdir(self.made + "/ep"):
                os.remove(f"{self.made}/ep/{old}")
            for cut in cuts:
                with open(f"{self.made}/ep/{name}", "wb") as file:
                    file.write(content[:cut])
                self.assertEqual(self.needs(), {})


class Gpus(Case):
    """What ONNX Runtime lists of hardware that only seems to be there (tests/fakegpu/with-gpus), and what is missing."""

    software_gpu = True

    def run_with(self, *hardware, words=()):
        ran = subprocess.run([WITH_GPUS, *hardware, "--", TOOL, "doctor", *words], capture_output=True, text=True, timeout=120,
                             env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"))  # the EP loses a few bytes where it finds no adapter
        if ran.returncode == 77:
            self.skipTest(ran.stderr)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def gpus(self, *hardware):
        """What is told of the GPUs, and the ids of those that an EP offers as devices: the WebGPU plugin, where it is here."""
        said = json.loads(self.run_with(*hardware, words=["--json"]))
        offered = sorted(row["device_id"] for row in said["devices"] if row["hardware"] == "GPU" and row["ep"] == "WebGpuExecutionProvider")
        if os.path.exists(RUNTIME + "/ep/webgpu"):
            self.assertEqual(said["gpus"]["listed"], len(offered))
        return said["gpus"], offered

    def test_a_card(self):
        said, offered = self.gpus("0x10de:0x2684")
        self.assertEqual(said, {"listed": 1, "device_file": None, "reason": None, "cure": None})
        self.assertIn(offered, ([], ["0x2684"]))
        self.assertNotIn("no GPU is listed", self.run_with("0x10de:0x2684"))

    def test_on_the_bus_alone(self):
        said, offered = self.gpus("--pci", "0x10de:0x2330", "0x1002:0x744c")
        self.assertEqual((said["listed"], said["reason"]), (2, None))
        self.assertIn(offered, ([], ["0x2330", "0x744c"]))

    def test_no_hardware(self):
        said, _ = self.gpus()
        self.assertEqual((said["listed"], said["device_file"], said["cure"]), (0, None, None))
        self.assertIn("/sys/class/drm (does not exist)", said["reason"])
        self.assertIn(f"\nno GPU is listed: {said['reason']}\n", self.run_with())

    def test_no_sysfs(self):
        said, _ = self.gpus("--no-sysfs")
        self.assertEqual(said["listed"], 0)
        self.assertIn("/sys/class/drm (does not exist) and /sys/bus/pci/devices (does not exist)", said["reason"])
        self.assertEqual(said["cure"], "/sys is hidden: let the container see the host's")
        self.assertIn(f"\nno GPU is listed: {said['reason']}; {said['cure']}\n", self.run_with("--no-sysfs"))

    def test_a_driver_is_here(self):
        for name, part in (("nvidia0", "NVIDIA's driver has created /dev/nvidia0: load its module nvidia-drm (modprobe nvidia-drm, "),
                           ("dri/renderD128", "a driver has created /dev/dri/renderD128: let the container see the host's /sys")):
            for more in ([], ["--no-sysfs"]):
                said, _ = self.gpus(*more, "--device-file", name)
                self.assertEqual((said["listed"], said["device_file"]), (0, f"/dev/{name}"))
                self.assertIn(part, said["cure"])
                self.assertIn(f"; {said['cure']}\n", self.run_with(*more, "--device-file", name))
            self.assertIsNone(self.gpus("--device-file", name, "0x10de:0x2684")[0]["cure"])

    def test_names_that_are_no_gpu(self):
        """Control files of the driver, and cards without hardware."""
        said, _ = self.gpus("--device-file", "nvidiactl")
        self.assertIsNone(said["device_file"])


class Options(Case):
    def test_every_ep_with_a_list(self):
        names = [row["name"] for row in self.good_json("options")["eps"]]
        self.assertEqual(names, ["cuda", "tensorrt", "nvtensorrtrtx", "webgpu", "openvino", "dml", "ggml", "vdev"])
        for name in names:
            said = self.good_json("options", name)
            self.assertTrue(said["options"] and said["source"])
            self.assertIn(said["options"][0]["key"], self.good("options", name))

    def test_a_row(self):
        rows = {row["key"]: row for row in self.good_json("options", "cuda")["options"]}
        self.assertEqual(rows["sdpa_kernel"]["values"], "-2147483648 .. 2147483647")
        self.assertEqual((rows["enable_cudnn"]["since"], rows["enable_cudnn"]["type"], rows["enable_cudnn"]["default"]), ("1.28", "flag", "1"))
        self.assertIn("never calls it", rows["gpu_external_alloc"]["refused"])

    def test_options_of_graphs_are_refused_and_the_table_says_so(self):
        keys = {"enable_cuda_graph", "trt_cuda_graph_enable", "enableGraphCapture", "enable_graph_capture"}
        for ep in self.good_json("options")["eps"]:
            for row in self.good_json("options", ep["name"])["options"]:
                self.assertEqual(row["key"] in keys, "graphs" in (row["refused"] or ""), (ep["name"], row["key"]))

    def test_the_options_of_webgpu_are_those_that_its_plugin_names(self):
        try:
            with open(os.path.join(os.path.dirname(__file__), "../../.runtime/ep/webgpu/libonnxruntime_providers_webgpu.so"), "rb") as file:
                library = file.read()
        except FileNotFoundError:
            self.skipTest("no WebGPU plugin: scripts/get-onnxruntime --ep webgpu fetches it")
        named = {word.decode() for word in re.findall(rb"ep\.webgpuexecutionprovider\.(\w+)", library)}
        self.assertEqual({row["key"] for row in self.good_json("options", "webgpu")["options"]}, named)

    def test_what_devices_say(self):
        said = self.good_json("options", "vdev")
        self.assertIn({"spec": "vdev:0", "key": "vdev.index", "value": "0"}, said["devices"])

    def test_refused(self):
        self.refused(MISUSED, "no EP is named 'cudda'; did you mean 'cuda'?", "options", "cudda")
        self.refused(FAILED, "the options of 'qnn' are unknown", "options", "qnn")
        self.refused(FAILED, "the CPU takes no options", "options", "cpu")
        self.refused(MISUSED, "unexpected argument 'b'", "options", "cuda", "b")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
