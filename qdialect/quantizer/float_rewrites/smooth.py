"""Factors of channels where nothing takes them up but a product of their own.

The result of a layer norm that goes into a residual sum, or of a gelu, has channels that no
constant above can scale.  Where contractions of it lose much to a few large channels, they get

    %s = nn.mul %x, %factors {nn.key = "conv smoothed"}
    %y = nn.fully_connected %s, %w'            w'[o, c] = w[o, c] / factors[c]

and the product stays float, before the rounding (SmoothQuant: Xiao et al., 2022, with factors of
least loss).  One product serves all contractions of a value.  It costs a pass over the value, so
groups are left as they are unless that gains enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.channel_transforms import Term, least_factors
from qdialect.algebra.qparams import QParams, Storage
from qdialect.analysis.channel_groups import find_groups
from qdialect.ir.behaviors import Behavior
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import strings
from qdialect.ir.ops import MulOp, keys_of, make_constant, shape_of
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import UniformType, element_type, with_element
from qdialect.quantizer.float_rewrites.apply import replace_constants
from qdialect.quantizer.float_rewrites.base import ByFactors, FloatRewrite
from qdialect.quantizer.float_rewrites.terms import Costs, inner_channels
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.values import float_value, real_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Smoothed(ByFactors):
    """Contractions of one value, which has these labels for them alone, and their factors."""

    value: SSAValue
    ops: tuple[Operation, ...]
    axis: int
    labels: Labels

    @property
    def channels(self) -> int:
        return self.labels.size


@dataclass(frozen=True)
class Smooth(FloatRewrite[Smoothed]):
    """Scales what contractions take, by products of their own: the results of ops that the target
    has for floats alone, or (`on_codes`) of others, such as a gelu, that are then left in floats
    too, which may cost more than it gains.  A product has to gain a decibel."""

    name: str = "smooth"
    on_codes: bool = False
    worth: float = 1.0

    def choices(self, function: FuncOp, costs: Costs) -> Iterator[Smoothed]:
        for value, ops, axis, labels in _places(function, costs, on_codes=self.on_codes):
            count = labels.size + 1
            terms = _terms(value, ops, labels, costs)
            factors = least_factors(terms, count, np.arange(count) == 0)
            yield Smoothed(factors, value, ops, axis, labels)

    def change(self, chosen: Sequence[Smoothed], costs: Costs) -> Iterable[str]:
        weights: dict[tuple[Operation, int], Array] = {}
        for each in chosen:
            weights.update(_divided(each, costs))
        replace_constants(weights, costs.ctx)
        return [_multiplied(each, costs.ctx) for each in chosen]


def _places(
    function: FuncOp, costs: Costs, *, on_codes: bool
) -> Iterator[tuple[SSAValue, tuple[Operation, ...], int, Labels]]:
    """What contractions multiply with constants and no group scales; behind other ops that give
    codes, a product would round once more."""
    ctx = costs.ctx
    grouped = {value for group in find_groups(function, ctx) for value in group.values}
    by_value: dict[tuple[SSAValue, int], list[Operation]] = {}
    for op in function.body.block.ops:
        acc = costs.contraction(op, None)
        if acc is not None and op.operands[acc.lhs] in costs.known:
            by_value.setdefault((op.operands[acc.lhs], acc.lhs_axis(op)), []).append(op)
    for (value, axis), ops in by_value.items():
        owner = value.owner
        if value in grouped or not isinstance(owner, Operation) or not keys_of(owner):
            continue
        behavior = ctx.behaviors.get(owner)
        if behavior is None or behavior.accumulator is not None or behavior.commutes:
            continue
        if _runs_on_codes(owner, ctx, costs.recipe) != on_codes:
            continue
        shape = shape_of(value)
        extents = [shape[d] if d == axis else 1 for d in range(len(shape))]
        if extents[axis] > 1:
            labels = np.arange(1, extents[axis] + 1).reshape(extents)
            yield value, tuple(ops), axis, labels


def _runs_on_codes(op: Operation, ctx: QContext, recipe: Recipe) -> bool:
    """Whether the target runs an op on 8 bits, whatever they mean; composites (a norm) amplify."""
    if type(ctx.behaviors.get(op)) is Behavior and ctx.target.floats:
        return False
    params = QParams.per_tensor(Storage.of(recipe.activations), 2.0**-8, 0)
    types = [
        [with_element(v.type, UniformType(params)) if float_value(v) else v.type for v in values]
        for values in (op.operands, op.results)
    ]
    return ctx.target.refuses(op, types[0], types[1]) is None


def _terms(
    value: SSAValue, ops: Sequence[Operation], labels: Labels, costs: Costs
) -> Sequence[Term]:
    rounded = costs.of_value(value, labels, frozenset(ops))
    weights = [term for op in ops for term in costs.of_weights(op, value, labels)]
    return [*([] if rounded is None else [rounded]), *weights]


def _rounded(place: Smoothed) -> NDArray[np.float32]:
    """The factors as the product has them, which is rounded to its type once; weights are divided
    by these."""
    return place.factors.factors[1:].astype(np.float32)


def _divided(place: Smoothed, costs: Costs) -> Mapping[tuple[Operation, int], Array]:
    """The weights of the contractions behind the product."""
    found: dict[tuple[Operation, int], Array] = {}
    for op in place.ops:
        acc = costs.contraction(op, place.value)
        assert acc is not None
        array = real_array(op.operands[acc.rhs], costs.ctx.blobs)
        assert array is not None
        by_channel = _rounded(place).astype(np.float64)
        found[op, acc.rhs] = array / by_channel[inner_channels(op, acc)]
    return found


def _multiplied(place: Smoothed, ctx: QContext) -> str:
    """Multiply the value by its factors; the key of the product."""
    value, owner = place.value, place.value.owner
    assert isinstance(owner, Operation)
    key = f"{keys_of(owner)[0]} smoothed"
    shape = _rounded(place).reshape(place.labels.shape)
    constant = make_constant(shape, element_type(value.type), ctx.blobs)
    product = MulOp(value, constant.result)
    product.attributes[KEY] = strings([key])
    product.location = owner.location
    block = owner.parent
    assert block is not None
    block.insert_ops_after([constant, product], owner)
    value.replace_uses_with_if(product.results[0], lambda use: use.operation in place.ops)
    return key
