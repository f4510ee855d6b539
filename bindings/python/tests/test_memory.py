"""Memory over many runs, in the build that users get: the address sanitizer keeps what is freed."""

from support import child


def test_memory_is_flat_over_many_runs():
    child("""
import resource
import numpy
import iobind
from support import twice

binding = iobind.Session(twice(), threads=1).bind({"x": numpy.zeros(1, "f4")})

def steps(count):
    for number in range(count):
        binding["x"] = numpy.array([number], "f4")
        out = binding.run()
    assert out["y"].numpy().tolist() == [2 * number]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

steps(5000)
before = steps(5000)
after = steps(100_000)
assert after - before < 512, f"{after - before} KiB more"
""")
