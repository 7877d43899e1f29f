"""A batch norm of the three steps that it is lowered to.

    (x - mean) * factor + bias  =  batch_norm(x), scale = factor, variance = 1, epsilon = 0

with one number per channel in each step: the scale of the batch norm that was there is in
the factor. Exact in the reals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.behaviors.shapes import DYNAMIC, shape_of, tensor_type
from qdialect.numerics.contract import Contract
from qdialect.ops import (
    AddOp,
    BatchNormOp,
    ConstantOp,
    MulOp,
    SubOp,
    constant_array,
    constant_of,
    make_constant,
)
from qdialect.passes.importing.component_raising import hold, name_pieces, unwanted
from qdialect.passes.pair_contract import in_reals
from qdialect.rewrite import Refusal, Rewriter, Rule


@dataclass(frozen=True)
class _Steps:
    """The steps in order, the value they start from, and the constants they take."""

    ops: tuple[Operation, ...]
    input: SSAValue
    constants: tuple[ConstantOp, ...]


class RaiseBatchNorm(Rule[_Steps]):
    """Subtract, multiply and add one constant per channel; see the module."""

    name = "raise-batch-norm"

    def roots(self) -> Iterable[str]:
        return (AddOp.name,)

    def match(self, op: Operation) -> _Steps | None:
        ops: list[Operation] = []
        constants: list[ConstantOp] = []
        value = op.results[0]
        for kind in (AddOp, MulOp, SubOp):
            step = value.owner
            if not isinstance(step, kind):
                return None
            left, right = step.operands
            constant = constant_of(right)
            if constant is None and kind is not SubOp:
                left, constant = right, constant_of(left)
            if constant is None or not _is_column(constant.result, shape_of(value)):
                return None
            ops.insert(0, step)
            constants.insert(0, constant)
            value = left
        return _Steps(tuple(ops), value, tuple(constants))

    def check(self, match: _Steps) -> Contract | Refusal:
        values = [match.input, *(op.results[0] for op in match.ops)]
        if any(qparams_of(value) for value in values):
            return Refusal("quantized", "only steps on floats are a batch norm")
        if any(not op.results[0].has_one_use() for op in match.ops[:-1]):
            return Refusal("multi-use", "a step of the batch norm is also used elsewhere")
        if any(shape_of(value) != shape_of(match.input) for value in values):
            return Refusal("shape", "a step of the batch norm changes the shape")
        arrays = [constant_values(c.result, self.session) for c in match.constants]
        if any(array is None or not np.isfinite(array).all() for array in arrays):
            return Refusal("constants", "a constant is not finite, or its values are not known")
        *made, norm = self._make(match)
        refusal = unwanted(norm, self.session)
        for op in (norm, *made):
            op.erase()
        return refusal or in_reals(match.constants[0])

    def _make(self, match: _Steps) -> list[Operation]:
        """The four vectors and the op."""
        store, element = self.session.blobs, tensor_type(match.input).element_type
        mean, scale, bias = (
            constant_array(constant, store).reshape(-1) for constant in match.constants
        )
        vectors = (scale, bias, mean, np.ones_like(mean))
        made = [make_constant(vector, element, store) for vector in vectors]
        operands = [constant.result for constant in made]
        return [*made, BatchNormOp(match.input, *operands, epsilon=0.0)]

    def rewrite(self, match: _Steps, rewriter: Rewriter) -> None:
        *vectors, norm = self._make(match)
        root = match.ops[-1]
        mean, scale, bias = match.constants
        for vector, source in zip(vectors, (scale, bias, mean, None), strict=True):
            rewriter.insert(vector, root, keep=source)
        pieces: dict[str, Operation | None] = dict(
            zip(("sub_mean", "scaled"), match.ops[:-1], strict=True)
        )
        hold(norm, self.session, pieces, root)
        rewriter.insert(norm, root, keep=root)
        name_pieces(norm, self.session, root, pieces)
        rewriter.replace(root, norm.results)


def _is_column(value: SSAValue, shape: tuple[int, ...]) -> bool:
    """Whether there is one number for each index of dimension 1, and not one for all."""
    given = shape_of(value)
    rank = len(shape)
    if rank < 2 or len(given) > rank or shape[1] in (DYNAMIC, 1):
        return False
    padded = (*(1,) * (rank - len(given)), *given)
    return padded[1] == shape[1] and prod(given) == shape[1]
