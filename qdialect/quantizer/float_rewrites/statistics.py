"""What float values are on samples, channel by channel: ranges, means and mean squares.

A value of shape [N, C, H, W] whose channels lie along dimension 1 has statistics of shape
[1, C, 1, 1]: which dimensions have channels is asked of whoever measures, and all others are
reduced.  The model is run as it is, sample by sample; of an array nothing stays but its sums, so
time is linear in the ops and memory in the channels.

Values are named by their number in the function: arguments first, then the results of ops in
order.  So statistics of a module are also those of its clone, and of what it is once constants
are others, but not once its ops are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qdialect.analysis.channel_groups import find_groups, find_shifts
from qdialect.analysis.channel_mixing import find_blocks
from qdialect.interpreter import Interpreter, argument_names
from qdialect.ir.context import QContext
from qdialect.quantizer.float_rewrites.importance import importances
from qdialect.quantizer.profile.engines import open_engine
from qdialect.quantizer.profile.instrument import Instrumented, Observed
from qdialect.quantizer.values import float_value, is_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Arrays = Mapping[str, NDArray[Any]]

ROWS = 64
"""At how many places of a sample whole vectors of channels are kept."""


@dataclass
class Channels:
    """One value: `low`, `high`, `mean` and `power` (mean square) of each channel, all of the rank
    of the value with extent 1 along dimensions that have no channels; `rows` [places, channels]
    are some whole vectors, where they were asked for."""

    low: Array
    high: Array
    mean: Array
    power: Array
    rows: NDArray[np.float32] | None = None

    def total_power(self) -> float:
        """The mean square of the whole value."""
        return float(self.power.mean())


@dataclass
class Statistics:
    """By number of a value, what is known of it, over `count` samples, and how much of the noise in
    it comes out (`importance`), where that was tried."""

    channels: dict[int, Channels] = field(default_factory=dict[int, Channels])
    count: int = 0
    importance: Mapping[int, float] = field(default_factory=dict[int, float])

    def of(self, function: FuncOp) -> Mapping[SSAValue, Channels]:
        """The same by the values of a function that has as many."""
        values = numbered(function)
        return {values[number]: found for number, found in self.channels.items()}

    def importance_of(self, function: FuncOp) -> Mapping[SSAValue, float]:
        """The importance by the values of a function that has as many."""
        values = numbered(function)
        return {values[number]: found for number, found in self.importance.items()}


def numbered(function: FuncOp) -> Sequence[SSAValue]:
    """The values of a function by their number."""
    block = function.body.block
    return [*block.args, *(result for op in block.ops for result in op.results)]


def measured_along(
    module: ModuleOp,
    ctx: QContext,
    samples: Iterable[Arrays],
    engine: str,
    kept: Mapping[int, Sequence[int]],
    rows: frozenset[int] = frozenset(),
) -> Statistics:
    """Statistics of all float values but constants; those numbered in `kept` along these
    dimensions, others as a whole. Of values numbered in `rows` whole vectors are kept too."""
    clone = module.clone()
    function = Interpreter(ctx, clone).function()
    plan = Instrumented(clone, function)
    values = numbered(function)
    arguments: Sequence[SSAValue] = function.body.block.args
    names: dict[SSAValue, str] = dict(zip(arguments, argument_names(function), strict=True))
    dims = {str(n): tuple(kept.get(n, ())) for n in range(len(values))}
    for number, value in enumerate(values):
        if not float_value(value) or is_constant(value):
            continue
        if value in names:
            plan.arguments[names[value]] = (str(number),)
        else:
            plan.observed.append(Observed((str(number),), value))
    if not plan.observed:
        return Statistics()
    running, sums, count = open_engine(engine, plan, ctx), dict[str, _Sums](), 0
    for sample in samples:
        count += 1
        for (key,), array in running.run(sample):
            found = sums.setdefault(key, _Sums(dims[key], keeps_rows=int(key) in rows))
            found.add(array)
    made = {int(key): found.channels() for key, found in sums.items() if found.count}
    return Statistics(made, count)


@dataclass
class _Sums:
    """The sums of one value."""

    dims: tuple[int, ...]
    keeps_rows: bool = False
    count: int = 0
    low: Any = np.inf
    high: Any = -np.inf
    total: Any = 0.0
    squares: Any = 0.0
    rows: list[NDArray[np.float32]] = field(default_factory=list["NDArray[np.float32]"])

    def add(self, array: NDArray[Any]) -> None:
        """One more sample; elements that are no numbers say nothing."""
        if not array.size:
            return
        found = array.astype(np.float64)
        if not np.isfinite(found).all():
            found = np.where(np.isfinite(found), found, 0.0)
        others = tuple(d for d in range(found.ndim) if d not in self.dims)
        self.low = np.minimum(self.low, found.min(axis=others, keepdims=True))
        self.high = np.maximum(self.high, found.max(axis=others, keepdims=True))
        self.total = self.total + found.mean(axis=others, keepdims=True)
        self.squares = self.squares + np.square(found).mean(axis=others, keepdims=True)
        self.count += 1
        if self.keeps_rows:
            self.rows.append(_vectors(found, self.dims))

    def channels(self) -> Channels:
        """What they come to."""
        rows = np.concatenate(self.rows) if self.rows else None
        return Channels(
            self.low, self.high, self.total / self.count, self.squares / self.count, rows
        )


def _vectors(array: Array, dims: Sequence[int]) -> NDArray[np.float32]:
    """Some vectors along dimensions, evenly spread over the others: [places, channels]."""
    last = np.moveaxis(array, dims, range(array.ndim - len(dims), array.ndim))
    channels = int(np.prod([array.shape[d] for d in dims]))
    vectors = last.reshape(-1, channels)
    places = np.unique(np.linspace(0, len(vectors) - 1, min(ROWS, len(vectors))).astype(int))
    return vectors[places].astype(np.float32)


def measured(module: ModuleOp, ctx: QContext, samples: Sequence[Arrays], engine: str) -> Statistics:
    """Statistics along all dimensions in which the channels of groups are, or those of what
    contractions multiply with constants; with whole vectors of what may be mixed, and what the
    rounding of each value is worth."""
    function = Interpreter(ctx, module).function()
    numbers = {value: number for number, value in enumerate(numbered(function))}
    mixed = [group for mixable in find_blocks(function, ctx) for group in mixable.groups]
    kept: dict[int, set[int]] = {}
    for group in [*find_groups(function, ctx), *find_shifts(function, ctx), *mixed]:
        for value, labels in group.values.items():
            dims = (d for d in range(labels.ndim) if labels.shape[d] > 1)
            kept.setdefault(numbers[value], set()).update(dims)
    for op in function.body.block.ops:
        behavior = ctx.behaviors.get(op)
        sums = None if behavior is None else behavior.accumulator
        if sums is not None and sums.channels is not None and is_constant(op.operands[sums.rhs]):
            value = op.operands[sums.lhs]
            kept.setdefault(numbers[value], set()).add(sums.lhs_axis(op))
    along = {number: sorted(dims) for number, dims in kept.items()}
    rows = frozenset(numbers[value] for group in mixed for value in group.values)
    found = measured_along(module, ctx, samples, engine, along, rows)
    powers = {number: each.total_power() for number, each in found.channels.items()}
    return replace(found, importance=importances(module, ctx, powers, samples, engine))
