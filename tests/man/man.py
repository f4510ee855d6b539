#!/usr/bin/env python3
"""The manual page says what the tool's help says: every command, every option with its letter and value, and no other.

usage: man.py TOOL PAGE   the formatters check the page too, each where it is there (mandoc, man)
"""
import pathlib
import re
import shutil
import subprocess
import sys


def say(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def options_of_help(text):
    """{"--input": {("-i", "NAME=FILE")}}; help breaks lines only behind the value."""
    lines = re.findall(r"^  (?:(-\w), |    )(--[\w-]+)(?: (\S+))?(?:  |$)", text, flags=re.M)
    return {name: {(letter, value)} for letter, name, value in lines}


def options_of_page(text):
    """The same from the lists of options: .It Fl i , Fl -input Ar NAME Ns = Ns Ar FILE"""
    found = {}
    for line in re.findall(r"^\.It Fl (.*)$", text, flags=re.M):
        match = re.fullmatch(r"(?:(\w) , Fl )?-([\w-]+)(?: (.*))?", line)
        if not match:
            raise SystemExit(f"man: an option that is written otherwise than the others: .It Fl {line}")
        value = re.sub(r"\b(Ar|Cm) |\bNs ?", "", match[3] or "")
        value = value.replace("Oo ", "[").replace(" Oc", "]").replace(" ", "")
        found.setdefault("--" + match[2], set()).add(("-" + match[1] if match[1] else "", value))
    return found


def differences(tool, page):
    text = page.read_text(encoding="utf-8")
    listed = set(re.findall(r"^  (\w+) +\S", say([tool, "--help"]), flags=re.M))
    described = set(re.findall(r"^\.It Cm (\w+)$", text, flags=re.M))
    synopsis = set(re.findall(r"^\.Nm\n\.Cm (\w+)$", text, flags=re.M))
    for command in sorted(listed ^ described):
        yield f"{command}: a command of the {'help' if command in listed else 'page'} only"
    for command in sorted(listed ^ synopsis):
        yield f"{command}: not in the synopsis, or only there"
    helped = {}
    for command in sorted(listed):
        for name, form in options_of_help(say([tool, command, "--help"])).items():
            helped.setdefault(name, set()).update(form)  # an option may take something else with another command
    if len(helped) < 10:
        yield f"only {len(helped)} options were found in the help: its form has changed"
    paged = options_of_page(text)
    for name in sorted(helped.keys() | paged.keys()):
        if helped.get(name) != paged.get(name):
            yield f"{name}: the help has {helped.get(name)}, the page {paged.get(name)}"


def complaints(page):
    for formatter, command in (("mandoc", ["mandoc", "-T", "lint", "-W", "warning", page]),
                               ("man", ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page])):
        if not shutil.which(formatter):
            print(f"{formatter} is not there, and did not check the page")
            continue
        result = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
        said = result.stderr if formatter == "man" else result.stdout + result.stderr
        if result.returncode or said.strip():
            yield f"{formatter}: {said.strip()}"


def main(arguments):
    tool, page = arguments[0], pathlib.Path(arguments[1])
    faults = list(differences(tool, page)) + list(complaints(page))
    for fault in faults:
        print(f"man: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
