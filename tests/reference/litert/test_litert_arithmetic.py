"""Sums, differences, products and quotients are LiteRT's in all three engines: all pairs of codes,
broadcast shapes, and what SIMD leaves to scalar code."""

from __future__ import annotations

import numpy as np
import pytest
from litert_cases import (
    ENGINES,
    KINDS,
    TO_FILE,
    TO_OURS,
    Case,
    bounds,
    built,
    codes,
    differing,
    model,
    op,
    quant,
    scale,
    set_order,
    tensor,
    zero_point,
)

from qdialect.ir import ops as nn

Rng = np.random.Generator
OPS = {"ADD": nn.AddOp, "SUB": nn.SubOp, "MUL": nn.MulOp, "DIV": nn.DivOp}
SHAPES = [
    ((37, 5, 3), (37, 5, 3)),
    ((4, 37), (37,)),
    ((1,), (71,)),
    ((3, 5, 7, 19), (1, 1, 1, 19)),
    ((3, 5, 7, 19), (3, 1, 1, 1)),
    ((3, 5, 7, 19), (1, 5, 7, 1)),
    ((2, 1, 3, 1, 9), (1, 4, 1, 2, 9)),
    ((6, 1, 20), (1, 9, 20)),
]


def result_scale(rng: Rng, what: str, kind: str, a: float, b: float) -> float:
    """A scale that most results fit in."""
    typical = {"MUL": a * b * 100, "DIV": a / b / 10}.get(what, max(a, b) * 1.3)
    if kind == "ties":
        return float(2.0 ** np.round(np.log2(typical) + rng.integers(-1, 3)))
    return float(np.float32(typical * np.exp(rng.normal() / 2)))


def arithmetic(rng: Rng, kind: str, what: str, type: str) -> Case:
    """All pairs of codes, or random ones of shapes that are broadcast."""
    (s_a, z_a), (s_b, z_b) = ((scale(rng, kind), zero_point(rng, type)) for _ in range(2))
    if kind == "far" and what in ("ADD", "SUB"):
        s_b = float(np.float32(s_a * np.exp(rng.normal() * 2)))
    s_y, z_y = result_scale(rng, what, kind, s_a, s_b), zero_point(rng, type)
    image = False
    if rng.integers(2):
        low, high = bounds(type)
        every = np.arange(low, high + 1).astype(type.lower())
        a, b = np.repeat(every, 256), np.tile(every, 256)
        if what == "DIV":
            a, b = a[b != z_b], b[b != z_b]
        cut = int(rng.integers(0, 17))
        a, b = a[: a.size - cut], b[: b.size - cut]
    else:
        image = rng.integers(3) == 0
        shapes = SHAPES[rng.integers(len(SHAPES))]
        if image:
            shapes = (3, 5, 7, 5), (3, 5, 7, 5)
        a, b = (codes(rng, shape, type) for shape in shapes[:: rng.choice([-1, 1])])
        if what == "DIV":
            b = np.where(b == z_b, z_b - 1 if z_b > bounds(type)[0] else z_b + 1, b)
            b = b.astype(type.lower())
    shape = np.broadcast_shapes(a.shape, b.shape)
    data = model(
        [tensor("a", a.shape, type, s_a, z_a), tensor("b", b.shape, type, s_b, z_b)],
        [tensor("y", shape, type, s_y, z_y)],
        [op(what, ["a", "b"], ["y"], version=2)],
    )
    ours = [v.transpose(TO_OURS) if image else v for v in (a, b)]
    kinds = [quant(type, s_a, z_a), quant(type, s_b, z_b)]
    made = built(OPS[what], list(zip(ours, kinds, strict=True)), quant(type, s_y, z_y))
    if not image:
        return Case(data, [a, b], made, ours)
    set_order(made, TO_FILE)
    return Case(data, [a, b], made, ours, lambda y: y.transpose(TO_FILE))


MAKERS = {(what, type): arithmetic for what in OPS for type in ("INT8", "UINT8")}


@pytest.mark.parametrize(("what", "type"), list(MAKERS))
@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic(what: str, type: str, kind: str) -> None:
    rng = np.random.default_rng([*map(ord, what + type + kind)])
    for number in range(6):
        case = MAKERS[what, type](rng, kind, what, type)
        for engine in ENGINES:
            wrong, ran = differing(case, engine)
            assert wrong == 0, (number, engine, ran, wrong, case.op)
