"""`iobind doctor --compute`: compute_cli.py TOOL MAKE_MODEL RUNTIME_FOLDER [DEVICE]. With DEVICE: the whole list on it, every kernel right."""
import json
import sys
import unittest

DEVICE = sys.argv.pop(4) if len(sys.argv) > 4 and ":" in sys.argv[4] else None

from case import FAILED, MISUSED, Case  # noqa: E402: reads the arguments

OUTCOMES = ("wrong", "on_cpu", "refused", "fatal", "unknown")
QUICK = ("Conv", "MatMulInteger", "ReduceSum", "Where")


def wrong(said):
    return [case for row in said["kernels"] for case in row["wrong"]]


class Compute(Case):
    def table(self, *words, code=0, timeout=300, jobs=1, **environment):
        ran = self.call("doctor", "--compute", "--json", "--jobs", str(jobs), *words, timeout=timeout, env=dict(self.environment, **environment))
        self.assertEqual((ran.returncode, ran.stderr), (code, ""))
        return json.loads(ran.stdout)

    def all_right(self, said, spec):
        self.assertTrue(said["kernels"])
        for row in said["kernels"]:
            self.assertEqual({name: row[name] for name in OUTCOMES}, {name: [] for name in OUTCOMES}, row)
            self.assertEqual((row["device"], row["right"]), (spec, row["count"]))
            self.assertGreater(row["count"], 0)


@unittest.skipIf(DEVICE, "one device")
class Quick(Compute):
    operators = [word for name in QUICK for word in ("--operator", name)]

    def test_right_kernels(self):
        for spec, device in (("cpu", "cpu"), ("vdev", "vdev:0")):
            said = self.table(spec, *self.operators)
            self.all_right(said, device)
            self.assertEqual({row["op_type"] for row in said["kernels"]}, set(QUICK))
        rows = {(row["op_type"], row["dtype"], row["rank"]) for row in said["kernels"]}
        self.assertLessEqual({("Conv", "float32", 3), ("Conv", "float32", 4), ("Conv", "float32", 5), ("Conv", "float16", 4),
                              ("ReduceSum", "int64", 3), ("Where", "int32", 2)}, rows)

    def test_a_planted_wrong_kernel(self):
        """One element of one run: the table has that kernel alone, and names the element."""
        found = wrong(self.table("vdev", *self.operators, code=FAILED, VDEV_WRONG_COMPUTE="40"))
        self.assertEqual([case["beyond"] for case in found], [1])
        self.assertRegex(found[0]["kernel"], "^Conv ")
        self.assertRegex(found[0]["reason"], r"^1 of \d+ elements differ, by .*: expected .*, got ")
        said = self.call("doctor", "--compute", "vdev", "--jobs", "1", *self.operators, env=dict(self.environment, VDEV_WRONG_COMPUTE="40"))
        self.assertEqual(said.returncode, FAILED)
        self.assertIn(f"vdev:0: {found[0]['kernel']}, float32: wrong: {found[0]['reason']}", said.stdout)

    def test_wrong_in_the_second_run(self):
        """Each kernel runs twice: of two runs in a row that are the wrong one, one is the second of its kernel."""
        said = [wrong(self.table("vdev", "--operator", "LogSoftmax", "--operator", "Softmax", code=FAILED, VDEV_WRONG_COMPUTE=str(number)))
                for number in (20, 21)]
        self.assertEqual([len(found) for found in said], [1, 1])
        self.assertEqual([", in run 2" in found[0]["reason"] for found in said].count(True), 1)

    def test_what_the_device_does_not_take(self):
        said = self.table("vdev", "--operator", "Concat", "--operator", "Where", VDEV_DENY="Concat")
        for row in said["kernels"]:
            taken = row["op_type"] == "Where"
            self.assertEqual((row["right"], len(row["on_cpu"])), (row["count"], 0) if taken else (0, row["count"]))

    def test_what_fails(self):
        said = self.table("vdev", "--operator", "Softmax", VDEV_FAIL_SESSION="from:8")
        refused = [case for row in said["kernels"] for case in row["refused"]]
        self.assertTrue(refused and all(case["reason"] for case in refused))
        self.assertEqual(wrong(said), [])

    def test_a_kernel_that_ends_the_process(self):
        """The others are tried all the same, also by the process in which it was; and nothing else is said on stderr."""
        for jobs in (1, 3):
            said = self.table("vdev", "--operator", "Softmax", "--operator", "LogSoftmax", code=FAILED, jobs=jobs,
                              VDEV_FATAL_COMPUTE="every:1,name:LogSoftmax")
            self.assertTrue(said["kernels"])
            for row in said["kernels"]:
                is_fatal = row["op_type"] == "LogSoftmax"
                self.assertEqual((row["right"], len(row["fatal"])), (0, row["count"]) if is_fatal else (row["count"], 0))
                self.assertLessEqual({case["reason"] for case in row["fatal"]}, {"ends the process: Aborted"})

    def test_processes_share_the_list(self):
        one, three = (self.table("vdev", "--operator", "MatMul", "--operator", "Where", jobs=jobs) for jobs in (1, 3))
        self.assertEqual(one["kernels"], three["kernels"])

    def test_options_of_the_ep(self):
        said = self.table("vdev", "--operator", "Concat", "--ep-option", "deny=Concat")
        self.assertTrue(all(row["right"] == 0 for row in said["kernels"]))

    def test_misuse(self):
        self.refused(MISUSED, "'vdev': a device is allowed only with --compute", "doctor", "vdev")
        self.refused(MISUSED, "--operator is allowed only with --compute", "doctor", "--operator", "Conv")
        self.refused(MISUSED, "--jobs is allowed only with --compute", "doctor", "--jobs", "2")
        self.refused(MISUSED, "--jobs", "doctor", "--compute", "cpu", "--jobs", "0")
        self.refused(MISUSED, "--ep-option is allowed only with --compute", "doctor", "--ep-option", "a=b")
        self.refused(MISUSED, "no kernel of 'Convv' is in the list", "doctor", "--compute", "cpu", "--operator", "Convv")
        self.refused(MISUSED, "--compute: 'vdevv' is not a device spec", "doctor", "--compute", "vdevv")


@unittest.skipUnless(DEVICE, "all devices")
class Whole(Compute):
    def test_all(self):
        name = DEVICE.split(":")[0]
        self.all_right(self.table(name, timeout=800, jobs=2), "cpu" if name == "cpu" else DEVICE)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
