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

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.context import QContext
from qdialect.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.quant import element_type

Array = NDArray[np.float64]
Factors = Sequence[float] | Array


class NotFiniteError(ValueError):
    """A new constant would overflow."""


def scale_channels(groups: Iterable[tuple[ChannelGroup, Factors]], ctx: QContext) -> int:
    """Multiply the channels of groups of one function by positive factors, one for each class; how
    many constants changed. The groups may share constants, which are rounded once.

    NotFiniteError before anything is changed if a number would overflow. ValueError for
    factors that are not positive, or not as many as classes.
    """
    factors: dict[tuple[Operation, int], Any] = {}
    for group, each in groups:
        numbers = np.asarray(each, np.float64)
        if numbers.shape != (group.size,) or not (np.isfinite(numbers) & (numbers > 0)).all():
            raise ValueError(f"expects {group.size} positive factors")
        for absorber in group.absorbers:
            use = absorber.op, absorber.operand
            factors[use] = factors.get(use, 1.0) * absorber.factors(numbers)
    arrays = {
        use: _array(use, ctx).astype(np.float64) * factor
        for use, factor in factors.items()
        if not (factor == 1).all()
    }
    replace_constants(arrays, ctx)
    return len(arrays)


def replace_constants(arrays: Mapping[tuple[Operation, int], Array], ctx: QContext) -> None:
    """Give constant operands, by op and number, these numbers, rounded to their type.

    One constant is made for uses of one constant that get the same numbers, and the old one
    goes where nothing uses it. NotFiniteError, and nothing changes, where rounding overflows.
    """
    rounded: dict[tuple[Operation, int], NDArray[Any]] = {}
    for use, array in arrays.items():
        old = _array(use, ctx)
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


def _array(use: tuple[Operation, int], ctx: QContext) -> NDArray[Any]:
    constant = constant_of(use[0].operands[use[1]])
    assert constant is not None
    return constant_array(constant, ctx.blobs)
