#!/usr/bin/env python3
"""The poms have what Maven Central asks for, with the releaser's part as variables that scripts/build-java fills in, and the BOM names every
package, with each natives jar that scripts/build-java makes."""
import pathlib
import re
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


def main():
    roots = {name: plain(xml.parse(JAVA / name).getroot()) for name in POMS}
    problems = [f"{name}: {problem}" for name, root in roots.items() for problem in problems_of(root)]
    bom = roots["bom/pom.xml"]
    managed = {each.findtext("artifactId") for each in bom.findall("dependencyManagement/dependencies/dependency")}
    for name, root in roots.items():
        if root is not bom and root.findtext("artifactId") not in managed:
            problems.append(f"bom/pom.xml: does not have {root.findtext('artifactId')} of {name}")
    script = (JAVA.parents[1] / "scripts/build-java").read_text(encoding="utf-8")
    for variable in (URL, DEVELOPER):
        if f"s|\\{variable}|" not in script:
            problems.append(f"../../scripts/build-java: does not fill in {variable}")
    built = {f"natives-{platform}" for platform in re.search(r"platforms=\((linux.*)\)", script)[1].split()}
    classifiers = {each.text for each in bom.iterfind("dependencyManagement/dependencies/dependency/classifier")}
    if built != classifiers:
        problems.append(f"bom/pom.xml: expected the natives {sorted(built)}, which scripts/build-java makes, got {sorted(classifiers)}")
    for problem in problems:
        print(f"poms: bindings/java/{problem}", file=sys.stderr)
    return 1 if problems else print(f"{len(POMS)} poms have what Maven Central asks for") or 0


if __name__ == "__main__":
    sys.exit(main())
