"""A cluster of Spark's on this machine: a master, and workers on addresses of their own, as if they were machines: Spark runs the second
try of a slow task on another one. Each has an executor of one core, and a GPU, which is a virtual accelerator."""

import contextlib
import os
import pathlib
import re
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
WAIT = 900  # seconds in which it comes up, or goes, also on a machine that does much else; a daemon that ends is noticed at once


def daemon(log, kind, *arguments, **environment):
    """A master or worker, which ends with this process's care."""
    command = [os.path.join(os.environ["SPARK_HOME"], "bin/spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    with open(log, "wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={
            **os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1", **environment})


def wait_for(log, pattern, process):
    """What a daemon has said."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.2)
    raise TimeoutError(f"{log}: nothing like {pattern!r} in {WAIT} seconds:\n{log.read_text(errors='replace')}")


@contextlib.contextmanager
def up(folder, workers=2):
    """The cluster, with its files in a folder; gives the settings of a job that uses it."""
    daemons = []
    try:
        log = folder / "master.log"
        daemons.append(daemon(log, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", SPARK_LOCAL_IP="127.0.0.1"))
        master = wait_for(log, r"spark://127\.0\.0\.1:\d+", daemons[0]).group()
        for number in range(workers):
            options = f"-Dspark.worker.resource.gpu.amount=1 -Dspark.worker.resource.gpu.discoveryScript={HERE / 'gpus'}"
            host = f"127.0.0.{2 + number}"
            daemons.append(daemon(folder / f"worker{number}.log", "worker.Worker", "--host", host, "--webui-port", "0", "--cores", "1",
                                  "--memory", "1g", "--work-dir", str(folder / f"work{number}"), master, SPARK_LOCAL_IP=host,
                                  SPARK_WORKER_OPTS=options, IOBIND_SPARK_GPU=str(number)))
        for number in range(workers):
            wait_for(folder / f"worker{number}.log", "Successfully registered with master", daemons[1 + number])
        yield settings(master, workers)
    finally:
        for process in reversed(daemons):
            process.terminate()
        for process in daemons:
            process.wait(WAIT)


def settings(master, workers):
    """Of a job: a task has a core and a GPU, one that fails is tried again, a slow one is tried a second time."""
    passed = {name: os.environ[name] for name in ("ORT_NATIVE_LIB_PATH", "PYTHONPATH") if name in os.environ}
    return {
        "spark.master": master,
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.resource.gpu.amount": "1",
        "spark.task.resource.gpu.amount": "1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": str(workers),
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.sql.files.openCostInBytes": "4m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
        # where musl is installed beside glibc, Spark's snappy loads its library for musl, and fails
        "spark.sql.parquet.compression.codec": "uncompressed",
        **{f"spark.executorEnv.{name}": value for name, value in {
            "VDEV_DEVICES": str(max(2, workers)), "ORT_DISABLE_TELEMETRY": "1", **passed}.items()},
    }
