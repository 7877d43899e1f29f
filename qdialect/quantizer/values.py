"""What a profile knows of the values of a module, by key.

The key of a result is that of its op (`key#1` for the second), of an argument
`input:name`.  A value without an entry of its own has the range of the values it is made
of or made into by ops that only move elements or pick them by order, or that of what a
function makes of the distribution of its operand; nothing is guessed.  Where no op may stay
float, the ranges of scores with masks go on below (`with_room_for_masks`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.parameters import Layout
from qdialect.algebra.weight_rounding import Grid, nearest
from qdialect.interpreter import argument_names
from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.degrees import translation
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, constant_array, constant_of, keys_of, shape_of
from qdialect.ir.ops.component_keys import shared_key
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import DCastOp, element_type, quant_element
from qdialect.ir.weights import BlobStore
from qdialect.quantizer.masked_scores import masked_scores
from qdialect.quantizer.profile.distribution import Distribution, distribution, image
from qdialect.quantizer.profile.entries import tensor_range
from qdialect.quantizer.profile.instrument import INPUT_PREFIX, is_float
from qdialect.quantizer.profile.ranges import (
    Range,
    choose_range,
    max_of_channels,
    reach_of,
    with_room_for_masks,
    without_flat_tails,
)
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.profile.sketch import observe
from qdialect.quantizer.recipe import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray


def float_value(value: SSAValue) -> bool:
    """Whether a value is a float tensor that is computed or an argument, no constant."""
    return is_float(value.type) and not is_constant(value)


def float_values(function: FuncOp) -> Iterator[SSAValue]:
    """The float values of a function in program order, constants left out."""
    block = function.body.block
    yield from (value for value in block.args if float_value(value))
    for op in block.ops:
        yield from (value for value in op.results if float_value(value))


def is_constant(value: SSAValue) -> bool:
    """Whether a value is a constant, or what the codes of one stand for."""
    return constant_of(value) is not None or codes_behind(value) is not None


def codes_behind(value: SSAValue) -> ConstantOp | None:
    """The quantized constant that a float is the dequantized values of."""
    owner = value.owner
    return constant_of(owner.input) if isinstance(owner, DCastOp) else None


def real_array(value: SSAValue, store: BlobStore) -> NDArray[np.float64] | None:
    """The numbers of a constant, or of one behind a dequantize."""
    constant = constant_of(value)
    if constant is not None:
        return constant_array(constant, store).astype(np.float64)
    constant_codes = codes_behind(value)
    element = None if constant_codes is None else quant_element(constant_codes.result.type)
    if constant_codes is None or element is None:
        return None
    return reals_of(constant_array(constant_codes, store), element.qparams)


def offsets_of(codes: NDArray[Any], params: QParams) -> NDArray[np.float64]:
    """Codes less their zero points."""
    return codes.astype(np.float64) - _spread(params.zero_point_array(), params, codes.shape)


def reals_of(codes: NDArray[Any], params: QParams) -> NDArray[np.float64]:
    """The numbers that codes name."""
    return offsets_of(codes, params) * _spread(params.scale_array(), params, codes.shape)


def _spread(array: NDArray[Any], params: QParams, shape: Sequence[int]) -> NDArray[Any]:
    """Scales or zero points as an array that broadcasts to `shape`."""
    if params.layout is not Layout.BLOCK:
        return array.reshape([-1 if d == params.axis else 1 for d in range(len(shape))])
    for d, extent in enumerate(shape):
        array = np.repeat(array, extent // array.shape[d], axis=d)
    return array


def op_keys(op: Operation) -> tuple[str, ...]:
    """The keys of an op, and of its other results."""
    keys = keys_of(op)
    more = (f"{key}#{index}" for key in keys for index in range(1, len(op.results)))
    return (*keys, *more)


RoundRows = Callable[[Operation, "NDArray[np.float64]", Grid], "NDArray[np.int64]"]
"""The codes of the weights of an op [outputs, summed] on a grid."""


def _nearest_codes(op: Operation, rows: NDArray[np.float64], grid: Grid) -> NDArray[np.int64]:
    return nearest(rows, grid)


@dataclass
class Values:
    """The float values of a function: their keys, entries and ranges; of those in `known`, these
    ranges. `round_rows` chooses the codes of weights that are written on other grids than those
    of values (`blocks`, `dynamic`)."""

    function: FuncOp
    ctx: QContext
    profile: Profile
    recipe: Recipe
    known: Mapping[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])
    round_rows: RoundRows = _nearest_codes
    _ranges: dict[SSAValue, Range | None] = field(default_factory=dict[SSAValue, "Range | None"])

    def __post_init__(self) -> None:
        block = self.block
        self._arguments: Mapping[SSAValue, str] = dict(
            zip(block.args, argument_names(self.function), strict=True)
        )
        self._masked = masked_scores(self.function, self.ctx, self._number)
        self._bounds: dict[SSAValue, tuple[float, float]] = {}
        for value in self.all_values():
            self._ranges[value] = self._own(value)
        for op in block.ops:
            self._derive_down(op)
        for op in reversed(list(block.ops)):
            self._derive_up(op)
        if not isfinite(self.recipe.max_steps):
            # Where scores with masks cannot stay float.
            for op in block.ops:
                self._make_room_for_masks(op)

    @property
    def block(self) -> Block:
        """The one block of the function."""
        return self.function.body.block

    def all_values(self) -> Iterator[SSAValue]:
        """The float values in program order, constants left out."""
        return float_values(self.function)

    def keys(self, value: SSAValue) -> tuple[str, ...]:
        """The keys a value has entries under."""
        if value in self._arguments:
            return (INPUT_PREFIX + self._arguments[value],)
        owner = value.owner
        assert isinstance(owner, Operation)
        index = owner.results.index(value) if len(owner.results) > 1 else 0
        return tuple(f"{key}#{index}" if index else key for key in keys_of(owner))

    def range(self, value: SSAValue) -> Range | None:
        """The range of a value, or None: nothing is known of it."""
        return self._ranges.get(value)

    def chosen(self, key: str, expressed: str, masks: bool = True) -> Range:
        """The range of an entry of the profile, which may have `masks`."""
        choice = self.recipe.choice(self.recipe.activation_scheme(expressed))
        return tensor_range(self.profile.entries[key], replace(choice, masks=masks))

    def data(self, value: SSAValue) -> Distribution | None:
        """The distribution of a value, or None: it has no entry of its own."""
        key = self.entry(self.keys(value))
        if key is None:
            return None
        return distribution(self.profile.entries[key].tensor, masks=value in self._masked)

    def entry(self, keys: Iterable[str]) -> str | None:
        """The first of some keys that has an entry, itself or as one of many values."""
        for key in keys:
            for name in (key, shared_key(key, self.ctx.components)):
                if name in self.profile.entries:
                    return name
        return None

    def _own(self, value: SSAValue) -> Range | None:
        if value in self.known:
            return self.known[value]
        for key in self.keys(value):
            if key in self.profile.ranges:
                return self.profile.ranges[key]
        return self._of_entry(value, value in self._masked)

    def _of_entry(self, value: SSAValue, masks: bool) -> Range | None:
        key = self.entry(self.keys(value))
        if key is None:
            return None
        found = self.chosen(key, str(element_type(value.type)), masks)
        seen = self.profile.entries[key].tensor
        return self._inside(value, found, float(seen.minimum[0]), float(seen.maximum[0]))

    def add_pieces(self, ops: Iterable[Operation]) -> None:
        """Find the ranges of what ops give that are pieces of one in the function."""
        for value in (result for op in ops for result in op.results if float_value(result)):
            self._ranges[value] = self._of_entry(value, True)

    def _inside(self, value: SSAValue, found: Range, least: float, most: float) -> Range:
        """A range with head room for what was seen, less what the op cannot give."""
        if not self.recipe.unseen:
            return found
        low, high = self._bounds[value] = self._bounds_of(value)
        low, high = max(found.low, min(low, least, 0.0)), min(found.high, max(high, most, 0.0))
        return replace(found, low=low, high=high)

    def _bounds_of(self, value: SSAValue) -> tuple[float, float]:
        """What the op of a value can give, whatever it takes."""
        op = value.owner
        behavior = self.ctx.behaviors.get(op) if isinstance(op, Operation) else None
        if behavior is None or not isinstance(op, Operation):
            return -inf, inf
        if behavior.shares is not None:
            return 0.0, 1.0
        if behavior.pointwise is not None and len(op.operands) == 1:
            return reach_of(partial(behavior.pointwise, op))
        limit = behavior.clamp or behavior.activation
        low, high = (-inf, inf) if limit is None else limit(op)
        if behavior.commutes:
            above = [
                self._bounds.get(op.operands[n], (-inf, inf)) for n in tied_operands(op, behavior)
            ]
            low = max(low, min((each[0] for each in above), default=-inf))
            high = min(high, max((each[1] for each in above), default=inf))
        return low, high

    def _derive_down(self, op: Operation) -> None:
        behavior = self.ctx.behaviors.get(op)
        if behavior is None:
            return
        if not behavior.commutes:
            self._derive_function(op, behavior)
            return
        if all(self._ranges.get(result) is not None for result in op.results):
            return
        above = [op.operands[index] for index in tied_operands(op, behavior)]
        joined = _joined([self._ranges.get(value) for value in above])
        for result in op.results:
            if self._ranges.get(result) is None and joined is not None:
                self._ranges[result] = joined

    def _derive_function(self, op: Operation, behavior: Behavior) -> None:
        """A function of one value that has an entry: what it makes of that distribution."""
        if len(op.operands) != 1 or len(op.results) != 1 or not behavior.elementwise:
            return
        value, result = op.operands[0], op.results[0]
        if not float_value(value) or self._ranges.get(result) is not None:
            return
        function = _evaluator(op, behavior)
        data = None if function is None else self.data(value)
        if data is None or function is None:
            return
        scheme = self.recipe.activation_scheme(str(element_type(result.type)))
        made = image(data, function)
        found = choose_range(made, self.recipe.choice(scheme))
        self._ranges[result] = self._inside(result, found, made.minimum, made.maximum)

    def _derive_up(self, op: Operation) -> None:
        """An operand that goes nowhere else has the range of what it is made into."""
        behavior = self.ctx.behaviors.get(op)
        if behavior is None or not behavior.commutes:
            return
        joined = _joined([self._ranges.get(result) for result in op.results])
        if joined is None:
            return
        for index in tied_operands(op, behavior):
            value = op.operands[index]
            if float_value(value) and self._ranges.get(value) is None and only_user(value):
                self._ranges[value] = joined

    def _make_room_for_masks(self, op: Operation) -> None:
        """Scores of which an op gives shares, and what adds masks to them, reach as far down as
        masks have to."""
        behavior = self.ctx.behaviors.get(op)
        if behavior is None or behavior.shares is None or op.operands[0] in self.known:
            return
        scores = op.operands[0]
        found = self.range(scores)
        if found is None or not found.is_masked:
            return
        scheme = self.recipe.activation_scheme(str(element_type(scores.type)))
        count = self._most_along(scores, behavior.shares(op))
        pending = [(scores, with_room_for_masks(found, count, scheme.levels.count).low)]
        while pending:
            value, end = pending.pop()
            found, owner = self.range(value), value.owner
            if found is None or not found.is_masked or found.low <= end <= found.high:
                continue
            self._ranges[value] = replace(found, low=min(found.low, end), high=max(found.high, end))
            if isinstance(owner, Operation):
                pending += self._ends_above(owner, end)

    def _ends_above(self, op: Operation, end: float) -> Iterator[tuple[SSAValue, float]]:
        """How far each operand has to reach for a result to reach `end`, whatever the others are:
        as far, of an op that moves or picks elements; of a sum c + m_1 x_1 + m_2 x_2 + ...

            (end - c - the farthest from `end` that the others come to) / m_k
        """
        behavior = self.ctx.behaviors.get(op)
        if behavior is None:
            return
        if behavior.commutes:
            yield from ((op.operands[n], end) for n in tied_operands(op, behavior))
            return
        if behavior.arithmetic is None or not behavior.elementwise:
            return
        numbers = {
            n: number
            for n, operand in enumerate(op.operands)
            if (number := self._number(operand)) is not None
        }
        moved = translation(op, behavior, numbers)
        if moved is None or moved.conditions:
            return
        others: list[np.float64] = []
        for n, operand in enumerate(op.operands):
            ends = (numbers[n], numbers[n]) if n in numbers else self._ends(operand)
            if ends is None:
                return
            others.append(np.float64(ends[(moved.result.get(n, 0) > 0) == (end < 0)]))
        for n, multiple in moved.result.items():
            rest = behavior.arithmetic(op, [*others[:n], np.float64(0), *others[n + 1 :]])
            found = (end - float(rest)) / float(multiple)
            # What the rest makes of it is as far without the operand.
            if found * end * multiple > 0:
                yield op.operands[n], found

    def _number(self, value: SSAValue) -> float | None:
        array = real_array(value, self.ctx.blobs)
        if array is None or not array.size or (array != array.flat[0]).any():
            return None
        return float(array.flat[0]) if isfinite(array.flat[0]) else None

    def _ends(self, value: SSAValue) -> tuple[float, float] | None:
        """The least and the largest number of a value that are no masks, or None: not known."""
        array = real_array(value, self.ctx.blobs)
        if array is not None:
            data = distribution(observe(array.astype(np.float32)))
            return data.minimum, data.maximum
        found = self.range(value)
        return None if found is None else (found.low, found.high)

    def _most_along(self, value: SSAValue, axis: int) -> int:
        """How many elements of a value are along a dimension; where that is not known, no fewer
        than there are in any sample: as many as the profile has of the value, or of any."""
        shape = shape_of(value)
        if shape[axis] != DYNAMIC:
            return shape[axis]
        key = self.entry(self.keys(value))
        entries = self.profile.entries
        counts = [
            int(each.tensor.count.sum()) for name, each in entries.items() if key in (None, name)
        ]
        known = prod(extent for extent in shape if extent != DYNAMIC)
        return max(counts, default=1) // max(known, 1)


def _evaluator(
    op: Operation, behavior: Behavior
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]] | None:
    pointwise, arithmetic = behavior.pointwise, behavior.arithmetic
    if pointwise is not None:
        return lambda x: pointwise(op, x)
    return None if arithmetic is None else lambda x: arithmetic(op, [x])


def needed_range(value: SSAValue, values: Values, quantized: Container[Operation]) -> Range:
    """The range of a value, less what its users make the same of, if they are all functions of
    it alone and quantized."""
    found = values.range(value)
    assert found is not None
    parts: list[Range] = []
    for user in users(value):
        behavior = values.ctx.behaviors.get(user)
        if user not in quantized or behavior is None or behavior.pointwise is None:
            return found
        made = values.range(user.results[0])
        levels = values.recipe.activation_scheme(str(element_type(value.type))).levels.count
        if made is None or len(user.operands) != 1:
            return found
        function = partial(behavior.pointwise, user)
        parts.append(without_flat_tails(function, found, (made.high - made.low) / (levels - 1)))
    if not parts:
        return found
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    return replace(found, low=low, high=high)


def only_user(value: SSAValue) -> Operation | None:
    """The one op that uses a value, if it is one and not the end of the function."""
    users = list(dict.fromkeys(use.operation for use in value.uses))
    return users[0] if len(users) == 1 and not isinstance(users[0], ReturnOp) else None


def users(value: SSAValue) -> Iterable[Operation]:
    """The ops that use a value, each once."""
    return dict.fromkeys(use.operation for use in value.uses)


def _joined(ranges: Sequence[Range | None]) -> Range | None:
    known = [found for found in ranges if found is not None]
    return max_of_channels(known) if known and len(known) == len(ranges) else None
