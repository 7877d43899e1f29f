"""The attributes of StableHLO and CHLO: dimension numbers, enumerations and records."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from typing_extensions import Self, override
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import (
    Attribute,
    Data,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Layout = tuple[str, ...]
"""The role of each dimension: `b`, `f`, `i`, `o`, or the number of a spatial dimension."""

Field = tuple[int, ...] | int | bool | float | str | Attribute | None
"""What a field of a record holds."""


@irdl_attr_definition
class ConvolutionDimensionsAttr(Data[tuple[Layout, Layout, Layout]]):
    """`#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`: input, kernel, output."""

    name = "stablehlo.conv"

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_layouts(printer)

    def print_layouts(self, printer: Printer) -> None:
        """Without the angle brackets, as `dim_numbers` of a convolution has them."""
        x, kernel, result = (f"[{', '.join(layout)}]" for layout in self.data)
        printer.print_string(f"{x}x{kernel}->{result}")

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> tuple[Layout, Layout, Layout]:
        with parser.in_angle_brackets():
            # The form with names: `<raw input_batch_dimension = 0, ...>` is not printed.
            return parse_layouts(parser)


def parse_layouts(parser: AttrParser) -> tuple[Layout, Layout, Layout]:
    """Input, kernel and output of a convolution."""
    x = _layout(parser)
    parser.parse_keyword("x")
    kernel = _layout(parser)
    parser.parse_punctuation("->")
    return x, kernel, _layout(parser)


def _layout(parser: AttrParser) -> Layout:
    def role() -> str:
        if parser.parse_optional_punctuation("?") is not None:
            return "?"
        number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        return parser.parse_identifier() if number is None else str(number)

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, role))


class RecordAttr(Data[tuple[Field, ...]], ABC):
    """Named fields: `<name = value, ...>`.

    `fields`: the names, each with what it holds: `ints` (a list), `int`, `bool`, `float`, `str`
    (in quotes) or `attribute` (or a type). Those in `elided` are left out where they are empty
    or 0.
    """

    fields: ClassVar[Mapping[str, str]]
    elided: ClassVar[Sequence[str]] = ()

    @property
    def values(self) -> Mapping[str, Field]:
        """What each name has."""
        return dict(zip(self.fields, self.data, strict=True))

    @override
    def print_parameter(self, printer: Printer) -> None:
        said = [
            (name, value)
            for name, value in self.values.items()
            if name not in self.elided or value not in (None, (), 0)
        ]
        with printer.in_angle_brackets():
            printer.print_list(said, lambda entry: self._print_field(printer, *entry))

    def _print_field(self, printer: Printer, name: str, value: Field) -> None:
        printer.print_string(f"{name} = ")
        if isinstance(value, Attribute):
            printer.print_attribute(value)
        elif self.fields[name] == "str":
            printer.print_string_literal(str(value))
        elif isinstance(value, bool):
            printer.print_string("true" if value else "false")
        elif isinstance(value, tuple):
            printer.print_string(f"[{', '.join(str(v) for v in value)}]")
        elif isinstance(value, float):
            printer.print_string(f"{value:e}")
        else:
            printer.print_string(str(value))

    @classmethod
    def read(cls, parser: AttrParser) -> Self:
        """What stands after the name of the attribute."""
        return cls(cls.parse_parameter(parser))

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> tuple[Field, ...]:
        found: dict[str, Field] = {}
        parser.parse_punctuation("<")
        # A comma after the last field is read too.
        while parser.parse_optional_punctuation(">") is None:
            name = parser.parse_identifier()
            if name not in cls.fields:
                parser.raise_error(f"{cls.name} has {', '.join(cls.fields)}, no '{name}'")
            parser.parse_punctuation("=")
            found[name] = _field(parser, cls.fields[name])
            if parser.parse_optional_punctuation(",") is None:
                parser.parse_punctuation(">")
                break
        return tuple(found.get(name, _nothing(kind)) for name, kind in cls.fields.items())


def _nothing(kind: str) -> Field:
    return {"ints": (), "int": 0}.get(kind)


def _field(parser: AttrParser, kind: str) -> Field:
    if kind == "ints":
        square = parser.Delimiter.SQUARE
        return tuple(parser.parse_comma_separated_list(square, parser.parse_integer))
    if kind == "int":
        return parser.parse_integer(allow_boolean=False)
    if kind == "bool":
        return parser.parse_boolean()
    if kind == "float":
        return float(parser.parse_number())
    if kind == "str":
        return parser.parse_str_literal()
    return parser.parse_attribute()


_DOT = (
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
)
_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
)
_SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
)
_VECTOR = "index_vector_dim"
_RAGGED = (*_DOT, "lhs_ragged_dimensions", "rhs_group_dimensions")


@irdl_attr_definition
class DotDimensionsAttr(RecordAttr):
    """`#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`."""

    name = "stablehlo.dot"
    fields: ClassVar[Mapping[str, str]] = dict.fromkeys(_DOT, "ints")
    elided: ClassVar[Sequence[str]] = _DOT


@irdl_attr_definition
class GatherDimensionsAttr(RecordAttr):
    """`#stablehlo.gather<offset_dims = [1], ..., index_vector_dim = 1>`."""

    name = "stablehlo.gather"
    fields: ClassVar[Mapping[str, str]] = {**dict.fromkeys(_GATHER, "ints"), _VECTOR: "int"}
    elided: ClassVar[Sequence[str]] = (*_GATHER, _VECTOR)


@irdl_attr_definition
class ScatterDimensionsAttr(RecordAttr):
    """`#stablehlo.scatter<update_window_dims = [1], ..., index_vector_dim = 1>`."""

    name = "stablehlo.scatter"
    fields: ClassVar[Mapping[str, str]] = {**dict.fromkeys(_SCATTER, "ints"), _VECTOR: "int"}
    elided: ClassVar[Sequence[str]] = (*_SCATTER, _VECTOR)


@irdl_attr_definition
class RaggedDotDimensionsAttr(RecordAttr):
    """`#chlo.ragged_dot<..., lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>`."""

    name = "chlo.ragged_dot"
    fields: ClassVar[Mapping[str, str]] = dict.fromkeys(_RAGGED, "ints")
    elided: ClassVar[Sequence[str]] = _RAGGED


@irdl_attr_definition
class ChannelHandleAttr(RecordAttr):
    """`#stablehlo.channel_handle<handle = 1, type = 0>`."""

    name = "stablehlo.channel_handle"
    fields: ClassVar[Mapping[str, str]] = {"handle": "int", "type": "int"}


@irdl_attr_definition
class DotAlgorithmAttr(RecordAttr):
    """What a product may be computed in."""

    name = "stablehlo.dot_algorithm"
    fields: ClassVar[Mapping[str, str]] = {
        "lhs_precision_type": "attribute",
        "rhs_precision_type": "attribute",
        "accumulation_type": "attribute",
        "lhs_component_count": "int",
        "rhs_component_count": "int",
        "num_primitive_operations": "int",
        "allow_imprecise_accumulation": "bool",
    }


@irdl_attr_definition
class OutputOperandAliasAttr(RecordAttr):
    """Which result of a custom call is written into which operand."""

    name = "stablehlo.output_operand_alias"
    fields: ClassVar[Mapping[str, str]] = {
        "output_tuple_indices": "ints",
        "operand_index": "int",
        "operand_tuple_indices": "ints",
    }


@irdl_attr_definition
class ResultAccuracyAttr(RecordAttr):
    """How far a function may be off."""

    name = "stablehlo.result_accuracy"
    fields: ClassVar[Mapping[str, str]] = {
        "atol": "float",
        "rtol": "float",
        "ulps": "int",
        "mode": "attribute",
    }
    elided: ClassVar[Sequence[str]] = ("atol", "rtol", "ulps")


@irdl_attr_definition
class TypeExtensionsAttr(ParametrizedAttribute):
    """`#stablehlo.bounds<?, 3>`, or `type_extensions<bounds = [?, 3]>`: the largest extents of
    dimensions that are not known; `bounds` has the least i64 where there is none."""

    name = "stablehlo.bounds"
    bounds: DenseArrayBase

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def extent() -> int:
            if parser.parse_optional_punctuation("?") is not None:
                return _UNKNOWN
            return parser.parse_integer()

        found = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, extent)
        return [DenseArrayBase.from_list(i64, found)]

    @override
    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            extents = [int(n) for n in cast("DenseArrayBase[Any]", self.bounds).get_values()]
            printer.print_string(", ".join("?" if n == _UNKNOWN else str(n) for n in extents))


_UNKNOWN = -(1 << 63)


class EnumAttr(Data[str], SpacedOpaqueSyntaxAttribute, ABC):
    """One of a few names: `#stablehlo<comparison_direction EQ>`."""

    cases: ClassVar[Sequence[str]]

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> str:
        case = parser.parse_identifier()
        if case not in cls.cases:
            parser.raise_error(f"{cls.name} is one of {', '.join(cls.cases)}, not '{case}'")
        return case


_COMPARISONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
_COMPARED = ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
_PRECISIONS = ("DEFAULT", "HIGH", "HIGHEST")


@irdl_attr_definition
class ComparisonDirectionAttr(EnumAttr):
    """How two elements are compared."""

    name = "stablehlo.comparison_direction"
    cases: ClassVar[Sequence[str]] = _COMPARISONS


@irdl_attr_definition
class ComparisonTypeAttr(EnumAttr):
    """As what elements are compared."""

    name = "stablehlo.comparison_type"
    cases: ClassVar[Sequence[str]] = _COMPARED


@irdl_attr_definition
class PrecisionAttr(EnumAttr):
    """How exactly the factors of a product are taken."""

    name = "stablehlo.precision"
    cases: ClassVar[Sequence[str]] = _PRECISIONS


@irdl_attr_definition
class FftTypeAttr(EnumAttr):
    """Which Fourier transform."""

    name = "stablehlo.fft_type"
    cases: ClassVar[Sequence[str]] = ("FFT", "IFFT", "RFFT", "IRFFT")


@irdl_attr_definition
class TransposeAttr(EnumAttr):
    """How the matrix of a triangular system is taken."""

    name = "stablehlo.transpose"
    cases: ClassVar[Sequence[str]] = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


@irdl_attr_definition
class RngDistributionAttr(EnumAttr):
    """How random numbers are distributed."""

    name = "stablehlo.rng_distribution"
    cases: ClassVar[Sequence[str]] = ("UNIFORM", "NORMAL")


@irdl_attr_definition
class RngAlgorithmAttr(EnumAttr):
    """How random bits are made."""

    name = "stablehlo.rng_algorithm"
    cases: ClassVar[Sequence[str]] = ("DEFAULT", "THREE_FRY", "PHILOX")


@irdl_attr_definition
class ResultAccuracyModeAttr(Data[str]):
    """`#stablehlo.result_accuracy_mode<DEFAULT>`."""

    name = "stablehlo.result_accuracy_mode"

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()


@irdl_attr_definition
class ChloComparisonDirectionAttr(EnumAttr):
    """How two elements are compared."""

    name = "chlo.comparison_direction"
    cases: ClassVar[Sequence[str]] = _COMPARISONS


@irdl_attr_definition
class ChloComparisonTypeAttr(EnumAttr):
    """As what elements are compared."""

    name = "chlo.comparison_type"
    cases: ClassVar[Sequence[str]] = _COMPARED


@irdl_attr_definition
class ChloPrecisionAttr(EnumAttr):
    """How exactly the factors of a product are taken."""

    name = "chlo.precision"
    cases: ClassVar[Sequence[str]] = _PRECISIONS


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """`!stablehlo.token`: what orders side effects."""

    name = "stablehlo.token"


@irdl_attr_definition
class FutureType(Data[tuple[Attribute, ...]], TypeAttribute):
    """`!stablehlo.future<...>`: values that are being computed."""

    name = "stablehlo.future"

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data, printer.print_attribute)

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> tuple[Attribute, ...]:
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_type))


STABLEHLO_ATTRIBUTES: list[type[Attribute]] = [
    ChannelHandleAttr,
    ComparisonDirectionAttr,
    ComparisonTypeAttr,
    ConvolutionDimensionsAttr,
    DotAlgorithmAttr,
    DotDimensionsAttr,
    FftTypeAttr,
    FutureType,
    GatherDimensionsAttr,
    OutputOperandAliasAttr,
    PrecisionAttr,
    ResultAccuracyAttr,
    ResultAccuracyModeAttr,
    RngAlgorithmAttr,
    RngDistributionAttr,
    ScatterDimensionsAttr,
    TokenType,
    TransposeAttr,
    TypeExtensionsAttr,
]
CHLO_ATTRIBUTES: list[type[Attribute]] = [
    ChloComparisonDirectionAttr,
    ChloComparisonTypeAttr,
    ChloPrecisionAttr,
    RaggedDotDimensionsAttr,
]
