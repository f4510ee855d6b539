"""Does the comparison notice what it is there for? Each case breaks a copy of abi/ or of the rows in one way."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ABI = HERE.parent.parent / "abi"
CC = os.environ.get("CC", "cc")


class Comparison(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.abi, self.rows = self.folder / "abi", self.folder / "rows"
        shutil.copytree(ABI, self.abi)
        for folder in ("vdev", "src/session"):  # where guards stand that the rows name
            shutil.copytree(pathlib.Path(ABI).parent / folder, self.folder / folder)
        self.rows.mkdir()
        for table in HERE.glob("*.tsv"):
            shutil.copy(table, self.rows)

    def replace(self, path, old, new):
        text = path.read_text(encoding="utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def run_script(self, *arguments):
        command = [sys.executable, HERE / "abi.py", "--rows", self.rows, *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def coverage(self):
        return self.run_script("coverage", self.abi)

    def program(self):
        written = self.run_script("program", self.abi)
        self.assertEqual(written.returncode, 0, written.stderr)
        source, binary = self.folder / "program.c", self.folder / "program"
        source.write_text(written.stdout, encoding="utf-8")
        built = subprocess.run([CC, "-std=c17", f"-I{self.abi}", source, "-o", binary], capture_output=True, text=True)
        return subprocess.run([binary], capture_output=True, text=True) if built.returncode == 0 else built

    def assert_fails(self, result, text):
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertIn(text, result.stderr)

    def test_unchanged(self):
        self.assertEqual(self.coverage().returncode, 0)
        self.assertEqual(self.program().returncode, 0)

    def test_two_slots_change_places(self):
        header = self.abi / "ort.h"
        self.replace(header, "ClearBoundInputs", "ClearBound")
        self.replace(header, "ClearBoundOutputs", "ClearBoundInputs")
        self.replace(header, "ClearBound)", "ClearBoundOutputs)")
        self.assert_fails(self.coverage(), "OrtApi.ClearBoundOutputs is slot 142, but stands at slot 141")
        self.assert_fails(self.program(), "offset of OrtApi.ClearBoundInputs: expected 1128, got 1136")

    def test_padding_one_short(self):
        self.replace(self.abi / "ort.h", "ort_slot slots_397[9];", "ort_slot slots_397[8];")
        self.assert_fails(self.coverage(), "OrtApi.CreateEnvWithOptions is slot 406, but stands at slot 405")
        self.assert_fails(self.program(), "offset of OrtApi.CreateEnvWithOptions: expected 3248, got 3240")

    def test_parameter_of_another_type(self):
        self.replace(self.abi / "ort.h", "*ReleaseIoBinding)(OrtIoBinding *", "*ReleaseIoBinding)(OrtSession *")
        self.assert_fails(self.program(), "OrtApi.ReleaseIoBinding: expected the type void (*)(OrtIoBinding * input)")

    def test_parameter_loses_const(self):
        self.replace(self.abi / "ort.h", "*GetErrorCode)(const OrtStatus *", "*GetErrorCode)(OrtStatus *")
        self.assert_fails(self.program(), "OrtApi.GetErrorCode: expected the type")

    def test_enum_value(self):
        self.replace(self.abi / "ort.h", "HOST_ACCESSIBLE = 5", "HOST_ACCESSIBLE = 1")
        self.assert_fails(self.program(), "OrtDeviceMemoryType.OrtDeviceMemoryType_HOST_ACCESSIBLE: expected 5, got 1")

    def test_enum_value_not_written_out(self):
        self.replace(self.abi / "ort.h", "ORT_FAIL = 1,", "ORT_FAIL,")
        self.assert_fails(self.coverage(), "OrtErrorCode: every value must be written out")

    def test_function_type(self):
        self.replace(self.abi / "ort.h", "OrtLoggingFunction)(void *param, ", "OrtLoggingFunction)(")
        self.assert_fails(self.program(), "OrtLoggingFunction: expected the type")

    def test_field_of_another_type(self):
        self.replace(self.abi / "ort.h", "uint32_t version;", "int32_t version;")
        self.assert_fails(self.program(), "OrtAllocator.version: expected the type uint32_t")

    def test_calling_convention(self):
        self.replace(self.abi / "ort.h", "(ORT_CALL *ReleaseEnv)", "(*ReleaseEnv)")
        self.assert_fails(self.coverage(), "OrtApi.ReleaseEnv: declared without ORT_CALL")

    def test_declared_without_a_row(self):
        self.replace(self.rows / "functions.tsv", "\tReleaseEnv\t", "\tReleaseOther\t")
        result = self.coverage()
        self.assert_fails(result, "OrtApi.ReleaseEnv is declared, but has no row")
        self.assert_fails(result, "OrtApi.ReleaseOther has a row, but is not declared")

    def test_unknown_declaration(self):
        self.replace(self.abi / "ort.h", "#endif", "extern int ort_more;\n#endif")
        self.assert_fails(self.coverage(), "a declaration that this comparison does not know: extern int ort_more;")

    def test_newer_slot_needs_a_guard(self):
        self.replace(self.abi / "ort.h", "#define ORT_API_OLDEST 24", "#define ORT_API_OLDEST 23")
        self.assert_fails(self.coverage(), "OrtApi.EpAssignedNode_GetName is there since ORT 1.24 only")
        guarded = ["SessionGetEpDeviceForOutputs", "1.24", "guarded.c", "version >= 24"]
        with open(self.rows / "newer_slots.tsv", "a", encoding="utf-8") as file:
            file.write("\t".join(["OrtApi"] + guarded) + "\n")
        self.assert_fails(self.coverage(), "its guard 'version >= 24' is not in guarded.c")
        (self.folder / "guarded.c").write_text("if (version >= 24)", encoding="utf-8")
        self.assertNotIn("SessionGetEpDeviceForOutputs", self.coverage().stderr)

    def test_guard_for_nothing(self):
        with open(self.rows / "newer_slots.tsv", "a", encoding="utf-8") as file:
            file.write("OrtApi\tReleaseEnv\t1.0\tabi/ort.h\tOrtApi\n")
        self.assert_fails(self.coverage(), "OrtApi.ReleaseEnv stands in newer_slots.tsv for nothing")


if __name__ == "__main__":
    unittest.main()
