"""What bench/spark/run measures; see there."""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import cluster
import iobind
import pictures
from iobind import spark
from iobind._runtime import library_path
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType

BATCH = 16
MODELLED_US = 400_000  # of a run on the virtual accelerator, over few rows, so that what is really computed is little beside it
MODELLED_ROWS = 2
SCHEMA = "number long, scores array<float>"


def model_alone(count):
    """Processor milliseconds of a row: the model, and making its input of the bytes, by one thread."""
    session = iobind.Session(str(pictures.MODEL), device="cpu", threads=1)
    rows = numpy.frombuffer(b"".join(pictures.picture(number) for number in range(BATCH)), numpy.uint8).reshape(BATCH, -1)
    spent = {"prepare": 0.0, "model": 0.0}
    for _ in range(max(1, count // BATCH)):
        begin = time.process_time()
        x = pictures.prepare(rows)
        middle = time.process_time()
        session.run(None, {"x": x})
        spent["prepare"] += middle - begin
        spent["model"] += time.process_time() - middle
    return {name: 1000 * seconds / (max(1, count // BATCH) * BATCH) for name, seconds in spent.items()}


def plain():
    """For predict_batch_udf: what a user of plain onnxruntime writes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(pictures.MODEL), options, providers=["CPUExecutionProvider"])
    return lambda column: session.run(None, {"x": pictures.prepare(joined(column))})[0]


def with_iobind():
    """The same with iobind."""
    predict = spark.predictor(spark.SessionSpec(str(pictures.MODEL)))()
    return lambda column: predict(pictures.prepare(joined(column)))


def joined(column):
    return numpy.frombuffer(b"".join(column), numpy.uint8).reshape(len(column), -1)


def seconds(table):
    begin = time.perf_counter()
    table.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def processor(table):
    """Processor seconds of Spark's JVM and its Python workers for a table: those of other programs on the machine do not count."""
    begin = spent_by_children()
    seconds(table)
    return spent_by_children() - begin


def spent_by_children():
    """By all processes that descend from this one, and those of them that have ended."""
    parents, ticks = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = set()
    for process in parents:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and process != above:
            ours.add(process)
    return sum(ticks[process] for process in ours) / os.sysconf("SC_CLK_TCK")


def jvm(path, rounds):
    """Processor milliseconds of a row in each round of the JVM's side."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_NATIVE_LIB_PATH"}
    command = [os.path.join(os.environ["SPARK_HOME"], "bin/spark-submit"), "--master", "local[1]", "--class", "io.github.iobind.spark.RowsBench",
               "--jars", os.environ["IOBIND_SPARK_JARS"], "--conf", "spark.log.level=ERROR", "--conf", "spark.ui.enabled=false",
               "--conf", "spark.ui.showConsoleProgress=false", os.environ["IOBIND_SPARK_PROGRAMS"], str(pictures.MODEL), path, str(BATCH), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return [float(line) for line in done.stdout.split()]


def rows(count, rounds):
    session = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
               .config("spark.log.level", "ERROR").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
    folder = tempfile.mkdtemp()
    path = folder + "/pictures"
    session.createDataFrame(session.sparkContext.parallelize([(number, bytearray(pictures.picture(number))) for number in range(count)], 1),
                            "number long, picture binary").write.parquet(path)
    table = session.read.parquet(path)
    udf = {name: predict_batch_udf(make, return_type=ArrayType(FloatType()), batch_size=BATCH)
           for name, make in (("plain", plain), ("iobind", with_iobind))}
    sides = {
        "predict_batch_udf, onnxruntime": table.select("number", udf["plain"]("picture")),
        "predict_batch_udf, iobind": table.select("number", udf["iobind"]("picture")),
        "mapInArrow, iobind": table.mapInArrow(pictures.predictor("cpu", BATCH).map_arrow, SCHEMA),
        "reading the table": table,
    }
    times = {name: [] for name in sides}
    alone = {"prepare": [], "model": []}
    for number in range(rounds + 1):  # the first makes the sessions
        for name, side in sides.items():
            spent = 1000 * processor(side) / count
            if number:
                times[name].append(spent)
        for name, spent in model_alone(count).items():
            alone[name].append(spent)
    session.stop()
    times["mapPartitions on the JVM"] = jvm(path, rounds)
    model = statistics.median(alone["model"])
    print(f"{count} rows, batches of {BATCH}, one core, medians of {rounds} rounds; processor milliseconds of a row")
    print(f"{'the model alone':34}{model:8.3f}")
    print(f"{'making its input (numpy)':34}{statistics.median(alone['prepare']):8.3f}")
    for name, spent in times.items():
        median = statistics.median(spent)
        print(f"{name:34}{median:8.3f}  {min(spent):.3f} to {max(spent):.3f}" + ("" if name == "reading the table" else f"  beside the model {median - model:.3f}"))


def executors():
    """Rows in a second of the virtual accelerators' modelled time by so many executors, and in one of the clock's."""
    first = None
    for number in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder, cluster.up(pathlib.Path(folder), number) as settings:
            builder = SparkSession.builder
            for name, value in {**settings, "spark.speculation": "false", "spark.executorEnv.VDEV_COMPUTE_US": MODELLED_US}.items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
            count = 128
            made = session.range(0, count, 1, 16).mapInArrow(modelled, "number long, gpu string, ns long")
            made.collect()  # makes the sessions
            begin = time.perf_counter()
            rows = made.collect()
            taken = time.perf_counter() - begin
            session.stop()
        assert sorted(row.number for row in rows) == list(range(count))
        busy = {gpu: sum(row.ns for row in rows if row.gpu == gpu) / 1e9 for gpu in sorted({row.gpu for row in rows})}
        speed = count / max(busy.values())
        first = first or speed
        print(f"{number} executors: {speed:5.2f} rows/s of modelled time, {speed / first:.2f} of one; seconds of each device: "
              f"{', '.join(f'{seconds:.1f}' for seconds in busy.values())}; by the clock {count / taken:.2f} rows/s", flush=True)


def modelled(batches):
    """For mapInArrow: pictures by their numbers, the task's GPU, and with the first row of a batch the modelled time that it took there."""
    import pyarrow
    from pyspark import TaskContext

    def with_pictures():
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            yield pyarrow.RecordBatch.from_pydict({"number": batch.column(0), "picture": [pictures.picture(number) for number in numbers]})

    gpu = TaskContext.get().resources()["gpu"].addresses[0]
    vdev = ctypes.CDLL(os.path.join(os.path.dirname(library_path()), "libiobind_vdev.so"))
    vdev.vdev_get.restype = ctypes.c_int64
    iobind.device(f"vdev:{gpu}")  # is there from now on, with its counters

    def busy():
        return sum(vdev.vdev_get(int(gpu), name) for name in (b"h2d_ns", b"d2h_ns", b"kernels_ns"))

    before = busy()
    for batch in pictures.predictor(f"vdev:{gpu}", MODELLED_ROWS).map_arrow(with_pictures()):
        now = busy()
        yield pyarrow.RecordBatch.from_pydict({"number": batch.column("number"), "gpu": [gpu] * batch.num_rows,
                                               "ns": [now - before] + [0] * (batch.num_rows - 1)})
        before = now


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["rows", "executors"])
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    for what in given.what:
        if what == "rows":
            rows(given.pictures, given.rounds)
        elif what == "executors":
            executors()
        else:
            parser.error(f"expected rows or executors, got {what}")


if __name__ == "__main__":
    main()
