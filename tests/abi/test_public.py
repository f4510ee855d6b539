"""Does the comparison of the public interface notice what it is there for? Most cases change a small header in one way."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import public  # noqa: E402


MINI = """
#include <stddef.h>
#include <stdint.h>
#define IOBIND_API
#define IOBIND_MAX_RANK 16
typedef struct iobind_event iobind_event; /**< only its name is public */
typedef enum iobind_kind {
#define KINDS(XX) XX(FLAT, 0) XX(ROUND, 3)
#define IOBIND_STATUS_VALUE(name, value) IOBIND_##name = value,
  KINDS(IOBIND_STATUS_VALUE)
  IOBIND_KIND_FORCE32 = 0x7FFFFFFF
} iobind_kind;
enum { IOBIND_STRICT = 1u << 0, IOBIND_LOOSE = 1u << 1 };
typedef void (*iobind_deleter)(void *context, void *data);
typedef struct iobind_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char *const *names; /**< a comment; with a semicolon */
  size_t count;
  char text[24];
} iobind_info;
#define IOBIND_INFO_INIT {sizeof(iobind_info), 0, NULL, 7, {0}}
IOBIND_API iobind_kind iobind_find(const char *const *names, size_t count,
                                   iobind_event **event);
IOBIND_API const char *iobind_name(void);
""".replace("KINDS", "IOBIND_STATUS_MAP")


class Public(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def measure(self, text):
        header = self.folder / "iobind.h"
        header.write_text(text, encoding="utf-8")
        return public.measure(header)

    def changed(self, old, new):
        self.assertIn(old, MINI)
        return list(public.broken(self.measure(MINI), self.measure(MINI.replace(old, new, 1))))

    def test_what_it_reads(self):
        interface = self.measure(MINI)
        self.assertEqual(list(public.broken(interface, interface)), [])
        self.assertEqual(interface["opaque"], ["iobind_event"])
        self.assertEqual(interface["enums"], {"iobind_kind": {"size": 4, "values": {
            "IOBIND_FLAT": 0, "IOBIND_ROUND": 3, "IOBIND_KIND_FORCE32": 0x7FFFFFFF}}})
        self.assertEqual(interface["constants"], {"IOBIND_STRICT": 1, "IOBIND_LOOSE": 2, "IOBIND_MAX_RANK": 16})
        info = interface["structs"]["iobind_info"]
        self.assertEqual((info["size"], info["align"], info["init"]), (48, 8, {"struct_size": 48, "count": 7}))
        self.assertEqual(info["fields"][2], {"name": "names", "type": "const char *const *", "offset": 8, "size": 8})
        self.assertEqual(info["fields"][4], {"name": "text", "type": "char[24]", "offset": 24, "size": 24})
        self.assertEqual(interface["functions"], {
            "iobind_find": {"returns": "iobind_kind",
                            "parameters": ["const char *const *names", "size_t count", "iobind_event **event"]},
            "iobind_name": {"returns": "const char *", "parameters": []}})

    @unittest.skipUnless(shutil.which("clang"), "no clang here to compare with")
    def test_nothing_is_missed(self):
        """The public header, beside clang's own reading of it."""
        interface = public.measure(public.HEADER)
        command = ["clang", "-fsyntax-only", "-Xclang", "-ast-dump=json", public.HEADER]
        tree = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        functions, fields, constants, types = set(), {}, set(), set()
        for node in tree["inner"]:
            if node["kind"] == "FunctionDecl" and node["name"].startswith("iobind_"):
                functions.add(node["name"])
            elif node["kind"] == "RecordDecl" and node.get("name", "").startswith("iobind_") and "inner" in node:
                fields[node["name"]] = [one["name"] for one in node["inner"] if one["kind"] == "FieldDecl"]
            elif node["kind"] == "EnumDecl":
                constants |= {one["name"] for one in node["inner"] if one.get("name", "").startswith("IOBIND_")}
            elif node["kind"] == "TypedefDecl" and node["name"].startswith("iobind_"):
                types.add(node["name"])
        self.assertEqual(functions, set(interface["functions"]))
        self.assertEqual(fields, {name: [field["name"] for field in struct["fields"]]
                                  for name, struct in interface["structs"].items()})
        ours = set(interface["constants"]).union(*(enum["values"] for enum in interface["enums"].values()))
        self.assertEqual(constants - ours, set())
        self.assertEqual(types, set().union(*(interface[group] for group in ("opaque", "structs", "enums", "callbacks"))))

    def test_what_it_cannot_read_is_an_error(self):
        for addition in ("typedef union iobind_both { int a; float b; } iobind_both;", "extern int iobind_global;",
                         "struct iobind_loose { int a; };", "#define IOBIND_TEXT \"text\"",
                         "typedef struct iobind_bits { unsigned a : 3; } iobind_bits;"):
            with self.subTest(addition=addition):
                with self.assertRaisesRegex(public.Failed, "does not know"):
                    self.measure(MINI + addition + "\n")

    def test_may_grow(self):
        self.assertEqual(self.changed("  char text[24];", "  char text[24];\n  uint64_t more;"), [])
        self.assertEqual(self.changed("XX(ROUND, 3)", "XX(ROUND, 3) XX(LONG, 4)"), [])
        self.assertEqual(self.changed("IOBIND_LOOSE = 1u << 1", "IOBIND_LOOSE = 1u << 1, IOBIND_FAST = 1u << 2"), [])
        self.assertEqual(self.changed("IOBIND_API const", "IOBIND_API void iobind_new(void);\nIOBIND_API const"), [])
        self.assertEqual(self.changed("uint32_t reserved;", "int32_t repeat;"), [])

    def test_must_not_change(self):
        for old, new, part in (
                ("  uint32_t struct_size;\n  uint32_t reserved;\n", "  uint32_t struct_size;\n", "iobind_info.reserved: was"),
                ("  uint32_t reserved;\n", "  uint64_t repeat;\n", "iobind_info.reserved: was"),
                ("  size_t count;\n", "  uint64_t count;\n", "iobind_info.count: was"),
                ("char text[24]", "char text[32]", "iobind_info.text: was"),
                ("NULL, 7,", "NULL, 0,", "iobind_info.count: its _INIT macro set 7, now 0"),
                ("XX(ROUND, 3)", "XX(ROUND, 1)", "IOBIND_ROUND: was 3, is 1"),
                ("XX(ROUND, 3)", "", "IOBIND_ROUND: was 3, is gone"),
                ("IOBIND_LOOSE = 1u << 1", "IOBIND_LOOSE = 1u << 9", "IOBIND_LOOSE: was 2, is 512"),
                ("IOBIND_MAX_RANK 16", "IOBIND_MAX_RANK 8", "IOBIND_MAX_RANK: was 16, is 8"),
                ("size_t count,\n", "uint32_t count,\n", "iobind_find: was"),
                ("iobind_name(void)", "iobind_call(void)", "iobind_name: was"),
                ("(void *context, void *data)", "(void *data)", "iobind_deleter: was"),
                ("typedef struct iobind_event iobind_event;", "typedef struct iobind_mark iobind_mark;\n#define iobind_event iobind_mark",
                 "does not know")):
            with self.subTest(change=(old, new)):
                try:
                    problems = " ".join(self.changed(old, new))
                except public.Failed as failure:
                    problems = str(failure)
                self.assertIn(part, problems)

    def test_nothing_new_in_old_padding(self):
        fields = [{"name": "struct_size", "type": "uint32_t", "offset": 0, "size": 4},
                  {"name": "data", "type": "void *", "offset": 8, "size": 8}]
        old = {"size": 16, "align": 8, "init": None, "fields": fields}
        new = dict(old, fields=fields + [{"name": "bytes", "type": "uint32_t", "offset": 4, "size": 4}])
        self.assertIn("lies within the 16 bytes", " ".join(public.broken_struct("s", old, new)))

    def test_a_frozen_version_stays(self):
        public.CLIENTS, public.STORED = self.folder / "clients", self.folder / "abi.json"
        self.addCleanup(setattr, public, "CLIENTS", public.HERE / "clients")
        self.addCleanup(setattr, public, "STORED", public.HERE / "abi.json")
        problems, summary = public.freeze(public.HEADER)
        self.assertEqual(problems, [])
        self.assertEqual(public.check(public.HEADER)[0], [])
        self.assertEqual(public.compatible(public.HEADER)[0], [])
        with self.assertRaisesRegex(public.Failed, "frozen already"):
            public.freeze(public.HEADER)
        frozen = next(public.CLIENTS.glob("*/include/iobind/tensor.h"))
        text = frozen.read_text(encoding="utf-8")
        frozen.write_text(text.replace("#define IOBIND_MAX_RANK", "#define IOBIND_MOST_RANK"), encoding="utf-8")
        self.assertIn("neither may be edited", " ".join(public.compatible(public.HEADER)[0]))


if __name__ == "__main__":
    unittest.main()
