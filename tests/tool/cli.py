"""The command line as a person and a hostile file see it: cli.py TOOL MAKE_MODEL RUNTIME_FOLDER.

Every refused case must end with the right exit code, one line on stderr that names the cause, nothing on stdout and no file."""
import glob
import json
import os
import pty
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
import xml.dom.minidom
import zipfile

from case import FAILED, MAKE_MODEL, MISUSED, RUNTIME, TOOL, Case
from files import identity_model, npy_bytes, npz_bytes, read, read_npy

for packages in glob.glob(os.path.join(RUNTIME, "python/lib/python3*/site-packages")):
    sys.path.append(packages)
try:
    import numpy
except ImportError:
    numpy = None


# ---- the command line -------------------------------------------------------------------------------------------------

class Usage(Case):
    def test_version_and_help(self):
        self.assertRegex(self.good("--version"), r"^iobind \d+\.\d+\.\d+ \(libiobind \d+\.\d+\.\d+\)\n$")
        text = self.good("--help")
        for command in ("doctor", "devices", "inspect", "run", "loop", "bench", "audit", "tile"):
            self.assertIn(command, text)
            help_text = self.good(command, "--help")
            self.assertIn(f"Usage: iobind {command}", help_text)
            self.assertIn("--json", help_text)
        self.assertIn("--output-dir", self.good("run", "anything", "--help"))

    def test_wrong_usage(self):
        self.refused(MISUSED, "unknown command 'docter'; did you mean 'doctor'?", "docter")
        self.refused(MISUSED, "unknown command 'frobnicate'; see", "frobnicate")
        self.refused(MISUSED, "unknown command ''", "")
        self.refused(MISUSED, "unknown command 'a b'", "a\nb")
        self.refused(MISUSED, "unknown option '--versoin'", "--versoin")
        self.refused(MISUSED, "did you mean '--input'", "run", "m.onnx", "--inptu", "x=y")
        self.refused(MISUSED, "did you mean '--output-dir'", "run", "m.onnx", "--outputdir=o")
        self.refused(MISUSED, "unknown option '-q'", "run", "m.onnx", "-q")
        self.refused(MISUSED, "unknown option", "devices", "--dim", "n=1")
        self.refused(MISUSED, "needs a value", "run", "m.onnx", "--input")
        self.refused(MISUSED, "--json", "devices", "--json=yes")
        self.refused(MISUSED, "MODEL is missing", "run")
        self.refused(MISUSED, "MODEL is missing", "inspect", "--json")
        self.refused(MISUSED, "MODEL is empty", "inspect", "")
        self.refused(MISUSED, "unexpected argument 'two'", "inspect", "one", "two")
        self.refused(MISUSED, "'x': a device is allowed only with --compute", "doctor", "x")
        self.refused(MISUSED, "unexpected argument 'y'", "doctor", "--compute", "x", "y")
        self.refused(MISUSED, "--device is given 2 times", "inspect", "m", "--device", "cpu", "--device", "cpu")
        self.refused(MISUSED, "--ort is given 2 times", "devices", "--ort", "a", "--ort", "b")
        self.refused(MISUSED, "--output-dir is given 2 times", "run", "m", "-o", "a", "-o", "b")
        self.refused(MISUSED, "--output is given 2 times", "run", "m", "--output", "a.npz", "--output", "b.npz")
        self.refused(MISUSED, "expected one of them", "run", "m", "--output", "a.npz", "-o", "b")
        for file in ("a.npy", "", ".npz", "folder/"):
            self.refused(MISUSED, "ends in .npz", "run", "m", "--output", file)
        self.refused(MISUSED, "--bind: expected device or host, got 'gpu'", "run", "m", "--bind", "gpu")

    def test_numbers_are_strict(self):
        for text in ("", "x", "1x", "0x10", "1e3", "-1", "9223372036854775808", " 1"):
            self.refused(MISUSED, "whole number", "run", "m", "--dim", f"n={text}")
        for text in ("", "x", "-1", "1.5", "99999999999999999999"):
            self.refused(MISUSED, "--seed: expected a whole number", "run", "m", "--seed", text)
        self.refused(MISUSED, "--dim: expected SYMBOL=N, got 'n'", "run", "m", "--dim", "n")
        self.refused(MISUSED, "--dim: expected SYMBOL=N, got '=3'", "run", "m", "--dim", "=3")
        self.refused(MISUSED, "given twice", "run", "m", "--dim", "n=1", "--dim", "n=2")

    def test_a_full_standard_output_is_a_failure(self):
        with open("/dev/full", "w") as full:
            self.refused(FAILED, "standard output", "devices", stdout=full)
            self.refused(FAILED, "standard output", "devices", "--json", stdout=full)
            self.refused(FAILED, "standard output", "run", "--help", stdout=full)
            self.refused(FAILED, "standard output", "--help", stdout=full)
            self.refused(FAILED, "standard output", "--version", stdout=full)

    def test_closed_streams_are_no_files(self):
        """Messages must not land in a file that took the number of a closed stream."""
        out = self.path("out")
        words = [TOOL, "run", self.model("add.onnx", "add"), "--random", "--dim", "n=4", "-o", out]
        for redirect, code in ((">&-", FAILED), ("2>&-", 0), ("<&- 2>&-", 0), (">&- 2>&-", FAILED)):
            with self.subTest(redirect=redirect):
                result = subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirect}', *words], env=self.environment, capture_output=True)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(len(read_npy(os.path.join(out, "z.npy"))[2]), 16)

    def test_without_a_command(self):
        result = self.call()
        self.assertEqual(result.returncode, MISUSED)
        self.assertIn("Usage: iobind COMMAND", result.stderr)


# ---- the machine ------------------------------------------------------------------------------------------------------

class Machine(Case):
    software_gpu = True

    def test_doctor(self):
        report = self.good_json("doctor")
        self.assertTrue(report["ok"])
        self.assertRegex(report["ort_version"], r"^\d+\.\d+\.\d+")
        self.assertTrue(os.path.exists(report["ort_library"]), report["ort_library"])
        self.assertGreaterEqual(report["ort_api_version"], 24)
        cpu = report["devices"][0]
        self.assertEqual((cpu["spec"], cpu["works"], cpu["memory"]), ("cpu", True, "host"))
        self.assertIn(report["ort_version"], self.good("doctor"))

    def test_doctor_without_ort(self):
        """Only the tool and the library, in a folder that holds nothing else."""
        alone = self.path("alone")
        os.makedirs(os.path.join(alone, "bin"))
        os.makedirs(os.path.join(alone, "lib"))
        shutil.copy(TOOL, os.path.join(alone, "bin"))
        for library in glob.glob(os.path.join(os.path.dirname(TOOL), "../lib/libiobind.so*")):
            shutil.copy(library, os.path.join(alone, "lib"), follow_symlinks=False)
        environment = dict(self.environment)
        environment.pop("ORT_NATIVE_LIB_PATH", None)
        for json_words in ([], ["--json"]):
            result = subprocess.run([os.path.join(alone, "bin/iobind"), "doctor", *json_words], env=environment,
                                    capture_output=True, text=True)
            self.assertEqual(result.returncode, FAILED, result.stdout + result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn("by --ort or ORT_NATIVE_LIB_PATH", result.stderr)
            if json_words:
                report = json.loads(result.stdout)
                self.assertFalse(report["ok"])
                self.assertTrue(report["reason"])

    def test_wrong_libraries(self):
        self.refused(FAILED, "/nowhere", "doctor", "--ort", "/nowhere")
        self.refused(FAILED, "/nowhere", "devices", "--ort", "/nowhere")
        text = self.write("text.so", b"this is not a library\n")
        self.refused(FAILED, "text.so", "devices", "--ort", text)
        self.refused(FAILED, "text.so", "devices", "--ep-library", f"mine={text}")
        for command in ("devices", "doctor"):
            line = self.refused(FAILED, "--ep-library: ", command, "--ep-library", "/nowhere.so")
            self.assertIn("/nowhere.so", line)
            self.assertNotIn("--ort", line) # ONNX Runtime is there
            self.refused(FAILED, "--ort", command, "--ort", "/nowhere", "--ep-library", "/nowhere.so")

    def test_devices(self):
        report = self.good_json("devices")
        self.assertEqual(report["devices"][0]["spec"], "cpu")
        self.assertIsNone(report["devices"][0]["works"])
        self.assertRegex(report["devices"][0]["vendor_id"], r"^0x[0-9a-f]{4,8}$")
        self.assertIsInstance(report["devices"][0]["metadata"], dict)
        self.assertEqual([device["spec"] for device in self.good_json("devices", "--check")["devices"]],
                         [device["spec"] for device in report["devices"]])
        self.assertIn("DEVICE", self.good("devices"))

    def test_colour_is_for_terminals(self):
        def on_terminal(environment):
            try:
                master, slave = pty.openpty()
            except OSError as reason:
                self.skipTest(f"no pseudo-terminal here: {reason}")
            process = subprocess.Popen([TOOL, "devices", "--check"], stdout=slave, stderr=subprocess.PIPE, env=environment)
            os.close(slave)
            text = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:
                    break
                if not part:
                    break
                text += part
            os.close(master)
            self.assertEqual(process.wait(), 0, process.stderr.read())
            process.stderr.close()
            return text
        environment = dict(self.environment, ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER="0")
        self.assertIn(b"\x1b[32m", on_terminal(environment))
        self.assertNotIn(b"\x1b", on_terminal(dict(environment, NO_COLOR="1")))
        self.assertNotIn("\x1b", self.good("devices", "--check", env=environment))

    def test_verbose_logs_to_stderr(self):
        result = self.call("devices", "-v")
        self.assertEqual(result.returncode, 0)
        self.assertIn("iobind: ", result.stderr)

    def test_no_file_in_the_home_folder(self):
        home = self.path("home")
        os.makedirs(home)
        self.call("devices", env=dict(self.environment, HOME=home))
        self.assertEqual(os.listdir(home), [])


# ---- models -----------------------------------------------------------------------------------------------------------

class Models(Case):
    def test_inspect(self):
        report = self.good_json("inspect", self.model("cast.onnx", "cast", "from=float32", "to=int64", "dims=n,?,3"))
        self.assertEqual(report["opset"], 21)
        self.assertEqual(report["producer"], "iobind-tests")
        self.assertEqual(report["inputs"][0]["dtype"], "float32")
        self.assertEqual(report["inputs"][0]["dims"], [-1, -1, 3])
        self.assertEqual(report["inputs"][0]["symbols"], ["n", None, None])
        self.assertEqual(report["inputs"][0]["device"], "cpu")
        self.assertEqual(report["outputs"][0]["dtype"], "int64")
        self.assertNotIn("placement", report)
        self.assertIn("float32[n,?,3]", self.good("inspect", self.path("cast.onnx")))

    def test_inspect_with_a_device(self):
        report = self.good_json("inspect", self.model("add.onnx", "add"), "--device", "cpu")
        self.assertEqual(report["placement"], [{"ep": "CPUExecutionProvider", "nodes": 1, "operators": {"Add": 1}}])
        self.assertEqual(report["fallen"], [])
        self.assertEqual(report["node_count"], 1)

    def test_inspect_with_dims(self):
        report = self.good_json("inspect", self.model("add.onnx", "add"), "--dim", "n=7")
        self.assertEqual(report["inputs"][0]["dims"], [7])

    def test_inspect_states(self):
        decoder = self.model("decoder.onnx", "decoder")
        self.assertEqual(self.good_json("inspect", decoder)["states"], [
            {"output": "key", "input": "past_key", "kind": "growing", "axis": 0},
            {"output": "value", "input": "past_value", "kind": "growing", "axis": 0}])
        self.assertRegex(self.good("inspect", decoder), r"STATE +CARRIED TO +KIND +AXIS\nkey +past_key +growing +0\n")
        add = self.model("add.onnx", "add")
        self.assertEqual(self.good_json("inspect", add)["states"], [])
        self.assertNotIn("STATE", self.good("inspect", add))

    def test_inspect_other_kinds(self):
        report = self.good_json("inspect", self.model("sequence.onnx", "sequence"))
        self.assertEqual(report["outputs"][0]["kind"], "sequence")
        self.assertIsNone(report["outputs"][0]["dtype"])

    def test_numbers_have_a_point_in_every_locale(self):
        """An EP library that sets the process's locale: here one that does nothing else."""
        folder = self.path("locales")
        os.makedirs(folder, exist_ok=True)
        source = self.write("locale.c", b"#include <locale.h>\n__attribute__((constructor)) static void set(void) "
                                        b"{ setlocale(LC_ALL, \"\"); }\n")
        library = self.path("liblocale.so")
        try:
            subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, "de_DE.UTF-8")], check=True,
                           capture_output=True)
            subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as reason:
            self.skipTest(f"no German locale can be made: {reason}")
        german = dict(self.environment, LOCPATH=folder, LC_ALL="de_DE.UTF-8", IOBIND_EP_LIBRARIES=library)
        printed = subprocess.run([sys.executable, "-c", "import ctypes, locale; ctypes.CDLL('" + library + "');"
                                  "print(locale.localeconv()['decimal_point'])"], env=german, capture_output=True, text=True)
        self.assertEqual(printed.stdout, ",\n", printed.stderr)
        plot = self.path("german.svg")
        words = ("bench", self.model("german.onnx", "add", "dims=1536"), "--device", "vdev", "--iterations", "3")
        text = self.good(*words, "--plot", plot, env=german)
        self.assertIn("12.0 KiB", text)
        self.assertNotRegex(text, r"\d,\d")
        with open(plot, encoding="utf-8") as file:
            self.assertNotRegex(file.read(), r"\d,\d")

    def test_names_that_are_hostile(self):
        path = self.write("names.onnx", identity_model(["x"], [("x", "a\x1b[31m\n"), ("x", "b\udcff")]))
        report = self.good_json("inspect", path)
        self.assertEqual([output["name"] for output in report["outputs"]], ["a\x1b[31m\n", "b\ufffd"])
        self.assertNotIn("\x1b", self.good("inspect", path))
        steering = ["a\x9b31m", "b\u202egnp.exe", "c\u2066"]
        path = self.write("steering.onnx", identity_model(["x"], [("x", name) for name in steering]))
        for words in ([], ["--json"], ["-v"]):
            ran = self.call("inspect", path, *words)
            for text in ran.stdout + ran.stderr:
                self.assertNotIn(text, "\x9b\u202e\u2066")
        self.assertEqual([output["name"] for output in self.good_json("inspect", path)["outputs"]], steering)

    def test_what_is_to_be_pasted_is_quoted(self):
        """A model's names must not become commands of a shell."""
        path = self.write("hostile.onnx", identity_model(["x'$(touch pwned)'"], [("x'$(touch pwned)'", "y")]))
        line = self.refused(FAILED, "is missing", "run", path)
        words = line.split("give ")[1].split(", or")[0]
        pasted = subprocess.run(["sh", "-c", "printf '%s\\n' " + words], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(pasted.stdout.splitlines(), ["--input", "x'$(touch pwned)'=FILE.npy"])
        self.assertFalse(os.path.exists(self.path("pwned")))

    def test_a_file_name_that_is_no_text(self):
        path = os.path.join(os.fsencode(self.folder), b"a\n\"<\xff.onnx")
        shutil.copy(self.model("add.onnx", "add"), path)
        plot = self.path("name.svg")
        words = ("bench", path, "--device", "cpu", "--dim", "n=4", "--iterations", "3")
        report = self.good_json(*words, "--plot", plot)
        self.assertEqual({way["model"] for way in report["ways"]}, {"a\n\"<\ufffd"})
        xml.dom.minidom.parse(plot)
        earlier = self.write("name.json", json.dumps(report).encode())
        self.assertIn("a \"<\ufffd on cpu", self.good(*words, "--with", earlier))

    def test_no_models(self):
        self.refused(FAILED, "got a directory", "inspect", self.folder)
        self.refused(FAILED, "got an empty file", "inspect", self.write("empty.onnx", b""))
        self.refused(FAILED, "No such file", "inspect", self.path("missing.onnx"))
        self.refused(FAILED, "regular file", "inspect", "/dev/null")
        line = self.refused(FAILED, "text.onnx", "inspect", self.write("text.onnx", b"hello, this is text\n"))
        self.assertIn("not an ONNX model", line)
        whole = identity_model(["x"], [("x", "y")])
        for size in (1, 10, len(whole) // 2, len(whole) - 1):
            self.refused(FAILED, "cut.onnx", "inspect", self.write("cut.onnx", whole[:size]))
        self.refused(FAILED, "zeros.onnx", "run", self.write("zeros.onnx", bytes(4096)), "--random")
        self.refused(FAILED, "loop.onnx", "inspect",
                     self.write("loop.onnx", identity_model(["x"], [("z", "y"), ("y", "z")])))

    def test_no_devices(self):
        add = self.model("add.onnx", "add")
        self.refused(FAILED, "nosuch", "inspect", add, "--device", "ep=nosuch")
        self.refused(FAILED, "cpu:7", "inspect", add, "--device", "cpu:7")
        for spec in ("", ",", "cpu:", "cpu:x", "cpu:-1", "vendor=", "vendor=zz", "cpu/pinned", "ep="):
            self.refused(MISUSED, "--device", "inspect", add, "--device", spec)
        self.refused(FAILED, "vendor=0xdead", "run", add, "--random", "--device", "vendor=0xdead")

    def test_dims_that_the_model_has_not(self):
        add = self.model("add.onnx", "add")
        self.refused(FAILED, "'nope'", "inspect", add, "--dim", "nope=3")
        self.refused(FAILED, "nope", "run", add, "--random", "--dim", "n=3", "--dim", "nope[0]=3")
        self.refused(FAILED, "has 1 dims", "run", add, "--random", "--dim", "x[1]=3")
        fixed = self.identity("fixed.onnx", dims=(2, 3))
        self.refused(FAILED, "fixes it to 2", "run", fixed, "--random", "--dim", "x[0]=4")
        self.refused(FAILED, "--dim 'n=N'", "run", add, "--random")
        loose = self.model("loose.onnx", "identity", "dims=?,3,?")
        self.assertIn("--dim 'x[0]=N' --dim 'x[2]=N'", self.refused(FAILED, "open dims", "run", loose, "--random"))
        row = self.write("row.npy", npy_bytes("<f4", (3,), bytes(12)))
        self.refused(FAILED, "--dim x[0]=4, but the file has 3", "run", add, "-i", f"x={row}", "-i", f"y={row}", "--dim", "x[0]=4")
        self.refused(MISUSED, "only a symbol", "inspect", add, "--dim", "x[0]=4")
        self.refused(FAILED, "rank", "run", self.model("any.onnx", "identity", "dims=any"), "--random")

    def test_dims_that_are_too_large(self):
        add = self.model("add.onnx", "add")
        self.refused(FAILED, "", "run", add, "--random", "--dim", "n=9223372036854775807")
        self.refused(FAILED, "this machine has", "run", add, "--random", "--dim", "n=1000000000000")


# ---- runs -------------------------------------------------------------------------------------------------------------

class Runs(Case):
    def setUp(self):
        self.out = tempfile.mkdtemp(dir=self.folder)

    def run_refused(self, part, *words, code=FAILED):
        line = self.refused(code, part, "run", *words, "--output-dir", self.out)
        self.assertEqual(os.listdir(self.out), [])
        return line

    def test_adds_on_each_way(self):
        add = self.model("add.onnx", "add")
        x = self.write("x.npy", npy_bytes("<f4", (3,), struct.pack("<3f", 1, 2, 3)))
        y = self.write("y.npy", npy_bytes("<f4", (3,), struct.pack("<3f", 10, 20, 30)))
        for words in ([], ["--bind", "device"], ["--bind", "host"], ["--dim", "n=3"], ["--device", "cpu"]):
            report = self.good_json("run", add, "--input", f"x={x}", "--input", f"y={y}", "--output-dir", self.out, *words)
            self.assertEqual(report["outputs"][0]["name"], "z")
            self.assertEqual(report["outputs"][0]["dims"], [3])
            self.assertGreater(report["run_ns"], 0)
            self.assertEqual(report["outputs"][0]["file"], os.path.join(self.out, "z.npy"))
            self.assertEqual(read_npy(report["outputs"][0]["file"]), ("<f4", (3,), struct.pack("<3f", 11, 22, 33)))
        self.assertEqual(os.listdir(self.out), ["z.npy"])
        text = self.good("run", add, "-i", f"x={x}", "-i", f"y={y}")
        self.assertRegex(text, r"z +float32 +\[3\] +cpu +12 B")

    def test_random_is_the_same_each_time(self):
        add = self.model("add.onnx", "add")
        results = []
        for seed, name in (("0", "a"), ("0", "b"), ("1", "c")):
            folder = os.path.join(self.out, name, "deep")
            self.good("run", add, "--random", "--seed", seed, "--dim", "n=64", "--output-dir", folder)
            results.append(read_npy(os.path.join(folder, "z.npy"))[2])
        self.assertEqual(results[0], results[1])
        self.assertNotEqual(results[0], results[2])
        values = struct.unpack("<64f", results[0])
        self.assertTrue(all(0 <= value < 2 for value in values))
        self.assertGreater(len(set(values)), 32)

    def test_a_random_integer_that_the_model_refuses(self):
        reshape = self.model("reshape.onnx", "reshape")
        for bind in ("device", "host"):
            result = self.call("run", reshape, "--random", "--seed", "1", "--dim", "n=5", "--bind", bind)
            self.assertEqual(result.returncode, FAILED)
            self.assertEqual(result.stderr.splitlines()[1:],
                             ["iobind: run: note: input 'shape' is random: 0 or 1; --input gives other values"])

    def test_every_type_comes_back(self):
        types = {"float32": ("<f4", 4), "float64": ("<f8", 8), "float16": ("<f2", 2), "int8": ("|i1", 1), "uint8": ("|u1", 1),
                 "int16": ("<i2", 2), "uint16": ("<u2", 2), "int32": ("<i4", 4), "uint32": ("<u4", 4), "int64": ("<i8", 8),
                 "uint64": ("<u8", 8), "bfloat16": ("<u2", 2), "float8e4m3fn": ("|u1", 1), "float8e5m2": ("|u1", 1)}
        for dtype, (descr, width) in types.items():
            with self.subTest(dtype=dtype):
                model = self.model(f"{dtype}.onnx", "identity", f"dtype={dtype}", "dims=2,3")
                data = bytes(range(1, 6 * width + 1))
                x = self.write("x.npy", npy_bytes(descr, (2, 3), data))
                report = self.good_json("run", model, "-i", f"x={x}", "-o", self.out)
                self.assertEqual(report["outputs"][0]["dtype"], dtype)
                self.assertEqual(report["outputs"][0]["form"] is not None, dtype.startswith(("bfloat", "float8")))
                self.assertEqual(read_npy(os.path.join(self.out, "y.npy")), (descr, (2, 3), data))
        x = self.write("x.npy", npy_bytes("|b1", (2, 3), bytes([0, 1, 1, 0, 1, 0])))
        self.good("run", self.model("bool.onnx", "identity", "dtype=bool", "dims=2,3"), "-i", f"x={x}", "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "y.npy"))[2], bytes([0, 1, 1, 0, 1, 0]))

    def test_raw_forms_of_other_writers(self):
        model = self.model("bfloat16.onnx", "identity", "dtype=bfloat16", "dims=2,3")
        data = bytes(range(12))
        x = self.write("x.npy", npy_bytes("<V2", (2, 3), data))
        self.good("run", model, "-i", f"x={x}", "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "y.npy"))[2], data)

    def test_packed_types(self):
        pack = self.model("pack.onnx", "cast", "from=float32", "to=int4", "dims=5")
        unpack = self.model("unpack.onnx", "cast", "from=int4", "to=float32", "dims=5")
        x = self.write("x.npy", npy_bytes("<f4", (5,), struct.pack("<5f", 1, -2, 3, -8, 7)))
        report = self.good_json("run", pack, "-i", f"x={x}", "-o", self.out)
        self.assertIn("packed", report["outputs"][0]["form"])
        self.assertEqual(report["outputs"][0]["dims"], [5])
        descr, shape, data = read_npy(os.path.join(self.out, "y.npy"))
        self.assertEqual((descr, shape, data), ("|u1", (3,), bytes([0xE1, 0x83, 0x07])))
        packed = shutil.copy(os.path.join(self.out, "y.npy"), self.path("packed.npy"))
        self.good("run", unpack, "-i", f"x={packed}", "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "y.npy"))[2], struct.pack("<5f", 1, -2, 3, -8, 7))
        os.remove(os.path.join(self.out, "y.npy"))
        self.run_refused("expected 3 packed bytes", unpack, "-i", "x=" + self.write("p.npy", npy_bytes("|u1", (5,), bytes(5))))
        self.run_refused("DTYPE", unpack, "-i", "x=" + self.write("p.npy", npy_bytes("|i1", (3,), bytes(3))))
        loose = self.model("loose4.onnx", "cast", "from=int4", "to=float32", "dims=n")
        self.run_refused("--dim", loose, "-i", f"x={packed}")
        self.good("run", loose, "-i", f"x={packed}", "--dim", "n=5", "-o", self.out)

    def test_strings(self):
        model = self.model("string.onnx", "identity", "dtype=string", "dims=n")
        texts = ["", "plain", "\u00e4\u20ac\U0001F600"]
        data = b"".join(text.ljust(5, "\0").encode("utf-32-le") for text in texts)
        for words in ([], ["--bind", "host"]):
            x = self.write("x.npy", npy_bytes("<U5", (3,), data))
            self.good("run", model, "-i", f"x={x}", "-o", self.out, *words)
            self.assertEqual(read_npy(os.path.join(self.out, "y.npy")), ("<U5", (3,), data))
        x = self.write("x.npy", npy_bytes("|S3", (2,), b"yesno\0"))
        self.good("run", model, "-i", f"x={x}", "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "y.npy"))[0], "<U3")
        os.remove(os.path.join(self.out, "y.npy"))
        self.run_refused("not text", model, "-i", "x=" + self.write("s.npy", npy_bytes("|S2", (1,), b"\xff\xfe")))
        self.run_refused("not text", model, "-i", "x=" + self.write("s.npy", npy_bytes("<U1", (1,), struct.pack("<I", 0xD800))))
        self.run_refused("DTYPE", model, "-i", "x=" + self.write("s.npy", npy_bytes("<f4", (1,), bytes(4))))

    def test_scalars_and_nothing(self):
        scalar = self.model("scalar.onnx", "identity", "dims=scalar")
        x = self.write("x.npy", npy_bytes("<f4", (), struct.pack("<f", 5)))
        self.good("run", scalar, "-i", f"x={x}", "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "y.npy")), ("<f4", (), struct.pack("<f", 5)))
        add = self.model("add.onnx", "add")
        self.good("run", add, "--random", "--dim", "n=0", "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "z.npy")), ("<f4", (0,), b""))

    def test_other_orders(self):
        model = self.identity("fixed.onnx", dims=(2, 3))
        rows = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
        for content in (npy_bytes("<f4", (2, 3), struct.pack("<6f", 1, 4, 2, 5, 3, 6), fortran=True),
                        npy_bytes(">f4", (2, 3), struct.pack(">6f", 1, 2, 3, 4, 5, 6)), npy_bytes("<f4", (2, 3), rows, version=2)):
            self.good("run", model, "-i", "x=" + self.write("x.npy", content), "-o", self.out)
            self.assertEqual(read_npy(os.path.join(self.out, "y.npy"))[2], rows)

    def test_names_of_files(self):
        long = "l" * 300
        outputs = ["a/b", "a:b", "A_B", "../../up", "..", "nul\x01", long, "caf\u00e9"]
        model = self.write("outputs.onnx", identity_model(["x"], [("x", name) for name in outputs], dims=(1,)))
        report = self.good_json("run", model, "--random", "-o", self.out)
        files = sorted(os.listdir(self.out))
        self.assertEqual(files, sorted(["a_b.npy", "a_b_2.npy", "A_B_3.npy", "_._.._up.npy", "_..npy", "nul_.npy",
                                        "l" * 200 + ".npy", "caf\u00e9.npy"]))
        self.assertEqual(sorted(os.path.basename(output["file"]) for output in report["outputs"]), files)
        self.assertEqual([output["name"] for output in report["outputs"]], outputs)

    def test_input_names_with_equals_signs(self):
        model = self.write("equals.onnx", identity_model(["a", "a=b"], [("a", "y"), ("a=b", "z")], dims=(1,)))
        one, two = (self.write(f"e={n}.npy", npy_bytes("<f4", (1,), struct.pack("<f", n))) for n in (1, 2))
        self.good("run", model, "-i", f"a={one}", "-i", f"a=b={two}", "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "y.npy"))[2], struct.pack("<f", 1))
        self.assertEqual(read_npy(os.path.join(self.out, "z.npy"))[2], struct.pack("<f", 2))

    def test_other_kinds(self):
        self.run_refused("only tensors", self.model("length.onnx", "length"), "--random")
        for words in ([], ["--bind", "host"]):
            self.run_refused("no output is a tensor", self.model("sequence.onnx", "sequence"), "--random", "--dim", "n=2", *words)

    def test_wrong_inputs(self):
        add = self.model("add.onnx", "add")
        fixed = self.identity("fixed.onnx", dims=(2, 3))
        good = self.write("good.npy", npy_bytes("<f4", (2, 3), bytes(24)))
        row = self.write("row.npy", npy_bytes("<f4", (3,), bytes(12)))
        self.run_refused("input 'x' (float32[2,3]) is missing", fixed)
        self.run_refused("input 'y' (float32[n]) is missing", add, "-i", f"x={row}")
        self.run_refused("given twice", fixed, "-i", f"x={good}", "-i", f"x={good}", code=MISUSED)
        self.run_refused("'z'", fixed, "-i", f"z={good}")
        self.run_refused("NAME=FILE.npy", fixed, "-i", good, code=MISUSED)
        self.run_refused("NAME=FILE.npy", fixed, "-i", f"={good}", code=MISUSED)
        self.run_refused("file is missing", fixed, "-i", "x=", code=MISUSED)
        self.run_refused("SHAPE", fixed, "-i", f"x={row}")
        self.run_refused("SHAPE", fixed, "-i", "x=" + self.write("t.npy", npy_bytes("<f4", (3, 2), bytes(24))))
        self.run_refused("SHAPE", fixed, "-i", "x=" + self.write("t.npy", npy_bytes("<f4", (2, 0), b"")))
        self.run_refused("SHAPE", add, "-i", f"x={row}", "-i", "y=" + self.write("t.npy", npy_bytes("<f4", (4,), bytes(16))))
        self.run_refused("SHAPE", add, "-i", f"x={row}", "-i", f"y={row}", "--dim", "n=4")
        for descr, width in (("<f8", 8), ("<f2", 2), ("<i4", 4), ("<U1", 4), ("<c8", 8), ("|b1", 1), ("|S4", 4)):
            x = self.write("t.npy", npy_bytes(descr, (2, 3), bytes(6 * width)))
            self.assertIn("expected float32", self.run_refused("DTYPE", fixed, "-i", f"x={x}"))
        deep = self.write("t.npy", npy_bytes("<f4", (1,) * 20, bytes(4)))
        self.run_refused("SHAPE", self.model("any.onnx", "identity", "dims=any"), "-i", f"x={deep}")

    def test_hostile_files(self):
        fixed = self.identity("fixed.onnx", dims=(2, 3))
        whole = npy_bytes("<f4", (2, 3), bytes(24))
        files = {
            "empty": (b"", "too short"),
            "magic alone": (whole[:6], "too short"),
            "text": (b"1,2,3\n4,5,6\n" * 8, "does not begin as a .npy file"),
            "archive": (b"PK\x03\x04" + bytes(100), "does not begin as a .npy file"),
            "cut header": (whole[:40], "header is longer than the file"),
            "cut data": (whole[:-1], "promises 24 bytes"),
            "more data": (whole + b"\0", "promises 24 bytes"),
            "new version": (npy_bytes("<f4", (2, 3), bytes(24), version=9), "version"),
            "huge": (npy_bytes("<f4", (1 << 40,), bytes(24)), "promises 4398046511104 bytes"),
            "overflow": (npy_bytes("<f4", (1 << 40, 1 << 40), bytes(24)), "more bytes than can be counted"),
            "beyond 64 bits": (npy_bytes("<f4", (1 << 70,), bytes(24)), "64 bits"),
            "negative": (npy_bytes("<f4", (-2, -3), bytes(24)), "negative dim"),
            "objects": (npy_bytes("|O", (2, 3), b"\x80\x04K\x01."), "pickle"),
            "records": (npy_bytes([("a", "<f4")], (6,), bytes(24)), "records"),
            "dates": (npy_bytes("<M8[s]", (2, 3), bytes(48)), "not supported"),
            "not a dict": (npy_bytes("", "", b"", header="import os"), "not a dict"),
            "code": (npy_bytes("", "", b"", header="{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}"), "not a string"),
            "half a dict": (npy_bytes("", "", b"", header="{'descr': '<f4'"), "not a dict"),
            "no shape": (npy_bytes("", "", b"", header="{'descr': '<f4', 'fortran_order': False}"), "lacks"),
            "bad shape": (npy_bytes("", "", b"", header="{'descr': '<f4', 'fortran_order': False, 'shape': (2.5,)}"), "not a tuple"),
            "NUL": (npy_bytes("", "", b"", header="{'descr': '<f4\0'}"), "NUL"),
            "deep": (npy_bytes("", "", b"", header="(" * 5000), "not a dict"),
            "no bytes": (npy_bytes("<U0", (1 << 60,), b""), "not supported"),
        }
        for name, (content, part) in files.items():
            with self.subTest(file=name):
                self.run_refused(part, fixed, "-i", "x=" + self.write("hostile.npy", content))
        self.run_refused("got a directory", fixed, "-i", f"x={self.folder}")
        self.run_refused("No such file", fixed, "-i", "x=" + self.path("missing.npy"))
        self.run_refused("regular file", fixed, "-i", "x=/dev/zero")
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.run_refused("regular file", fixed, "-i", f"x={fifo}")

    def test_outputs_that_cannot_be_written(self):
        add = self.model("add.onnx", "add")
        words = ("run", add, "--random", "--dim", "n=4")
        file = self.write("file", b"kept")
        self.refused(FAILED, "a file of that name", *words, "--output-dir", file)
        self.refused(FAILED, "file/below", *words, "--output-dir", os.path.join(file, "below"))
        self.refused(FAILED, "empty", *words, "--output-dir", "")
        self.refused(FAILED, "", *words, "--output-dir", "/proc/nowhere")
        self.assertEqual(read(file), b"kept")
        os.mkdir(os.path.join(self.out, "z.npy"))
        self.refused(FAILED, "it is a directory", *words, "--output-dir", self.out)
        self.assertEqual(os.listdir(self.out), ["z.npy"])

    def test_a_file_is_whole_or_not_there(self):
        add = self.model("add.onnx", "add")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        for before in (None, b"old"):
            target = os.path.join(self.out, "z.npy")
            if before is not None:
                self.write(target, before)
            self.refused(FAILED, "z.npy: cannot be written", "run", add, "--random", "--dim", "n=100000", "-o", self.out,
                         preexec_fn=limit)
            self.assertEqual(os.listdir(self.out), [] if before is None else ["z.npy"])
        self.assertEqual(read(target), b"old")

    def test_a_wrong_run_makes_no_folder(self):
        folder = os.path.join(self.out, "made")
        self.refused(FAILED, "is missing", "run", self.model("add.onnx", "add"), "--output-dir", folder)
        self.assertFalse(os.path.exists(folder))

    @unittest.skipIf(numpy is None, "numpy is not fetched")
    def test_numpy_reads_and_writes_the_same(self):
        random = numpy.random.default_rng(3)
        for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"):
            for shape in ((), (0, 2), (4,), (2, 3), (2, 1, 3, 2)):
                if dtype != "float32" and shape not in ((2, 3), ()):
                    continue
                with self.subTest(dtype=dtype, shape=shape):
                    dims = ",".join(str(dim) for dim in shape) or "scalar"
                    model = self.model(f"n-{dtype}-{dims}.onnx", "identity", f"dtype={dtype}", f"dims={dims}")
                    array = numpy.asarray(random.integers(0, 100, shape)).astype(dtype)
                    numpy.save(self.path("n.npy"), numpy.asfortranarray(array) if array.ndim > 1 else array)
                    self.good("run", model, "-i", "x=" + self.path("n.npy"), "-o", self.out)
                    result = numpy.load(os.path.join(self.out, "y.npy"))
                    self.assertEqual(result.dtype, array.dtype)
                    numpy.testing.assert_array_equal(result, array)
        texts = numpy.array([["a", "\u00e4\u00f6"], ["", "long text"]])
        numpy.save(self.path("n.npy"), texts)
        self.good("run", self.model("n-text.onnx", "identity", "dtype=string", "dims=a,b"), "-i", "x=" + self.path("n.npy"), "-o", self.out)
        numpy.testing.assert_array_equal(numpy.load(os.path.join(self.out, "y.npy")), texts)
        numpy.save(self.path("n.npy"), numpy.array([{"a": 1}], dtype=object), allow_pickle=True)
        os.remove(os.path.join(self.out, "y.npy"))
        self.run_refused("pickle", self.identity("fixed.onnx", dims=(2, 3)), "-i", "x=" + self.path("n.npy"))


# ---- archives of arrays -----------------------------------------------------------------------------------------------

class Archives(Case):
    def setUp(self):
        self.out = tempfile.mkdtemp(dir=self.folder)
        self.add = self.model("add.onnx", "add")
        self.x = npy_bytes("<f4", (3,), struct.pack("<3f", 1, 2, 3))
        self.y = npy_bytes("<f4", (3,), struct.pack("<3f", 10, 20, 30))

    def sum(self, *words):
        self.good("run", self.add, *words, "-o", self.out)
        self.assertEqual(read_npy(os.path.join(self.out, "z.npy")), ("<f4", (3,), struct.pack("<3f", 11, 22, 33)))

    def archive_refused(self, part, content, *words, code=FAILED):
        file = self.write("hostile.npz", content)
        for given in (["-i", file], ["-i", f"x={file}", "-i", f"y={file}"]):
            line = self.refused(code, part, "run", self.add, *given, *words, "--output", os.path.join(self.out, "o.npz"))
            self.assertEqual(os.listdir(self.out), [])
            self.assertIn("hostile.npz", line)

    def test_binds_by_name(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            with self.subTest(method=method):
                both = self.write("both.npz", npz_bytes({"y.npy": self.y, "x.npy": self.x}, method))
                other = self.write("other.npz", npz_bytes({"a.npy": self.x, "b=c:d.npy": self.y}, method))
                self.sum("-i", both)
                self.sum("-i", f"x={both}", "-i", f"y={both}:y")
                self.sum("-i", f"x={other}:a", "-i", f"y={other}:b=c:d")
                self.sum("-i", f"x={both}", "-i", "y=" + self.write("y.npy", self.y))
                self.sum("-i", self.write("one.npz", npz_bytes({"x.npy": self.x}, method)), "-i", f"y={both}")
                report = self.good_json("bench", self.add, "-i", both, "--device", "cpu", "--iterations", "3")
                self.assertEqual([(one["name"], one["random"]) for one in report["inputs"]], [("x", False), ("y", False)])

    def test_what_is_no_input_is_said(self):
        more = self.write("more.npz", npz_bytes({"x.npy": self.x, "y.npy": self.y, "extra.npy": self.y, "notes.txt": b"hello"}))
        result = self.call("run", self.add, "-i", more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.splitlines(), [f"iobind: run: note: {more}: 'extra' is not an input of the model, and is not used"])

    def test_wrong_names(self):
        both = self.write("both.npz", npz_bytes({"x.npy": self.x, "y.npy": self.y}))
        other = self.write("other.npz", npz_bytes({"a.npy": self.x, "b.npy": self.y}))
        run = ("run", self.add)
        self.refused(FAILED, "holds no array 'x'; it holds 'a', 'b'", *run, "-i", f"x={other}", "-i", f"y={both}")
        self.refused(FAILED, "holds no array 'q'; it holds 'x', 'y'", *run, "-i", f"x={both}:q", "-i", f"y={both}")
        self.refused(FAILED, "holds no array ''", *run, "-i", f"x={both}:", "-i", f"y={both}")
        self.refused(FAILED, "'z'", *run, "-i", f"z={both}")
        self.refused(MISUSED, "--input 'x' is given twice", *run, "-i", both, "-i", "x=" + self.write("x.npy", self.x))
        self.refused(MISUSED, "--input 'x' is given twice", *run, "-i", both, "-i", both)
        self.refused(FAILED, "No such file", *run, "-i", self.path("missing.npz"))
        self.refused(FAILED, "No such file", *run, "-i", f"x={self.path('missing.npz')}:x", "-i", f"y={both}")
        self.refused(FAILED, "whose name must end in .npz", *run, "-i", "x=" + shutil.copy(both, self.path("both.npy")), "-i", f"y={both}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            twice = self.write("twice.npz", npz_bytes([("x.npy", self.x), ("x.npy", self.y), ("y.npy", self.y)]))
        self.refused(MISUSED, "--input 'x' is given twice", *run, "-i", twice)
        self.refused(FAILED, "holds two arrays 'x'", *run, "-i", f"x={twice}", "-i", f"y={both}")
        folder = self.path("folder.npz")
        os.makedirs(folder, exist_ok=True)
        self.refused(FAILED, "got a directory", *run, "-i", folder)

    def test_hostile_archives(self):
        good = npz_bytes({"x.npy": self.x, "y.npy": self.y})
        packed = npz_bytes({"x.npy": self.x * 8, "y.npy": self.y}, zipfile.ZIP_DEFLATED)
        directory = good.index(b"PK\x01\x02")
        damaged = bytearray(good)
        damaged[good.index(self.x) + len(self.x) - 1] ^= 1
        cases = {
            "empty": (b"", ""),
            "text": (b"1,2,3\n" * 100, "not an archive"),
            "an array": (self.x, "not an archive"),
            "cut": (good[:-30], "not an archive"),
            "half": (good[:len(good) // 2], "not an archive"),
            "end alone": (good[-22:], ""),
            "no arrays": (npz_bytes({"x.txt": b"1", "y": b"2"}), "holds no arrays"),
            "nothing": (npz_bytes({}), "holds no arrays"),
            "damaged": (bytes(damaged), "CRC"),
            "pickle": (npz_bytes({"x.npy": npy_bytes("|O", (3,), b"\x80\x04K\x01."), "y.npy": self.y}), "pickle"),
            "short": (npz_bytes({"x.npy": self.x[:-1], "y.npy": self.y}), "promises 12 bytes"),
            "not an array": (npz_bytes({"x.npy": b"hello, world", "y.npy": self.y}), "does not begin as a .npy file"),
            "huge array": (npz_bytes({"x.npy": npy_bytes("<f4", (1 << 40,), b""), "y.npy": self.y}), "promises 4398046511104 bytes"),
            "bzip2": (npz_bytes({"x.npy": self.x, "y.npy": self.y}, zipfile.ZIP_BZIP2), "compressed with method 12"),
            "unknown method": (good[:directory + 10] + b"\x62\0" + good[directory + 12:], "method 98"),
            "encrypted": (good[:directory + 8] + b"\x01\0" + good[directory + 10:], "encrypted"),
            "larger than it is": (good[:directory + 20] + struct.pack("<II", 0x7fffffff, 0x7fffffff) + good[directory + 28:],
                                  "larger than the archive"),
            "too good to be true": (packed[:(at := packed.index(b"PK\x01\x02")) + 24] + struct.pack("<I", 0xfffffff0) + packed[at + 28:],
                                    "cannot hold"),
            "behind the end": (good[:directory + 42] + struct.pack("<I", 0x7fffff00) + good[directory + 46:], ""),
        }
        for name, (content, part) in cases.items():
            with self.subTest(archive=name):
                self.archive_refused(part, content)

    def test_every_truncation_and_flip(self):
        """Nothing but a clean error, or the right result: here a few places, fuzz/ has them all."""
        good = npz_bytes({"x.npy": self.x, "y.npy": self.y}, zipfile.ZIP_DEFLATED)
        for at in range(0, len(good), 37):
            for content in (good[:at], good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1:]):
                result = self.call("run", self.add, "-i", self.write("bad.npz", content))
                self.assertIn(result.returncode, (0, FAILED), result.stderr)
                self.assertNotIn("Sanitizer", result.stderr)

    def test_a_type_is_refused_before_the_data_are_read(self):
        """Two megabytes of an archive may hold two gigabytes: these data are damaged, and nobody has looked at them."""
        damaged = bytearray(npz_bytes({"x.npy": npy_bytes("<f8", (2, 3), b"sixteen bytes..." * 3), "y.npy": self.y}))
        damaged[damaged.index(b"sixteen")] ^= 1
        path = self.write("damaged.npz", bytes(damaged))
        self.refused(FAILED, "expected float32, got an array of type <f8 [DTYPE]; convert it, array.astype('float32')", "run", self.add, "--input", path)

    def test_writes_an_archive(self):
        both = self.write("both.npz", npz_bytes({"x.npy": self.x, "y.npy": self.y}))
        file = os.path.join(self.out, "made", "deep.npz")
        report = self.good_json("run", self.add, "-i", both, "--output", file)
        self.assertEqual(report["outputs"][0]["file"], file)
        content = read(file)
        with zipfile.ZipFile(file) as archive:
            self.assertEqual([(one.filename, one.compress_type) for one in archive.infolist()], [("z.npy", zipfile.ZIP_STORED)])
            self.assertIsNone(archive.testzip())
            self.write("z.npy", archive.read("z.npy"))
        self.assertEqual(read_npy(self.path("z.npy")), ("<f4", (3,), struct.pack("<3f", 11, 22, 33)))
        self.assertIn(f"{file}:z", self.good("run", self.add, "-i", both, "--output", file))
        self.assertEqual(read(file), content)
        self.assertEqual(os.listdir(os.path.dirname(file)), ["deep.npz"])
        self.good("run", self.add, "-i", f"x={file}:z", "-i", f"y={both}")

    def test_names_that_an_archive_takes(self):
        names = ["/model/layers.0/Add_output_0", "Identity:0", "caf\u00e9", "a b", "..hidden", "x.npy"]
        model = self.write("names.onnx", identity_model(["x"], [("x", name) for name in names], dims=(1,)))
        file = os.path.join(self.out, "names.npz")
        self.good("run", model, "--random", "--output", file)
        with zipfile.ZipFile(file) as archive:
            self.assertEqual(archive.namelist(), [name + ".npy" for name in names])
        os.remove(file)
        for name in ("../up", "a/../../b", "..", "a\\..", "nul\x01", "b\udcff"):
            with self.subTest(name=name):
                model = self.write("names.onnx", identity_model(["x"], [("x", name)], dims=(1,)))
                self.refused(FAILED, "its name cannot be that of a file in an archive", "run", model, "--random", "--output", file)
                self.assertEqual(os.listdir(self.out), [])

    def test_an_archive_is_whole_or_not_there(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        words = ("run", self.add, "--random", "--dim", "n=100000", "--output")
        file = os.path.join(self.out, "o.npz")
        for before in (None, b"old"):
            if before is not None:
                self.write(file, before)
            self.refused(FAILED, "o.npz: cannot be written", *words, file, preexec_fn=limit)
            self.assertEqual(os.listdir(self.out), [] if before is None else ["o.npz"])
        self.assertEqual(read(file), b"old")
        os.remove(file)
        os.mkdir(file)
        self.refused(FAILED, "it is a directory", *words, file)
        self.refused(FAILED, "a file of that name", *words, os.path.join(self.write("plain", b""), "o.npz"))

    @unittest.skipIf(numpy is None, "numpy is not fetched")
    def test_numpy_reads_and_writes_the_same(self):
        random = numpy.random.default_rng(5)
        names = [f"x{i}" for i in range(4)]
        model = self.write("many.onnx", identity_model(names, [(name, name.upper()) for name in names], dims=("n", 2)))
        arrays = {name: random.random((3, 2), dtype="float32") for name in names}
        arrays["x1"] = numpy.asfortranarray(arrays["x1"])
        arrays["x2"] = arrays["x2"].astype(">f4")
        for save in (numpy.savez, numpy.savez_compressed):
            save(self.path("n.npz"), **arrays)
            self.good("run", model, "-i", self.path("n.npz"), "--output", self.path("o.npz"))
            with numpy.load(self.path("o.npz")) as result:
                self.assertEqual(sorted(result.files), sorted(name.upper() for name in names))
                for name in names:
                    numpy.testing.assert_array_equal(result[name.upper()], arrays[name])
        numpy.savez(self.path("n.npz"), random.random(3, dtype="float32"), random.random(3, dtype="float32"))
        self.good("run", self.add, "-i", f"x={self.path('n.npz')}:arr_0", "-i", f"y={self.path('n.npz')}:arr_1")
        texts = numpy.array([["a", "\u00e4\u00f6"], ["", "long text"]])
        numpy.savez_compressed(self.path("n.npz"), x=texts)
        self.good("run", self.model("n-text.onnx", "identity", "dtype=string", "dims=a,b"), "-i", self.path("n.npz"), "--output", self.path("o.npz"))
        with numpy.load(self.path("o.npz")) as result:
            numpy.testing.assert_array_equal(result["y"], texts)
        numpy.savez_compressed(self.path("n.npz"), x=numpy.zeros((1000, 1000), "float32"), y=numpy.float32(3))
        scalar = self.write("scalar.onnx", identity_model(["y", "x"], [("y", "s"), ("x", "z")], dims=()))
        self.refused(FAILED, "SHAPE", "run", scalar, "-i", self.path("n.npz"))


# ---- a device that is not the host ------------------------------------------------------------------------------------

class WebGpu(Case):
    software_gpu = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        result = subprocess.run([TOOL, "devices", "--check", "--json"], env=cls.environment, capture_output=True, text=True)
        devices = json.loads(result.stdout)["devices"] if result.returncode == 0 else []
        if any(device["spec"] == "webgpu:0" and device["works"] for device in devices):
            return
        cls.tearDownClass()
        if "webgpu" in os.environ.get("IOBIND_REQUIRE", ""):
            raise AssertionError(f"webgpu is required: {result.stdout}{result.stderr}")
        raise unittest.SkipTest("no webgpu device works here")

    def test_the_same_as_on_the_cpu(self):
        matmul = self.model("matmul.onnx", "matmul")
        words = ("run", matmul, "--random", "--dim", "m=5", "--dim", "k=7", "--dim", "n=3")
        results = {}
        for device in ("cpu", "webgpu"):
            for bind in ("device", "host"):
                folder = self.path(f"{device}-{bind}")
                report = self.good_json(*words, "--device", device, "--bind", bind, "--output-dir", folder)
                results[device, bind] = struct.unpack("<15f", read_npy(os.path.join(folder, "z.npy"))[2])
                expected = "webgpu:0" if device == "webgpu" and bind == "device" else "cpu"
                self.assertEqual(report["outputs"][0]["device"], expected)
                if (device, bind) == ("webgpu", "device"):
                    self.assertEqual(report["upload_bytes"], 4 * (5 * 7 + 7 * 3))
                    self.assertEqual(report["download_bytes"], 4 * 15)
        for values in results.values():
            for value, other in zip(values, results["cpu", "host"]):
                self.assertAlmostEqual(value, other, places=4)

    def test_where_things_live(self):
        report = self.good_json("inspect", self.model("matmul.onnx", "matmul"), "--device", "webgpu")
        self.assertEqual(report["device"], "webgpu:0")
        self.assertEqual(report["inputs"][0]["device"], "webgpu:0")
        if self.good_json("doctor")["ort_api_version"] == 24:
            self.skipTest("ORT 1.24 does not tell what a plugin's EP runs")
        self.assertEqual([entry["ep"] for entry in report["placement"]], ["WebGpuExecutionProvider"])
        report = self.good_json("inspect", self.model("nonzero.onnx", "nonzero"), "--device", "webgpu")
        self.assertIn("NonZero", [node["op_type"] for node in report["fallen"]])
        self.assertIn("NODE NOT ON THE DEVICE", self.good("inspect", self.path("nonzero.onnx"), "--device", "webgpu"))

    def test_the_first_that_works(self):
        add = self.model("add.onnx", "add")
        report = self.good_json("inspect", add, "--device", "ep=nosuch,webgpu")
        self.assertEqual(report["device"], "webgpu:0")
        self.refused(FAILED, "webgpu:9", "inspect", add, "--device", "webgpu:9")

    def test_errors_are_the_same(self):
        fixed = self.identity("fixed.onnx", dims=(2, 3))
        row = self.write("row.npy", npy_bytes("<f4", (3,), bytes(12)))
        self.refused(FAILED, "SHAPE", "run", fixed, "-i", f"x={row}", "--device", "webgpu")
        wrong = self.write("wrong.npy", npy_bytes("<f8", (2, 3), bytes(48)))
        self.refused(FAILED, "DTYPE", "run", fixed, "-i", f"x={wrong}", "--device", "webgpu")


# ---- real models ------------------------------------------------------------------------------------------------------

class RealModels(Case):
    def real(self, name):
        path = os.path.join(RUNTIME, "models", name)
        if not os.path.exists(path):
            self.skipTest(f"{name} is not fetched")
        return path

    def test_states_that_the_graph_does_not_show(self):
        for options in ([], ["--device", "cpu"]):
            self.assertEqual(self.good_json("inspect", self.real("silero-vad.onnx"), *options)["states"],
                             [{"output": "stateN", "input": "state", "kind": "unknown", "axis": None}])

    def test_all_can_be_inspected(self):
        for name in ("pp-ocr-det.onnx", "pp-ocr-cls.onnx", "pp-ocr-rec.onnx", "silero-vad.onnx", "magika.onnx"):
            report = self.good_json("inspect", self.real(name), "--device", "cpu")
            self.assertGreater(report["node_count"], 10)

    def test_classification(self):
        out = self.path("cls")
        self.good("run", self.real("pp-ocr-cls.onnx"), "--random", "--dim", "x[0]=1", "--dim", "x[2]=48", "--dim", "x[3]=192", "-o", out)
        self.assertEqual(os.listdir(out), ["save_infer_model_scale_0.tmp_1.npy"])
        first, second = struct.unpack("<2f", read_npy(os.path.join(out, os.listdir(out)[0]))[2])
        self.assertAlmostEqual(first + second, 1, places=4)

    def test_a_state(self):
        zeros = npy_bytes("<f4", (2, 1, 128), bytes(1024))
        rate = self.write("sr.npy", npy_bytes("<i8", (), struct.pack("<q", 16000)))
        report = self.good_json("run", self.real("silero-vad.onnx"), "--random", "-i", f"sr={rate}", "-i",
                                "state=" + self.write("state.npy", zeros), "--dim", "input[0]=1", "--dim", "input[1]=512")
        self.assertEqual([output["dims"] for output in report["outputs"]], [[1, 1], [2, 1, 128]])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
