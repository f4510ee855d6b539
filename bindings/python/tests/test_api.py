"""The package and C's interface: every function of the headers has a way in Python, or a reason here. The stubs hold."""

import ast
import builtins
import copy
import dataclasses
import inspect
import os
import pathlib
import pickle
import re
import subprocess
import sys

import numpy
import pytest

import iobind
import iobind._pytest
import iobind.spark
import iobind.vcuda
import iobind.vdev
from support import add, child

PROJECT = pathlib.Path(__file__).resolve().parents[3]
WITHOUT = {
    "iobind_get_version": "iobind.__version__ is iobind_get_version_string",
    "iobind_catalogue_get_ep": "the command `iobind options` shows them",
    "iobind_catalogue_get_option": "the command `iobind options` shows them",
    "iobind_catalogue_get_conflict": "the command `iobind options` shows them",
    "iobind_session_find_input": "names are keys of a dict, made once",
    "iobind_session_find_output": "names are keys of a dict, made once",
    "iobind_tensor_retain": "Python counts references",
    # onnxruntime gives no addresses of its objects and takes none: DLPack carries tensors between the two, Session.adopt takes a session.
    "iobind_tensor_wrap_ort": "from_dlpack",
    "iobind_tensor_to_ort": "Tensor.__dlpack__",
    "iobind_runtime_get_ort": "for what calls ORT's C interface",
    "iobind_session_get_ort": "for what calls ORT's C interface",
    # Direct3D's objects: no library for Python gives their addresses.
    "iobind_runtime_adopt_device": "for programs in C",
    "iobind_tensor_get_native": "for programs in C",
    # NumPy, and CuPy on a device, slice rows of what DLPack gives them.
    "iobind_tensor_copy_rows": "from_dlpack, Tensor.__dlpack__",
    # Handles of other processes and graphics interfaces: no library for Python gives them, and a file descriptor alone does not say enough.
    "iobind_device_check_import": "for programs in C",
    "iobind_external_memory_import": "for programs in C",
    "iobind_external_memory_destroy": "for programs in C",
    "iobind_external_memory_view": "for programs in C",
    "iobind_semaphore_import": "for programs in C",
    "iobind_semaphore_destroy": "for programs in C",
    "iobind_stream_wait_semaphore": "for programs in C",
    "iobind_stream_signal_semaphore": "for programs in C",
}
# What another part of the library brings, with the reason why Python does without it for now.
LATER = {}


def test_every_function_of_c_has_a_way():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (PROJECT / "include/iobind").glob("*.h"))
    declared = set(re.findall(r"^IOBIND_API\b[^;{}#]*?\b(iobind_\w+)\(", text, flags=re.M))
    used = set(re.findall(r"\b(iobind_\w+)\(", "\n".join(
        path.read_text(encoding="utf-8") for path in (PROJECT / "bindings/python/src").glob("*.c"))))
    used |= set(re.findall(r"\b(iobind_session_get_input|iobind_session_get_output)\b", (PROJECT / "bindings/python/src/session.c").read_text()))
    assert len(declared) > 70
    assert sorted(declared - used - set(WITHOUT) - set(LATER)) == []
    assert sorted(set(LATER) & used) == []
    assert sorted((set(WITHOUT) | set(LATER)) - declared) == []


# What cannot fail, but for memory, says nothing of errors.
CANNOT_FAIL = {
    "Batch.close", "REUSE", "Audit", "Live", "live", "in_place", "attached", "StateKind", "Value", "Difference", "Times", "Error", "Device", "Tensor", "Outputs", "Binding", "State",
    "Binding.audit", "Binding.cancel", "Session.get_inputs", "Session.get_outputs", "Session.info", "Session.metadata",
    "Session.nodes", "Device.info", "Device.metadata", "Device.counters", "Device.memory", "vdev.Fault", "vdev.Vdev.reset", "spark.SessionSpec",
    "spark.Predictor", "spark.Held.close", "spark.release", "vcuda.folder", "_pytest.pytest_configure"}
SPECIAL = {"__call__", "__getitem__", "__setitem__", "__next__", "__dlpack__"}
UNITS = {"timeout": "seconds", "offset": "bytes", "nbytes": "bytes", "Times": "nanoseconds", "Audit": "bytes", "Device.counters": "bytes", "Device.memory": "bytes"}
SHAPED = {"array", "out", "shape", "dims", "Tensor.reshape", "Tensor.copy", "Tensor.copy_from", "Tensor.to", "Tensor.read", "Tensor.numpy",
          "copy", "Session.run", "Binding.bind", "Binding.take", "Binding.update"}


MODULES = {"": iobind, "vdev.": iobind.vdev, "spark.": iobind.spark, "vcuda.": iobind.vcuda, "_pytest.": iobind._pytest}


def entries():
    """(name, thing) of the modules that a user sees."""
    for prefix, module in MODULES.items():
        own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__ and name[0] != "_"]
        for name in getattr(module, "__all__", own):
            thing = getattr(module, name)
            yield prefix + name, getattr(thing, "_fixture_function", thing)  # what pytest makes of a fixture


def public():
    """(name, thing, docstring) of what a user calls or looks at; a class's has that of its __init__."""
    for name, thing in entries():
        if inspect.isclass(thing) and issubclass(thing, iobind.Error) and thing is not iobind.Error:
            assert inspect.getdoc(thing), name
            continue
        own = [inspect.getdoc(thing)]
        if inspect.isclass(thing) and "__init__" in vars(thing):
            own.append(inspect.getdoc(thing.__init__))
        yield name, thing, "\n".join(filter(None, own))
        bases = [base for base in getattr(thing, "__mro__", ()) if base.__module__.startswith("iobind") or base is thing]
        members = {member: value for base in reversed(bases) for member, value in vars(base).items()} if inspect.isclass(thing) else {}
        for member, value in members.items():
            value = value.__func__ if isinstance(value, classmethod) else value
            is_read = isinstance(value, property) or inspect.isgetsetdescriptor(value)
            if (callable(value) or is_read) and (not member.startswith("_") or member in SPECIAL & set(vars(thing))):
                yield f"{name}.{member}", value, inspect.getdoc(value)


def is_of_fields(thing):
    return inspect.isclass(thing) and (issubclass(thing, tuple) or dataclasses.is_dataclass(thing))


def parameters(thing):
    """Those that a caller names or gives; a module in C says them in its docstring. A field of a class of values has a docstring of its own."""
    if not callable(thing) or is_of_fields(thing):
        return []
    made_by_us = inspect.isclass(thing) and "__init__" not in vars(thing)
    given = [] if made_by_us else list(inspect.signature(thing).parameters.values())
    return [one.name for one in given if one.name not in ("self", "cls", "value", "key", "request") and one.kind != one.VAR_KEYWORD]


def raised_by(thing):
    """The exceptions that its own lines in Python raise."""
    made = [thing]
    if inspect.isclass(thing) and not is_of_fields(thing):
        made = [getattr(thing, name) for name in ("__new__", "__init__")]
    return {name for one in made if inspect.isfunction(one) for name in re.findall(r"raise (\w+)\(", inspect.getsource(one))}


def check_docstring(name, thing, text):
    """What the docstring lacks."""
    lacks = [f"parameter {one}" for one in parameters(thing) if not re.search(rf"\b{one}\b", text)]
    errors = re.findall(r"\braises?\s((?:[^.]|\.\w)*)", text, flags=re.I)
    named = {word for sentence in errors for word in re.findall(r"\b[A-Z]\w+\b", sentence)
             if inspect.isclass(getattr(iobind, word, getattr(builtins, word, None)))}
    if callable(thing) and not named and name not in CANNOT_FAIL:
        lacks.append("which exceptions it raises")
    lacks += [f"raises {one}" for one in sorted(raised_by(thing) - named)]
    subjects = [name, name.split(".")[-1], *parameters(thing)]
    lacks += [UNITS[one] for one in subjects if one in UNITS and UNITS[one] not in text]
    if set(subjects) & SHAPED and not re.search(r"\b(shape|dims)\b", text.split("\n--\n")[-1]):
        lacks.append("shape or dims")
    return lacks


def test_everything_public_says_shapes_units_and_errors():
    documented = list(public())
    assert [name for name, _, text in documented if not text] == []
    assert {name: lacks for name, thing, text in documented if (lacks := check_docstring(name, thing, text))} == {}
    assert CANNOT_FAIL <= {name for name, _, _ in documented}


def test_the_page_has_every_call_of_io_binding():
    calls = child("import onnxruntime\nprint(*dir(onnxruntime.IOBinding), *[name for name in dir(onnxruntime.InferenceSession) if name.startswith('run')])")
    page = (PROJECT / "docs/python.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \|", page.split("## From onnxruntime's io_binding")[1].split("\n## ")[0], flags=re.M)
    named = set(re.findall(r"\b[bs]\.(\w+)\(", "\n".join(rows)))
    public_calls = {name for name in calls.split() if name[0] != "_"}
    assert {"bind_output", "run_with_iobinding"} <= public_calls and sorted(public_calls - named) == []


def fields_without_text(thing):
    body = ast.parse(inspect.getsource(thing)).body[0].body
    return [field.target.id for field, after in zip(body, [*body[1:], None]) if isinstance(field, ast.AnnAssign)
            and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str))]


def test_each_field_of_a_class_of_values_has_a_docstring():
    made = {name: thing for name, thing in entries() if is_of_fields(thing)}
    assert {"Value", "Times", "spark.SessionSpec"} <= set(made)
    assert {name: without for name, thing in made.items() if (without := fields_without_text(thing))} == {}


def test_pages_install_iobind_from_built_files_only():
    """In the package registry the name belongs to another project."""
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "examples").rglob("*.md"), PROJECT / "pyproject.toml",
             *(PROJECT / "bindings/python/iobind").glob("*.py")]
    installed = [(page.name, word) for page in pages for line in re.findall(r"pip3? install ([^\n`]*)", page.read_text(encoding="utf-8"))
                 for word in line.split("#")[0].split() if "iobind" in word]
    assert len(installed) >= 4 and [found for found in installed if not re.search(r"/onnxruntime_iobind\S*\.whl", found[1])] == []


def test_run_is_the_class_s_own_method():
    """An interpreter calls an inherited method of a C module slower: see bench/python."""
    assert "run" in vars(iobind.Binding) and vars(iobind.Binding)["run"].__objclass__ is iobind.Binding


def test_what_a_repr_says():
    session = iobind.Session(add(), device="vdev")
    assert repr(session) == "<iobind.Session (x, y) -> (z) on vdev:0>" and repr(session.bind()) == "<iobind.Binding (x, y) -> (z) on vdev:0>"
    stream = iobind.Stream("vdev")
    assert repr(stream) == f"<iobind.Stream {stream.native:#x} on vdev:0>" and repr(iobind.Stream("cpu")) == "<iobind.Stream on cpu>"
    assert repr(stream.record()) == "<iobind.Event on vdev:0>"
    assert repr(iobind.live(numpy.zeros((2, 3)))) == "<iobind.Live ndarray[2, 3]>" and repr(iobind.live([1])) == "<iobind.Live list>"
    assert repr(iobind.REUSE) == "iobind.REUSE" and repr(iobind.REUSE("cpu")) == repr(iobind.REUSE(iobind.device("cpu"))) == "iobind.REUSE('cpu')"
    assert repr(iobind.in_place(iobind.empty(2))) == "iobind.in_place(<iobind.Tensor float32[2] on cpu>)"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_what_describes_can_be_copied(copied):
    """A device by its spec, and what has devices in it."""
    session = iobind.Session(add(), device="vdev")
    value = session.inputs[0]
    assert copied(value) == value and copied(value).device == iobind.device("vdev") and value.memory_name == value.device.info()["memory_name"]
    audit = session.bind({"x": [1], "y": [2]}, outputs={"z": "cpu"}).audit()
    assert str(copied(audit)) == str(audit) and copied(audit).entries == audit.entries


def test_the_types_hold():
    here = PROJECT / "bindings/python"
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull, "--follow-imports=silent",
                           *map(str, sorted((here / "iobind").glob("*.py*"))), *map(str, sorted((here / "samples").glob("*.py")))],
                          capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(here)})
    if "No module named mypy" in done.stderr:
        pytest.skip("no mypy: scripts/get-python --tests fetches it")
    assert done.returncode == 0, done.stdout + done.stderr
