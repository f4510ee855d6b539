"""Builds the package for pip and others (PEP 517): wheels by CMake, and a source distribution, with nothing but the standard library.

usage: build_backend.py wheel|wheel-3.13t|wheel-3.14t|vcuda|pytest|sdist DIRECTORY

IOBIND_PLATFORM is the platform of the wheels, by scripts/build-portable; without it they are this system's, by its own compiler, and
IOBIND_BUILD names a build directory that is used again.
"""

import base64
import csv
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
NAME = "onnxruntime-iobind"  # of the distribution; the package that it installs is iobind
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "1577836800"))  # 2020: the same sources give the same file
PLATFORM = os.environ.get("IOBIND_PLATFORM") or None
# The system's libraries that a manylinux wheel may ask for; what else the tool is linked to comes along.
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libiobind.*)\.so(\.\d+)*$")
# What is in the wheel, by where it lies there. On Windows a module and a program find a DLL beside them.
ON_LINUX = {"lib/libiobind.so.1": "lib/libiobind.so.1", "lib/libiobind_vdev.so": "lib/libiobind_vdev.so", "bin/iobind": "bin/iobind"}
ON_WINDOWS = {name: f"bin/{name}" for name in ("iobind.dll", "iobind_vdev.dll", "iobind.exe")}
# The distributions beside NAME: what they are, need, and declare to others.
VCUDA = "onnxruntime-iobind-vcuda"
PYTEST = "pytest-iobind"
OTHERS = {
    VCUDA: ("CUDA without a GPU: NVIDIA's runtime libraries in software, for tests", [NAME], {}),
    # The same name and object as NAME's own entry: pytest takes it once.
    PYTEST: ("pytest plugin: ONNX Runtime code on a virtual accelerator, with its copies, races and failures",
             [f"{NAME}[ort]", "pytest>=7"], {"pytest11": {"iobind_vdev": "iobind._pytest"}}),
}


def version():
    text = (PROJECT / "include/iobind/version.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"^#define IOBIND_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text, flags=re.M))


def metadata(name=NAME, terms=("LICENSE", "NOTICE")):
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == NAME
    description, requirements, declared = OTHERS.get(name, (project["description"], project["dependencies"], None))
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version()}", f"Summary: {description}",
             f"License-Expression: {project['license']}", *(f"License-File: {file}" for file in terms),
             f"Requires-Python: {project['requires-python']}", *(f"Classifier: {entry}" for entry in project["classifiers"])]
    if name != NAME:
        lines += [f"Requires-Dist: {entry}=={version()}" if entry.startswith(NAME) else f"Requires-Dist: {entry}" for entry in requirements]
        return "\n".join([*lines, "Description-Content-Type: text/markdown", "", f"# {name}\n\n{description}. A part of {NAME}.\n"]), declared
    lines += [f"Requires-Dist: {entry}" for entry in requirements]
    for extra, entries in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {entry}; extra == "{extra}"' for entry in entries)]
    lines += ["Description-Content-Type: text/markdown", "", (PROJECT / project["readme"]).read_text(encoding="utf-8")]
    return "\n".join(lines), {"console_scripts": project["scripts"], **project["entry-points"]}


# ---- what goes in ------------------------------------------------------------------------------------------------------

def run(*command, **keywords):
    return subprocess.run([str(part) for part in command], check=True, text=True, **keywords)


def build(folder, *targets):
    """Some targets by this system's compiler into a directory."""
    environment = {**os.environ, "IOBIND_PYTHON": sys.executable}
    run("cmake", "-S", PROJECT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DIOBIND_BUILD_TESTS=OFF", "-DIOBIND_BUILD_BENCH=OFF",
        "-DIOBIND_BUILD_EXAMPLES=OFF", *(["-G", "Ninja"] if shutil.which("ninja") else []), stdout=sys.stderr, env=environment)
    run("cmake", "--build", folder, "--parallel", "--target", *targets, stdout=sys.stderr, env=environment)
    return folder


def needed(path):
    """The libraries that a file asks the loader for, those of the system left out: name -> path."""
    listed = run("ldd", path, capture_output=True).stdout
    return {name: pathlib.Path(found) for name, found in re.findall(r"^\s*(\S+) => (/\S+)", listed, flags=re.M) if not SYSTEM.match(name)}


def strip(path):
    if not PLATFORM:  # scripts/build-portable lets the linker do it
        run("strip", "--strip-unneeded", path)


def install(built, target, module):
    """The package as it is installed, with the module of a directory below the build's lib."""
    package = target / "iobind"
    shutil.copytree(PROJECT / "bindings/python/iobind", package, ignore=shutil.ignore_patterns("__pycache__"))
    (core,) = (path for path in (built / "lib" / module).glob("_core.*") if path.suffix in (".so", ".pyd"))
    binaries = {core.name: core.relative_to(built)} | (ON_WINDOWS if PLATFORM == "win-x64" else ON_LINUX)
    for name, source in binaries.items():
        (package / name).parent.mkdir(exist_ok=True)
        shutil.copy(built / source, package / name)
    for name, path in {} if PLATFORM else needed(package / "bin/iobind").items():
        shutil.copy(path, package / "lib" / name)
        binaries[f"lib/{name}"] = path
    for name in binaries:
        (package / name).chmod(0o755)
        strip(package / name)


def platform_tag(folder):
    """manylinux_2_N by the newest symbol of glibc that anything in the wheel asks for, and not before 2.28, what ONNX Runtime's wheels ask for."""
    if PLATFORM == "win-x64":
        return "win_amd64"
    newest = 28
    for path in folder.rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            newest = max([newest, *(int(number) for number in re.findall(rb"\0GLIBC_2\.(\d+)", path.read_bytes()))])
    machine = {"linux-x64": "x86_64", "linux-arm64": "aarch64", None: sysconfig.get_platform().split("-", 1)[1].replace("-", "_")}[PLATFORM]
    return f"manylinux_2_{newest}_{machine}"


# ---- files -------------------------------------------------------------------------------------------------------------

def pack(tree, target, name, tag):
    ports = {"linux-x64": "manylinux-x64", "linux-arm64": "manylinux-arm64", "win-x64": "win-x64"}
    terms = [PROJECT / "LICENSE", PROJECT / "NOTICE"]
    if name != PYTEST and PLATFORM:  # the compiler, and for the tool the libraries, are in it
        kept = PROJECT / ".runtime/ports" / ports[PLATFORM] / "licenses"
        terms += sorted(kept.glob("*.txt")) if name == NAME else [kept / "zig.txt"]
    text, entry_points = metadata(name, [file.name for file in terms])
    folder = tree / f"{name.replace('-', '_')}-{version()}.dist-info"
    (folder / "licenses").mkdir(parents=True)
    (folder / "METADATA").write_text(text, encoding="utf-8")
    pure = tag.endswith("-any")
    (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: iobind\nRoot-Is-Purelib: {str(pure).lower()}\nTag: {tag}\n")
    if entry_points:
        (folder / "entry_points.txt").write_text("\n".join(
            line for group, entries in entry_points.items() for line in [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()), ""]))
    for file in terms:
        shutil.copy(file, folder / "licenses")
    wheel = pathlib.Path(target) / f"{name.replace('-', '_')}-{version()}-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(file, data, mode):
            entry = zipfile.ZipInfo(file, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        for path in sorted(tree.rglob("*")):
            if path.is_file():
                data, file = path.read_bytes(), path.relative_to(tree).as_posix()
                add(file, data, 0o755 if os.access(path, os.X_OK) else 0o644)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                rows.writerow([file, f"sha256={digest}", len(data)])
        record_name = f"{folder.name}/RECORD"
        rows.writerow([record_name, "", ""])
        add(record_name, record.getvalue(), 0o644)
    return wheel.name


def with_build(use, *targets):
    kept = os.environ.get("IOBIND_BUILD")
    if PLATFORM:
        run(PROJECT / "scripts/build-portable", PLATFORM, *targets, stdout=sys.stderr, env={**os.environ, "IOBIND_PYTHON": sys.executable})
        return use(PROJECT / "build/portable" / PLATFORM)
    if kept:
        return use(build(pathlib.Path(kept), *targets))
    with tempfile.TemporaryDirectory() as folder:
        return use(build(pathlib.Path(folder), *targets))


def make_wheel(directory, targets, module, tag):
    def make(built):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            install(built, tree, module)
            return pack(tree, directory, NAME, f"{tag}-{platform_tag(tree)}")

    return with_build(make, "all", *targets)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if not PLATFORM and not pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists():
        raise SystemExit(f"no C module can be built: {sys.executable} has no headers (Debian: python3-dev)")
    return make_wheel(wheel_directory, ["iobind_python"], "python/iobind", "cp311-abi3")


def build_free_threaded(wheel_directory, digits):
    """For free-threaded interpreters of one version, which have no stable ABI. They turn the GIL on for it."""
    return make_wheel(wheel_directory, [f"iobind_python_{digits}t"], f"python-{digits}t", f"cp{digits}-cp{digits}t")


def build_vcuda(wheel_directory):
    """NVIDIA's runtime libraries in software: a wheel of its own, for nobody wants libraries of these names without asking."""
    def make(built):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            package = tree / "iobind_vcuda"
            for name in ("bin", "lib/vcuda"):  # as with-cuda looks for them
                (package / name).mkdir(parents=True)
            (package / "__init__.py").write_text('"""NVIDIA\'s runtime libraries in software; python -m iobind.vcuda -- COMMAND uses them."""\n')
            for path in sorted((built / "lib/vcuda").glob("*.so.*")):
                shutil.copy(path, package / "lib/vcuda" / path.name)
                strip(package / "lib/vcuda" / path.name)
            shutil.copy(built / "bin/with-cuda", package / "bin/with-cuda")
            return pack(tree, wheel_directory, VCUDA, f"py3-none-{platform_tag(tree)}")

    return with_build(make, "vcuda")


def build_pytest(wheel_directory):
    """The plugin under a name that says it; its code is in the package."""
    with tempfile.TemporaryDirectory() as folder:
        return pack(pathlib.Path(folder), wheel_directory, PYTEST, "py3-none-any")


def build_sdist(sdist_directory, config_settings=None):
    listed = subprocess.run(["git", "-C", str(PROJECT), "ls-files", "-z"], capture_output=True, text=True)
    names = listed.stdout.split("\0") if listed.returncode == 0 and listed.stdout else [
        str(path.relative_to(PROJECT)) for path in PROJECT.rglob("*") if path.is_file()]
    root = f"{NAME.replace('-', '_')}-{version()}"
    target = pathlib.Path(sdist_directory) / f"{root}.tar.gz"
    target.parent.mkdir(parents=True, exist_ok=True)

    def reset(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = EPOCH
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644  # whatever the umask of the clone
        return entry

    with open(target, "wb") as file, gzip.GzipFile("", "wb", mtime=EPOCH, fileobj=file) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(filter(None, names)):
            if (PROJECT / name).is_file() and not name.startswith(("build/", "dist/", ".git", ".runtime", "PKG-INFO")):
                archive.add(PROJECT / name, f"{root}/{name}", filter=reset)
        info = metadata()[0].encode()
        entry = reset(tarfile.TarInfo(f"{root}/PKG-INFO"))
        entry.size = len(info)
        archive.addfile(entry, io.BytesIO(info))
    return target.name


if __name__ == "__main__":
    kinds = {"wheel": build_wheel, "wheel-3.13t": lambda to: build_free_threaded(to, "313"), "wheel-3.14t": lambda to: build_free_threaded(to, "314"),
             "vcuda": build_vcuda, "pytest": build_pytest, "sdist": build_sdist}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    print(kinds[sys.argv[1]](sys.argv[2]))
