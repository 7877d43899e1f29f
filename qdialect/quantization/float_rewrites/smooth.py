"""Factors of channels where nothing takes them up but a product of their own.

The result of a layer norm that goes into a residual sum, or of a gelu, has channels that no
constant above can scale.  Where contractions of it lose much to a few large channels, they get

    %s = nn.mul %x, %factors {nn.key = "conv smoothed"}
    %y = nn.fully_connected %s, %w'            w'[o, c] = w[o, c] / factors[c]

and the product stays float, before the rounding (SmoothQuant: Xiao et al., 2022, with factors of
least loss).  One product serves all contractions of a value.  It costs a pass over the value, so
groups are left as they are unless they gain `WORTH`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.channel_groups import find_groups
from qdialect.behaviors import Behavior
from qdialect.context import QContext
from qdialect.dialects.onnx import strings
from qdialect.numerics.channel_transforms import Factors, Term, least_factors
from qdialect.ops import MulOp, keys_of, make_constant, shape_of
from qdialect.ops.keys import KEY
from qdialect.qparams import QParams, Storage
from qdialect.quant import UniformType, element_type, with_element
from qdialect.quantization.float_rewrites.apply import replace_constants
from qdialect.quantization.float_rewrites.base import Rewritten, mean_gain
from qdialect.quantization.float_rewrites.statistics import Statistics
from qdialect.quantization.float_rewrites.terms import Costs, inner_channels
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.values import float_value, real_array
from qdialect.reference import Interpreter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Labels = NDArray[np.int64]

WORTH = 1.0
"""How many dB a product has to gain."""


@dataclass(frozen=True)
class _Place:
    """Contractions of one value, which has these labels for them alone."""

    value: SSAValue
    ops: tuple[Operation, ...]
    axis: int
    labels: Labels


@dataclass(frozen=True)
class Smooth:
    """Scales what contractions take, by products of their own: the results of ops that the target
    has for floats alone, or (`on_codes`) of others, such as a gelu, that are then left in floats
    too, which may cost more than it gains."""

    name: str = "smooth"
    on_codes: bool = False

    def __call__(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Rewritten | None:
        """See `FloatRewrite`."""
        function = Interpreter(ctx, module).function()
        costs = Costs(ctx, statistics.of(function), recipe)
        chosen: list[tuple[_Place, Factors]] = []
        for place in _places(function, costs, on_codes=self.on_codes):
            count = int(place.labels.max()) + 1
            found = least_factors(_terms(place, costs), count, np.arange(count) == 0)
            if found.decibels >= WORTH:
                chosen.append((place, found))
        if not chosen:
            return None
        keys = [_smoothed(place, found.factors, costs) for place, found in chosen]
        gain = mean_gain([found for _, found in chosen])
        channels = sum(place.labels.size for place, _ in chosen)
        return Rewritten(len(chosen), channels, gain, frozenset(keys))


def _places(function: FuncOp, costs: Costs, *, on_codes: bool) -> Iterator[_Place]:
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
            yield _Place(value, tuple(ops), axis, labels)


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


def _terms(place: _Place, costs: Costs) -> Sequence[Term]:
    value = costs.of_value(place.value, place.labels, frozenset(place.ops))
    weights = [t for op in place.ops for t in costs.of_weights(op, place.value, place.labels)]
    return [*([] if value is None else [value]), *weights]


def _smoothed(place: _Place, factors: Array, costs: Costs) -> str:
    """Multiply the value by its factors and divide the weights; the key of the product."""
    value, owner, ctx = place.value, place.value.owner, costs.ctx
    assert isinstance(owner, Operation)
    # The product is rounded to its type once, and the weights by what it is rounded to.
    rounded = factors[1:].astype(np.float32)
    weights: dict[tuple[Operation, int], Array] = {}
    for op in place.ops:
        acc = costs.contraction(op, value)
        assert acc is not None
        array = real_array(op.operands[acc.rhs], ctx.blobs)
        assert array is not None
        weights[op, acc.rhs] = array / rounded.astype(np.float64)[inner_channels(op, acc)]
    replace_constants(weights, ctx)
    key = f"{keys_of(owner)[0]} smoothed"
    shape = rounded.reshape(place.labels.shape)
    constant = make_constant(shape, element_type(value.type), ctx.blobs)
    product = MulOp(value, constant.result)
    product.attributes[KEY] = strings([key])
    product.location = owner.location
    block = owner.parent
    assert block is not None
    block.insert_ops_after([constant, product], owner)
    value.replace_uses_with_if(product.results[0], lambda use: use.operation in place.ops)
    return key
