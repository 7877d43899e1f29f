"""Ops that copy elements."""

from __future__ import annotations

import numpy as np
import pytest
from scalar_oracle import (
    CONTEXT,
    dequantized,
    quantized,
    random_per_tensor,
    random_scales,
    random_stored,
    run,
    uniform,
)
from xdsl.dialects.builtin import bf16, f32
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import evaluate_op
from qdialect.ir import ops as nn
from qdialect.ir.ops.base import ranked

Q = QParams.per_tensor("i8", 0.5, 3)
X = np.arange(24, dtype=np.int8).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("starts", "stops", "steps"),
    [
        ([0, 0, 0], [2, 3, 4], [1, 1, 2]),
        ([1, -1, -1], [-3, -9, -9], [-1, -1, -3]),
        ([0, 1, 3], [2**63 - 1, 2**63 - 1, -(2**63)], [1, 2, -1]),
        ([0, 2, 0], [2, 1, 4], [1, 1, 1]),
    ],
)
def test_slice(starts: list[int], stops: list[int], steps: list[int]) -> None:
    got = run(nn.SliceOp, [(X, uniform(Q))], uniform(Q), starts=starts, stops=stops, steps=steps)
    places = tuple(slice(*bounds) for bounds in zip(starts, stops, steps, strict=True))
    assert np.array_equal(got, X[places])


def test_transpose_flatten_reshape() -> None:
    operands = [(X, uniform(Q))]
    got = run(nn.TransposeOp, operands, uniform(Q), perm=[2, 0, 1])
    assert np.array_equal(got, X.transpose(2, 0, 1))
    assert run(nn.FlattenOp, operands, uniform(Q), axis=-1).shape == (6, 4)
    assert run(nn.FlattenOp, operands, uniform(Q), axis=0).shape == (1, 24)


@pytest.mark.parametrize("declared", [(2, -1, 4), (-1, 3, -1)])
def test_reshape_to_dynamic_extents(declared: tuple[int, ...]) -> None:
    value = create_ssa_value(ranked(f32, declared))
    for shape in ([0, -1], [4, -1], [-1]):
        op = nn.ReshapeOp(value, shape)
        op.verify()
        (got,) = evaluate_op(op, [X.astype(np.float32)], CONTEXT)
        assert np.array_equal(got, X.reshape([2 if n == 0 else n for n in shape]))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode: str) -> None:
    got = run(
        nn.PadOp,
        [(X, uniform(Q))],
        uniform(Q),
        low=[0, 1, 2],
        high=[1, 1, 0],
        mode=mode,
        value=-1.3,
    )
    more = {"constant_values": int(np.rint(-1.3 / 0.5)) + 3} if mode == "constant" else {}
    assert np.array_equal(got, np.pad(X, [(0, 1), (1, 1), (2, 0)], mode, **more))


def test_pad_quantizes_the_fill_per_cell() -> None:
    a = QParams.per_axis("i8", 1, [0.5, 0.25, 0.1], [1, 2, 3])
    got = run(nn.PadOp, [(X, uniform(a))], uniform(a), low=[0, 0, 1], high=[0, 0, 0], value=1.0)
    assert got[0, :, 0].tolist() == [3, 6, 13]
    real = run(nn.PadOp, [(X.astype(np.float32), f32)], f32, low=[0, 0, 1], high=[0] * 3, value=2.5)
    assert real[0, 0, 0] == 2.5


def test_concat_of_unequal_qparams_stores_anew() -> None:
    rng = np.random.default_rng(60)
    for kind in ("nice", "wild"):
        for axis in (0, 1, -1):
            fields = [random_per_tensor(rng, "i8", kind), random_per_tensor(rng, "i8", kind)]
            fields.append(QParams.per_axis("i8", 1, random_scales(rng, 3, kind), [1, 2, 3]))
            extent = 9 if axis == 1 else 3
            result = QParams.per_axis("i8", 1, random_scales(rng, extent, kind), [5] * extent)
            values = [random_stored(rng, (2, 3, 4), q) for q in fields]
            reals = [dequantized(v, q) for v, q in zip(values, fields, strict=True)]
            operands = [(v, uniform(q)) for v, q in zip(values, fields, strict=True)]
            got = run(nn.ConcatOp, operands, uniform(result), axis=axis)
            assert np.array_equal(got, quantized(np.concatenate(reals, axis), result))
            got = run(nn.ConcatOp, operands, f32, axis=axis)
            expected = np.concatenate(reals, axis).astype(np.float64).astype(np.float32)
            assert np.array_equal(got, expected)


def test_concat_of_equal_qparams_copies() -> None:
    parts = QParams.per_axis("i8", 1, [0.5, 0.25, 0.1]), QParams.per_axis("i8", 1, [1.0, 2.0, 3.0])
    whole = QParams.per_axis("i8", 1, [0.5, 0.25, 0.1, 1.0, 2.0, 3.0])
    got = run(nn.ConcatOp, [(X, uniform(q)) for q in parts], uniform(whole), axis=1)
    assert np.array_equal(got, np.concatenate([X, X], 1))


def test_constants_of_every_kind() -> None:
    store = CONTEXT.blobs
    wide = np.arange(300) - 150
    for element, array in (
        (uniform(QParams.per_tensor("u8", 0.5)), np.arange(256).astype(np.uint8)),
        (uniform(QParams.per_tensor("i4", 0.5)), np.arange(-8, 8).astype(np.int8)),
        (uniform(QParams.per_tensor("i32", 0.5)), wide.astype(np.int32)),
        (f32, wide.astype(np.float32)),
    ):
        (got,) = evaluate_op(nn.make_constant(array, element, store), [], CONTEXT)
        assert got.dtype == array.dtype
        assert np.array_equal(got, array)
    bits = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    (got,) = evaluate_op(nn.make_constant(bits, bf16, store), [], CONTEXT)
    assert got.tolist() == [1.0, -2.0, np.inf]
    (got,) = evaluate_op(nn.make_constant(wide.astype(np.float32), f32, store), [], CONTEXT, "real")
    assert got.dtype == np.float64
