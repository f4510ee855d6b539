"""iobind.spark on a cluster: each row once and as one process has it, whatever happens to tasks and executors."""

import ctypes
import gc
import os
import pathlib
import signal
import time

import numpy
import pytest

import iobind
import pictures
from iobind import spark
from iobind._runtime import library_path
from pyspark import TaskContext
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import ArrayType, FloatType

FAILS, DIES, IS_SLOW = 1, 3, 5  # partitions
PARTITIONS = 8


@pytest.fixture(scope="module")
def session(settings):
    builder = SparkSession.builder.appName("iobind")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def table(session, tmp_path_factory):
    rows = [(number, bytearray(pictures.picture(number))) for number in range(pictures.COUNT)]
    path = str(tmp_path_factory.mktemp("pictures") / "pictures")
    session.createDataFrame(session.sparkContext.parallelize(rows, PARTITIONS), "number long, picture binary").write.parquet(path)
    made = session.read.parquet(path)  # a partition for each file, and no shuffle, which would be lost with an executor
    assert made.rdd.getNumPartitions() == PARTITIONS
    return made


def uploaded():
    return [iobind.device(f"vdev:{number}").counters()["upload_bytes"] for number in range(2)]


def meet_with_trouble(folder):
    """What happens to a task, once: it fails, its executor is killed, or it is so slow that Spark starts it a second time."""
    context = TaskContext.get()
    partition, attempt = context.partitionId(), context.attemptNumber()
    (folder / f"{partition}-{attempt}").touch()
    if attempt == 0 and partition == FAILS:
        raise RuntimeError("a task that fails once")
    if attempt == 0 and partition == DIES:
        daemon = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()
        os.kill(int(daemon[1]), signal.SIGKILL)  # the executor, whose daemon has forked this worker
        time.sleep(60)
    until = time.monotonic() + 120
    while attempt == 0 and partition == IS_SLOW and not (folder / f"{partition}-1").exists() and time.monotonic() < until:
        time.sleep(0.1)


def classify(device, folder):
    """For mapInArrow: the scores, the task's GPU, and what went up to each of the two meanwhile."""
    predictor = pictures.predictor(device)

    def run(batches):
        import pyarrow

        first = True
        before = uploaded()
        for batch in predictor.map_arrow(batches):
            if first:
                meet_with_trouble(folder)
                first = False
            address = TaskContext.get().resources()["gpu"].addresses[0]
            now = uploaded()
            made = {name: batch.column(name) for name in batch.schema.names}
            made.update(gpu=pyarrow.array([address] * batch.num_rows), **{
                f"up{number}": pyarrow.array([now[number] - before[number]] * batch.num_rows) for number in range(2)})
            before = now
            yield pyarrow.RecordBatch.from_pydict(made)

    return run


def left(batches):
    """For mapInArrow: what lies on the devices after all was let go."""
    import pyarrow

    for _ in batches:
        pass
    time.sleep(1)  # so that each executor gets one of the tasks
    sessions = len(spark._held)
    spark.release()
    gc.collect()
    vdev = ctypes.CDLL(os.path.join(os.path.dirname(library_path()), "libiobind_vdev.so"))
    vdev.vdev_get.restype = ctypes.c_int64
    held = sum(iobind.device(f"vdev:{number}").counters()["allocated_bytes"] + vdev.vdev_get(number, b"live_bytes") for number in range(2))
    yield pyarrow.RecordBatch.from_pydict({"sessions": pyarrow.array([sessions]), "bytes": pyarrow.array([held])})


def test_each_row_once_on_the_tasks_own_device(session, table, tmp_path):
    rows = table.mapInArrow(classify("vdev:{gpu}", tmp_path), "number long, scores array<float>, gpu string, up0 long, up1 long").collect()
    wanted = pictures.alone()
    assert sorted(row.number for row in rows) == list(range(pictures.COUNT))
    for row in rows:
        assert numpy.allclose(row.scores, wanted[row.number], atol=1e-5)
        here, other = (row.up0, row.up1) if row.gpu == "0" else (row.up1, row.up0)
        assert here > 0 and other == 0
        assert here % (3 * pictures.HEIGHT * pictures.WIDTH * 4) == 0  # the pictures, and nothing else
    assert {row.gpu for row in rows} == {"0", "1"}
    attempts = {path.name for path in tmp_path.iterdir()}
    assert {f"{partition}-1" for partition in (FAILS, DIES, IS_SLOW)} <= attempts

    after = session.range(4, numPartitions=4).mapInArrow(left, "sessions long, bytes long").collect()
    assert [row.bytes for row in after] == [0] * 4 and sum(row.sessions for row in after) > 0


def test_predict_batch_udf(session, table):
    udf = predict_batch_udf(spark.predictor(spark.SessionSpec(str(pictures.MODEL), "vdev:{gpu}")), return_type=ArrayType(FloatType()),
                            batch_size=8, input_tensor_shapes=[[3, pictures.HEIGHT, pictures.WIDTH]])
    wanted = pictures.alone()
    few = [(number, pictures.prepare(numpy.frombuffer(pictures.picture(number), numpy.uint8)[None]).reshape(-1).tolist()) for number in range(8)]
    rows = session.createDataFrame(few, "number long, x array<float>").select("number", udf("x").alias("scores")).collect()
    assert [row.number for row in rows] == list(range(8))
    assert all(numpy.allclose(row.scores, wanted[row.number], atol=1e-5) for row in rows)


def test_a_step_with_a_profile_of_its_own(session, table):
    """Its tasks ask for a GPU themselves."""
    rows = table.mapInArrow(pictures.predictor("vdev:{gpu}").map_arrow, "number long, scores array<float>", profile=spark.gpu_profile()).collect()
    assert sorted(row.number for row in rows) == list(range(pictures.COUNT))


def test_a_device_that_is_missing_fails_the_job(table):
    job = table.limit(1).mapInArrow(pictures.predictor("vdev:{fpga}").map_arrow, "number long, scores array<float>")
    with pytest.raises(Exception, match=r"NotFound.*the task has no resource 'fpga', only gpu"):
        job.collect()
    job = table.limit(1).select(functions.lit(1).cast("long").alias("number"), functions.lit(None).cast("binary").alias("picture"))
    with pytest.raises(Exception, match="column 'picture': row 0 is null"):
        job.mapInArrow(pictures.predictor("cpu").map_arrow, "number long, scores array<float>").collect()
