"""Which dimension is what: the attributes of convolutions, products and gathers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

from typing_extensions import override
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Layout = tuple[str, ...]
"""The role of each dimension: `b`, `f`, `i`, `o`, or the number of a spatial dimension."""


@irdl_attr_definition
class ConvolutionDimensionsAttr(Data[tuple[Layout, Layout, Layout]]):
    """`#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`: input, kernel, output."""

    name = "stablehlo.conv"

    @override
    def print_parameter(self, printer: Printer) -> None:
        x, kernel, result = (f"[{', '.join(layout)}]" for layout in self.data)
        with printer.in_angle_brackets():
            printer.print_string(f"{x}x{kernel}->{result}")

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> tuple[Layout, Layout, Layout]:
        with parser.in_angle_brackets():
            x = _layout(parser)
            parser.parse_keyword("x")
            kernel = _layout(parser)
            parser.parse_punctuation("->")
            return x, kernel, _layout(parser)


def _layout(parser: AttrParser) -> Layout:
    def role() -> str:
        number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        return parser.parse_identifier() if number is None else str(number)

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, role))


class _Named(Data[tuple[tuple[int, ...] | int | None, ...]], ABC):
    """Lists of dimensions, or single ones, by name; empty lists are left out."""

    fields: ClassVar[Sequence[str]]
    single: ClassVar[Sequence[str]] = ()

    @property
    def values(self) -> Mapping[str, tuple[int, ...] | int | None]:
        """What each name has."""
        return dict(zip(self.fields, self.data, strict=True))

    @override
    def print_parameter(self, printer: Printer) -> None:
        said = [
            f"{name} = {value if isinstance(value, int) else list(value)}"
            for name, value in self.values.items()
            if value is not None and value != ()
        ]
        with printer.in_angle_brackets():
            printer.print_string(", ".join(said))

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[int, ...] | int | None, ...]:
        def number() -> int:
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

        def entry() -> tuple[str, tuple[int, ...] | int]:
            name = parser.parse_identifier()
            if name not in cls.fields:
                parser.raise_error(f"{cls.name} has {', '.join(cls.fields)}, no '{name}'")
            parser.parse_punctuation("=")
            if name in cls.single:
                return name, number()
            square = parser.Delimiter.SQUARE
            return name, tuple(parser.parse_comma_separated_list(square, number))

        found = dict(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))
        return tuple(found.get(n, None if n in cls.single else ()) for n in cls.fields)


@irdl_attr_definition
class DotDimensionsAttr(_Named):
    """`#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`."""

    name = "stablehlo.dot"
    fields = (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    )


@irdl_attr_definition
class GatherDimensionsAttr(_Named):
    """`#stablehlo.gather<offset_dims = [1], ..., index_vector_dim = 1>`."""

    name = "stablehlo.gather"
    fields = (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
        "index_vector_dim",
    )
    single = ("index_vector_dim",)
