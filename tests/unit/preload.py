#!/usr/bin/env python3
"""NVIDIA's libraries are loaded from where they are: made-up folders as PyTorch and NVIDIA's wheels have them, with CUDA 12 and 13.

usage: preload.py PROGRAM CC      the program: preload FOLDER|- CUDA FLAGS, which prints what was loaded, a path a line"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, CC = sys.argv[1:3]
TWELVE = {"cublas": ["libcublasLt.so.12", "libcublas.so.12"], "cuda_nvrtc": ["libnvrtc.so.12"], "curand": ["libcurand.so.10"],
          "cufft": ["libcufft.so.11"], "cuda_runtime": ["libcudart.so.12"], "cudnn": ["libcudnn.so.9"]}
THIRTEEN = ["libcublasLt.so.13", "libcublas.so.13", "libnvrtc.so.13", "libcurand.so.10", "libcufft.so.12", "libcudart.so.13"]
NO_CUDA, NO_CUDNN = 1, 2


class Preload(unittest.TestCase):
    made = {}  # libraries that need none, by their names

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.site = self.root / "venv/lib/python3.11/site-packages"
        self.site.mkdir(parents=True)

    def library(self, path, *needed):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not needed and path.name in self.made:
            path.write_bytes(self.made[path.name])
            return str(path)
        subprocess.run([CC, "-shared", "-nostdlib", "-o", path, f"-Wl,-soname,{path.name}", "-Wl,--no-as-needed", "-x", "c", "/dev/null",
                        "-x", "none", *needed], check=True)
        if not needed:
            self.made[path.name] = path.read_bytes()
        return str(path)

    def twelve(self):
        return [self.library(self.site / "nvidia" / component / "lib" / name) for component, names in TWELVE.items() for name in names]

    def thirteen(self, cudnn=True):
        return ([self.library(self.site / "nvidia/cu13/lib" / name) for name in THIRTEEN] +
                ([self.library(self.site / "nvidia/cudnn/lib/libcudnn.so.9")] if cudnn else []))

    def preload(self, folder="-", cuda=0, flags=0, code=0, **environment):
        inherited = {name: value for name, value in os.environ.items()
                     if name not in ("LD_LIBRARY_PATH", "CONDA_PREFIX", "ORT_NATIVE_LIB_PATH", "VIRTUAL_ENV")}
        ran = subprocess.run([PROGRAM, str(folder), str(cuda), str(flags)], capture_output=True, text=True,
                             env=dict(inherited, HOME=str(self.root), **environment))
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return sorted(ran.stdout.splitlines()) if code == 0 else ran.stderr

    def found(self, *arguments, **more):
        return self.preload(*arguments, VIRTUAL_ENV=str(self.root / "venv"), **more)

    def test_wheels_of_cuda_13(self):
        thirteen = sorted(self.thirteen())
        self.assertEqual(self.found(), thirteen)

    def test_wheels_of_cuda_12(self):
        twelve = sorted(self.twelve())
        self.assertEqual(self.found(), twelve)

    def test_the_newest_unless_one_is_named(self):
        twelve, thirteen = self.twelve(), self.thirteen(cudnn=False)
        cudnn = [path for path in twelve if "cudnn" in path]
        self.assertEqual(self.found(), sorted(thirteen + cudnn))
        self.assertEqual(self.found("-", 12), sorted(twelve))

    def test_pytorch_comes_first_unless_the_wheels_are_named(self):
        thirteen = self.thirteen()
        own = self.library(self.site / "torch/lib/libcudart.so.13")
        wheel = next(path for path in thirteen if "cudart" in path)
        self.assertEqual(self.found(), sorted([path for path in thirteen if path != wheel] + [own]))
        self.assertEqual(self.found(""), sorted(thirteen))

    def test_the_packages_of_conda_of_the_user_and_beside_onnx_runtime(self):
        thirteen = sorted(self.thirteen())
        self.assertEqual(self.preload(CONDA_PREFIX=str(self.root / "venv")), thirteen)
        (self.root / ".local").symlink_to(self.root / "venv")
        self.assertEqual([os.path.realpath(path) for path in self.preload()], thirteen)
        (self.root / ".local").unlink()
        capi = self.site / "onnxruntime/capi"
        capi.mkdir(parents=True)
        for place in (capi, capi / "libonnxruntime.so"):
            (capi / "libonnxruntime.so").touch()
            self.assertEqual([os.path.realpath(path) for path in self.preload(ORT_NATIVE_LIB_PATH=str(place))], thirteen)

    def test_a_folder_is_that_folder_only(self):
        self.thirteen()
        plain = [self.library(self.root / "plain" / name) for name in ("libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10",
                                                                       "libcudart.so.13", "libcudnn.so.9")]
        self.assertEqual(self.found(self.root / "plain"), sorted(plain))
        os.remove(self.root / "plain/libcurand.so.10")
        self.assertIn("preload: not found: libcurand.so.10;", self.found(self.root / "plain", code=1))
        self.assertIn("expected a directory, absolute or relative to ONNX Runtime's package, got", self.found(self.root / "none", code=1))

    def test_a_folder_from_that_of_onnx_runtimes_package(self):
        thirteen = self.thirteen()
        (self.site / "onnxruntime/capi").mkdir(parents=True)
        places = {"VIRTUAL_ENV": self.root / "venv", "ORT_NATIVE_LIB_PATH": self.site / "onnxruntime/capi"}
        for name, place in places.items():
            for folder, flags, words in (("../nvidia/cudnn/lib", NO_CUDA, "cudnn"), ("../nvidia/cu13/lib", NO_CUDNN, "cu13")):
                loaded = [os.path.realpath(path) for path in self.preload(folder, 0, flags, **{name: str(place)})]
                self.assertEqual(sorted(loaded), sorted(path for path in thirteen if words in path))
        self.assertIn("expected a directory", self.found("../nvidia/cudnn/bin", code=1))

    def test_cudnn_is_asked_for_unless_it_is_not(self):
        thirteen = sorted(self.thirteen(cudnn=False))
        self.assertIn("preload: not found: libcudnn.so.9;", self.found(code=1))
        self.assertIn("preload: not found: libcudnn.so.9;", self.found("-", 0, NO_CUDA, code=1))
        self.assertEqual(self.found("-", 0, NO_CUDNN), thirteen)

    def test_what_is_missing_is_of_the_cuda_that_is_needed(self):
        (self.root / "empty").mkdir()
        self.assertIn("libcudart.so.13", self.found(self.root / "empty", code=1))
        ep = self.site / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
        for version in (12, 13):
            runtime = self.library(self.root / f"libcudart.so.{version}")
            self.library(ep, runtime)
            self.assertIn(f"libcublas.so.{version}", self.found(self.root / "empty", code=1))

    def test_a_folder_of_packages(self):
        thirteen = sorted(self.thirteen())
        self.assertEqual(self.preload(self.site), thirteen)

    def test_switches(self):
        thirteen = self.thirteen()
        cudnn = [path for path in thirteen if "cudnn" in path]
        self.assertEqual(self.found("-", 13, NO_CUDA), cudnn)
        self.assertEqual(self.found("-", 0, NO_CUDA), cudnn)
        self.assertEqual(self.found("-", 13, NO_CUDNN), sorted(set(thirteen) - set(cudnn)))
        self.assertEqual(self.found("-", 13, NO_CUDA | NO_CUDNN), [])
        self.assertIn("flags 0x8 are not known", self.found("-", 13, 8, code=1))
        self.assertIn("expected 0, 12 or 13, got 11", self.found("-", 11, code=1))

    def test_the_loader_comes_last(self):
        plain = [self.library(self.root / "plain" / name) for name in [*THIRTEEN, "libcudnn.so.9"]]
        self.assertEqual(self.preload(LD_LIBRARY_PATH=str(self.root / "plain")), sorted(plain))
        self.assertIn("libcudart.so.13", self.preload("", code=1, LD_LIBRARY_PATH=str(self.root / "plain")))

    def test_the_wheels_come_before_the_loader(self):
        thirteen = sorted(self.thirteen())
        for name in THIRTEEN:
            self.library(self.root / "plain" / name)
        self.assertEqual(self.found(LD_LIBRARY_PATH=str(self.root / "plain")), thirteen)

    def test_each_is_loaded_before_those_that_need_it(self):
        """The loader itself would not find what they need."""
        thirteen = {pathlib.Path(path).name: pathlib.Path(path) for path in self.thirteen()}
        for name, *needed in (("libcublas.so.13", "libcublasLt.so.13"), ("libcufft.so.12", "libnvrtc.so.13"),
                              ("libcudnn.so.9", "libcublas.so.13", "libnvrtc.so.13")):
            self.library(thirteen[name], *(thirteen[other] for other in needed))
        self.assertEqual(self.found("-", 13), sorted(map(str, thirteen.values())))

    def test_a_damaged_library_is_left_out(self):
        thirteen = self.thirteen()
        broken = self.site / "torch/lib/libcudart.so.13"
        broken.parent.mkdir(parents=True)
        broken.write_bytes(b"\x7fELF")
        self.assertEqual(self.found(), sorted(thirteen))

    def test_by_itself_where_the_ep_is_loaded(self):
        """The EP's library needs them by name; where they are, only the preload knows."""
        thirteen = self.thirteen()
        ep = self.site / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
        ep.parent.mkdir(parents=True)
        needed = [path for path in thirteen if "cudart" in path or "cublas." in path]
        subprocess.run([CC, "-shared", "-nostdlib", "-o", ep, "-Wl,--no-as-needed", "-x", "c", "/dev/null", "-x", "none", *needed],
                       check=True)
        loaded = [os.path.realpath(path) for path in self.preload(ep, "ep")]
        self.assertEqual(sorted(set(loaded) & set(thirteen)), sorted(thirteen))
        self.library(self.root / "kept/libcudart.so.13")  # a folder of the loader's goes first
        loaded = [os.path.realpath(path) for path in self.preload(ep, "ep", LD_LIBRARY_PATH=str(self.root / "kept"))]
        self.assertNotIn(next(path for path in thirteen if "cudart" in path), loaded)


if __name__ == "__main__":
    unittest.main(argv=["preload.py", *sys.argv[3:]])
