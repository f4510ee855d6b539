#!/usr/bin/env python3
"""The version is said in include/iobind/version.h; what says it again says the same."""
import pathlib
import re
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[2]
# File -> the places in it that name the version of now.
SAID = {
    "README.md": r"\. (\d+\.\d+\.\d+) is ",
    "CHANGELOG.md": r"\A(?:(?!## ).*\n)*## \[(\d+\.\d+\.\d+)\]",
    "SECURITY.md": r"After (\d+\.\d+\.\d+) they go to the newest release",
    "docs/install.md": r"iobind[-_](\d+\.\d+\.\d+)[-_]",
    "CITATION.cff": r"(?m)^version: (.*)$",
    "debian/changelog": r"\Aiobind \((.*?)\)",
    "packaging/rpm/iobind.spec": r"(?m)^Version: +(.*)$",
    "packaging/vcpkg/iobind/vcpkg.json": r'"version": "(.*)"',
    "packaging/nix/default.nix": r' version = "(.*)"',
    "packaging/homebrew/iobind.rb": r'(?m)^  version "(.*)"',
    "docs/tool.md": r"iobind: +(\d+\.\d+\.\d+)",
    "bindings/java/pom.xml": r"<artifactId>onnxruntime-io-binding-ffm</artifactId>\s*<version>(.*?)</version>",
    "bindings/java/bom/pom.xml": r"<artifactId>onnxruntime-io-binding-bom</artifactId>\s*<version>(.*?)</version>",
    "bindings/java/spark/pom.xml": r"<artifactId>(?:iobind-spark|onnxruntime-io-binding-ffm)</artifactId>\s*<version>(.*?)</version>",
    "examples/maven/pom.xml": r"<artifactId>onnxruntime-io-binding-bom</artifactId>\s*<version>(.*?)</version>",
    "examples/gradle/build.gradle": r"(?m)^def version = '(.*)'",
    "docs/spark.md": r"iobind-spark(?:-|</artifactId>\s*<version>)(\d+\.\d+\.\d+)",
    "bench/java/pom.xml": r"<artifactId>onnxruntime-io-binding-ffm</artifactId>\s*<version>(.*?)</version>",
}


def main():
    header = (PROJECT / "include/iobind/version.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"#define IOBIND_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    problems = []
    for name, pattern in SAID.items():
        found = re.findall(pattern, (PROJECT / name).read_text(encoding="utf-8"))
        problems += [f"{name}: expected {version}, as version.h says, got {said}" for said in found if said != version]
        if not found:
            problems.append(f"{name}: says no version where it did: {pattern}")
    for problem in problems:
        print(f"version: {problem}", file=sys.stderr)
    return 1 if problems else print(f"{version}: in {len(SAID)} files") or 0


if __name__ == "__main__":
    sys.exit(main())
