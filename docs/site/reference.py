"""Doxygen's XML of the public headers as pages of Sphinx, one for each header, in the order of the header."""
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree

C_HEADERS = ["base", "runtime", "device", "stream", "tensor", "session", "binding", "states", "batch", "pipeline", "audit", "interop", "version"]
SECTION = re.compile(r"^/\* -{4} (.*?) -{4,} \*/$")
STATUS = re.compile(r'XX\((\w+), \d+, "(.*)"\)')
ROLES = {"function": "func", "struct": "struct", "enum": "enum", "enumvalue": "enumerator", "typedef": "type", "define": "macro"}
NOT_PUBLIC = re.compile(r"IOBIND_(\w+_)?(H|HPP|API|CHECK)$|IOBIND_STATUS_(MAP|VALUE)$|\w+_FORCE32$|^_|^@")
SIDES = {"return": "Returns", "Threads": "Threads", "Blocks": "Blocks", "since": "Since"}


def run_doxygen(root, folder):
    """The XML of the headers, below the directory."""
    settings = pathlib.Path(__file__).with_name("doxyfile").read_text() + f'INPUT = "{root}/include/iobind"\nOUTPUT_DIRECTORY = "{folder}"\n'
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True)
    return pathlib.Path(folder, "xml")


def escaped(text):
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", re.sub(r"([\\*`|])", r"\\\1", text))


def indented(text, by="   "):
    return "\n".join(by + line if line else "" for line in text.splitlines())


def one_line(element):
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


class Comment:
    """A description: its paragraphs and lists, and what stands under tags of its own."""

    def __init__(self, element, linked):
        self.linked, self.parameters, self.sides = linked, [], []
        self.text = "\n\n".join(filter(None, (self.block(para) for para in element.findall("para")))) if element is not None else ""

    def block(self, para):
        """A paragraph; a list in it is a block of its own, and what has a tag is put aside."""
        blocks, text = [], self.words(para.text)
        for child in para:
            if child.tag in ("itemizedlist", "parameterlist", "simplesect"):
                blocks.append(text)
                blocks.append(getattr(self, child.tag)(child))
                text = ""
            else:
                text += f"``{one_line(child)}``" if child.tag == "computeroutput" else self.words(one_line(child))
            text += self.words(child.tail)
        return "\n\n".join(block.strip() for block in [*blocks, text] if block.strip())

    def words(self, text):
        return self.linked(escaped(" ".join((text or "").join("xx").split())[1:-1])) if (text or "").strip() else " " if text else ""

    def itemizedlist(self, element):
        items = ["\n\n".join(filter(None, (self.block(para) for para in item.findall("para")))) for item in element.findall("listitem")]
        return "\n".join("- " + indented(item, "  ").lstrip() for item in items)

    def parameterlist(self, element):
        for item in element.findall("parameteritem"):
            names = ", ".join(one_line(name) for name in item.iter("parametername"))
            text = "\n\n".join(self.block(para) for para in item.findall("parameterdescription/para"))
            self.parameters.append((names, indented(text).lstrip()))
        return ""

    def simplesect(self, element):
        kind = one_line(element.find("title")) if element.get("kind") == "par" else element.get("kind")
        self.sides.append((SIDES[kind], " ".join(self.block(para) for para in element.findall("para"))))
        return ""

    def written(self):
        fields = [f":param {name}: {text}" for name, text in self.parameters if "," not in name]
        fields += [f":{name}: {text}" for name, text in self.parameters if "," in name]
        fields += [f":{name}:{listed(text)}" for name, text in self.sides]
        return self.text + "\n\n" + "\n".join(fields) + "\n"


def listed(text):
    """What a function returns, as a list of the statuses with their reasons."""
    parts = re.split(r"; (?=[A-Z][A-Z_]+\b(?:, [A-Z_]+\b)*)", text)
    if len(parts) == 1:
        return f" {text}"
    marked = [re.sub(r"^[A-Z][A-Z_]+(?:, (?:also )?[A-Z][A-Z_]+)*(?=\W|$)", lambda match: re.sub(r"[A-Z_]{2,}", r"``\g<0>``", match[0]), part) for part in parts]
    return "\n" + "\n".join(f"   - {part}" for part in marked)


class Headers:
    """What Doxygen found, by the header and the line where it stands."""

    def __init__(self, root, xml):
        self.root, self.xml = pathlib.Path(root), xml
        self.names, self.found, self.about = {}, {}, {}
        # The structs first: a typedef of the same name is not one more.
        for pattern in ("struct*.xml", "class*.xml", "*_8h*.xml", "namespaceiobind.xml"):
            for path in sorted(xml.glob(pattern)):
                self.read(ElementTree.parse(path).getroot().find("compounddef"))

    def read(self, compound):
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if kind == "file":
            self.about[name] = compound.find("detaileddescription")
        elif kind != "namespace" and "<" not in name: # a specialisation has no comment of its own
            self.put(compound, kind, name)
        if kind in ("file", "namespace"):
            for member in compound.iter("memberdef"):
                self.put(member, member.get("kind"), member.findtext("name"))

    def put(self, element, kind, name):
        place = element.find("location")
        header = pathlib.Path(place.get("file")).name
        if kind != "enum" and NOT_PUBLIC.search(name) or (kind == "typedef" and name in self.names):
            return
        if kind in ("struct", "class", "enum") or kind in ROLES and header.endswith(".h"):
            self.names[name] = kind
            self.names.update((value.findtext("name"), "enumvalue") for value in element.findall("enumvalue"))
        self.found.setdefault(header, {})[int(place.get("line")), kind, name + (element.findtext("argsstring") or "")] = element

    def linked(self, text):
        def one(match):
            kind = self.names.get(match[1])
            return f":c:{ROLES[kind]}:`{match[1]}`" if kind in ROLES else match[0]
        return re.sub(r"\b((?:iobind|IOBIND)_\w*\w)\b(?:\(\))?", one, text)

    def sections(self, header):
        """(line, title) of the comments that divide a header."""
        for number, line in enumerate((self.root / "include/iobind" / header).read_text(encoding="utf-8").splitlines(), 1):
            if match := SECTION.match(line):
                yield number, match[1][0].upper() + match[1][1:]

    def page(self, header, writer):
        title = f"{header}\n{'=' * len(header)}\n\n"
        about = Comment(self.about.get(header), self.linked).written()
        parts = [((line, "", ""), f"{name}\n{'-' * len(name)}\n") for line, name in self.sections(header)]
        parts += [(key, writer(key[1], element)) for key, element in self.found.get(header, {}).items()]
        return title + about + "\n" + "\n".join(text for _, text in sorted(parts, key=lambda part: part[0]))


class CWriter:
    def __init__(self, headers):
        self.headers = headers
        base = (headers.root / "include/iobind/base.h").read_text(encoding="utf-8")
        self.statuses = {f"IOBIND_ERROR_{name}": text for name, text in STATUS.findall(base)}

    def comment(self, element):
        return Comment(element.find("detaileddescription"), self.headers.linked)

    def directive(self, kind, signature, element, inner=""):
        return f".. c:{kind}:: {signature}\n\n{indented(self.comment(element).written())}\n{indented(inner)}\n"

    def __call__(self, kind, element):
        return getattr(self, kind)(element)

    def function(self, element):
        return self.directive("function", one_line(element.find("definition")) + one_line(element.find("argsstring")), element)

    def typedef(self, element):
        definition = one_line(element.find("definition")).removeprefix("typedef ")
        is_function = "(*" in definition
        return self.directive("type", definition.replace("(* ", "(*").replace(") (", ")(") if is_function else element.findtext("name"), element)

    def define(self, element):
        value = one_line(element.find("initializer"))
        shown = f"\n.. code-block:: c\n\n   #define {element.findtext('name')} {value}\n" if value and "{" not in value else ""
        return self.directive("macro", element.findtext("name"), element, shown)

    def enum(self, element):
        values = [self.directive("enumerator", value.findtext("name"), value, self.statuses.get(value.findtext("name"), ""))
                  for value in element.findall("enumvalue") if not NOT_PUBLIC.search(value.findtext("name"))]
        if element.findtext("name").startswith("@") or not element.findtext("name"):
            return "\n".join(values)
        return self.directive("enum", element.findtext("name"), element, "\n".join(values))

    def struct(self, element):
        fields = [self.directive("member", one_line(field.find("definition")).replace(f"{element.findtext('compoundname')}::", "")
                                 + one_line(field.find("argsstring")), field) for field in element.iter("memberdef")]
        return self.directive("struct", element.findtext("compoundname"), element, "\n".join(fields))


class CppWriter(CWriter):
    """C++: the classes with what is public in them, and the functions of the namespace."""

    def directive(self, kind, signature, element, inner=""):
        return f".. cpp:{kind}:: {signature}\n\n{indented(self.comment(element).written())}\n{indented(inner)}\n"

    @staticmethod
    def template(element):
        given = element.find("templateparamlist")
        if given is None:
            return ""
        one = [" ".join(filter(None, (one_line(part.find("type")), part.findtext("declname"), part.find("defval") is not None and
                                      f"= {one_line(part.find('defval'))}"))) for part in given.findall("param")]
        return f"template<{', '.join(one)}> "

    def function(self, element):
        returned, name = one_line(element.find("type")), element.findtext("name")
        signature = f"{self.template(element)}{returned} {name}{one_line(element.find('argsstring'))}"
        return self.directive("function", " ".join(signature.split()), element)

    def variable(self, element):
        return self.directive("member", f"{one_line(element.find('type'))} {element.findtext('name')}", element)

    def typedef(self, element):
        return self.directive("type", f"{self.template(element)}{element.findtext('name')} = {one_line(element.find('type'))}", element)

    def struct(self, element):
        name = element.findtext("compoundname")
        members = [self(member.get("kind"), member) for member in element.iter("memberdef")
                   if member.get("prot") == "public" and member.get("kind") in ("function", "variable", "typedef")]
        return self.directive("class", self.template(element) + name.removeprefix("iobind::"), element, "\n".join(members))

    interface = vars()["class"] = struct


def write_reference(root, target, folder):
    """The pages of C and C++, below the target; Doxygen works in the directory."""
    headers = Headers(root, run_doxygen(root, folder))
    c, cpp = pathlib.Path(target, "reference/c"), pathlib.Path(target, "reference/cpp")
    for directory in (c, cpp):
        directory.mkdir(parents=True)
    writer = CWriter(headers)
    for name in C_HEADERS:
        (c / f"{name}.rst").write_text(headers.page(f"{name}.h", writer), encoding="utf-8")
    about = Comment(headers.about["iobind.h"], headers.linked).written()
    (c / "index.rst").write_text(f"C\n=\n\n{about}\n{contents(C_HEADERS)}", encoding="utf-8")
    cpp_writer = CppWriter(headers)
    for name in ("iobind", "interop"):
        page = headers.page(f"{name}.hpp", cpp_writer)
        title, rest = page.split("\n\n", 1)
        (cpp / f"{name}.rst").write_text(f"{title}\n\n.. cpp:namespace:: iobind\n\n{rest}", encoding="utf-8")


def contents(names):
    return ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {name}\n" for name in names)
