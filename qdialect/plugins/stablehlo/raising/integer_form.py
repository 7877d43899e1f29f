"""Quantized arithmetic that was written out in integers and floats, as quantized types again.

`stablehlo-legalize-quant-to-math` writes

    quantize      convert(round_nearest_even(clamp(low, x / scale + zero point, high)))
    requantize    the same of convert(sums) * multiplier
    dequantize    convert(convert(codes) - zero point) * scale

which become `quant.qcast`, `quant.rescale` and `quant.dcast`, with a `quant.scast` between codes
and the integers that other ops see. A requantization keeps its multiplier to the bit: it is the
quotient of the two scales. Products of integers are sums of codes on scale 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.ir.ops import shape_of
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    UniformType,
    element_type,
    quant_element,
    storage_type,
)
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.stablehlo.raising.elementwise import same_type
from qdialect.plugins.stablehlo.raising.facts import scalar_of
from qdialect.plugins.stablehlo.raising.raiser import Handler, Raiser

_WIDTHS = (8, 16, 32)


def signless_width(kind: Attribute) -> int:
    """The bits of a signless integer of 8, 16 or 32; 0 of other types."""
    element = element_type(kind)
    if not isinstance(element, IntegerType):
        return 0
    integer = cast("IntegerType[int, Signedness]", element)
    plain = integer.signedness.data is Signedness.SIGNLESS
    return integer.width.data if plain and integer.width.data in _WIDTHS else 0


def read_as(r: Raiser, x: Raised, element: Attribute) -> Raised:
    """The same bits with another element type."""
    value = r.value(x)
    source = quant_element(value.type)
    if source is not None and source != element:
        stored = storage_type(source.qparams)
        kind = TensorType(stored, list(shape_of(value)))
        value = r.append(SCastOp(value, kind)).results[0]
    if element_type(value.type) == element:
        return Raised(x.order, value)
    kind = TensorType(element, list(shape_of(value)))
    return Raised(x.order, r.append(SCastOp(value, kind)).results[0])


@dataclass(frozen=True)
class _Steps:
    """What is quantized: floats over `scale`, or integers times `multiplier`, plus the zero
    point."""

    value: SSAValue
    scale: float
    multiplier: float
    zero_point: int
    low: float
    high: float


def _owner(value: SSAValue, name: str) -> Operation | None:
    owner = value.owner
    return owner if isinstance(owner, Operation) and owner.name == f"stablehlo.{name}" else None


def _number(r: Raiser, value: SSAValue) -> float | None:
    found = r.known.get(value)
    number = None if found is None else scalar_of(found)
    return None if number is None else float(number)


def _quantized(r: Raiser, value: SSAValue) -> _Steps | None:
    """The quantization whose rounded steps a float value is."""
    low, high, rounds = -float("inf"), float("inf"), False
    for _ in range(2):
        rounded, clamped = _owner(value, "round_nearest_even"), _owner(value, "clamp")
        if rounded is not None and not rounds:
            rounds, value = True, rounded.operands[0]
        elif clamped is not None:
            bounds = [_number(r, clamped.operands[i]) for i in (0, 2)]
            if bounds[0] is None or bounds[1] is None:
                return None
            (low, high), value = (bounds[0], bounds[1]), clamped.operands[1]
    if not rounds:
        return None
    zero = 0.0
    added = _owner(value, "add")
    number = None if added is None else _number(r, added.operands[1])
    if added is not None and number is not None and number == int(number):
        zero, value = number, added.operands[0]
    divided, product = _owner(value, "divide"), _owner(value, "multiply")
    if divided is not None and (scale := _number(r, divided.operands[1])) is not None:
        return _Steps(divided.operands[0], scale, 0.0, int(zero), low, high)
    if product is not None and (factor := _number(r, product.operands[1])) is not None:
        sums = _owner(product.operands[0], "convert")
        if sums is not None and signless_width(sums.operands[0].type) and factor > 0:
            return _Steps(sums.operands[0], 0.0, factor, int(zero), low, high)
    return _Steps(value, 1.0, 0.0, int(zero), low, high)


def _convert(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """The last step of a quantization; integers in more bits."""
    (x,), (source, target) = operands, (op.operands[0].type, op.results[0].type)
    if source == target:
        return same_type(r, op, operands)
    width = signless_width(target)
    given = signless_width(source)
    if given and width > given:
        return _rescaled(r, x, given, Storage.of(f"i{width}"))
    if given and width:
        return _narrowed(r, op, width)
    if given and str(element_type(target)) == "f32":
        return _floats(r, op)
    steps = _quantized(r, op.operands[0]) if width and str(element_type(source)) == "f32" else None
    if steps is None:
        raise Unraisable("type", f"nn converts no {element_type(source)} to {element_type(target)}")
    storage = _storage(width, steps)
    if storage is None:
        raise Unraisable("storage", "it saturates outside of its integers, or wraps")
    if steps.scale > 0:
        params = QParams.per_tensor(storage, steps.scale, steps.zero_point)
        value = r.known[steps.value]
        _allow_ties(r, steps.zero_point)
        kind = TensorType(UniformType(params), list(shape_of(r.value(value))))
        out = r.append(QCastOp(r.value(value), kind)).results[0]
        return read_as(r, Raised(value.order, out), element_type(target))
    given = r.known[steps.value]
    before = QParams.per_tensor(f"i{signless_width(steps.value.type)}", steps.multiplier)
    after = QParams.per_tensor(storage, 1.0, steps.zero_point)
    _allow_ties(r, steps.zero_point)
    typed = read_as(r, given, UniformType(before))
    value = r.value(typed)
    kind = TensorType(UniformType(after), list(shape_of(value)))
    out = r.append(RescaleOp(value, kind)).results[0]
    return read_as(r, Raised(typed.order, out), element_type(target))


def _allow_ties(r: Raiser, zero_point: int) -> None:
    if zero_point % 2:
        r.allow_ties()


def _storage(width: int, steps: _Steps) -> Storage | None:
    """The storage that the clamp saturates in."""
    full = Storage.of(f"i{width}")
    low, high = max(steps.low, full.min), min(steps.high, full.max)
    if low != int(low) or high != int(high) or low >= high:
        return None
    if width == 32 or (steps.low >= full.min and steps.high <= full.max):
        return replace(full, min=int(low), max=int(high))
    return None


def _rescaled(r: Raiser, x: Raised, source: int, target: Storage) -> Raised:
    """Codes on scale 1, in more bits, or saturating in fewer."""
    typed = read_as(r, x, UniformType(QParams.per_tensor(f"i{source}", 1.0)))
    value = r.value(typed)
    other = UniformType(QParams.per_tensor(target, 1.0))
    out = r.append(RescaleOp(value, TensorType(other, list(shape_of(value))))).results[0]
    return read_as(r, Raised(typed.order, out), IntegerType(target.width))


def _narrowed(r: Raiser, op: Operation, width: int) -> Raised:
    """What a clamp holds inside of fewer bits."""
    clamped, full = _owner(op.operands[0], "clamp"), Storage.of(f"i{width}")
    bounds = [None, None] if clamped is None else [_number(r, clamped.operands[i]) for i in (0, 2)]
    if clamped is None or bounds[0] is None or bounds[1] is None:
        raise Unraisable("storage", "it may wrap")
    if bounds[0] < full.min or bounds[1] > full.max or bounds[0] >= bounds[1]:
        raise Unraisable("storage", "it may wrap")
    storage = replace(full, min=int(bounds[0]), max=int(bounds[1]))
    value = clamped.operands[1]
    return _rescaled(r, r.known[value], signless_width(value.type), storage)


def _floats(r: Raiser, op: Operation) -> Raised:
    """Integers as the floats that they are, or the nearest."""
    value = op.operands[0]
    element = UniformType(QParams.per_tensor(f"i{signless_width(value.type)}", 1.0))
    typed = read_as(r, r.known[value], element)
    codes = r.value(typed)
    kind = TensorType(element_type(op.results[0].type), list(shape_of(codes)))
    return Raised(typed.order, r.append(DCastOp(codes, kind)).results[0])


def dequantized(r: Raiser, op: Operation) -> Raised | None:
    """The `quant.dcast` that a product of converted codes and a scale is; None if it is none."""
    converted, scale = _owner(op.operands[0], "convert"), _number(r, op.operands[1])
    if converted is None or scale is None or scale <= 0:
        return None
    if str(element_type(op.results[0].type)) != "f32":
        return None
    value, zero = converted.operands[0], 0
    shifted = _owner(value, "subtract")
    if shifted is not None and (number := _number(r, shifted.operands[1])) is not None:
        inner = _owner(shifted.operands[0], "convert")
        if inner is not None and signless_width(inner.operands[0].type):
            value, zero = inner.operands[0], int(number)
    width = signless_width(value.type)
    # Floats have all codes of 16 bits, and their differences.
    if not width or width > 16:
        return None
    element = UniformType(QParams.per_tensor(f"i{width}", scale, zero))
    typed = read_as(r, r.known[value], element)
    codes = r.value(typed)
    kind = TensorType(element_type(op.results[0].type), list(shape_of(codes)))
    return Raised(typed.order, r.append(DCastOp(codes, kind)).results[0])


def _multiply(multiply: Handler) -> Handler:
    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        found = dequantized(r, op)
        return multiply(r, op, operands) if found is None else found

    return raise_it


def integer_handlers(others: Mapping[str, Handler]) -> dict[str, Handler]:
    """Handlers in place of some of `others`."""
    return {
        "stablehlo.convert": _convert,
        "stablehlo.multiply": _multiply(others["stablehlo.multiply"]),
    }


def unit_codes(r: Raiser, x: Raised) -> Raised:
    """Integers as codes on scale 1."""
    if x.array is not None:
        width = str(x.element)
        return replace(x, element=UniformType(QParams.per_tensor(width, 1.0)))
    width = signless_width(cast("Any", x.value).type)
    return read_as(r, x, UniformType(QParams.per_tensor(f"i{width}", 1.0)))
