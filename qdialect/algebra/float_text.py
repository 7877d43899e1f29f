"""Floating-point formats as numbers, and the text MLIR prints for their values.

A format is its precision, its smallest exponent and its largest value; every
value of every format but f80 and f128 is a Python float, and a value is always
passed as one.  Formats are named as MLIR spells the types (`f32`, `f8E4M3FN`).

`float_text` is exact: it prints what mlir-opt prints, digit for digit.  The text
always reads back as the same value, except that a value printed as hexadecimal
bits must be read as the bits of a *double*.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Literal, NamedTuple


class FloatFormat(NamedTuple):
    """`precision` counts significand bits with the implicit one; `min_exponent`
    is the exponent of the smallest normal value; `largest` is finite."""

    precision: int
    min_exponent: int
    largest: float

    @property
    def smallest(self) -> float:
        """The smallest positive value, subnormal where the format has those."""
        return math.ldexp(1.0, self.min_exponent - self.precision + 1)


def _ieee(precision: int, max_exponent: int) -> FloatFormat:
    return FloatFormat(
        precision,
        1 - max_exponent,
        math.ldexp(2.0 - math.ldexp(1.0, 1 - precision), max_exponent),
    )


_DOUBLE = _ieee(53, 1023)

FORMATS: dict[str, FloatFormat] = {
    "f16": _ieee(11, 15),
    "bf16": _ieee(8, 127),
    "tf32": _ieee(11, 127),
    "f32": _ieee(24, 127),
    "f64": _DOUBLE,
    # Wider than the doubles that hold our values: the range is the double's.
    "f80": FloatFormat(64, _DOUBLE.min_exponent + 11, _DOUBLE.largest),
    "f128": FloatFormat(113, _DOUBLE.min_exponent + 60, _DOUBLE.largest),
    "f8E5M2": FloatFormat(3, -14, 57344.0),
    "f8E4M3": FloatFormat(4, -6, 240.0),
    "f8E4M3FN": FloatFormat(4, -6, 448.0),
    "f8E5M2FNUZ": FloatFormat(3, -15, 57344.0),
    "f8E4M3FNUZ": FloatFormat(4, -7, 240.0),
    "f8E4M3B11FNUZ": FloatFormat(4, -10, 30.0),
    "f8E3M4": FloatFormat(5, -2, 15.5),
    "f8E8M0FNU": FloatFormat(1, -127, math.ldexp(1.0, 127)),
    "f6E2M3FN": FloatFormat(4, 0, 7.5),
    "f6E3M2FN": FloatFormat(3, -2, 28.0),
    "f4E2M1FN": FloatFormat(2, 0, 6.0),
}
"""Every builtin MLIR float type, by name."""


def round_to_format(value: float, name: str) -> float:
    """`value` rounded to format `name`, ties to even, saturating at its largest.

    Infinities and NaN pass through.
    """
    fmt = FORMATS[name]
    if fmt.precision >= _DOUBLE.precision or not math.isfinite(value) or value == 0.0:
        return value
    exponent = max(math.frexp(value)[1] - 1, fmt.min_exponent)
    ulp = exponent - fmt.precision + 1
    # ldexp by -ulp is exact unless it leaves the double's range, and then the
    # quotient is below one half and rounds to zero all the same.
    rounded = math.ldexp(float(round(math.ldexp(value, -ulp))), ulp)
    if fmt.precision == 1 and abs(value) / math.ldexp(1.0, exponent) == 1.5:
        # One significand bit is always odd: a tie goes to the next power of two.
        rounded = math.copysign(math.ldexp(2.0, exponent), value)
    return math.copysign(min(abs(rounded), fmt.largest), value)


def format_values(name: str, width: int) -> list[float]:
    """What each bit pattern of a format of so many bits, with a sign and subnormals, means. What is
    above the largest number is infinite if its fraction is 0, else NaN."""
    fmt, found = FORMATS[name], list[float]()
    fraction_bits = fmt.precision - 1
    for bits in range(1 << (width - 1)):
        field, fraction = bits >> fraction_bits, bits & ((1 << fraction_bits) - 1)
        significand = fraction + (1 << fraction_bits) * (field > 0)
        value = math.ldexp(significand, max(field - 1, 0) + fmt.min_exponent - fraction_bits)
        if value > fmt.largest:
            value = math.nan if fraction else math.inf
        found.append(value)
    return [*found, *(-value for value in found)]


def float_from_bits(bits: int, kind: Literal["f", "d"]) -> float:
    """The f32 (`f`) or double (`d`) whose bit pattern is `bits`."""
    return struct.unpack(f"<{kind}", bits.to_bytes(4 if kind == "f" else 8, "little"))[0]


def float_text(value: float, name: str = "f64") -> str:
    """The MLIR literal of `value`, which must be a value of format `name`.

    Three forms are tried, as mlir-opt does: `d.dddddde±XX` with six significant
    digits if it reads back as `value`; else as many digits as the format needs,
    positional for moderate exponents; else (that form has no point) the bits of
    the double in hexadecimal.
    """
    if not math.isfinite(value):
        return _hex_text(value)
    text = _magnitude_text(abs(value), name)
    if "." not in text:
        return _hex_text(value)
    return f"-{text}" if math.copysign(1.0, value) < 0 else text


@lru_cache(maxsize=8192)
def _magnitude_text(value: float, name: str) -> str:
    """The decimal text of a finite `value` >= 0, which may lack a point."""
    significand, exponent = _integer_parts(value)
    if significand == 0:
        return "0.000000e+00"
    precision = 2 + FORMATS[name].precision * 59 // 196
    # Of decimals that read back as a double none is shorter than its `repr`.
    if FORMATS[name] is not _DOUBLE or _is_short(repr(value)):
        digits, tens = _decimal(significand, exponent, 6)
        if _reads_back(digits, tens, value, name):
            tens += len(digits) - 1
            return f"{digits[0]}.{digits[1:]:0<6}e{'-' if tens < 0 else '+'}{abs(tens):02d}"
    digits, tens = _decimal(significand, exponent, precision)
    return _default_form(digits, tens, precision)


def _is_short(decimal: str) -> bool:
    """Whether a decimal has at most six significant digits."""
    return len(decimal.partition("e")[0].replace(".", "").strip("0")) <= 6


def _hex_text(value: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _integer_parts(value: float) -> tuple[int, int]:
    """`value == significand * 2**exponent` with an odd significand (or zero)."""
    numerator, denominator = value.as_integer_ratio()
    if denominator > 1 or numerator == 0:
        return numerator, 1 - denominator.bit_length()
    trailing = (numerator & -numerator).bit_length() - 1
    return numerator >> trailing, trailing


def _decimal(significand: int, exponent: int, precision: int) -> tuple[str, int]:
    """`significand * 2**exponent` as at most `precision` digits times 10**tens.

    The expansion is first *truncated* to a number of bits a little above what
    `precision` digits need and only then rounded half up: so 0.998 becomes
    997999 (not 998000) at six digits, and does not read back.
    """
    tens = 0
    if exponent >= 0:
        significand <<= exponent
    else:
        significand *= 5**-exponent
        tens = exponent
    spare_bits = significand.bit_length() - (precision * 196 + 58) // 59
    if spare_bits > 0:
        drop = spare_bits * 59 // 196
        significand //= 10**drop
        tens += drop
    digits = str(significand)
    if len(digits) > precision:
        drop = len(digits) - precision
        digits = str(int(digits[:precision]) + (digits[precision] >= "5"))
        tens += drop
    stripped = digits.rstrip("0")
    return stripped, tens + len(digits) - len(stripped)


def _reads_back(digits: str, tens: int, value: float, name: str) -> bool:
    """Whether the decimal `digits * 10**tens` rounds to `value` in format `name`."""
    nearest = float(f"{digits}e{tens}")
    if FORMATS[name].precision >= _DOUBLE.precision or nearest == value:
        return nearest == value
    if not math.isfinite(nearest):
        return False
    below = round_to_format(math.nextafter(nearest, -math.inf), name)
    above = round_to_format(math.nextafter(nearest, math.inf), name)
    if below == above:
        return below == value
    from fractions import Fraction  # needed so rarely that start-up does not wait for it

    # `nearest` is a midpoint of two values; the decimal may be beside it.
    offset = Fraction(int(digits)) * Fraction(10) ** tens - Fraction(nearest)
    if offset == 0:
        return round_to_format(nearest, name) == value
    return (below if offset < 0 else above) == value


def _default_form(digits: str, tens: int, precision: int) -> str:
    """Shortest layout of the digits: positional unless it needs much padding."""
    magnitude = tens + len(digits) - 1
    if tens >= 0:
        if tens <= 3 and len(digits) + tens <= precision:
            return digits + "0" * tens
    elif magnitude >= 0:
        return f"{digits[: magnitude + 1]}.{digits[magnitude + 1 :]}"
    elif magnitude >= -3:
        return f"0.{'0' * (-magnitude - 1)}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{'-' if magnitude < 0 else '+'}{abs(magnitude)}"
