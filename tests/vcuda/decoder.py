"""A decoder with GroupQueryAttention on CUDA over vcuda, whose states iobind carries: caches IN_PLACE, token and length by SWAP, with and
without captured graphs. The tokens must be those of the CPU EP.

usage: decoder.py TOOL [unittest's arguments]        under with-cuda"""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models_real"))
import driver  # noqa: E402
import numpy as np  # noqa: E402
import transformer_models as models  # noqa: E402
import transformer_run  # noqa: E402
from onnx import TensorProto  # noqa: E402

STEPS = 12
FIRST = {"token": np.array([[3]], np.int64), "last": np.array([0], np.int32), "total": np.array([models.ROOM], np.int32)}


class Decoder(driver.Case):
    @classmethod
    def setUpClass(cls):
        pass

    def expected(self, size):
        session = transformer_run.session_of(models.endless_decoder(TensorProto.FLOAT, size), False)
        names = [output.name for output in session.get_outputs()]
        caches = {name: np.zeros((1, models.GROUPS, models.ROOM, size), np.float32) for name in models.first_states(models.GROUPS, 0)}
        feeds, tokens = FIRST | caches, []
        for _ in range(STEPS):
            results = dict(zip(names, session.run(names, feeds)))
            tokens.append(int(results["next_token"][0, 0]))
            feeds = {"token": results["next_token"], "last": results["next_last"], "total": feeds["total"]}
            feeds |= {name: results[models.present_of(name)] for name in caches}
        return tokens

    def loop(self, size, *options):
        path = os.path.join(self.folder, "decoder.onnx")
        pathlib.Path(path).write_bytes(models.endless_decoder(TensorProto.FLOAT16, size))
        arguments = ["loop", path, "--json", "--strict", "--device", "cuda", "--steps", STEPS, "--output-dir", self.folder, "--gather", "next_token"]
        for name, array in FIRST.items():
            np.save(os.path.join(self.folder, name), array)
            arguments += ["--input", f"{name}={os.path.join(self.folder, name)}.npy"]
        for name in ("token", "last"):
            arguments += ["--carry", f"next_{name}={name},swap"]
        for name in models.first_states(models.GROUPS, 0):
            arguments += ["--carry", f"{models.present_of(name)}={name},in-place", "--input", f"{name}=zeros"]
        report = json.loads(self.tool.call(*arguments, *options))
        rows = {row["name"]: row for row in report["outputs"]}
        return report, np.load(rows["next_token"]["file"]).ravel().tolist()

    def check(self, size, *options):
        self.need("cuda")
        expected = self.expected(size)
        self.assertGreater(len(set(expected)), 3)
        report, tokens = self.loop(size, *options)
        self.assertEqual(tokens, expected)
        self.assertTrue(report["same"])
        return {way["way"]: way for way in report["ways"]}

    def test_flash_attention(self):
        carried = self.check(16)["carried"]
        self.assertEqual(carried["upload_bytes"], 0)

    def test_xqa(self):
        self.check(64)

    def test_captured(self):
        for size in (16, 64):
            ways = self.check(size, "--graph")
            self.assertLess(ways["captured"]["launches"], ways["carried"]["launches"])


if __name__ == "__main__":
    driver.main()
