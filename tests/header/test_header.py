"""Does the check of the comments notice what it is there for?"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import header  # noqa: E402

GOOD = """ Write into a part.
 *  @param offset  where
 *  @param data    `bytes` bytes
 *  @return OK; RUNTIME
 *  @threads serial   @blocks if stream is NULL   @since 0.1 """
PROTOTYPE = """IOBIND_CHECK iobind_status iobind_thing_write(iobind_thing *thing, size_t offset, const void *data, size_t bytes,
                                                 iobind_stream *stream, iobind_error *error)"""


class Comments(unittest.TestCase):
    def problems(self, old="", new="", prototype=PROTOTYPE):
        self.assertIn(old, GOOD)
        return header.comment_problems(header.Function(GOOD.replace(old, new, 1), prototype), {"iobind_thing_write"}, "0.1")

    def test_a_good_one(self):
        self.assertEqual(self.problems(), [])

    def test_what_is_missing(self):
        for old, new, part in (("@threads serial", "", "no '@threads"), ("@threads serial", "@threads most", "no '@threads"),
                               ("@since 0.1", "", "expected '@since 0.1', got 'none'"), ("0.1", "0.2", "got '@since 0.2'"),
                               ("@return OK; RUNTIME", "", "no '@return'"), ("@blocks if stream is NULL", "", "'@blocks'"),
                               ("@blocks if", "@blocks no,", "expected '@blocks"), ("offset", "length", "no parameter"),
                               ("@param offset  where", "", "says nothing of 'offset'"), ("@param", "@arg", "'@arg' is no tag"),
                               ("OK; RUNTIME", "as iobind_thing_read", "is no function"), (GOOD, "", "no /** comment")):
            with self.subTest(old=old, new=new):
                self.assertIn(part, " ".join(self.problems(old, new)))

    def test_what_may_be_left_out(self):
        self.assertEqual(self.problems("@return OK; RUNTIME", "As iobind_thing_write."), [])
        self.assertEqual(self.problems("@param offset  where", "Where `offset` says."), [])
        self.assertEqual(self.problems(prototype="void iobind_thing_set(iobind_thing *thing, size_t offset, void *data)"), [])

    def test_vdev_is_read(self):
        self.assertIn("CreateEpFactories", " ".join(header.vdev("/proc/self/exe")[0]))


if __name__ == "__main__":
    unittest.main()
