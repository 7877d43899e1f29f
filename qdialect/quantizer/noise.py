"""An estimate of what the quantization of each op alone does to the outputs, without running.

Rounding to steps of s adds noise of power s^2/12 (uniform and independent of the value: Bennett,
1948), rounded weights W' add that of the products with W' - W.  The second is nearly the same at
all places of a channel, so a mean does not lessen it.  Op by op noise has a gain from an operand to
the result, from what the profile says of values:

    elementwise           the mean of (df/dx)^2 over the values of the operands
    a mean of k elements  1/k, of the noise of weights 1
    moved elements        their share of the result
    anything else         noise over signal stays

One walk from the outputs up multiplies gains and adds over users, for each output; the walk is
linear in ops, each weight is read once.  The result is a ratio, noise over signal power, as
`sensitivity` measures it, but one network's channels are not alike, so its ranks are a guess where
nothing can be run, and its size is right within a factor that a trial tells (`scaled`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.analysis.cost import elements
from qdialect.ir.behaviors import Behavior
from qdialect.ir.context import QContext
from qdialect.ir.ops import keys_of
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.sensitivity import kernel_name, value_name
from qdialect.quantizer.values import float_value, only_user, real_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Formula = Callable[[Sequence[Array]], Array]

K = TypeVar("K", bound=Hashable)

POINTS = 128
"""At how many points an elementwise op is looked at."""
_STEP = 1e-4
"""How far apart, over the range of the operand, differences are taken."""


def estimated_losses(selection: Selection, grids: Grids) -> Mapping[str, float]:
    """The noise over signal of the worst output when one thing is rounded alone, with these grids,
    under the names of `sensitivity.Measurement`: each op that is quantized and is no mere movement,
    the weights and result of each that has weights, and each value."""
    noise, found = _Noise(selection), dict[str, float]()
    for op, behavior in selection.ops.items():
        if not behavior.commutes and keys_of(op):
            found[keys_of(op)[0]] = noise.of_op(op, behavior, grids, operands=True)
        if behavior.has_weights and keys_of(op):
            found[kernel_name(keys_of(op)[0])] = noise.of_op(op, behavior, grids, operands=False)
    for value, params in grids.qparams.items():
        if keys := selection.values.keys(value):
            found[value_name(keys[0])] = noise.of_value(value, params)
    return found


def scaled(
    losses: Mapping[K, float], trials: Sequence[tuple[frozenset[K], float]]
) -> Mapping[K, float]:
    """Losses corrected by trials: of models that had these ops quantized, what they lost.

    Losses are taken to add.  Each trial multiplies those of its ops by what was measured over their
    sum; later trials, which should be those nearest to what is asked, have the last word: after
    them their sum is what they measured.  A trial that lost nothing, or no number, says nothing.
    """
    found = dict(losses)
    for keys, measured in trials:
        total = sum(found[key] for key in keys if key in found)
        if total > 0 and 0 < measured < math.inf and total < math.inf:
            for key in keys & found.keys():
                found[key] *= measured / total
    return found


class _Noise:
    """How much of noise at a value arrives at the outputs, relative to their signal."""

    def __init__(self, selection: Selection) -> None:
        values = self._values = selection.values
        self._unrounded = selection.float_results()
        self._ctx: QContext = values.ctx
        self._powers: dict[SSAValue, float] = {}
        self._samples: dict[SSAValue, Array | None] = {}
        last = values.block.last_op
        assert isinstance(last, ReturnOp)
        outputs = [value for value in last.operands if float_value(value)]
        #: functions of a value whose users took them along with the value itself
        self._joint: set[Operation] = set()
        #: by value: noise over signal at each output, per power of noise at the value, of noise
        #: that is independent at each place, and of noise that is the same at all
        self._arrives: dict[SSAValue, Array] = {}
        self._nothing = np.zeros((2, max(len(outputs), 1)))
        for number, value in enumerate(outputs):
            power = self._power(value)
            one = self._nothing.copy()
            one[:, number] = 1 / power if power else 0.0
            self._add(value, one)
        for op in reversed(list(values.block.ops)):
            self._up(op)

    def of_value(self, value: SSAValue, params: QParams) -> float:
        """What arrives of the rounding of a value."""
        return float((_rounding(params) * self._arrives.get(value, self._nothing)[0]).max())

    def of_op(self, op: Operation, behavior: Behavior, grids: Grids, *, operands: bool) -> float:
        """What arrives of all that is rounded where the op is quantized alone; without `operands`
        of its weights and results."""
        total = self._nothing[0]
        for result in op.results:
            arrives = self._arrives.get(result, self._nothing)
            params = None if result in self._unrounded else grids.qparams.get(result)
            if params is not None:
                total = total + _rounding(params) * arrives[0]
        arrives = self._arrives.get(op.results[0], self._nothing)
        for index, value in enumerate(op.operands):
            rounds = operands and float_value(value)
            params = grids.operand(op, index) if rounds else None
            if params is not None:
                gain = self._gain(op, behavior, index)
                total = total + _rounding(params) * gain[0] * arrives[0]
        sums = behavior.accumulator
        if sums is not None and (op, sums.rhs) in grids.constants:
            real = real_array(op.operands[sums.rhs], self._ctx.blobs)
            assert real is not None
            error = grids.constants[op, sums.rhs].real() - real
            made = _per_result(error, sums.rhs_axis(op)) * self._power(op.operands[sums.lhs])
            total = total + made * arrives[1]
        return float(total.max())

    def _up(self, op: Operation) -> None:
        """Hand what arrives of the results on to the operands."""
        arrives = [self._arrives[value] for value in op.results if value in self._arrives]
        if not arrives:
            return
        below = np.sum(arrives, axis=0)
        behavior = self._ctx.behaviors.get(op)
        if op in self._joint:
            return
        for index, value in enumerate(op.operands):
            if float_value(value):
                self._add(value, self._gain(op, behavior, index) * below)

    def _add(self, value: SSAValue, more: Array) -> None:
        self._arrives[value] = self._arrives.get(value, self._nothing) + more

    def _gain(self, op: Operation, behavior: Behavior | None, index: int) -> Array:
        """The power of the noise in a result per power of noise in an operand: of noise that is
        independent at each place, and of noise that is the same at all; of shape [2, 1]."""
        value, result = op.operands[index], op.results[0]
        power = self._power(value)
        kept = self._power(result) / power if power else 0.0
        if behavior is None or not float_value(result):
            return _both(kept)
        share = elements(value) / max(elements(result), 1)
        if behavior.movement is not None:
            return _both(min(share, 1.0))
        if behavior.elementwise:
            found = self._slope(op, behavior, index)
            return _both(kept if found is None else found)
        sums = behavior.accumulator
        if sums is not None and index == sums.lhs:
            weights = real_array(op.operands[sums.rhs], self._ctx.blobs)
            if weights is not None:
                return _both(min(kept, _per_result(weights, sums.rhs_axis(op))))
        if sums is None and not behavior.commutes and share > 1:
            return np.array([[kept / share], [kept]])
        return _both(kept)

    def _slope(self, op: Operation, behavior: Behavior, index: int) -> float | None:
        """The mean square of the derivative of an elementwise op by one operand, each operand at
        points of its own distribution; None where the formula does not run on them, or depends on
        how the operands go together (a product)."""
        found = self._values.range(op.operands[index])
        step = _STEP * (found.high - found.low) if found is not None else 0.0
        function = _function(op, behavior)
        if function is None or not step:
            return None
        inner = self._inner(op, index)
        with np.errstate(all="ignore"):
            try:
                before, after = (self._operands(op, index, move, inner) for move in (0.0, step))
                slopes = (function(after) - function(before)) / step
            except (ArithmeticError, TypeError, ValueError, IndexError):
                return None
        slopes = slopes[np.isfinite(slopes)]
        alone = len(op.operands) == 1 or inner or np.ptp(slopes) <= _STEP * np.abs(slopes).max()
        return float(np.square(slopes).mean()) if len(slopes) and alone else None

    def _inner(self, op: Operation, index: int) -> dict[int, Formula]:
        """By number: the other operands that are functions of this operand, and only go into the
        op (the sigmoid of x, where x is multiplied with it)."""
        value = op.operands[index]
        found: dict[int, Formula] = {}
        for number, other in enumerate(op.operands):
            owner = other.owner
            if number == index or not isinstance(owner, Operation) or len(owner.operands) != 1:
                continue
            behavior = self._ctx.behaviors.get(owner)
            if behavior is None or not behavior.elementwise or owner.operands[0] is not value:
                continue
            function = _function(owner, behavior)
            if function is not None and only_user(other) is op:
                found[number] = function
                self._joint.add(owner)
        return found

    def _operands(
        self, op: Operation, index: int, move: float, inner: Mapping[int, Formula]
    ) -> list[Array]:
        """Points of all operands, one of them moved; ValueError where there are none."""
        points = [self._points(value, number) for number, value in enumerate(op.operands)]
        points[index] = None if (one := points[index]) is None else one + move
        for number, function in inner.items():
            points[number] = None if (moved := points[index]) is None else function([moved])
        known = [each for each in points if each is not None]
        if len(known) < len(points):
            raise ValueError("no points")
        return known

    def _points(self, value: SSAValue, number: int) -> Array | None:
        """Values at evenly spread ranks, in an order that is another for each operand."""
        if value not in self._samples:
            self._samples[value] = self._spread(value)
        found = self._samples[value]
        # Odd numbers have no divisor in common with POINTS, which is a power of two.
        return None if found is None else found[np.arange(POINTS) * (2 * number + 1) % POINTS]

    def _spread(self, value: SSAValue) -> Array | None:
        ranks = (np.arange(POINTS) + 0.5) / POINTS
        if not float_value(value):
            array = real_array(value, self._ctx.blobs)
            if array is None or not array.size:
                return None
            return np.sort(array.reshape(-1))[(ranks * array.size).astype(int)]
        data = self._values.data(value)
        if data is None or not data.size:
            found = self._values.range(value)
            return None if found is None else found.low + ranks * (found.high - found.low)
        middles = np.append((data.left + data.right) / 2, 0.0)
        counts = np.append(data.counts, data.zeros)
        order = np.argsort(middles, kind="stable")
        ends = np.cumsum(counts[order]) / counts.sum()
        places = np.minimum(np.searchsorted(ends, ranks), len(middles) - 1)
        return middles[order][places]

    def _power(self, value: SSAValue) -> float:
        """The power of a value: its mean magnitude squared, since in the mean of squares a few
        large channels stand for all; of one that only has a range, as if it were uniform there."""
        if value not in self._powers:
            self._powers[value] = self._mean_magnitude(value) ** 2
        return self._powers[value]

    def _mean_magnitude(self, value: SSAValue) -> float:
        data = self._values.data(value)
        if data is not None and data.size:
            middles = np.abs(data.left + data.right) / 2
            return float((middles * data.counts).sum()) / data.size
        found = self._values.range(value)
        if found is None or not found.high > found.low:
            return 0.0
        below, above = max(-found.low, 0.0), max(found.high, 0.0)
        return (below * below + above * above) / 2 / (found.high - found.low)


def _rounding(params: QParams) -> float:
    """The power of the noise that rounding to codes adds."""
    return float(np.square(params.scale_array()).mean()) / 12


def _both(gain: float) -> Array:
    return np.full((2, 1), gain)


def _per_result(weights: Array, axis: int) -> float:
    """The mean over channels of the sum of squares of their weights."""
    return float(np.square(weights).sum()) / max(weights.shape[axis], 1)


def _function(op: Operation, behavior: Behavior) -> Formula | None:
    """An elementwise op on arrays, or None."""
    pointwise, formula = behavior.pointwise, behavior.arithmetic or behavior.analytic
    clamp, choose = behavior.clamp, behavior.choose
    if clamp is not None:
        low, high = clamp(op)
        return lambda x: np.clip(x[0], low, high)
    if choose is not None:
        return lambda x: choose(op, x)
    if pointwise is not None and len(op.operands) == 1:
        return lambda x: pointwise(op, x[0])
    return None if formula is None else lambda x: formula(op, x)
