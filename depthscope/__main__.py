"""`python -m depthscope` is the same program as `depthscope`."""

import sys

from depthscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
