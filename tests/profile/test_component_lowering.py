"""Component qparams are worth it: see `support/components.py`."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.algebra.qparams import QParams
from qdialect.ir.context import new_context
from qdialect.ir.ops.component_qparams import component_types, hold_types
from qdialect.ir.quant import UniformType
from tests.support.components import CASES, Case, float_module, measured, observed

GAINS = {"swish": 2.0, "lrn": -1.0, "reduce_mean": 0.0}
"""The least that component qparams gain over those of the result; 3 dB elsewhere."""

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_component_qparams_are_worth_it(case: Case) -> None:
    whole, components, result = measured(case)
    assert components >= result + GAINS.get(case.name, 3.0)
    assert components <= whole + 1.0, "a judge that is better than no pieces is wrong"


def test_pieces_of_pieces_are_observed() -> None:
    ctx = new_context()
    module = float_module(BY_NAME["layer_norm"], ctx)
    x = np.random.default_rng(3).normal(size=BY_NAME["layer_norm"].shape).astype(np.float32)
    found = observed(module, ctx, x)
    assert {"op/mean/sum", "op/mean", "op/variance/sum", "op/variance", "op"} <= set(found)
    held = {key.removeprefix("op/"): kind for key, kind in found.items() if key != "op"}
    op = next(op for op in module.walk() if op.name == "nn.layer_norm")
    components = ctx.components[op.name]
    inner = components.inner_roles(op, ctx.components)
    assert set(held) == {*components.roles_of(op)[:-1], *inner}


def test_types_are_read_back() -> None:
    ctx = new_context()
    module = float_module(BY_NAME["softmax"], ctx)
    op = next(op for op in module.walk() if op.name == "nn.softmax")
    kind = UniformType(QParams.per_tensor("i8", 0.5, 0))
    hold_types(op, dict.fromkeys(("sub_max", "exp", "sum"), kind))
    assert component_types(op) == dict.fromkeys(("sub_max", "exp", "sum"), kind)
