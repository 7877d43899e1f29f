"""Ops of a quantized model that are faster on floats.

A model that comes quantized says what is rounded where.  To compute an op on floats drops the
rounding of what it takes and gives, so that is done at `relaxed` only, and where a clip at 0 is no
ReLU.  Which ops, the times of the runtime say, as in quantizing (`quantizer.precision`): of the
model as it was optimized, and of the model without the casts that can go.

For example, where the second convolution and all between are faster on floats,

    %1 = quant.dcast %0 : !q to !f          %2 = nn.conv2d %1, ... : !f
    %3 = quant.qcast %2 : !f to !p          %4 = quant.dcast %3 : !p to !f
    %5 = nn.conv2d %4, ... : !f

becomes

    %1 = quant.dcast %0 : !q to !f          %2 = nn.conv2d %1, ... : !f
    %5 = nn.conv2d %2, ... : !f
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.analysis.codes import qparams_of
from qdialect.ir.ops import ReluOp
from qdialect.ir.quant import DCastOp, QCastOp
from qdialect.passes.casts.cast_rules import DequantizeOfQuantize
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.quantizer.precision import Times, plan
from qdialect.quantizer.recipe import Precision
from qdialect.quantizer.selection import concerns
from qdialect.quantizer.values import float_value
from qdialect.rewrite import Refusal
from qdialect.workflows.candidates import attributed, conversion_rates
from qdialect.workflows.model import Model, run_passes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.targets.base import Target

    Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class OnFloats:
    """A quantized model some of whose ops are on floats, by number of ops, and how many are."""

    model: Model
    count: int
    of: int


def with_ops_on_floats(
    model: Model, optimized: Model, target: Target, inputs: Arrays, seconds: float
) -> OnFloats | None:
    """The model with the ops on floats that are faster so, by about so many seconds of timing for
    `inputs`; None where none is. `optimized` is what passes made of it."""
    from qdialect.plugins.onnx.write import write_model
    from qdialect.plugins.onnx.write.node_times import node_times

    quantized = _quantized(model)
    if not quantized:
        return None
    floats, ops = _dropped(model, None)
    function = floats.function()
    executed = run_passes(floats, optimize_pipeline(target, "exact"), target=target)
    files = [write_model(each.module, each.ctx).whole() for each in (executed, optimized)]
    nodes = node_times(files, [inputs] * len(files), seconds)
    by_state = (Precision.FLOAT, Precision.CODES)
    taken = {s: attributed(function, floats.ctx, n) for s, n in zip(by_state, nodes, strict=True)}
    places = {op: place for place, op in enumerate(function.body.block.ops)}
    able = {places[ops[number]] for number in quantized}
    times = Times(taken, {Precision.CODES: able}, conversion_rates())
    states = plan(function, floats.ctx, times).states
    on_floats = {n for n, op in enumerate(ops) if states[places[op]] is Precision.FLOAT}
    if not on_floats & quantized:
        return None
    return OnFloats(_dropped(model, on_floats)[0], len(on_floats & quantized), len(quantized))


def _computing(model: Model) -> list[Operation]:
    """The ops that compute floats, casts and constants left out, in program order: the same ones
    with and without casts."""
    return [op for op in model.function().body.block.ops if concerns(op)]


def _quantized(model: Model) -> set[int]:
    """Which of those are on codes as runtimes take them: what they take were codes, or is made by
    such an op, and what they give becomes codes, or is taken by such."""
    ops = _computing(model)
    fed: set[Operation] = set()
    for op in ops:
        above = [value.owner for value in op.operands if float_value(value)]
        if above and all(isinstance(owner, DCastOp) or owner in fed for owner in above):
            fed.add(op)
    ends: set[Operation] = set()
    for op in reversed(ops):
        users = [use.operation for result in op.results for use in result.uses]
        if users and all(isinstance(user, QCastOp) or user in ends for user in users):
            ends.add(op)
    return {number for number, op in enumerate(ops) if op in fed and op in ends}


def _dropped(model: Model, on_floats: Collection[int] | None) -> tuple[Model, Sequence[Operation]]:
    """A copy without the casts between ops on floats (None: all are), as far as `relaxed` drops
    them, and its ops that compute. Where codes end at 0, a ReLU takes the place of the casts."""
    copy = Model(model.module.clone(), model.ctx.clone())
    ops = _computing(copy)
    chosen = {op for n, op in enumerate(ops) if on_floats is None or n in on_floats}
    rule = DequantizeOfQuantize(copy.ctx)
    for cast in list(copy.function().body.block.ops):
        if not isinstance(cast, DCastOp) or not isinstance(cast.input.owner, QCastOp):
            continue
        value, match = cast.input.owner.input, rule.match(cast)
        made = not isinstance(value.owner, Operation) or value.owner in chosen
        uses = [use for use in cast.result.uses if use.operation in chosen]
        if match is None or not made or not uses:
            continue
        refusal = rule.check(match)
        if isinstance(refusal, Refusal):
            if refusal.code != "clips" or not _begins_at_zero(cast):
                continue
            clipped = ReluOp(value, result_types=[value.type])
            assert cast.parent is not None
            cast.parent.insert_op_before(clipped, cast)
            value = clipped.results[0]
        for use in uses:
            use.operation.operands[use.index] = value
    return copy, ops


def _begins_at_zero(cast: DCastOp) -> bool:
    """Whether the least code stands for 0."""
    params = qparams_of(cast.input)
    return params is not None and params.is_per_tensor and params.zero_point == params.storage.min
