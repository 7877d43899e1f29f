"""`python -m qdialect` is `qopt`."""

import sys

from qdialect.cli.qopt import main

if __name__ == "__main__":
    sys.exit(main())
