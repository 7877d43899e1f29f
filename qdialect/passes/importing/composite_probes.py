"""Probes: which composite op a piece may be the last one of, by the kind of that piece.

A probe is a kind of op, the types of its operands or the constants that they are, and its
properties, read from the graph above the piece. It is a guess: `component_matching` compares the
declared pieces of the op with the graph and decides. For

    %0 = nn.sigmoid %x : (!f) -> !f
    %1 = nn.mul %x, %0 : (!f, !f) -> !f

the probes of %1 are swish, hard_swish, gelu and layer norms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.behaviors.shapes import DYNAMIC, shape_of
from qdialect.context import QContext
from qdialect.ops import (
    AddOp,
    AttentionOp,
    AveragePoolOp,
    BatchNormOp,
    ClipOp,
    ConstantOp,
    DivOp,
    HardSigmoidOp,
    HardSwishOp,
    LayerNormOp,
    LrnOp,
    MatMulOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    NNOp,
    SigmoidOp,
    SoftmaxOp,
    SqueezeOp,
    SubOp,
    TransposeOp,
    make_constant,
)
from qdialect.ops.functions import GeluOp, PowOp, PReluOp, SqrtOp, SwishOp
from qdialect.ops.reduction import ReduceMeanOp, ReduceOp
from qdialect.ops.shapes import normalize_axes
from qdialect.passes.importing.component_matching import (
    as_float,
    number_of,
    numbers_of,
    rounded,
    unrounded,
)
from qdialect.quant import element_type

Probe = tuple[type[NNOp], "Sequence[Attribute | ConstantOp]", dict[str, Any]]


def _of_products(op: Operation, session: QContext) -> Iterator[Probe]:
    types = [op.results[0].type]
    yield SwishOp, types, {}
    for gate in (unrounded(operand).owner for operand in op.operands):
        alpha = _slope(gate.operands[0], session) if isinstance(gate, SigmoidOp) else None
        if alpha is not None:
            yield SwishOp, types, {"alpha": alpha}
    yield HardSwishOp, types, {}
    yield GeluOp, types, {}
    yield GeluOp, types, {"approximate": "tanh"}
    yield from _lrns(op, session)
    if not _is_shifted(op.results[0]):
        yield from _layer_norms(op, session, vectors=1)


def _is_shifted(value: SSAValue) -> bool:
    """Whether a smaller tensor is added: the bias that belongs to it."""
    value = rounded(value)
    use = value.first_use
    if use is None or not value.has_one_use() or not isinstance(use.operation, AddOp):
        return False
    return shape_of(use.operation.operands[1 - use.index]) != shape_of(value)


def _of_sums(op: Operation, session: QContext) -> Iterator[Probe]:
    yield from _layer_norms(op, session, vectors=2)
    yield from _batch_norms(op, session)


def _batch_norms(op: Operation, session: QContext) -> Iterator[Probe]:
    """A batch norm of variance 1, if a mean, a factor and a bias per channel are above."""
    value, vectors = op.results[0], list[NDArray[Any]]()
    for kind in (AddOp, MulOp, SubOp):
        step = unrounded(value).owner
        if not isinstance(step, kind):
            return
        found = [_column(operand, shape_of(value), session) for operand in step.operands]
        at = 1 if kind is SubOp or found[1] is not None else 0
        if (vector := found[at]) is None:
            return
        vectors.insert(0, vector)
        value = step.operands[1 - at]
    mean, scale, bias = vectors
    element = element_type(as_float(op.results[0].type))
    numbers = (scale, bias, mean, np.ones_like(mean))
    constants = [make_constant(each, element, session.blobs) for each in numbers]
    yield BatchNormOp, [op.results[0].type, *constants], {"epsilon": 0.0}


def _column(value: SSAValue, shape: tuple[int, ...], session: QContext) -> NDArray[Any] | None:
    """The finite numbers of a constant that has one for each index of dimension 1, not one for
    all."""
    extents, rank = shape_of(value), len(shape)
    if rank < 2 or len(extents) > rank or shape[1] in (DYNAMIC, 1):
        return None
    padded = (*(1,) * (rank - len(extents)), *extents)
    array = numbers_of(value, session) if padded[1] == prod(extents) == shape[1] else None
    return None if array is None or not np.isfinite(array).all() else array.reshape(-1)


def _layer_norms(op: Operation, session: QContext, vectors: int) -> Iterator[Probe]:
    """A layer norm over the last dimensions, if there is a square root above."""
    operands: list[SSAValue] = []
    value, above = op.results[0], op
    for _ in range(vectors):
        inner = above.operands
        large = [v for v in inner if shape_of(v) == shape_of(op.results[0])]
        small = [v for v in inner if shape_of(v) != shape_of(op.results[0])]
        owner = unrounded(large[0]).owner if len(large) == 1 else None
        if len(small) != 1 or not isinstance(owner, Operation):
            return
        operands.insert(0, small[0])
        value, above = large[0], owner
    root = _above(value, (DivOp.name, SqrtOp.name), (1, 0))
    epsilon = None
    axes: tuple[int, ...] = ()
    for candidate in () if root is None else root.operands:
        owner = unrounded(candidate).owner
        number = number_of(candidate, session)
        epsilon = epsilon if number is None else float(number)
        if isinstance(owner, ReduceOp):
            axes = normalize_axes(owner.values["axes"], len(shape_of(owner.operands[0])))
    rank = len(shape_of(op.results[0]))
    if epsilon is None or not axes or axes != tuple(range(axes[0], rank)):
        return
    axis = -1 if axes[0] == rank - 1 else axes[0]
    types = [op.results[0].type, *(v.type for v in operands)]
    yield LayerNormOp, types, {"axis": axis, "epsilon": epsilon}


def _above(value: SSAValue, names: Sequence[str], path: Sequence[int]) -> Operation | None:
    """The op above `value` by ops of these names, each at an operand of the one before."""
    op: Operation | None = None
    for name, index in zip(names, path, strict=True):
        owner = unrounded(value).owner
        if not isinstance(owner, Operation) or owner.name != name:
            return None
        op, value = owner, owner.operands[index]
    last = unrounded(value).owner
    return last if op is not None and isinstance(last, Operation) else None


def _of_quotients(op: Operation, session: QContext) -> Iterator[Probe]:
    if number_of(op.operands[1], session) is not None:
        yield HardSwishOp, [op.results[0].type], {}
    counted = unrounded(op.operands[0]).owner
    if isinstance(counted, ReduceOp):
        yield ReduceMeanOp, [counted.operands[0].type], _reduced(counted)
    total = unrounded(op.operands[1]).owner
    if isinstance(total, ReduceOp):
        rank = len(shape_of(op.results[0]))
        axes = normalize_axes(total.values["axes"], len(shape_of(total.operands[0])))
        if len(axes) == 1:
            axis = -1 if axes[0] == rank - 1 else axes[0]
            yield SoftmaxOp, [op.results[0].type], {"axis": axis}


def _of_clips(op: Operation, session: QContext) -> Iterator[Probe]:
    """A hard-sigmoid, if a line is clipped to 0 and 1."""
    values = cast("NNOp", op).values
    shifted = unrounded(op.operands[0]).owner
    if (values.get("min"), values.get("max")) != (0.0, 1.0) or not isinstance(shifted, AddOp):
        return
    for scaled, offset in (shifted.operands, shifted.operands[::-1]):
        beta, alpha = number_of(offset, session), _slope(scaled, session)
        if beta is not None and alpha is not None:
            yield HardSigmoidOp, [op.results[0].type], {"alpha": alpha, "beta": float(beta)}


def _slope(value: SSAValue, session: QContext) -> float | None:
    """The number by which the op that makes a value multiplies."""
    op = unrounded(value).owner
    if not isinstance(op, MulOp | DivOp):
        return None
    numbers = [number_of(operand, session) for operand in op.operands]
    if isinstance(op, DivOp):
        return 1.0 / float(numbers[1]) if numbers[1] else None
    found = next((number for number in numbers if number is not None), None)
    return None if found is None else float(found)


def _lrns(op: Operation, session: QContext) -> Iterator[Probe]:
    """A local response norm, if a power is above whose base is a shifted mean of squares."""
    for operand in op.operands:
        power = unrounded(operand).owner
        shifted = unrounded(power.operands[0]).owner if isinstance(power, PowOp) else None
        if not isinstance(power, PowOp) or not isinstance(shifted, AddOp):
            continue
        for scaled, offset in (shifted.operands, shifted.operands[::-1]):
            bias, alpha = number_of(offset, session), _slope(scaled, session)
            product = unrounded(scaled).owner
            if bias is None or alpha is None or not isinstance(product, Operation):
                continue
            pool = next(filter(None, map(_pool_above, product.operands)), None)
            if pool is not None:
                yield (
                    LrnOp,
                    [op.results[0].type],
                    {
                        "size": pool.values["kernel"][0],
                        "alpha": alpha,
                        "beta": -power.values["exponent"],
                        "bias": float(bias),
                    },
                )


def _pool_above(value: SSAValue) -> AveragePoolOp | None:
    squeeze = unrounded(value).owner
    pool = unrounded(squeeze.operands[0]).owner if isinstance(squeeze, SqueezeOp) else None
    return pool if isinstance(pool, AveragePoolOp) else None


def _of_matmuls(op: Operation, session: QContext) -> Iterator[Probe]:
    """Attention, if a softmax of scaled products is above."""
    top = unrounded(op.operands[0]).owner
    if not isinstance(top, SoftmaxOp) or len(shape_of(op.results[0])) != 4:
        return
    scores, masks = unrounded(top.operands[0]), list[SSAValue]()
    if isinstance(scores.owner, AddOp):
        summed = scores.owner.operands
        found = [v for v in summed if isinstance(unrounded(v).owner, MulOp | DivOp)]
        if not found:
            return
        masks = [v for v in summed if v is not found[0]]
        scores = unrounded(found[0])
    scale = _slope(scores, session)
    if scale is None or not isinstance(scores.owner, Operation):
        return
    above = [unrounded(v).owner for v in scores.owner.operands]
    products = [owner for owner in above if isinstance(owner, MatMulOp)]
    if len(products) != 1:
        return
    query, turned = products[0].operands
    turn = unrounded(turned).owner
    if not isinstance(turn, TransposeOp) or turn.values["perm"] != (0, 1, 3, 2):
        return
    values = [query, turn.operands[0], op.operands[1], *masks]
    yield AttentionOp, [v.type for v in values], {"scale": scale}


def _of_extrema(op: Operation, session: QContext) -> Iterator[Probe]:
    """A PReLU, if one operand is a multiple of the other."""
    for operand in op.operands:
        product = unrounded(operand).owner
        if not isinstance(product, MulOp):
            continue
        for x, factor in (product.operands, product.operands[::-1]):
            slopes = numbers_of(factor, session)
            if slopes is not None:
                element = element_type(as_float(op.results[0].type))
                slope = make_constant(slopes, element, session.blobs)
                yield PReluOp, [x.type, slope], {}


def _reduced(op: ReduceOp) -> dict[str, Any]:
    return {name: op.values[name] for name in ("axes", "keepdims")}


PROBES: Mapping[str, Callable[[Operation, QContext], Iterator[Probe]]] = {
    MulOp.name: _of_products,
    AddOp.name: _of_sums,
    DivOp.name: _of_quotients,
    ClipOp.name: _of_clips,
    MatMulOp.name: _of_matmuls,
    MaximumOp.name: _of_extrema,
    MinimumOp.name: _of_extrema,
}
