"""Importing optional packages when something needs them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from qdialect.errors import QError

_EXTRAS = {"torch": "torch", "torchao": "torch"}


def package(name: str) -> Any:
    """The module `onnx...`, `onnxruntime...` or `torch...`, imported now; QError
    (`missing-package`)."""
    if (known := sys.modules.get(name)) is not None:
        return known
    try:
        return import_module(name)
    except ImportError:
        needed = name.partition(".")[0]
        raise QError(
            f"this needs the Python package '{needed}': "
            f'pip install "qdialect[{_EXTRAS.get(needed, "onnx")}]"',
            code="missing-package",
        ) from None
