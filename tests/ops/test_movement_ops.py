"""New movement ops: the declared index map, the interpreter and numpy agree; shapes,
round trip through text, and qparams of results."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i1, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.parameter_field import ParameterField
from qdialect.interpreter import evaluate_op
from qdialect.ir import ops as nn
from qdialect.ir.context import new_context
from qdialect.ir.ops.declare import behavior_of
from qdialect.ir.quant import UniformType
from qdialect.plugins.mlir.read import read_module
from tests.ops.movement_cases import MAKERS, codes, dequantize, quantized_op, random_qparams

CONTEXT = new_context()


@pytest.mark.parametrize("name", MAKERS)
def test_interpreter_and_map_agree(name: str) -> None:
    rng = random.Random(name)
    legal = 0
    for _ in range(300):
        kind, (extents,), properties = MAKERS[name](rng)
        qparams = random_qparams(rng, extents)
        operand = create_ssa_value(TensorType(UniformType(qparams), extents))
        op = quantized_op(kind, [operand], properties, qparams)
        if isinstance(op, Illegal):
            continue
        legal += 1
        op.verify()
        x = codes(rng, extents)
        results = evaluate_op(op, [x], CONTEXT)
        behavior = behavior_of(op.name)
        fill = behavior.maps(op)[0].border_integers([ParameterField.of(qparams, extents)])
        assert not isinstance(fill, Illegal)
        for index, (result, got) in enumerate(zip(op.results, results, strict=True)):
            moved = behavior.maps(op)[index].apply([x], fill)
            np.testing.assert_array_equal(moved, got)
            assert got.shape == nn.shape_of(result)
            # The law: dequantize, then move, is move, then dequantize.
            real = behavior.maps(op)[index].apply([dequantize(x, operand.type)], 0.0)
            np.testing.assert_array_equal(real, dequantize(got, result.type))
    assert legal > 100


@pytest.mark.parametrize("name", MAKERS)
def test_text_round_trip(name: str) -> None:
    rng = random.Random(name)
    for _ in range(20):
        kind, (extents,), properties = MAKERS[name](rng)
        argument = TensorType(f32, extents)
        func = FuncOp("main", ((argument,), ()))
        op = kind(func.body.block.args[0], **properties)
        func.body.block.add_ops([op, ReturnOp()])
        module = ModuleOp([func])
        module.verify()
        again = read_module(str(module), CONTEXT)
        again.verify()
        assert module.is_structurally_equivalent(again), str(module)


def gather_op(axis: int, data: Attribute, indices: Any) -> nn.GatherOp:
    operand = create_ssa_value(data)
    return nn.GatherOp(operand, indices, axis=axis)


@pytest.mark.parametrize("index_shape", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int, index_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(-9, 9, (3, 4)).astype(np.float32)
    indices = rng.integers(-3, 3, index_shape)
    op = gather_op(axis, TensorType(f32, x.shape), create_ssa_value(TensorType(i64, index_shape)))
    op.verify()
    (got,) = evaluate_op(op, [x, indices], CONTEXT)
    np.testing.assert_array_equal(got, np.take(x, indices, axis))


def test_gather_carries_a_taken_vector() -> None:
    indices = nn.make_constant(np.array([2, 0, -1]), i64, CONTEXT.blobs)
    element = UniformType.per_axis("i8", 0, [0.5, 1.0, 2.0])
    operand = create_ssa_value(TensorType(element, (3, 2)))
    taken = TensorType(UniformType.per_axis("i8", 0, [2.0, 0.5, 2.0]), (3, 2))
    nn.GatherOp(operand, indices, axis=0, result_types=[taken]).verify()
    same = TensorType(element, (3, 2))
    with pytest.raises(VerifyException, match="must be quantized as"):
        nn.GatherOp(operand, indices, axis=0, result_types=[same]).verify()


def test_gather_with_run_time_indices_needs_uniform_parameters() -> None:
    indices = create_ssa_value(TensorType(i32, (3,)))
    element = UniformType.per_axis("i8", 0, [0.5, 1.0, 2.0])
    operand = create_ssa_value(TensorType(element, (3, 2)))
    with pytest.raises(VerifyException, match="run-time indices"):
        nn.GatherOp(operand, indices, axis=0, result_types=[TensorType(element, (3, 2))]).verify()
    other = UniformType.per_axis("i8", 1, [0.5, 1.0])
    operand = create_ssa_value(TensorType(other, (3, 2)))
    nn.GatherOp(operand, indices, axis=0, result_types=[TensorType(other, (3, 2))]).verify()


def test_indices_outside_are_refused() -> None:
    indices = nn.make_constant(np.array([0, 3]), i64, CONTEXT.blobs)
    operand = create_ssa_value(TensorType(f32, (3, 2)))
    with pytest.raises(VerifyException, match="index outside"):
        nn.GatherOp(operand, indices, axis=0).verify()


def test_select() -> None:
    condition = create_ssa_value(TensorType(i1, (2, 1)))
    element = UniformType.per_axis("i8", 1, [0.5, 1.0])
    lhs, rhs = (create_ssa_value(TensorType(element, s)) for s in ((2, 2), (1, 2)))
    op = nn.SelectOp(condition, lhs, rhs, result_types=[TensorType(element, (2, 2))])
    op.verify()
    a, b = np.array([[1, 2], [3, 4]], np.int8), np.array([[5, 6]], np.int8)
    (got,) = evaluate_op(op, [np.array([[True], [False]]), a, b], CONTEXT)
    np.testing.assert_array_equal(got, [[1, 2], [5, 6]])
    other = create_ssa_value(TensorType(UniformType.per_tensor("i8", 0.5), (1, 2)))
    with pytest.raises(VerifyException, match="different parameters"):
        nn.SelectOp(condition, lhs, other, result_types=[TensorType(element, (2, 2))]).verify()


@pytest.mark.parametrize(
    ("kind", "extents", "properties", "message"),
    [
        (nn.SqueezeOp, (1, 2), {"axes": [1]}, "cannot squeeze dimension 1 of extent 2"),
        (nn.SqueezeOp, (1, 2), {"axes": [0, -2]}, "name a dimension twice"),
        (nn.UnsqueezeOp, (2,), {"axes": [3]}, "axis 3 is outside rank 2"),
        (nn.ExpandOp, (2,), {"shape": [3]}, "cannot broadcast"),
        (nn.TileOp, (2,), {"repeats": [1, 1]}, "expects 1 repeats"),
        (nn.RepeatOp, (2,), {"repeats": [-1]}, "must not be negative"),
        (nn.SplitOp, (5,), {"sizes": [2, 2]}, "do not add up to extent 5"),
        (nn.DepthToSpaceOp, (1, 6, 1, 1), {"block": 2}, "not a multiple of 4"),
        (nn.SpaceToDepthOp, (1, 1, 3, 4), {"block": 2}, "not a multiple of 2"),
        (nn.SpaceToDepthOp, (1, 1, 4, 4), {"block": 2, "mode": "X"}, "unknown mode"),
        (nn.Im2colOp, (1, 1, 2, 2), {"kernel": [3, 3]}, "does not fit"),
        (nn.ResizeNearestOp, (1, 2), {}, "expects either"),
        (nn.ResizeNearestOp, (2,), {"sizes": [4], "nearest": "up"}, "unknown nearest"),
        (nn.ResizeNearestOp, (2,), {"scales": [-1.0]}, "scales must be positive"),
        (nn.ResizeNearestOp, (0,), {"sizes": [4]}, "cannot resize"),
    ],
)
def test_malformed(kind: Any, extents: Any, properties: Any, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        kind(create_ssa_value(TensorType(f32, extents)), **properties)


@pytest.mark.parametrize(
    ("kind", "extents", "properties", "expected"),
    [
        (nn.SqueezeOp, (-1, 1, -1), {"axes": [1]}, (-1, -1)),
        (nn.UnsqueezeOp, (-1, 4), {"axes": [0, -1]}, (1, -1, 4, 1)),
        (nn.ExpandOp, (-1, 1), {"shape": [1, 4]}, (-1, 4)),
        (nn.TileOp, (-1, 2), {"repeats": [2, 2]}, (-1, 4)),
        (nn.SplitOp, (-1, 4), {"axis": 1, "sizes": [1, 3]}, (-1, 1)),
        (nn.SplitOp, (-1, 4), {"axis": 0, "sizes": [1, 3]}, (1, 4)),
        (nn.DepthToSpaceOp, (-1, 8, -1, 2), {"block": 2}, (-1, 2, -1, 4)),
        (nn.SpaceToDepthOp, (-1, 2, -1, 2), {"block": 2}, (-1, 8, -1, 1)),
        (nn.Im2colOp, (-1, 2, -1, 4), {"kernel": [2, 2]}, (-1, 8, -1)),
        (nn.ResizeNearestOp, (-1, 2, -1), {"scales": [1.0, 1.0, 2.0]}, (-1, 2, -1)),
        (nn.ResizeNearestOp, (-1, 2), {"sizes": [3, 4]}, (3, 4)),
    ],
)
def test_dynamic_shapes(kind: Any, extents: Any, properties: Any, expected: Any) -> None:
    dims = [-(2**63) if n == -1 else n for n in extents]
    op = kind(create_ssa_value(TensorType(f32, dims)), **properties)
    op.verify()
    assert nn.shape_of(op.results[0]) == expected
    element = UniformType.per_tensor("u8", 0.5, 7)
    quantized = create_ssa_value(TensorType(element, dims))
    kind(quantized, **properties).verify()


def test_dynamic_resize_keeps_a_channel_axis() -> None:
    element = UniformType.per_axis("i8", 1, [0.5, 1.0])
    dims = (1, 2, -(2**63), -(2**63))
    operand = create_ssa_value(TensorType(element, dims))
    nn.ResizeNearestOp(operand, scales=[1.0, 1.0, 2.0, 2.0]).verify()
