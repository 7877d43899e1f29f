"""Reshapes on block grids: the verifier takes a result's type exactly if it gives every element
the scale that it had."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import TensorType
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams import QParams, Shape
from qdialect.ir.ops import FlattenOp, ReshapeOp
from qdialect.ir.quant import UniformType

ELEMENTS = 12
SHAPES: list[Shape] = [
    shape
    for rank in (1, 2, 3)
    for shape in product(range(1, ELEMENTS + 1), repeat=rank)
    if prod(shape) == ELEMENTS and shape.count(1) < 2
]


def _grids(shape: Shape) -> list[Shape]:
    return list(product(*([b for b in range(1, n + 1) if n % b == 0] for n in shape)))


def _encoded(scales: np.ndarray, blocks: Shape) -> QParams:
    """The block grid of `blocks` with the scale of each block's first element."""
    cells = scales[tuple(slice(None, None, b) for b in blocks)]
    return QParams.blockwise("i8", list(enumerate(blocks)), cells.shape, cells.ravel().tolist())


def _every(params: QParams, shape: Shape, blocks: Shape) -> np.ndarray:
    """The scale of each element."""
    scales = np.reshape(params.scale_list(), [n // b for n, b in zip(shape, blocks, strict=True)])
    for axis, block in enumerate(blocks):
        scales = np.repeat(scales, block, axis)
    return scales


def _is_taken(source: QParams, shape: Shape, result: QParams, target: Shape) -> bool:
    x = test.TestOp(result_types=[TensorType(UniformType(source), shape)]).results[0]
    op = ReshapeOp.create(operands=[x], result_types=[TensorType(UniformType(result), target)])
    try:
        op.verify()
    except VerifyException:
        return False
    return True


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_reshape_takes_exactly_the_grids_that_give_each_element_its_scale(shape: Shape) -> None:
    generator = np.random.default_rng(0)
    outcomes = {True: 0, False: 0}
    for target in SHAPES:
        for blocks in _grids(shape):
            scales = np.ones(shape)
            cells = scales[tuple(slice(None, None, b) for b in blocks)]
            cells[...] = generator.choice([0.5, 0.25, 2.0], cells.shape)
            source = _encoded(scales, blocks)
            scales = _every(source, shape, blocks).reshape(target)
            for wanted in _grids(target):
                result = _encoded(scales, wanted)
                is_right = np.array_equal(_every(result, target, wanted), scales)
                assert _is_taken(source, shape, result, target) == is_right
                outcomes[is_right] += 1
    assert min(outcomes.values()) > 0


def test_a_vector_becomes_a_grid_and_comes_back() -> None:
    scales = [0.5, 0.25, 0.125, 1.0, 2.0, 4.0]
    axis = QParams.per_axis("i8", 0, scales)
    grid = QParams.blockwise("i8", [(0, 1), (1, 1)], [2, 3], scales)
    other = QParams.blockwise("i8", [(0, 1), (1, 1)], [2, 3], [*scales[1:], scales[0]])
    assert _is_taken(axis, (6,), grid, (2, 3))
    assert _is_taken(grid, (2, 3), axis, (6,))
    assert not _is_taken(axis, (6,), other, (2, 3))
    assert not _is_taken(other, (2, 3), axis, (6,))


def test_flattening_knows_which_dimensions_become_one() -> None:
    params = QParams.per_axis("i8", 0, [0.5, 0.25, 0.125, 1.0])
    x = test.TestOp(result_types=[TensorType(UniformType(params), (4, -1, -1))]).results[0]
    kind = TensorType(UniformType(params), (4, -1))
    FlattenOp.create(operands=[x], result_types=[kind]).verify()
