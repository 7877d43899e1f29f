"""How properties look in the custom form of an op, where they are shorter than elsewhere.

| kind of a row | custom form | elsewhere |
|---|---|---|
| `any` | `[0, 1]` | the same |
| `typed:i32` | `7` | `7 : i32` |
| `unit` | nothing: the format has a keyword | `unit` |
| `string` | `"text"` | the same |
| `symbol` | `@name` | `"name"` |
| `array:i64` | `[1, 2]` | `array<i64: 1, 2>` |
| `enum:CmpIPredicate` | `slt` | `2 : i64` |
| `dialect:arith.fastmath` | `<fast>` | `#arith.fastmath<fast>` |
| `keyword:index.cmp_predicate` | `slt` | `#index<cmp_predicate slt>` |
"""

# The readers of attributes are private methods of xDSL's parser.
# pyright: reportPrivateUsage=false
from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    UnregisteredAttr,
    i1,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.plugins.mlir.upstream.table import Enum, Property, find_enum

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.parser import Parser
    from xdsl.printer import Printer

_NUMBER = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT, MLIRTokenKind.MINUS)
_WORD = re.compile(r"[A-Za-z_][\w$.]*\Z")


def parse_property(parser: Parser, dialect: str, kind: Property) -> Attribute:
    """The property at the parser; ParseError if there is none."""
    token = parser._current_token
    if kind.kind == "unit":
        return UnitAttr()
    if kind.kind == "symbol":
        return parser.parse_symbol_name()
    if kind.kind == "string" and token.kind is MLIRTokenKind.STRING_LIT:
        return StringAttr(parser.parse_str_literal())
    if token.kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
        return parser.parse_attribute()
    if kind.kind == "typed":
        return _parse_typed(parser, kind.detail)
    if kind.kind == "array" and token.kind is MLIRTokenKind.L_SQUARE:
        return _parse_array(parser, kind.detail)
    if kind.kind == "enum":
        return _parse_enum(parser, find_enum(dialect, kind.detail))
    if kind.kind == "dialect" and token.kind is not MLIRTokenKind.BARE_IDENT:
        return parser._parse_dialect_type_or_attribute_body(kind.detail, False, False, None)
    if kind.kind in ("keyword", "dialect"):
        return _parse_keyword(parser, kind.detail)
    return parser.parse_attribute()


def parse_optional_property(parser: Parser, dialect: str, kind: Property) -> Attribute | None:
    """The property at the parser, if there is one."""
    token = parser._current_token
    starts = {
        "unit": (),
        "string": (MLIRTokenKind.STRING_LIT,),
        "symbol": (MLIRTokenKind.AT_IDENT,),
        "typed": (*_NUMBER, MLIRTokenKind.BARE_IDENT),
        "array": (MLIRTokenKind.L_SQUARE, MLIRTokenKind.HASH_IDENT),
        "enum": (MLIRTokenKind.BARE_IDENT, MLIRTokenKind.STRING_LIT),
        "dialect": (MLIRTokenKind.LESS, MLIRTokenKind.HASH_IDENT),
        "keyword": (MLIRTokenKind.BARE_IDENT, MLIRTokenKind.HASH_IDENT),
    }.get(kind.kind)
    if starts is None:
        return parser.parse_optional_attribute()
    if token.kind not in starts:
        return None
    if token.kind is MLIRTokenKind.BARE_IDENT:
        words = {"typed": ("true", "false")}.get(kind.kind)
        if kind.kind == "enum":
            words = find_enum(dialect, kind.detail).values
        if words is not None and token.text not in words:
            return None
    return parse_property(parser, dialect, kind)


def print_property(printer: Printer, dialect: str, kind: Property, value: Attribute) -> None:
    """Write a property as `parse_property` reads it."""
    if kind.kind == "symbol" and isinstance(value, StringAttr):
        printer.print_symbol_name(value.data)
    elif kind.kind == "typed" and isinstance(value, IntegerAttr):
        integer = cast("IntegerAttr[Any]", value)
        printer.print_int(integer.value.data, i1 if integer.type == i1 else None)
    elif kind.kind == "typed" and isinstance(value, FloatAttr):
        real = cast("FloatAttr[Any]", value)
        printer.print_float(real.value.data, real.type)
    elif kind.kind == "array" and isinstance(value, DenseArrayBase):
        _print_array(printer, cast("DenseArrayBase[Any]", value))
    elif kind.kind == "enum" and isinstance(value, IntegerAttr):
        enum = find_enum(dialect, kind.detail)
        name = enum.names.get(cast("IntegerAttr[Any]", value).value.data, "")
        printer.print_string(name if _WORD.match(name) else f'"{name}"')
    elif kind.kind == "dialect":
        printer.print_string(stripped(printer, value, kind.detail))
    elif kind.kind == "keyword":
        # Its printer begins with a space, after the one that the format has.
        printer.print_string(f" {stripped(printer, value, kind.detail)}")
    else:
        printer.print_attribute(value)


def is_default(kind: Property, value: Attribute) -> bool:
    """Whether a property is what it is without being written."""
    return kind.presence.startswith("default") and _spelled(value) == kind.default


def default_of(kind: Property, context: Context) -> Attribute | None:
    """The value of a property that the text leaves out; None where it is absent then."""
    if kind.presence != "default":
        return None
    return _parsed(kind.default, context)


def stripped(printer: Printer, value: Attribute, mnemonic: str) -> str:
    """An attribute of a dialect without its `#dialect.mnemonic`."""
    from io import StringIO

    before, printer.stream = printer.stream, StringIO()
    try:
        printer.print_attribute(value)
        text = printer.stream.getvalue()
    finally:
        printer.stream = before
    dialect, _, name = mnemonic.partition(".")
    short, long = f"#{mnemonic}", f"#{dialect}<{name}"
    if text.startswith(long):
        return text[len(long) : -1].strip()
    return text.removeprefix(short).strip()


@lru_cache(maxsize=1024)
def _spelled(value: Attribute) -> str:
    return str(value)


_PARSED: dict[tuple[bool, str], Attribute] = {}


def _parsed(text: str, context: Context) -> Attribute:
    key = context.allow_unregistered, text
    if key not in _PARSED:
        from xdsl.parser import Parser

        _PARSED[key] = Parser(context, text).parse_attribute()
    return _PARSED[key]


@lru_cache
def builtin_type(text: str) -> TypeAttribute:
    """A builtin type from its text: `i64`, `index`."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.parser import Parser

    context = Context()
    context.load_dialect(Builtin)
    return Parser(context, text).parse_type()


def _parse_typed(parser: Parser, type_text: str) -> Attribute:
    if parser._current_token.kind is MLIRTokenKind.BARE_IDENT or type_text == "i1":
        value = parser.parse_optional_boolean()
        if value is not None:
            return IntegerAttr.from_bool(value)
        return parser.parse_attribute()
    if parser._current_token.kind not in _NUMBER:
        return parser.parse_attribute()
    kind = builtin_type(type_text)
    if isinstance(kind, AnyFloat):
        return FloatAttr(float(parser.parse_number()), kind)
    return IntegerAttr(parser.parse_integer(), cast("Any", kind))


def _parse_array(parser: Parser, type_text: str) -> Attribute:
    kind = cast("Any", builtin_type(type_text))
    if type_text == "i1":
        values: list[Any] = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_boolean
        )
    elif isinstance(kind, AnyFloat):
        values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_number)
    else:
        values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return DenseArrayBase.from_list(kind, values)


def _print_array(printer: Printer, array: DenseArrayBase[Any]) -> None:
    element = array.elt_type
    with printer.in_square_brackets():
        if isinstance(element, AnyFloat):
            printer.print_list(
                array.get_values(), lambda value: printer.print_float(cast("float", value), element)
            )
        elif element == i1:
            printer.print_list(
                array.get_values(),
                lambda value: printer.print_string("true" if value else "false"),
            )
        else:
            printer.print_list(array.get_values(), lambda value: printer.print_int(value))


def _parse_enum(parser: Parser, enum: Enum) -> Attribute:
    kind = cast("Any", builtin_type(enum.type))
    start = parser.pos
    name = parser.parse_optional_identifier() or parser.parse_optional_str_literal()
    if name is None:
        return parser.parse_attribute()
    if name not in enum.values:
        parser.raise_error(f"expected one of: {', '.join(enum.values)}", start)
    return IntegerAttr(enum.values[name], kind)


def _parse_keyword(parser: Parser, mnemonic: str) -> Attribute:
    """An attribute of a dialect from its only word."""
    start = parser.pos
    definition = parser.ctx.get_optional_attr(mnemonic)
    if definition is not None and not issubclass(definition, UnregisteredAttr):
        if issubclass(definition, ParametrizedAttribute):
            return definition.new(definition.parse_parameters(parser))
        if issubclass(definition, Data):
            made = cast("Any", definition)
            return made(made.parse_parameter(parser))
    name = parser.parse_optional_identifier()
    if name is None or definition is None:
        parser.raise_error(f"expected a word of #{mnemonic}", start)
    return cast("Any", definition)(mnemonic, False, True, f" {name}")
