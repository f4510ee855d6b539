"""The SBOM of each artefact of a release: what is in it besides iobind, and what it needs beside it, as CycloneDX 1.5 has it.

usage: sbom.py VERSION EPOCH PORTS FILE...
  EPOCH  the time of the release, in seconds
  PORTS  what scripts/get-port-libraries has made: the versions of libraries that are linked statically
Writes FILE.cdx.json beside each file. The same files give the same SBOMs.
"""
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import uuid
import zipfile

LICENSES = {"popt": "MIT", "jansson": "MIT", "libzip": "BSD-3-Clause", "zlib": "Zlib", "libpng": "libpng-2.0", "zig": "MIT",
            "mingw-w64": "ZPL-2.1 AND MIT AND BSD-3-Clause", "sphinx": "BSD-2-Clause", "pydata_sphinx_theme": "BSD-3-Clause", "Bootstrap": "MIT",
            "Font Awesome Free": "CC-BY-4.0 AND OFL-1.1 AND MIT", "jQuery": "MIT", "jQuery UI": "MIT", "DejaVu fonts": "Bitstream-Vera"}
PORTS = [("win", "win-x64"), ("aarch64", "manylinux-arm64"), ("arm64", "manylinux-arm64"), ("", "manylinux-x64")]  # by what is in the file's name
SYSTEM_PC = pathlib.Path("/usr/x86_64-w64-mingw32/lib/pkgconfig")  # Debian's zlib for mingw
SITE = pathlib.Path(__file__).resolve().parents[1] / "requirements-site.txt"
# What Sphinx's theme and javadoc put into pages, and say so.
NOTICES = {"_static/scripts/*.LICENSE.txt": r"^\W*(Bootstrap|Font Awesome Free) v?(\S+)", "legal/*.md": r"^## (.*) v(\S+)$"}
RUNTIME = {"type": "library", "name": "ONNX Runtime", "scope": "required", "licenses": [{"license": {"id": "MIT"}}],
           "description": "1.24 or newer; loaded at run time, not in the artefact"}


def part(name, version, description):
    """What is in the artefact and not iobind's own."""
    return {"type": "library", "name": name, "version": version, "scope": "required", "licenses": [{"expression": LICENSES[name]}],
            "description": description}


def linked(name, directory):
    """A library or a compiler whose code is in the artefact. DIRECTORY is where scripts/get-port-libraries has put it."""
    if name == "mingw-w64":
        package = ["dpkg-query", "--show", "--showformat", "${Version}", "mingw-w64-x86-64-dev"]
        return part(name, subprocess.run(package, check=True, capture_output=True, text=True).stdout, "linked statically")
    if name == "zig":
        return part(name, re.search(r"ziglang-(\S+)", (directory / "contents").read_text(encoding="utf-8"))[1], "linked statically")
    for parent in (directory / "lib/pkgconfig", SYSTEM_PC):
        for file in sorted(parent.glob(f"{name}.pc")):
            return part(name, re.search(r"^Version:\s*(\S+)", file.read_text(encoding="utf-8"), flags=re.M)[1], "linked statically")
    raise SystemExit(f"sbom: {name}: expected {directory}/lib/pkgconfig/{name}.pc with its version")


def parts(directory, ports, name):
    """What is in an artefact besides iobind: each has its terms there."""
    port = ports / next(port for words, port in PORTS if words in name)
    for file in sorted(directory.rglob("licenses/*.txt")):
        pinned = re.search(rf"^{file.stem}==(\S+)", SITE.read_text(encoding="utf-8"), flags=re.M)
        if file.stem != "iobind":
            yield part(file.stem, pinned[1], "in the pages") if pinned else linked(file.stem, port)
    for pattern, named in NOTICES.items():
        for file in sorted(directory.rglob(pattern)):
            for found in re.finditer(named, file.read_text(encoding="utf-8"), flags=re.M):
                yield part(found[1], found[2], "in the pages")


def beside(name, description):
    """What the artefact needs, and does not have."""
    return {"type": "library", "name": name, "scope": "required", "description": description}


def needed(directory):
    """The libraries that the programs of a tree ask the loader for, those in the tree left out."""
    asked = set()
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            dynamic = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
            asked.update(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    own = {path.name for path in directory.rglob("*")}
    return [beside(name, "linked dynamically") for name in sorted(asked - own)]


def unpacked(path, directory):
    if path.name.endswith(".tar.gz"):
        subprocess.run(["tar", "-x", "-f", path, "-C", directory], check=True)
    else:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(directory)
    return directory


def of_wheel(directory):
    metadata = next(directory.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
    return [beside(name, "a package of Python's: " + wanted) for wanted, name in
            re.findall(r"^Requires-Dist: (([\w.-]+)[^;\n]*)$", metadata.split("\n\n")[0], flags=re.M)] + needed(directory)


def of_deb(path):
    depends = subprocess.run(["dpkg-deb", "--field", path, "Depends"], check=True, capture_output=True, text=True).stdout
    return [beside(wanted.split()[0], "a package of Debian's: " + wanted.strip()) for wanted in depends.split(",") if wanted.strip()]


def components_of(path, ports, directory):
    """What is in a file, or is needed by it, and whether it loads ONNX Runtime."""
    name = path.name
    if name.endswith(".deb"):
        return of_deb(path), "-doc_" not in name and "-vdev_" not in name
    inside = list(parts(unpacked(path, directory), ports, name))
    if name.endswith(".whl"):
        return inside + of_wheel(directory), name.startswith("onnxruntime_iobind-")
    if name.endswith("-maven.zip"):
        jars = [components_of(jar, ports, directory / jar.stem)[0] for jar in sorted(directory.rglob("*.jar"))]
        return list({component["name"]: component for components in jars for component in components}.values()), True
    if re.search(r"-linux-\w+\.tar\.gz$", name):
        return inside + needed(directory), True
    return inside, name.endswith((".jar", "-win-x64.zip")) and not re.search(r"-(sources|javadoc)\.jar$", name)


def sbom(path, version, epoch, ports):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory() as directory:
        components, loads = components_of(path, ports, pathlib.Path(directory))
    components = [{**component, "bom-ref": component["name"]} for component in components + [RUNTIME] * loads]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "library", "bom-ref": path.name, "name": path.name, "version": version,
                          "licenses": [{"license": {"id": "MIT"}}], "hashes": [{"alg": "SHA-256", "content": digest}]},
        },
        "components": components,
        "dependencies": [{"ref": path.name, "dependsOn": [component["bom-ref"] for component in components]}],
    }


def main():
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    version, epoch, ports = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    for name in sys.argv[4:]:
        path = pathlib.Path(name)
        path.with_name(path.name + ".cdx.json").write_text(json.dumps(sbom(path, version, epoch, ports), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
