"""Dimension numbers, windows, ranges and precision as words and lists.

stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1]
stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [2, 2], pad = [[1, 1], [1, 1]]}
stablehlo.slice %x [0:2, 1:9:2]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import UnresolvedOperand

from qdialect.plugins.mlir.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
)
from qdialect.plugins.mlir.upstream.states import Reading, Writing
from qdialect.plugins.stablehlo.dialect.attributes import (
    ConvolutionDimensionsAttr,
    DotAlgorithmAttr,
    DotDimensionsAttr,
    PrecisionAttr,
    RecordAttr,
    parse_layouts,
)

Arguments = Sequence[Directive | str]


def _names(arguments: Arguments) -> list[str]:
    return [part.kind.name for part in arguments if isinstance(part, PropertyValue)]


def _integers(state: Reading) -> list[int]:
    parser = state.parser
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=True)
    )


def _listed(values: Sequence[object]) -> str:
    return f"[{', '.join(str(v) for v in values)}]"


class ConvolutionDimensions(CustomSyntax):
    """The roles of dimensions: `[b, f, 0]x[o, i, 0]->[b, f, 0]`."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        layouts = parse_layouts(state.parser)
        state.properties[_names(arguments)[0]] = ConvolutionDimensionsAttr(layouts)

    def print(self, state: Writing, arguments: Arguments) -> None:
        value = state.property(_names(arguments)[0])
        cast("ConvolutionDimensionsAttr", value).print_layouts(state.printer)


class WindowAttributes(CustomSyntax):
    """How a window moves: `stride = [1], pad = [[0, 0]], ..., reverse = [false]`."""

    WORDS: tuple[str, ...] = ("stride", "pad", "lhs_dilate", "rhs_dilate", "reverse")

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser, names = state.parser, dict(zip(self.WORDS, _names(arguments), strict=True))
        while True:
            word = next((w for w in names if parser.parse_optional_keyword(w) is not None), None)
            if word is None:
                return
            name = names.pop(word)
            parser.parse_punctuation("=")
            state.properties[name] = self._value(state, word)
            if parser.parse_optional_punctuation(",") is None:
                return

    def _value(self, state: Reading, word: str) -> Attribute:
        parser = state.parser
        if word == "pad":
            rows = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _integers(state)
            )
            if any(len(row) != 2 for row in rows):
                parser.raise_error("padding has two numbers for each dimension")
            kind = TensorType(i64, [len(rows), 2])
            return DenseIntOrFPElementsAttr.from_list(kind, [n for row in rows for n in row])
        values = _integers(state)
        if word == "reverse":
            return DenseArrayBase.from_list(i1, cast("Any", [bool(v) for v in values]))
        return DenseArrayBase.from_list(i64, values)

    def print(self, state: Writing, arguments: Arguments) -> None:
        said: list[str] = []
        for word, name in zip(self.WORDS, _names(arguments), strict=True):
            value = state.property(name)
            if isinstance(value, DenseIntOrFPElementsAttr):
                numbers = [int(v) for v in value.get_values()]
                if len(numbers) == 1:
                    numbers *= cast("TensorType[Any]", value.get_type()).get_shape()[0] * 2
                pairs = zip(numbers[::2], numbers[1::2], strict=True)
                said.append(f"{word} = {_listed([list(pair) for pair in pairs])}")
            elif isinstance(value, DenseArrayBase):
                items: Sequence[Any] = cast("DenseArrayBase[Any]", value).get_values()
                if word == "reverse":
                    items = ["true" if v else "false" for v in items]
                said.append(f"{word} = {_listed(items)}")
        state.printer.print_string(", ".join(said))


class CustomCallTarget(CustomSyntax):
    """A string written as a symbol: `@name`."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        state.properties[_names(arguments)[0]] = state.parser.parse_symbol_name()

    def print(self, state: Writing, arguments: Arguments) -> None:
        value = cast("StringAttr", state.property(_names(arguments)[0]))
        state.printer.print_symbol_name(value.data)


class DotDimensionNumbers(CustomSyntax):
    """`batching_dims = [0] x [0], contracting_dims = [1] x [0]`."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser = state.parser
        found: dict[str, tuple[list[int], list[int]]] = {}
        for word in ("batching_dims", "contracting_dims"):
            optional = word == "batching_dims"
            if optional and parser.parse_optional_keyword(word) is None:
                found[word] = [], []
                continue
            if not optional:
                parser.parse_keyword(word)
            parser.parse_punctuation("=")
            lhs = _integers(state)
            parser.parse_keyword("x")
            found[word] = lhs, _integers(state)
            if optional:
                parser.parse_punctuation(",")
        batch, contracting = found["batching_dims"], found["contracting_dims"]
        dims = (*map(tuple, batch), *map(tuple, contracting))
        state.properties[_names(arguments)[0]] = DotDimensionsAttr(dims)

    def print(self, state: Writing, arguments: Arguments) -> None:
        value = cast("RecordAttr", state.property(_names(arguments)[0]))
        batch, other_batch, lhs, rhs = (cast("Sequence[int]", part) for part in value.data)
        if batch or other_batch:
            state.printer.print_string(f"batching_dims = {_listed(batch)} x ")
            state.printer.print_string(f"{_listed(other_batch)}, ")
        state.printer.print_string(f"contracting_dims = {_listed(lhs)} x {_listed(rhs)}")


class PrecisionConfig(CustomSyntax):
    """`, precision = [DEFAULT, HIGH]`, and with a second property `, algorithm = <...>`."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser, names = state.parser, _names(arguments)
        while parser.parse_optional_punctuation(",") is not None:
            if len(names) > 1 and parser.parse_optional_keyword("algorithm") is not None:
                parser.parse_punctuation("=")
                state.properties[names[1]] = DotAlgorithmAttr.read(parser)
                return
            parser.parse_keyword("precision")
            parser.parse_punctuation("=")
            words = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE,
                lambda: PrecisionAttr(PrecisionAttr.parse_parameter(parser)),
            )
            state.properties[names[0]] = ArrayAttr(words)

    def print(self, state: Writing, arguments: Arguments) -> None:
        names = _names(arguments)
        value = state.property(names[0])
        if isinstance(value, ArrayAttr):
            items = cast("ArrayAttr[Attribute]", value).data
            words = [item.data for item in items if isinstance(item, PrecisionAttr)]
            state.printer.print_string(f", precision = {_listed(words)}")
        algorithm = state.property(names[1]) if len(names) > 1 else None
        if isinstance(algorithm, DotAlgorithmAttr):
            state.printer.print_string(", algorithm = ")
            algorithm.print_parameter(state.printer)


class ExponentMantissa(CustomSyntax):
    """`e5m10`."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        word = state.parser.parse_identifier()
        found = re.fullmatch(r"e(\d+)m(\d+)", word)
        if found is None:
            state.parser.raise_error(f"expected exponent mantissa in format e#m#, saw {word}")
        for name, digits in zip(_names(arguments), found.groups(), strict=True):
            state.properties[name] = IntegerAttr(int(digits), i32)

    def print(self, state: Writing, arguments: Arguments) -> None:
        exponent, mantissa = (
            cast("IntegerAttr[Any]", state.property(name)).value.data for name in _names(arguments)
        )
        state.printer.print_string(f"e{exponent}m{mantissa}")


class SliceRanges(CustomSyntax):
    """`[0:2, 1:9:2]`: start, limit, and stride where it is not 1."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser = state.parser

        def entry() -> tuple[int, int, int]:
            start = parser.parse_integer()
            parser.parse_punctuation(":")
            limit = parser.parse_integer()
            stepped = parser.parse_optional_punctuation(":") is not None
            return start, limit, parser.parse_integer() if stepped else 1

        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, entry)
        for name, part in zip(_names(arguments), range(3), strict=True):
            state.properties[name] = DenseArrayBase.from_list(i64, [r[part] for r in ranges])

    def print(self, state: Writing, arguments: Arguments) -> None:
        lists = [
            cast("DenseArrayBase[Any]", state.property(name)).get_values()
            for name in _names(arguments)
        ]
        ranges = [
            f"{start}:{limit}" + (f":{stride}" if stride != 1 else "")
            for start, limit, stride in zip(*lists, strict=True)
        ]
        state.printer.print_string(_listed(ranges))


class VariadicOperandWithAttribute(CustomSyntax):
    """Operands, with a comma after each: something else follows."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        (operands,) = (part for part in arguments if isinstance(part, Operands))
        found: list[UnresolvedOperand] = []
        while (operand := state.parser.parse_optional_unresolved_operand()) is not None:
            found.append(operand)
            state.parser.parse_punctuation(",")
        state.operands[operands.names[0]] = found

    def print(self, state: Writing, arguments: Arguments) -> None:
        (operands,) = (part for part in arguments if isinstance(part, Operands))
        values = state.values(operands.names[0])
        state.printer.print_list(values, state.printer.print_ssa_value)
        state.printer.print_string(",")


DIRECTIVES = {
    "ConvolutionDimensions": ConvolutionDimensions(),
    "CustomCallTarget": CustomCallTarget(),
    "DotDimensionNumbers": DotDimensionNumbers(),
    "ExponentMantissa": ExponentMantissa(),
    "PrecisionConfig": PrecisionConfig(),
    "PrecisionConfigAndAlgorithm": PrecisionConfig(),
    "SliceRanges": SliceRanges(),
    "VariadicOperandWithAttribute": VariadicOperandWithAttribute(),
    "WindowAttributes": WindowAttributes(),
}
