"""Archives of quantized programs, read where PyTorch is not installed.

Beside each archive are an input and what eager PyTorch 2.13 gave for it: codes behind the output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.engines.local import KEPT_NODES
from qdialect.reference import Interpreter

ARCHIVES = Path(__file__).parent / "archives"


@pytest.mark.parametrize("name", ["static_int8", "dynamic_uint8", "int4_groups"])
def test_archive(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes are PyTorch's bit for bit, floats within the error of float32, without PyTorch."""
    monkeypatch.setitem(sys.modules, "torch", None)
    model = qd.load(ARCHIVES / f"{name}.pt2")
    interpreter = Interpreter(model.ctx, model.module, functions=KEPT_NODES)
    with np.load(ARCHIVES / f"{name}.npz") as saved:
        results = interpreter.run([saved["x"]])
        expected = [saved[f"y{index}"] for index in range(len(results))]
    for result, other in zip(results, expected, strict=True):
        if other.dtype.kind in "iu":
            np.testing.assert_array_equal(np.asarray(result).astype(np.int64), other)
        else:
            np.testing.assert_allclose(result, other, rtol=2e-5, atol=2e-6)
