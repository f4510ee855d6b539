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

LICENSES = {"popt": "MIT", "jansson": "MIT", "libzip": "BSD-3-Clause", "zlib": "Zlib", "libpng": "libpng-2.0"}
STATIC = {"win-x64": ["popt", "jansson", "libzip", "zlib"], "linux": ["popt", "jansson", "libzip", "libpng", "zlib"]}
PORTS = {"x86_64": "manylinux-x64", "aarch64": "manylinux-arm64"}  # of wheels, by the end of their names
SYSTEM_PC = pathlib.Path("/usr/x86_64-w64-mingw32/lib/pkgconfig")  # Debian's zlib for mingw
RUNTIME = {"type": "library", "name": "ONNX Runtime", "scope": "required", "licenses": [{"license": {"id": "MIT"}}],
           "description": "1.24 or newer; loaded at run time, not in the artefact"}


def static(name, directory):
    """A library whose code is in the artefact."""
    component = {"type": "library", "name": name, "scope": "required", "licenses": [{"license": {"id": LICENSES[name]}}],
                 "description": "linked statically"}
    for parent in (directory / "lib/pkgconfig", SYSTEM_PC):
        for file in sorted(parent.glob(f"{name}.pc")):
            component["version"] = re.search(r"^Version:\s*(\S+)", file.read_text(encoding="utf-8"), flags=re.M)[1]
            return component
    raise SystemExit(f"sbom: {name}: expected {directory}/lib/pkgconfig/{name}.pc with its version")


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


def of_wheel(path, ports, directory):
    unpacked(path, directory)
    metadata = next(directory.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
    components = [beside(name, "a package of Python's: " + wanted) for wanted, name in
                  re.findall(r"^Requires-Dist: (([\w.-]+)[^;\n]*)$", metadata.split("\n\n")[0], flags=re.M)]
    if list(directory.glob("*.dist-info/licenses/*.txt")):  # the terms of what is in the tool
        machine = next((port for end, port in PORTS.items() if path.stem.endswith(end)), "win-x64")
        components += [static(name, ports / machine) for name in STATIC["win-x64" if machine == "win-x64" else "linux"]]
    return components + needed(directory)


def of_deb(path):
    depends = subprocess.run(["dpkg-deb", "--field", path, "Depends"], check=True, capture_output=True, text=True).stdout
    return [beside(wanted.split()[0], "a package of Debian's: " + wanted.strip()) for wanted in depends.split(",") if wanted.strip()]


def components_of(path, ports, directory):
    """What is in a file, or is needed by it, and whether it loads ONNX Runtime."""
    name = path.name
    if name.endswith(".whl"):
        return of_wheel(path, ports, directory), name.startswith("onnxruntime_iobind-")
    if name.endswith(".deb"):
        return of_deb(path), "-doc_" not in name and "-vdev_" not in name
    if name.endswith("-win-x64.zip"):
        return [static(library, ports / "win-x64") for library in STATIC["win-x64"]], True
    if re.search(r"-linux-\w+\.tar\.gz$", name):
        return needed(unpacked(path, directory)), True
    return [], name.endswith((".jar", "-maven.zip")) and not re.search(r"-(sources|javadoc)\.jar$", name)


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
