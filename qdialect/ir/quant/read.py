"""Reading quant types from text: the grammar, and the rules a type alone must keep.

    uniform    ::= `<` storage `:` float-type tail `>`
    tail       ::= `,` param
                 | `:` axis `,` params                                (per axis)
                 | `:` `{` (axis `:` size (`,` axis `:` size)*)? `}` `,` params  (sub-channel)
    param      ::= float (`:` int64)?
    params     ::= `{` (param | params) (`,` (param | params))* `}`
    any        ::= `<` storage (`:` float-type)? `>`
    calibrated ::= `<` float-type `<` float `:` float `>` `>`
    quantile   ::= `<` (`i`N | `si`N | `ui`N | float-storage) `:` type `,`
                   `{` float (`,` float)* `}` (`,` bounds)? `>`
    storage    ::= (`i`N | `u`N | `si`N | `ui`N | float-storage) bounds?
                 | `!quant.quantile` quantile
    bounds     ::= `<` int64 `:` int64 `>`

Each reader takes the text and the position after the type's name and returns the
value and the position after it, or raises `QuantSyntaxError` with the message
upstream gives.  Lists of parameters without nesting are read with one regular
expression, so 4 096 channels cost little more than converting the numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache

from qdialect.algebra.float_text import FORMATS, float_from_bits
from qdialect.algebra.qparams.parameters import (
    FLOAT_STORAGE,
    QParams,
    Quantile,
    Storage,
    pack_f64,
)
from qdialect.ir.quant.values import AnyParams, CalibratedRange

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_ALIAS = re.compile(r"![A-Za-z$._-][\w$.-]*", re.ASCII)
_INTEGER = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")
_F32_BITS = re.compile(r"0x[0-9a-fA-F]{8}(?![0-9a-fA-F])")
_FLOAT = re.compile(r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?")


class QuantSyntaxError(Exception):
    """Text that is not a quant type, or breaks one of its rules."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class Scanner:
    """A cursor (`position`) on `content`, for the tokens inside of quantized types.

    Each method skips white space and `//` comments first. `accept` methods return None or
    False and stay in front of a token that is another; `expect` methods raise
    `QuantSyntaxError` there.
    """

    def __init__(self, content: str, position: int) -> None:
        self.content = content
        self.position = position

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.content, self.here())
        if found is None:
            return None
        self.position = found.end()
        return found.group()

    def here(self) -> int:
        """The position of the next token."""
        space = _SPACE.match(self.content, self.position)
        if space is not None:
            self.position = space.end()
        return self.position

    def accept(self, character: str) -> bool:
        """Step over one punctuation character, if it is next."""
        if not self.content.startswith(character, self.here()):
            return False
        self.position += len(character)
        return True

    def expect(self, character: str) -> None:
        """Step over one punctuation character."""
        before = self.position
        if not self.accept(character):
            # As upstream does: behind the token before it.
            raise QuantSyntaxError(f"expected '{character}'", before)

    def accept_identifier(self) -> str | None:
        """A name without prefix: letters, digits, `_`, `$` and `.`."""
        return self._match(_IDENTIFIER)

    def accept_alias(self) -> str | None:
        """`!name`, with the exclamation mark."""
        return self._match(_ALIAS)

    def expect_integer(self, bits: int = 64) -> int:
        """A decimal or hexadecimal integer that fits `bits` bits, signed."""
        start = self.here()
        negative = self.accept("-")
        text = self._match(_INTEGER)
        if text is None or _FLOAT.match(self.content, self.position - len(text)):
            self.position = start
            raise QuantSyntaxError("expected integer value", start)
        value = int(text, 0) if text.startswith("0x") else int(text)
        value = -value if negative else value
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise QuantSyntaxError("integer value too large", start)
        return value

    def accept_f32_bits(self) -> float | None:
        """An f32 written as exactly eight hexadecimal digits."""
        text = self._match(_F32_BITS)
        return None if text is None else float_from_bits(int(text, 16), "f")

    def expect_float(self) -> float:
        """A literal with a point, or the bits of a double in hexadecimal."""
        start = self.here()
        negative = self.accept("-")
        text = self._match(_FLOAT)
        if text is not None:
            return -float(text) if negative else float(text)
        text = self._match(_INTEGER)
        if text is None:
            raise QuantSyntaxError("expected floating point literal", start)
        if not text.startswith("0x"):
            raise QuantSyntaxError(
                "unexpected decimal integer literal for a floating point value\n"
                "add a trailing dot to make the literal a float",
                start,
            )
        if negative:
            raise QuantSyntaxError(
                "hexadecimal float literal should not have a leading minus", start
            )
        if int(text, 16) >> 64:
            raise QuantSyntaxError("hexadecimal float constant out of range for type", start)
        return float_from_bits(int(text, 16), "d")


MAX_STORAGE_BITS = 32

Aliases = Callable[[str], "Storage | str | None"]
"""What a type alias (`!name`) stands for: a storage with a table, or a builtin type's text."""


_INTEGER_TYPE = re.compile(r"([su]?i)([0-9]+)")
_OTHER_TYPE = re.compile(r"index|none|(?:tensor|vector|memref|tuple|complex)\b")
_LEAF_LIST = re.compile(r"\{([^{}/]*)\}")
_PARAM = r"\s*[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?\s*(?::\s*-?[0-9]{1,18}\s*)?"
_PARAM_LIST = re.compile(rf"{_PARAM}(?:,{_PARAM})*")

_PLAIN = re.compile(
    r"<((?:[su]?i|u)[0-9]{1,2}):(f32|f16|f64|bf16), "
    r"([0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?)(?::(-?[0-9]{1,18}))?>"
)


def read_uniform(content: str, position: int, aliases: Aliases) -> tuple[QParams, int]:
    """The contents of `!quant.uniform`."""
    scan = Scanner(content, position)
    start = scan.here()
    scan.expect("<")
    storage = _read_storage(scan, aliases)
    scan.expect(":")
    expressed = _read_expressed(scan, aliases)
    if not scan.accept(":"):
        scan.expect(",")
        scale, zero = _read_param(scan, expressed)
        scan.expect(">")
        _check_bounds(storage, start)
        return QParams.per_tensor(storage, scale, zero, expressed), scan.position
    if not scan.accept("{"):
        axis = scan.expect_integer(32)
        scan.expect(",")
        params = _read_params(scan, expressed)
        scan.expect(">")
        _check_bounds(storage, start)
        _check_axis(axis, start)
        return (
            QParams.per_axis(storage, axis, params.scales, params.zero_points, expressed),
            scan.position,
        )
    blocks = _read_blocks(scan)
    scan.expect(",")
    list_start = scan.here()
    params = _read_params(scan, expressed, printed=True)
    grid = params.grid
    if grid is None:
        raise QuantSyntaxError(
            "tensor literal is invalid; ranks are not consistent between elements", list_start
        )
    scan.expect(">")
    _check_bounds(storage, start)
    for axis, _ in blocks:
        _check_axis(axis, start)
    for _, size in blocks:
        if size <= 0:
            raise QuantSyntaxError(f"illegal block size: {size}", start)
    zeros = [_stored_zero_point(storage, zero, list_start) for zero in params.zero_points]
    return (
        QParams.blockwise(storage, blocks, grid, params.scales, zeros, expressed),
        scan.position,
    )


def read_plain(text: str) -> QParams | None:
    """The contents of a `!quant.uniform` per tensor, if `text` is that, plain and correct."""
    found = _PLAIN.fullmatch(text)
    if found is None:
        return None
    scale, fmt = float(found[3]), FORMATS[found[2]]
    if not fmt.smallest <= scale <= fmt.largest:
        return None
    storage = _plain_storage(found[1])
    return storage and QParams.per_tensor(storage, scale, int(found[4] or 0), found[2])


@cache
def _plain_storage(name: str) -> Storage | None:
    try:
        return _read_storage_name(Scanner(name, 0), lambda _: None)
    except QuantSyntaxError:
        return None


def read_any(content: str, position: int, aliases: Aliases) -> tuple[AnyParams, int]:
    """The contents of `!quant.any`."""
    scan = Scanner(content, position)
    start = scan.here()
    scan.expect("<")
    storage = _read_storage(scan, aliases)
    expressed = _read_expressed(scan, aliases) if scan.accept(":") else None
    scan.expect(">")
    _check_bounds(storage, start)
    return AnyParams(storage, expressed), scan.position


def read_calibrated(content: str, position: int, aliases: Aliases) -> tuple[CalibratedRange, int]:
    """The contents of `!quant.calibrated`."""
    scan = Scanner(content, position)
    start = scan.here()
    scan.expect("<")
    expressed = _read_expressed(scan, aliases)
    scan.expect("<")
    low = scan.expect_float()
    scan.expect(":")
    high = scan.expect_float()
    scan.expect(">")
    scan.expect(">")
    if not high > low:
        raise QuantSyntaxError(f"illegal min and max: ({_c_text(low)}:{_c_text(high)})", start)
    return CalibratedRange(expressed, low, high), scan.position


def read_quantile(content: str, position: int, aliases: Aliases) -> tuple[Storage, int]:
    """The contents of `!quant.quantile`, a storage with a look-up table."""
    scan = Scanner(content, position)
    start = scan.here()
    storage = _read_quantile(scan, aliases)
    _check_bounds(storage, start)
    return storage, scan.position


def _read_quantile(scan: Scanner, aliases: Aliases) -> Storage:
    start = scan.here()
    scan.expect("<")
    base_start = scan.here()
    base = _read_storage_name(scan, aliases)
    if base.keyword == "u":  # here, and only here, it is a builtin type
        raise QuantSyntaxError("expected non-function type", base_start)
    scan.expect(":")
    value_type = scan.accept_identifier() or ""
    if value_type not in FORMATS and not _INTEGER_TYPE.fullmatch(value_type):
        raise QuantSyntaxError("invalid kind of type specified", scan.here())
    scan.expect(",")
    scan.expect("{")
    table = [scan.expect_float()]
    while scan.accept(","):
        table.append(scan.expect_float())
    scan.expect("}")
    low, high = _read_bounds(scan, base) if scan.accept(",") else (None, None)
    scan.expect(">")
    storage = Storage.of(base.spelling, low, high, Quantile(value_type, pack_f64(table)))
    if storage.min >= storage.max:
        raise QuantSyntaxError("storage min must be less than storage max", start)
    if not all(map(math.isfinite, table)):
        raise QuantSyntaxError("quantile values must be finite (no NaN or infinity)", start)
    codes = 1 << base.width if storage.is_full_range else storage.max - storage.min + 1
    if len(table) != codes:
        raise QuantSyntaxError(
            f"quantile LUT size ({len(table)}) must equal the number of representable "
            f"storage values ({codes})",
            start,
        )
    return storage


def _read_storage(scan: Scanner, aliases: Aliases) -> Storage:
    storage = _read_storage_name(scan, aliases)
    if storage.quantile is None and scan.content.startswith("<", scan.here()):
        return Storage.of(storage.spelling, *_read_bounds(scan, storage))
    return storage


def _read_storage_name(scan: Scanner, aliases: Aliases) -> Storage:
    """A storage type without bounds (a quantile type brings its own)."""
    start = scan.here()
    alias = scan.accept_alias()
    if alias == "!quant.quantile":
        return _read_quantile(scan, aliases)
    name = scan.accept_identifier() if alias is None else aliases(alias)
    if isinstance(name, Storage):
        return name
    if name is None:
        raise QuantSyntaxError("expected valid keyword", start)
    if name in FLOAT_STORAGE:
        return Storage.of(name)
    integer = _INTEGER_TYPE.fullmatch(name)
    if integer is not None:
        keyword, digits = integer.groups()
    elif name in FORMATS or not name.startswith("u"):
        raise QuantSyntaxError("illegal storage type prefix", start)
    elif not name[1:].isdecimal():
        raise QuantSyntaxError("expected storage type width", start)
    else:
        keyword, digits = "u", name[1:]
    width = int(digits)
    if not 0 < width <= MAX_STORAGE_BITS:
        raise QuantSyntaxError(f"illegal storage type size: {width}", start)
    return Storage.of(f"{keyword}{width}")


def _read_bounds(scan: Scanner, storage: Storage) -> tuple[int, int]:
    scan.expect("<")
    low_position = scan.here()
    low = scan.expect_integer()
    scan.expect(":")
    high_position = scan.here()
    high = scan.expect_integer()
    scan.expect(">")
    if low < storage.min:
        raise QuantSyntaxError(f"illegal storage type minimum: {low}", low_position)
    if high > storage.max:
        raise QuantSyntaxError(f"illegal storage type maximum: {high}", high_position)
    return low, high


def _read_expressed(scan: Scanner, aliases: Aliases) -> str:
    start = scan.here()
    alias = scan.accept_alias()
    name = scan.accept_identifier() if alias is None else aliases(alias)
    if isinstance(name, str) and name in FORMATS:
        return name
    if name is None:
        raise QuantSyntaxError("expected non-function type", start)
    if isinstance(name, Storage) or _INTEGER_TYPE.fullmatch(name) or _OTHER_TYPE.match(name):
        raise QuantSyntaxError("invalid kind of type specified", start)
    raise QuantSyntaxError("expected non-function type", start)


def _read_blocks(scan: Scanner) -> list[tuple[int, int]]:
    """`axis : size` pairs up to and including the closing brace."""
    blocks: list[tuple[int, int]] = []
    if scan.accept("}"):
        return blocks
    while True:
        axis = scan.expect_integer(32)
        scan.expect(":")
        blocks.append((axis, scan.expect_integer()))
        if not scan.accept(","):
            scan.expect("}")
            return blocks


class _Params:
    """Scales and zero points in textual order, and the shape of the braces:
    None when two elements of one pair of braces differ in shape."""

    def __init__(self) -> None:
        self.scales: list[float] = []
        self.zero_points: list[int] = []
        self.grid: tuple[int, ...] | None = ()


def _read_params(scan: Scanner, expressed: str, printed: bool = False) -> _Params:
    """A list of parameters; `printed` accepts also what mlir-opt prints (and then
    rejects) for values of the expressed type, see `_read_param`."""
    params = _Params()
    params.grid = _read_param_list(scan, expressed, printed, params)
    return params


def _read_param_list(
    scan: Scanner, expressed: str, printed: bool, into: _Params
) -> tuple[int, ...] | None:
    """One brace pair, appended to `into`; its shape, None when ragged."""
    scan.here()
    count = _read_leaf_list(scan, expressed, into)
    if count is not None:
        return (count,)
    scan.expect("{")
    shapes: list[tuple[int, ...] | None] = []
    while True:
        if scan.content.startswith("{", scan.here()):
            shapes.append(_read_param_list(scan, expressed, printed, into))
        else:
            scale, zero = _read_param(scan, expressed, printed)
            into.scales.append(scale)
            into.zero_points.append(zero)
            shapes.append(())
        if not scan.accept(","):
            break
    scan.expect("}")
    first = shapes[0]
    if first is None or any(shape != first for shape in shapes):
        return None
    return (len(shapes), *first)


def _read_leaf_list(scan: Scanner, expressed: str, into: _Params) -> int | None:
    """The count of `{param, ...}` if it is plain and correct; otherwise nothing is read."""
    found = _LEAF_LIST.match(scan.content, scan.position)
    if found is None or _PARAM_LIST.fullmatch(found[1]) is None:
        return None
    pairs = [item.partition(":") for item in found[1].split(",")]
    scales = [float(scale) for scale, _, _ in pairs]
    fmt = FORMATS[expressed]
    if not fmt.smallest <= min(scales) <= max(scales) <= fmt.largest:
        return None
    into.scales += scales
    into.zero_points += [int(zero) if zero else 0 for _, _, zero in pairs]
    scan.position = found.end()
    return len(scales)


def _read_param(scan: Scanner, expressed: str, printed: bool = False) -> tuple[float, int]:
    """One scale and zero point.

    A scale is read as a double (in hexadecimal: its bits) and must be in the range
    of the expressed type.  With `printed`, eight hexadecimal digits are the bits of
    an f32, and a decimal may leave the range by what six digits cannot express.
    """
    bits = scan.accept_f32_bits() if printed and expressed == "f32" else None
    scale = scan.expect_float() if bits is None else bits
    fmt = FORMATS[expressed]
    slack = 5e-6 if printed else 0.0
    if not fmt.smallest * (1 - slack) <= scale <= fmt.largest * (1 + slack):
        raise QuantSyntaxError(
            f"scale {_c_text(scale)} out of expressed type range "
            f"[{fmt.smallest:e}, {fmt.largest:e}]",
            scan.here(),
        )
    return scale, scan.expect_integer() if scan.accept(":") else 0


def _c_text(value: float) -> str:
    """`%e`, with upstream's spelling of infinity and NaN."""
    return f"{value:e}" if math.isfinite(value) else f"{value:E}"


def _stored_zero_point(storage: Storage, zero: int, position: int) -> int:
    """A sub-channel zero point as MLIR holds it: in the bits of the storage type.

    MLIR prints those bits as a signed number, also for unsigned storage, so both
    readings of the bits are accepted: `u8` -56 is 200 and `i8` 200 is -56.
    """
    codes = 1 << storage.width
    if not -codes // 2 <= zero < codes:
        raise QuantSyntaxError(f"zero point {zero} does not fit storage type", position)
    zero %= codes
    return zero - codes if storage.signed and zero >= codes // 2 else zero


def _check_bounds(storage: Storage, position: int) -> None:
    if storage.min >= storage.max:
        raise QuantSyntaxError(
            f"illegal storage min and storage max: ({storage.min}:{storage.max})", position
        )


def _check_axis(axis: int, position: int) -> None:
    if axis < 0:
        raise QuantSyntaxError(f"illegal quantized dimension: {axis}", position)
