"""Transform a group of channels: its constants are replaced, the function stays.

    %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]>      D = (2, 0.5) on %h
    %v = nn.constant dense<[[1.0, 1.0]]>
    %h = nn.relu (nn.fully_connected %x, %w)
    %y = nn.fully_connected %h, %v

becomes

    %w = nn.constant dense<[[2.0, 4.0], [1.5, 2.0]]>
    %v = nn.constant dense<[[0.5, 2.0]]>

New constants are computed in float64 and rounded once to their type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_labels import Absorber, added
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.ir.quant import element_type

Array = NDArray[np.float64]
Factors = Sequence[float] | NDArray[Any]
Change = TypeVar("Change")


class NotFiniteError(ValueError):
    """A new constant would overflow."""


def scale_channels(groups: Iterable[tuple[ChannelGroup, Factors]], ctx: QContext) -> int:
    """Multiply the channels of groups of one function by positive factors, one for each class; how
    many constants changed. The groups may share constants, which are rounded once.

    NotFiniteError before anything is changed if a number would overflow. ValueError for
    factors that are not positive, or not as many as classes.
    """
    checked: list[tuple[ChannelGroup, Factors]] = []
    for group, each in groups:
        numbers = np.asarray(each, np.float64)
        if numbers.shape != (group.size,) or not (np.isfinite(numbers) & (numbers > 0)).all():
            raise ValueError(f"expects {group.size} positive factors")
        checked.append((group, numbers))
    arrays = scaled_constants(checked, ctx)
    replace_constants(arrays, ctx)
    return len(arrays)


def scaled_constants(
    groups: Iterable[tuple[ChannelGroup, Factors]], ctx: QContext
) -> dict[tuple[Operation, int], Array]:
    """What constant operands, by op and number, would be if channels had these factors; those that
    would not change are left out."""
    factors: dict[tuple[Operation, int], Any] = {}
    for group, each in groups:
        for absorber in group.absorbers:
            use = absorber.op, absorber.operand
            factors[use] = factors.get(use, 1.0) * absorber.factors(each)
    return {
        use: constant_numbers(use, ctx).astype(np.float64) * factor
        for use, factor in factors.items()
        if not (factor == 1).all()
    }


def as_many_as_fit(
    change: Callable[[Sequence[Change], QContext], object], chosen: Sequence[Change], ctx: QContext
) -> Sequence[int]:
    """Make changes, all at once or, if a constant would overflow, those that can be; which."""
    try:
        change(chosen, ctx)
        return range(len(chosen))
    except NotFiniteError:
        kept: list[int] = []
        for number, each in enumerate(chosen):
            with suppress(NotFiniteError):
                change([each], ctx)
                kept.append(number)
        return kept


def replace_constants(arrays: Mapping[tuple[Operation, int], Array], ctx: QContext) -> None:
    """Give constant operands, by op and number, these numbers, rounded to their type.

    One constant is made for uses of one constant that get the same numbers, and the old one
    goes where nothing uses it. NotFiniteError, and nothing changes, where rounding overflows.
    """
    rounded: dict[tuple[Operation, int], NDArray[Any]] = {}
    for use, array in arrays.items():
        old = constant_numbers(use, ctx)
        with np.errstate(over="ignore"):
            rounded[use] = array.astype(old.dtype)
        if np.isfinite(old).all() and not np.isfinite(rounded[use]).all():
            raise NotFiniteError(f"a constant of '{use[0].name}' would overflow")
    made: dict[tuple[SSAValue, bytes, tuple[int, ...]], ConstantOp] = {}
    for (op, number), array in rounded.items():
        old = constant_of(op.operands[number])
        assert old is not None
        key = old.result, array.tobytes(), array.shape
        if key not in made:
            made[key] = make_constant(
                np.array(array, order="C"), element_type(old.result.type), ctx.blobs
            )
            made[key].attributes.update(old.attributes)
            made[key].location = old.location
            block = old.parent
            assert block is not None
            block.insert_op_after(made[key], old)
        op.operands[number] = made[key].result
    for value in {value for value, _, _ in made}:
        if not list(value.uses) and isinstance(value.owner, Operation):
            value.owner.detach()
            value.owner.erase()


def constant_numbers(use: tuple[Operation, int], ctx: QContext) -> NDArray[Any]:
    """The numbers of a constant operand, by op and number."""
    return constant_array(_constant(use[0].operands[use[1]]), ctx.blobs)


def _constant(value: SSAValue) -> ConstantOp:
    constant = constant_of(value)
    assert constant is not None
    return constant


def shift_channels(groups: Iterable[tuple[ChannelGroup, Factors]], ctx: QContext) -> int:
    """Add numbers, one for each class, to the channels of groups of `find_shifts`; how many
    constants changed or were made. Biases that are missing are made.

    NotFiniteError before anything is changed if a number would overflow. ValueError for other than
    as many finite numbers as classes.
    """
    added_to: dict[tuple[Operation, int], Any] = {}
    for group, each in groups:
        numbers = np.asarray(each, np.float64)
        if numbers.shape != (group.size,) or not np.isfinite(numbers).all():
            raise ValueError(f"expects {group.size} finite numbers")
        for absorber in group.absorbers:
            use = absorber.op, absorber.operand
            change = absorber.offsets(numbers)
            if absorber.through is not None:
                change = change - _products(absorber, added(absorber.through, numbers), ctx)
            added_to[use] = added_to.get(use, 0.0) + change
    arrays: dict[tuple[Operation, int], Array] = {}
    missing: list[tuple[Operation, Any]] = []
    for (op, number), change in added_to.items():
        if not change.any():
            continue
        if number == len(op.operands):
            missing.append((op, change))
        else:
            arrays[op, number] = constant_numbers((op, number), ctx).astype(np.float64) + change
    biases = [(op, _bias_of(op, change, ctx)) for op, change in missing]
    replace_constants(arrays, ctx)
    for op, bias in biases:
        _add_bias(op, bias, ctx)
    return len(arrays) + len(missing)


def _products(absorber: Absorber, moved: Array, ctx: QContext) -> Array:
    """The weights times what the channels they meet moved by, by channel of the result."""
    op = absorber.products
    behavior = None if op is None else ctx.behaviors.get(op)
    sums = None if behavior is None else behavior.accumulator
    assert op is not None
    assert sums is not None
    assert sums.channels is not None
    inner, outer = sums.channels(op)
    weights = constant_numbers((op, sums.rhs), ctx).astype(np.float64)
    count = shape_of(op.results[0])[sums.result_axis(op)]
    places = np.broadcast_to(outer, weights.shape).reshape(-1)
    products = np.zeros(count)
    np.add.at(products, places, (weights * moved[inner]).reshape(-1))
    if absorber.operand == len(absorber.op.operands):
        return products
    return products.reshape(shape_of(absorber.op.operands[absorber.operand]))


def _bias_of(op: Operation, numbers: Array, ctx: QContext) -> NDArray[Any]:
    kind = constant_array(_constant(op.operands[1]), ctx.blobs).dtype
    with np.errstate(over="ignore"):
        rounded = numbers.astype(kind)
    if not np.isfinite(rounded).all():
        raise NotFiniteError(f"a bias of '{op.name}' would overflow")
    return rounded


def _add_bias(op: Operation, numbers: NDArray[Any], ctx: QContext) -> None:
    made = make_constant(numbers, element_type(op.results[0].type), ctx.blobs)
    made.location = op.location
    block = op.parent
    assert block is not None
    block.insert_op_before(made, op)
    op.operands = [*op.operands, made.result]
