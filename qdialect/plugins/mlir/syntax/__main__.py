"""Prints the TextMate grammar."""

import json
import sys

from qdialect.plugins.mlir.syntax.patterns import textmate

if __name__ == "__main__":
    sys.stdout.write(json.dumps(textmate(), indent=1) + "\n")
