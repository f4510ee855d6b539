#!/usr/bin/env python3
"""The poms have what Maven Central asks for, -Prelease fails until the releaser says the rest, and the BOM names every package."""
import pathlib
import sys
import xml.etree.ElementTree as xml

JAVA = pathlib.Path(__file__).resolve().parents[2] / "bindings/java"
POMS = ("pom.xml", "spark/pom.xml", "bom/pom.xml")
URL, DEVELOPER = "${iobind.url}", "${iobind.developer}"
# Path of an element -> its text; None: any.
ASKED = {
    "name": None,
    "description": None,
    "url": URL,
    "licenses/license/name": "MIT License",
    "licenses/license/url": None,
    "developers/developer/name": DEVELOPER,
    "scm/url": URL,
    "scm/connection": "scm:git:" + URL,
    "scm/developerConnection": "scm:git:" + URL,
}
RELEASE = ("maven-enforcer-plugin", "flatten-maven-plugin", "maven-gpg-plugin")
OF_JARS = ("maven-source-plugin", "maven-javadoc-plugin")


def plain(element):
    """Without the namespace that every name has."""
    for each in element.iter():
        if isinstance(each.tag, str):
            each.tag = each.tag.rpartition("}")[2]
    return element


def plugins(build):
    return {plugin.findtext("artifactId"): plugin for plugin in build.findall("plugins/plugin")}


def problems_of(root):
    for path, expected in ASKED.items():
        text = root.findtext(path)
        if not text or (expected is not None and text != expected):
            yield f"{path}: expected {expected or 'a text'}, got {text}"
    if root.findtext("packaging", "jar") == "jar":
        yield from (f"build: no {name}" for name in OF_JARS if name not in plugins(root.find("build")))
    release = root.find("profiles/profile[id='release']/build")
    found = {} if release is None else plugins(release)
    yield from (f"profile release: no {name}" for name in RELEASE if name not in found)
    enforcer = found.get("maven-enforcer-plugin")
    required = [] if enforcer is None else [rule.text for rule in enforcer.iterfind(".//requireProperty/property")]
    if sorted(required) != ["iobind.developer", "iobind.url"]:
        yield f"profile release: expected that iobind.url and iobind.developer are required, got {required}"


def main():
    roots = {name: plain(xml.parse(JAVA / name).getroot()) for name in POMS}
    problems = [f"{name}: {problem}" for name, root in roots.items() for problem in problems_of(root)]
    bom = roots["bom/pom.xml"]
    managed = {each.findtext("artifactId") for each in bom.findall("dependencyManagement/dependencies/dependency")}
    for name, root in roots.items():
        if root is not bom and root.findtext("artifactId") not in managed:
            problems.append(f"bom/pom.xml: does not have {root.findtext('artifactId')} of {name}")
    for problem in problems:
        print(f"poms: bindings/java/{problem}", file=sys.stderr)
    return 1 if problems else print(f"{len(POMS)} poms have what Maven Central asks for") or 0


if __name__ == "__main__":
    sys.exit(main())
