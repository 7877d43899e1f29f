"""ONNX's own node tests: every model imports, reads back, exports, and runs the same.

The suite is stamped with the newest opset, which ONNX Runtime may not take; models
are lowered to opset 23 where the checker agrees.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import RUNTIME, export, load

from qdialect.errors import InputError
from qdialect.plugins.onnx.write import OrtEngine

#: cases with random results before a version of the runtime
RANDOM = {"test_reversesequence_batch": (1, 28)}


def lowered(model: onnx.ModelProto) -> onnx.ModelProto | None:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for entry in copy.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = min(entry.version, 23)
    copy.ir_version = min(copy.ir_version, 11)
    try:
        onnx.checker.check_model(copy)
    except onnx.checker.ValidationError:
        return None
    return copy


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if a is None or a.dtype.kind in "OSU":
        return np.array_equal(a, b)
    return np.array_equal(a, b, equal_nan=True)


def outputs(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return OrtEngine(model, optimize=False).run(feeds)
    except InputError:
        return None


def check(case: Any) -> bool:
    """Whether ONNX Runtime could compare the two models."""
    model = lowered(case.model)
    if model is None:
        return False
    ctx, module = load(model)
    written = export(ctx, module)
    compared = False
    for inputs, _ in case.data_sets or ():
        names = [value.name for value in model.graph.input]
        feeds = {n: v for n, v in zip(names, inputs, strict=False) if v is not None}
        if any(isinstance(v, list) for v in feeds.values()):
            continue
        want = outputs(model, feeds)
        if want is None:
            continue
        got = OrtEngine(written, optimize=False).run(feeds)
        assert all(equal(want[name], got[name]) for name in want), case.name
        compared = True
    return compared


@pytest.mark.parametrize("part", range(8))
def test_node_suite(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        cases = [c for c in load_model_tests(kind="node") if c.model is not None]
        mine = [c for c in cases if not c.name.endswith("_expanded")][part::8]
        mine = [case for case in mine if RANDOM.get(case.name, RUNTIME) <= RUNTIME]
        compared = sum(check(case) for case in mine)
    assert compared > len(mine) // 2
