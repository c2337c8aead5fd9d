"""Every test runs strict and on one thread."""

import os

os.environ["DEPTHSCOPE_STRICT"] = "1"
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
