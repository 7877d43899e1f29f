"""Reductions of quantized tensors against their definitions in Fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scalar_oracle import (
    CONTEXT,
    MODES,
    build,
    dequantized,
    quantized,
    random_per_axis,
    random_per_tensor,
    random_stored,
    run,
    uniform,
)
from xdsl.dialects.builtin import f16, f32
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams import QParams
from qdialect.errors import InputError
from qdialect.interpreter import evaluate_op
from qdialect.ir import ops as nn

AXES = [(1,), (0, 2), (-1, 0), (0, 1, 2), ()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("axes", AXES)
def test_sums_and_means(axes: tuple[int, ...], keep: bool, mode: str) -> None:
    rng = np.random.default_rng(60)
    dims = tuple(axis % 3 for axis in axes)
    for kind in ("nice", "wild"):
        a, b = random_per_tensor(rng, "i8", kind), random_per_tensor(rng, "i16", kind)
        others = [d for d in range(3) if d not in dims]
        if others and mode == "half_even":
            a = random_per_axis(rng, "u8", others[0], (3, 4, 5)[others[0]], kind, True)
        x = random_stored(rng, (3, 4, 5), a)
        real = np.asarray(dequantized(x, a).sum(axis=dims, keepdims=keep), object)
        p = {"axes": list(axes), "keepdims": keep, "rounding": mode}
        got = run(nn.ReduceSumOp, [(x, uniform(a))], uniform(b), **p)
        assert np.array_equal(got, quantized(real, b, mode))
        count = Fraction(int(np.prod([x.shape[d] for d in dims])))
        got = run(nn.ReduceMeanOp, [(x, uniform(a))], uniform(b), **p)
        assert np.array_equal(got, quantized(np.asarray(real / count, object), b, mode))


@pytest.mark.parametrize(("op", "pick"), [(nn.ReduceMaxOp, np.max), (nn.ReduceMinOp, np.min)])
@pytest.mark.parametrize("axes", AXES)
def test_extrema(op: type, pick, axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(61)
    a = random_per_tensor(rng, "i8", "wild")
    x = random_stored(rng, (3, 4, 5), a)
    got = run(op, [(x, uniform(a))], uniform(a), axes=list(axes))
    assert np.array_equal(got, pick(x, axis=axes, keepdims=True))
    channels = random_per_axis(rng, "i8", 2, 5, "wild", True)
    moved = QParams.per_axis("i8", 0, channels.scale_list(), channels.zero_point_list())
    p = {"axes": [0, 1], "keepdims": False}
    got = run(op, [(x, uniform(channels))], uniform(moved), **p)
    assert np.array_equal(got, pick(x, axis=(0, 1)))
    with pytest.raises(VerifyException, match="quantized along dimension 2"):
        build(op, [(uniform(channels), x.shape)], uniform(channels), axes=[2]).verify()
    wrong = QParams.per_axis("i8", 0, moved.scale_list()[::-1])
    with pytest.raises(VerifyException, match="result must be quantized as"):
        build(op, [(uniform(channels), x.shape)], uniform(wrong), **p).verify()
    with pytest.raises(VerifyException, match="axis 2 is not a dimension of a rank 1 tensor"):
        build(op, [(uniform(channels), x.shape)], uniform(channels), **p).verify()


def test_f16_sums_round_once() -> None:
    x = np.random.default_rng(62).normal(size=(3, 100)).astype(np.float16)
    got = run(nn.ReduceSumOp, [(x, f16)], f16, axes=[1])
    assert np.array_equal(got, x.astype(np.float32).sum(1, keepdims=True).astype(np.float16))


def test_of_nothing() -> None:
    empty = np.zeros((2, 0), np.float32)
    assert run(nn.ReduceSumOp, [(empty, f32)], f32, axes=[1]).tolist() == [[0.0], [0.0]]
    for op in (nn.ReduceMaxOp, nn.ReduceMinOp, nn.ReduceMeanOp):
        with pytest.raises(VerifyException, match="cannot reduce dimension 1 of extent 0"):
            build(op, [(f32, (2, 0))], f32, axes=[1])
        unknown = build(op, [(f32, (2, -1))], f32, axes=[1])
        with pytest.raises(InputError, match="cannot reduce dimension 1 of extent 0"):
            evaluate_op(unknown, [empty], CONTEXT)


@pytest.mark.parametrize(
    ("shape", "properties", "result"),
    [
        ((-1, 4, -1), {"axes": [0]}, (1, 4, -1)),
        ((-1, 4, -1), {"axes": [-1, 1], "keepdims": False}, (-1,)),
        ((2, 3), {"axes": [0, 1], "keepdims": False}, ()),
    ],
)
def test_shapes(shape, properties, result) -> None:
    op = build(nn.ReduceMaxOp, [(f32, shape)], f32, **properties)
    assert nn.shape_of(op.results[0]) == result


@pytest.mark.parametrize("axes", [[2], [0, -2]])
def test_bad_axes(axes: list[int]) -> None:
    with pytest.raises(VerifyException, match=r"outside rank 2|name a dimension twice"):
        build(nn.ReduceMaxOp, [(f32, (2, 3))], f32, axes=axes)
