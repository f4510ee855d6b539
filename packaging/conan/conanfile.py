"""iobind for Conan 2: the library alone, shared or static, out of the clone that this file is in.

conan create packaging/conan
"""
import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Iobind(ConanFile):
    name = "iobind"
    license = "MIT"
    description = "Tensors that stay where the model runs: I/O binding for ONNX Runtime, which is loaded at run time"
    package_type = "library"
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "vdev": [True, False]}
    default_options = {"shared": True, "vdev": True}

    def set_version(self):
        header = (ROOT / "include/iobind/version.h").read_text(encoding="utf-8")
        self.version = ".".join(re.findall(r"^#define IOBIND_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, flags=re.M))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "NOTICE", "CHANGELOG.md", "abi/*", "bindings/java/native/*", "cmake/*", "docs/iobind.1",
                        "include/*", "onnx/*", "src/*", "vdev/*"):
            copy(self, pattern, ROOT, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TOOL", "TESTS", "BENCH", "EXAMPLES"):
            toolchain.cache_variables[f"IOBIND_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder) / "licenses")

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # its own iobindConfig.cmake is the one
        self.cpp_info.builddirs = ["lib/cmake/iobind"]
        self.cpp_info.libs = ["iobind"]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["dl", "pthread"]
        if not self.options.shared:
            self.cpp_info.defines = ["IOBIND_STATIC"]
