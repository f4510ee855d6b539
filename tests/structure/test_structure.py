"""Does structure.py notice what it is there for? Each case puts one fault into a small tree that has none."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

STRUCTURE = pathlib.Path(__file__).with_name("structure.py")
SOUND = {
    "include/iobind/iobind.h": "typedef struct iobind_session iobind_session;\n",
    "abi/ort.h": "typedef struct OrtEnv OrtEnv;\n",
    "src/support/error.h": '#include "iobind/iobind.h"\n',
    "src/support/error.c": '#include "support/error.h"\nint f(char *s) { return snprintf(s, 1, "abort()"); }\n',
    "src/ort/api.h": '#include "../../abi/ort.h"\n#include "support/error.h"\n',
    "src/tensor/tensor.h": '#include "ort/api.h" /* an iobind_session is no business of a tensor */\n',
    "src/tensor/tensor.c": "struct iobind_tensor {\n  int x;\n};\nconst int iobind__limits[2] = {1, 2};\n"
                           "void iobind_tensor_free(void) {}\nconst struct iobind_error *\niobind__tensor_make(int x,\n"
                           "                    int y) {\n  return 0;\n}\n",
    "src/binding/run.c": '#include "tensor/tensor.h"\niobind_session *s;\nint g(void) { return iobind__tensor_make(1, 2); }\n',
    "tool/formats/npy.h": "int npy;\n",
    "tool/shared/tool.h": '#include "formats/npy.h"\n',
    "tool/commands/run.c": '#include "shared/tool.h"\n',
    "README.md": "Nothing to see.\n",
}


class Structure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in SOUND.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def check(self):
        return subprocess.run([sys.executable, STRUCTURE, self.root], capture_output=True, text=True)

    def assert_fault(self, name, text, message):
        self.write(name, SOUND.get(name, "") + text)
        result = self.check()
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(f"{name}:", result.stderr)
        self.assertIn(message, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_sound(self):
        result = self.check()
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_words_that_must_not_come_back(self):
        self.assert_fault("README.md", "A run is under\nway.\n", "README.md:2: says 'under way'; write 'in flight'")

    def test_fields(self):
        def struct(fields):
            inside = "  struct {\n    int a, b;\n    struct {\n      int c;\n    } d;\n  } part; /* one; field */\n"
            return "struct iobind_stream {\n" + inside + "".join(f"  int x{i};\n" for i in range(fields - 1)) + "};\n"
        self.write("src/tensor/stream.h", struct(15))
        self.assertEqual(self.check().returncode, 0)
        self.assert_fault("src/tensor/stream.h", struct(16), "iobind_stream has 16 fields, 15 are allowed")

    def test_words_in_code_and_elsewhere(self):
        self.write("README.md", "```\nno item is under way\n```\n\n`folder`\n")
        self.write("docs/other.md", "A run is under way.\n")
        self.assertEqual(self.check().returncode, 0)

    def test_words_in_messages(self):
        self.assert_fault("src/support/error.c", 'static const char m[] = "a run is under "\n                        "way";\n',
                          "src/support/error.c:3: says 'under way'; write 'in flight'")

    def test_words_in_comments(self):
        self.assert_fault("tests/unit/run_test.c", "/* The run is under\n * way. */\n", "tests/unit/run_test.c:1: says 'under way'; write 'in flight'")
        self.write("tests/unit/run_test.c", "int x;\n")
        self.assert_fault("vdev/run.c", "int y; // nobody waits\n", "vdev/run.c:1: says 'nobody'")

    def test_words_in_code_of_comments(self):
        self.write("vdev/run.c", 'const char *it = "/* nobody"; /* `nobody` is a name */\nconst char *other = "*/";\n')
        self.assertEqual((self.check().returncode, self.check().stderr), (0, ""))

    def test_module_below(self):
        self.assert_fault("src/support/error.h", '#include "tensor/tensor.h"\n', "module support includes module tensor")

    def test_module_below_by_a_path(self):
        self.assert_fault("src/support/error.c", '#include "../ort/api.h"\n', "module support includes module ort")

    def test_use_of_a_module_below(self):
        self.assert_fault("src/ort/load.c", "extern int iobind__tensor_make(int x, int y);\n",
                          ":1: module ort uses iobind__tensor_make of module tensor")

    def test_use_of_a_module_below_by_a_header_above(self):
        self.assert_fault("src/support/error.h", "int iobind__tensor_make(int x, int y);\n",
                          "module support uses iobind__tensor_make of module tensor")

    def test_use_of_a_module_below_by_the_public_header(self):
        self.write("include/iobind/iobind.h", "void iobind_tensor_free(void);\n")
        self.assert_fault("src/support/error.c", "void f2(void) { iobind_tensor_free(); }\n",
                          "module support uses iobind_tensor_free of module tensor")

    def test_object_of_a_module_below(self):
        self.assert_fault("src/support/error.c", "extern const int iobind__limits[2];\n", "uses iobind__limits of module tensor")

    def test_struct_of_a_module_below(self):
        self.assert_fault("src/support/error.h", "struct s { struct iobind_tensor *t; };\n", "uses iobind_tensor of module tensor")

    def test_what_is_static_is_no_other_modules(self):
        self.write("src/binding/run.c", "static int iobind__f(void) { return 1; }\nstatic int iobind__x = 2;\n")
        self.write("src/support/error.c", "int iobind__f(void);\nextern int iobind__x; /* iobind__tensor_make */\n")
        self.assertEqual((self.check().returncode, self.check().stderr), (0, ""))

    def test_one_ep_in_a_general_file(self):
        for code in ('f(strcmp(name, "cuda") == 0);', "if (device->dml != NULL) {}", "if (stream->lane == NULL) {}", 'say("WebGPU: no");',
                     "tensor->is_resource = 1;", 'add("user_compute_stream");'):
            self.assert_fault("src/tensor/tensor.c", f"void h(void) {{ {code} }}\n", ":11: knows one execution provider")

    def test_one_ep_where_it_belongs(self):
        for name in ("src/d3d12/lane.c", "src/ep/cuda.c", "src/tensor/driver_cuda.c", "src/tensor/driver.h"):
            self.write(name, 'static const char *const it = "cuda"; /* the name */\n')
        self.write("src/tensor/tensor.c", SOUND["src/tensor/tensor.c"] + "/* as on CUDA */\nstatic int vector_lanes = 1;\n")
        self.assertEqual((self.check().returncode, self.check().stderr), (0, ""))

    def test_products(self):
        for name, text in {"src/ep/cuda.c": "/* tried over vcuda */", "src/memory/driver.h": "/* as vdev has it */",
                           "src/tensor/tensor.c": "/* the virtual\n * accelerator */".replace("\n * ", "\n"),
                           "src/memory/driver_library.c": "int kind = IOBIND_NATIVE_VDEV;",
                           "src/memory/driver_cuda.c": "extern const iobind__ep iobind__ep_vdev;"}.items():
            with self.subTest(name):
                self.setUp()
                self.assert_fault(name, text + "\n", "which only src/ep/vdev.c knows")

    def test_products_where_they_are_listed(self):
        self.write("src/ep/vdev.c", 'static const char *const it = "vdev"; /* the virtual accelerator */\n')
        self.write("src/ep/catalogue.c", "static const iobind__ep *const all[] = {&iobind__ep_vdev};\n")
        self.write("src/memory/driver_cuda.c", 'static const char driver[] = "nvcuda.dll";\n')
        self.assertEqual((self.check().returncode, self.check().stderr), (0, ""))

    def test_version_compared(self):
        for code in ("return ort->minor < 31;", "return 27 <= runtime->ort.api_version;", "return self.api_version != 24;",
                     "return strchr(ort.version, '.');"):
            self.assert_fault("src/tensor/tensor.c", f"void h(void) {{ {code} }}\n", ":11: compares a version of ORT")
        for name in ("src/ort/find.c", "src/ep/quirk.c"):
            self.write(name, "static int g(int minor) { return minor < 31; }\n")
        self.write("src/tensor/tensor.c", SOUND["src/tensor/tensor.c"] + "static int k = {.version = ort.api_version};\n")
        self.assertEqual((self.check().returncode, self.check().stderr), (0, ""))

    def test_include_of_nothing(self):
        self.assert_fault("src/support/error.c", '#include "support/gone.h"\n', "a file that is nowhere in the tree")

    def test_no_module(self):
        self.assert_fault("src/misc/more.c", "int x;\n", "lies in no module")
        self.write("src/loose.c", "int x;\n")
        self.assertIn("src/loose.c: lies in no module", self.check().stderr)

    def test_format_on_a_command(self):
        self.assert_fault("tool/formats/npy.h", '#include "shared/tool.h"\n', "tool/formats includes tool/shared")

    def test_the_tool_and_the_library(self):
        self.assert_fault("tool/commands/run.c", '#include "support/error.h"\n', "the tool uses the public interface alone")

    def test_abi_from_another_module(self):
        self.assert_fault("src/tensor/tensor.h", '#include "ort.h"\n', "includes abi/ort.h")

    def test_abi_from_the_tool(self):
        self.assert_fault("tool/main.c", '#include "../abi/ort.h"\n', "includes abi/ort.h")

    def test_abi_with_code(self):
        self.assert_fault("abi/ort.h", "static int f(void) { return 1; }\n", "abi/ declares only")

    def test_session_named_above(self):
        self.assert_fault("src/tensor/tensor.h", "void f(iobind_session *s);\n", "names iobind_session")

    def test_long_file(self):
        self.assert_fault("src/binding/long.c", "int x;\n" * 901, "901 lines, 900 are allowed")

    def test_long_public_header(self):
        self.write("include/iobind/iobind.h", SOUND["include/iobind/iobind.h"] * 400)
        self.assertEqual(self.check().returncode, 0)
        self.assert_fault("include/iobind/iobind.h", "int x;\n" * 400, "401 lines, 400 are allowed")

    def test_bag(self):
        self.assert_fault("tool/utils.c", "int x;\n", "named after what it holds")

    def test_left_for_later(self):
        self.assert_fault("tool/main.c", "/* TO" + "DO */\n", "left for later")

    def test_path_of_one_machine(self):
        self.assert_fault("README.md", "See /ho" + "me/someone/iobind.\n", "a path of one machine")

    def test_path_of_this_machine(self):
        self.assert_fault("README.md", f"See {self.root.resolve()}/README.md.\n", "a path of this machine")

    def test_pipe_that_ends_early(self):
        start = "#!/usr/bin/env bash\nset -o pipefail\n"
        for reader in ("grep -q x", "grep -E -qx y", "grep -m 1 x", "LC_ALL=C head -n 1", "sed 1q", "sed -n '/x/{p;q}'", "awk '{ print; exit }'"):
            for pipe in (" | ", " |\n  "):
                self.write("run.sh", start + "echo x" + pipe + reader + "\n")
                self.assertIn("a pipe into", self.check().stderr, reader)
        self.write("run.sh", start + "head -n 1 file || grep -q x file || ls | grep x | sed -n 1p | awk '{ exits }'\n")
        self.assertEqual(self.check().returncode, 0)

    def test_registry_host(self):
        self.assert_fault("scripts/fetch", "fetch files.python" + "hosted.org\n", "a package registry's host")

    def test_printing_library(self):
        self.assert_fault("src/support/error.c", 'void g(void) { printf("x"); }\n', "the library calls printf")

    def test_aborting_library(self):
        self.assert_fault("src/support/error.c", "void g(int x) { assert (x); }\n", "the library calls assert")

    def test_words_of_ort(self):
        code = "const char *g(const OrtApi *api, OrtStatus *s) { return api->GetErrorMessage(s); }\n"
        self.assert_fault("src/support/error.c", code, "reads ORT's words")
        self.write("src/support/error.c", SOUND.get("src/support/error.c", ""))
        self.write("src/ort/status.c", code)
        self.assertEqual(self.check().returncode, 0)

    def test_locale(self):
        self.assert_fault("src/support/error.c", "double g(const char *s) { return strtod(s, 0); }\n", "goes by the locale")
        self.assert_fault("src/support/error.c", 'const char *g(void) { return "%.3f s"; }\n', "goes by the locale")


if __name__ == "__main__":
    unittest.main()
