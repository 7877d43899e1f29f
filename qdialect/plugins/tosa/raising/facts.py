"""What TOSA ops say that their raising needs: constants, zero points, multipliers and shifts."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import TensorType, UnregisteredOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.rounding import Rounding
from qdialect.errors import QError
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import attribute, flag_of, integers_of, keyword_of
from qdialect.ir.dialects.verbatim import VerbatimAttr
from qdialect.ir.ops.locations import op_where
from qdialect.ir.ops.tensor_attributes import tensor_attribute_array
from qdialect.ir.quant import element_type
from qdialect.plugins.common.raising.errors import Unraisable

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDINGS = {
    "SINGLE_ROUND": Rounding.HALF_UP,
    "DOUBLE_ROUND": Rounding.GEMMLOWP,
    # An engine may round as it likes; half up is among what it may do.
    "INEXACT_ROUND": Rounding.HALF_UP,
}


def name_of(op: Operation) -> str:
    """The name of an op without `tosa.`; empty for ops of other dialects."""
    name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
    return name.removeprefix("tosa.") if name.startswith("tosa.") else ""


def constant_of(value: SSAValue, session: QContext) -> NDArray[Any] | None:
    """The stored elements of a `tosa.const` or `tosa.const_shape`, or of an `arith.constant` that
    an importer left."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    is_arith = owner.name == "arith.constant" and isinstance(value.type, TensorType)
    if not is_arith and name_of(owner) not in ("const", "const_shape"):
        return None
    found = attribute(owner, "value" if is_arith else "values")
    if found is None or isinstance(found, VerbatimAttr):
        return None
    try:
        return tensor_attribute_array(found, session.blobs, session)
    except QError as error:
        error.where = error.where or op_where(owner)
        raise


def known(op: Operation, number: int, session: QContext) -> NDArray[Any]:
    """The elements of an operand; Unraisable (`not-constant`) if they are not known."""
    found = constant_of(op.operands[number], session) if number < len(op.operands) else None
    if found is None:
        raise Unraisable("not-constant", f"operand #{number} is no constant")
    return found


def numbers(op: Operation, number: int, session: QContext) -> list[int]:
    """The integers in a constant operand (a shape)."""
    return [int(n) for n in known(op, number, session).reshape(-1)]


def number(op: Operation, place: int, session: QContext) -> int:
    """The integer in a constant operand of one element; 0 where the op has no such operand."""
    if place >= len(op.operands):
        return 0
    values = numbers(op, place, session)
    return values[0] if values else 0


class Rescaling:
    """The parameters of a `tosa.rescale`; Unraisable where they are not known."""

    def __init__(self, op: Operation, session: QContext) -> None:
        self.pairs = list(zip(numbers(op, 1, session), numbers(op, 2, session), strict=True))
        self.unsigned = flag_of(op, "input_unsigned"), flag_of(op, "output_unsigned")
        self.zeros = tuple(
            zero + (1 << (8 * known(op, 3 + n, session).dtype.itemsize))
            if unsigned and zero < 0
            else zero
            for n, (zero, unsigned) in enumerate(
                zip((number(op, 3, session), number(op, 4, session)), self.unsigned, strict=True)
            )
        )
        self.rounding = ROUNDINGS.get(keyword_of(op, "rounding_mode", "SINGLE_ROUND"))
        self.per_channel = flag_of(op, "per_channel") and len(self.pairs) > 1
        if not self.per_channel:
            self.pairs = self.pairs[:1]

    @property
    def ratios(self) -> list[Fraction]:
        """What codes less their zero point are multiplied with."""
        return [Fraction(m) / (1 << k) if k >= 0 else Fraction(0) for m, k in self.pairs]


def rescaling_of(op: Operation, session: QContext) -> Rescaling | None:
    """The parameters of a `tosa.rescale` if they are known."""
    if name_of(op) != "rescale":
        return None
    try:
        return Rescaling(op, session)
    except Unraisable:
        return None


def windows(op: Operation, *names: str) -> list[tuple[int, ...]]:
    """Lists of integers by name."""
    return [tuple(integers_of(op, name)) for name in names]


def scaled_cast(op: Operation, session: QContext) -> tuple[Operation, float] | None:
    """The cast of i32 that a `tosa.mul` multiplies with a positive f32, and this number."""
    if name_of(op) != "mul" or str(element_type(op.results[0].type)) != "f32":
        return None
    for value, factor in (op.operands[:2], op.operands[1::-1]):
        cast, number = value.owner, constant_of(factor, session)
        if not isinstance(cast, Operation) or name_of(cast) != "cast" or number is None:
            continue
        is_i32 = str(element_type(cast.operands[0].type)) == "i32"
        if is_i32 and number.size == 1 and (scale := float(number.reshape(-1)[0])) > 0:
            return (cast, scale) if isfinite(scale) else None
    return None
