"""Pools and reductions are LiteRT's in all three engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from litert_cases import (
    ENGINES,
    KINDS,
    TO_FILE,
    TO_OURS,
    Case,
    built,
    codes,
    differing,
    model,
    op,
    quant,
    same_pads,
    scale,
    set_order,
    tensor,
    zero_point,
)

from qdialect.ir import ops as nn

Rng = np.random.Generator
REDUCTIONS = {
    "MEAN": nn.ReduceMeanOp,
    "SUM": nn.ReduceSumOp,
    "REDUCE_MAX": nn.ReduceMaxOp,
    "REDUCE_MIN": nn.ReduceMinOp,
}


def pool(rng: Rng, kind: str, what: str, type: str) -> Case:
    """AVERAGE_POOL_2D or MAX_POOL_2D."""
    size = (int(rng.integers(4, 12)), int(rng.integers(4, 12)))
    kernel = (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    stride = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    padding = str(rng.choice(["SAME", "VALID"]))
    pads = [same_pads(*t, 1) for t in zip(size, kernel, stride, strict=True)]
    if padding == "VALID":
        pads = [(0, 0), (0, 0)]
    out = [(k + sum(p) - m) // s + 1 for k, p, m, s in zip(size, pads, kernel, stride, strict=True)]
    x = codes(rng, (2, *size, int(rng.integers(1, 40))), type)
    s, z = scale(rng, kind), zero_point(rng, type)
    options: dict[str, Any] = {"padding": padding, "stride_h": stride[0], "stride_w": stride[1]}
    options |= {"filter_height": kernel[0], "filter_width": kernel[1]}
    shape = (2, *out, x.shape[3])
    data = model(
        [tensor("x", x.shape, type, s, z)],
        [tensor("y", shape, type, s, z)],
        [op(what, ["x"], ["y"], options, version=2)],
    )
    named: dict[str, Any] = {"kernel": list(kernel), "strides": list(stride)}
    named["pads"] = [p[0] for p in pads] + [p[1] for p in pads]
    of = nn.AvgPool2DOp if what.startswith("AVERAGE") else nn.MaxPool2DOp
    ours = x.transpose(TO_OURS)
    made = built(of, [(ours, quant(type, s, z))], quant(type, s, z), **named)
    return Case(data, [x], made, [ours], lambda y: y.transpose(TO_FILE))


def reduction(rng: Rng, kind: str, what: str, type: str) -> Case:
    """MEAN, SUM or an extremum along random dimensions, often of an image."""
    rank = int(rng.integers(1, 5))
    image = bool(rng.integers(2))
    rank = 4 if image else rank
    shape = tuple(int(rng.integers(2, 9)) for _ in range(rank))
    shape = (*shape[:-1], int(rng.integers(1, 60)))
    axes = [1, 2]
    if not image or rng.integers(3) == 0:
        count = int(rng.integers(1, rank + 1))
        axes = sorted(rng.choice(rank, count, replace=False).tolist())
    keep = bool(rng.integers(2))
    x = codes(rng, shape, type)
    if rng.integers(2):
        x = (x // 4 + rng.integers(-20, 20)).astype(type.lower())
    count = int(np.prod([shape[a] for a in axes]))
    s_x, z_x = scale(rng, kind), zero_point(rng, type)
    s_y, z_y = s_x, z_x
    if what in ("MEAN", "SUM"):
        typical = s_x * (np.sqrt(count) if what == "SUM" else rng.choice([1, 0.3]))
        s_y, z_y = float(np.float32(typical * np.exp(rng.normal() / 2))), zero_point(rng, type)
        if kind == "ties":
            s_y = float(2.0 ** np.round(np.log2(s_y)))
    out = tuple(1 if d in axes else n for d, n in enumerate(shape) if keep or d not in axes)
    data = model(
        [tensor("x", shape, type, s_x, z_x)],
        [tensor("y", out, type, s_y, z_y)],
        [op(what, ["x", "axes"], ["y"], {"keep_dims": keep}, version=2)],
        [tensor("axes", (len(axes),), "INT32", data=np.array(axes, np.int32))],
    )
    kinds = quant(type, s_x, z_x), quant(type, s_y, z_y)
    of = REDUCTIONS[what]
    if not image or not keep:
        made = built(of, [(x, kinds[0])], kinds[1], axes=axes, keepdims=keep)
        return Case(data, [x], made, [x])
    ours = x.transpose(TO_OURS)
    ours_axes = sorted(TO_OURS.index(axis) for axis in axes)
    if what == "MEAN" and axes == [1, 2] and rng.integers(2):
        made = built(nn.GlobalAvgPool2DOp, [(ours, kinds[0])], kinds[1])
    else:
        made = built(of, [(ours, kinds[0])], kinds[1], axes=ours_axes, keepdims=True)
    set_order(made, TO_FILE)
    return Case(data, [x], made, [ours], lambda y: y.transpose(TO_FILE))


MAKERS = {
    **{(what, t): pool for what in ("AVERAGE_POOL_2D", "MAX_POOL_2D") for t in ("INT8", "UINT8")},
    **{(what, t): reduction for what in REDUCTIONS for t in ("INT8", "UINT8")},
}


@pytest.mark.parametrize(("what", "type"), list(MAKERS))
@pytest.mark.parametrize("kind", KINDS)
def test_pools_and_reductions(what: str, type: str, kind: str) -> None:
    rng = np.random.default_rng([*map(ord, what + type + kind)])
    for number in range(8):
        case = MAKERS[what, type](rng, kind, what, type)
        for engine in ENGINES:
            if (what, type, engine) == ("SUM", "INT8", "ref"):
                continue  # reads signed codes as unsigned ones
            wrong, ran = differing(case, engine)
            assert wrong == 0, (number, engine, ran, wrong, case.op)
