"""Archives of quantized programs, read where PyTorch is not installed.

Beside each archive are an input and what eager PyTorch 2.13 gave for it: codes behind the output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.ir.ops import keys_of

ARCHIVES = Path(__file__).parent / "archives"


@pytest.mark.parametrize("name", ["static_int8", "dynamic_uint8", "int4_groups"])
@pytest.mark.exact_sums
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


def test_a_frozen_weight_has_the_name_of_its_module() -> None:
    """Without torch: the program calls it `_frozen_param0`."""
    model = qd.load(ARCHIVES / "static_int8.pt2")
    keys = {key for op in model.function().walk() for key in keys_of(op)}
    assert not any(key.startswith("_frozen_param") for key in keys)
    assert any(key.endswith(".weight") for key in keys)
