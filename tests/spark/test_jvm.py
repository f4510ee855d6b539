"""The JVM's side on the cluster: bindings/java/spark's ClusterProof, with one jar of iobind's and the official package's ONNX Runtime."""

import os
import pathlib
import subprocess

import pictures


def test_each_row_once_on_the_tasks_own_device(settings, tmp_path):
    jars = os.environ["IOBIND_SPARK_JARS"]
    environment = {name: value for name, value in os.environ.items() if name != "ORT_NATIVE_LIB_PATH"}
    given = {name: value for name, value in settings.items() if not name.endswith(("ORT_NATIVE_LIB_PATH", "PYTHONPATH"))}
    command = [os.path.join(os.environ["SPARK_HOME"], "bin/spark-submit"), "--class", "io.github.iobind.spark.ClusterProof", "--jars", jars]
    for name, value in given.items():
        command += ["--conf", f"{name}={value}"]
    done = subprocess.run([*command, os.environ["IOBIND_SPARK_PROGRAMS"], str(pictures.MODEL), str(tmp_path), str(pictures.COUNT)],
                          capture_output=True, text=True, env={**environment, "VDEV_DEVICES": "2"})
    assert done.returncode == 0, done.stdout + done.stderr
    ways = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert ways == ["batch-cpu", "batch", "pipeline", "binding", "left"], done.stdout
    assert {path.name for path in pathlib.Path(tmp_path).iterdir()} == {"batch-cpu", "batch", "pipeline", "binding"}
