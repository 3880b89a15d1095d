import os
from importlib.util import find_spec

# One cause of flaky numbers less, and forked workers cannot hang on a busy OpenMP pool.
os.environ.setdefault("OMP_NUM_THREADS", "2")

if find_spec("torch"):
    from ident3d.benchmark.amx import avoid_broken_amx

    avoid_broken_amx()  # before any test computes, as a run does
