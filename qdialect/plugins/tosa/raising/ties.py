"""Ties put right after a rescale that rounds half up, as our export writes it.

    y = rescale(v)                     half up
    y - (tie & odd(y))                 half to even
    y - (tie & negative(v))            half away from zero

    tie = clz((v & mask) ^ half) >> 5  1 where the lowest bits of v are those of a tie

Mask and half follow from multiplier and shift; with others it is no such rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.rounding import Rounding
from qdialect.ir.context import QContext
from qdialect.plugins.tosa.raising.facts import Rescaling, constant_of, name_of, rescaling_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 31


def corrected(op: Operation, session: QContext) -> tuple[Operation, Rescaling] | None:
    """The rescale that a `tosa.sub` puts the ties of right, and how it rounds then."""
    if name_of(op) != "sub":
        return None
    rescale, correction = (value.owner for value in op.operands)
    if not (isinstance(rescale, Operation) and isinstance(correction, Operation)):
        return None
    given = rescaling_of(rescale, session)
    if (
        given is None
        or given.rounding is not Rounding.HALF_UP
        or name_of(correction) != "bitwise_and"
    ):
        return None
    tie, off = correction.operands
    steps = _tested(tie, given, session)
    if steps is None or not _is_operand(steps, rescale, given, session):
        return None
    if _is_odd(off, op.operands[0], session):
        given.rounding = Rounding.HALF_EVEN
    elif _shifted(off, _BITS, session) is steps:
        given.rounding = Rounding.HALF_AWAY
    else:
        return None
    return rescale, given


def _defined(value: SSAValue, name: str) -> Operation | None:
    owner = value.owner
    return owner if isinstance(owner, Operation) and name_of(owner) == name else None


def _shifted(value: SSAValue, by: int, session: QContext) -> SSAValue | None:
    shift = _defined(value, "logical_right_shift")
    if shift is None:
        return None
    amount = constant_of(shift.operands[1], session)
    return shift.operands[0] if amount is not None and (amount == by).all() else None


def _tested(tie: SSAValue, given: Rescaling, session: QContext) -> SSAValue | None:
    """The value whose lowest bits are compared with those of a tie."""
    zeros = _shifted(tie, 5, session)
    count = None if zeros is None else _defined(zeros, "clz")
    apart = None if count is None else _defined(count.operands[0], "bitwise_xor")
    low = None if apart is None else _defined(apart.operands[0], "bitwise_and")
    if low is None or apart is None:
        return None
    mask, half = (constant_of(op.operands[1], session) for op in (low, apart))
    if mask is None or half is None:
        return None
    expected = [_bits(pair) for pair in given.pairs]
    masks, halves = (np.array(column) for column in zip(*expected, strict=True))
    same = _equal(mask, masks) and _equal(half, halves)
    return low.operands[0] if same else None


def _equal(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    return found.size == expected.size and bool((found.reshape(-1) == expected).all())


def _bits(pair: tuple[int, int]) -> tuple[int, int]:
    """The bits in which ties differ from other numbers, and their value there."""
    multiplier, shift = pair
    width = shift - ((multiplier & -multiplier).bit_length() - 1) if multiplier else 0
    if not 1 <= width <= _BITS:
        return 0, 1
    return (1 << width) - 1, 1 << (width - 1)


def _is_operand(steps: SSAValue, rescale: Operation, given: Rescaling, session: QContext) -> bool:
    """Whether `steps` is what the rescale multiplies: its operand less its zero point."""
    source = rescale.operands[0]
    if steps is source:
        return given.zeros[0] == 0
    widening = steps.owner
    if not isinstance(widening, Operation):
        return False
    first = rescaling_of(widening, session)
    return (
        first is not None
        and widening.operands[0] is source
        and first.ratios == [1]
        and first.zeros == (given.zeros[0], 0)
        and first.unsigned[0] == given.unsigned[0]
    )


def _is_odd(value: SSAValue, rounded: SSAValue, session: QContext) -> bool:
    lowest = _defined(value, "bitwise_and")
    if lowest is None or lowest.operands[0] is not rounded:
        return False
    one = constant_of(lowest.operands[1], session)
    return one is not None and bool((one == 1).all())
