import os

# One cause of flaky numbers less, and forked workers cannot hang on a busy OpenMP pool.
os.environ.setdefault("OMP_NUM_THREADS", "2")
