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
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qdialect.plugins.mlir.enumerations import derived, enumeration

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


def _of_lists(name: str, *lists: str, vector: str = "") -> type[RecordAttr]:
    """Fields that are lists of dimensions, then one that is a dimension; left out where empty."""
    fields = {**dict.fromkeys(lists, "ints"), **({vector: "int"} if vector else {})}
    return derived(RecordAttr, name, fields=fields, elided=tuple(fields))


DotDimensionsAttr = _of_lists("stablehlo.dot", *_DOT)
"""`#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`."""
GatherDimensionsAttr = _of_lists("stablehlo.gather", *_GATHER, vector=_VECTOR)
"""`#stablehlo.gather<offset_dims = [1], ..., index_vector_dim = 1>`."""
DotAlgorithmAttr = derived(
    RecordAttr,
    "stablehlo.dot_algorithm",
    fields={
        "lhs_precision_type": "attribute",
        "rhs_precision_type": "attribute",
        "accumulation_type": "attribute",
        "lhs_component_count": "int",
        "rhs_component_count": "int",
        "num_primitive_operations": "int",
        "allow_imprecise_accumulation": "bool",
    },
)
"""What a product may be computed in."""


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


_COMPARISONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
_COMPARED = ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
_PRECISIONS = ("DEFAULT", "HIGH", "HIGHEST")
ComparisonDirectionAttr = enumeration("stablehlo.comparison_direction", *_COMPARISONS, spaced=True)
"""How two elements are compared."""
PrecisionAttr = enumeration("stablehlo.precision", *_PRECISIONS, spaced=True)
"""How exactly the factors of a product are taken."""
_ENUMERATIONS = {
    "stablehlo.comparison_type": _COMPARED,
    "stablehlo.fft_type": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "stablehlo.transpose": ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    "stablehlo.rng_distribution": ("UNIFORM", "NORMAL"),
    "stablehlo.rng_algorithm": ("DEFAULT", "THREE_FRY", "PHILOX"),
    "chlo.comparison_direction": _COMPARISONS,
    "chlo.comparison_type": _COMPARED,
    "chlo.precision": _PRECISIONS,
}


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


_ATTRIBUTES: list[type[Attribute]] = [
    ComparisonDirectionAttr,
    ConvolutionDimensionsAttr,
    DotAlgorithmAttr,
    DotDimensionsAttr,
    FutureType,
    GatherDimensionsAttr,
    PrecisionAttr,
    TokenType,
    TypeExtensionsAttr,
    _of_lists("stablehlo.scatter", *_SCATTER, vector=_VECTOR),
    _of_lists("chlo.ragged_dot", *_DOT, "lhs_ragged_dimensions", "rhs_group_dimensions"),
    derived(
        RecordAttr, "stablehlo.channel_handle", fields=dict.fromkeys(("handle", "type"), "int")
    ),
    derived(
        RecordAttr,
        "stablehlo.output_operand_alias",
        fields={
            "output_tuple_indices": "ints",
            "operand_index": "int",
            "operand_tuple_indices": "ints",
        },
    ),
    derived(
        RecordAttr,
        "stablehlo.result_accuracy",
        fields={"atol": "float", "rtol": "float", "ulps": "int", "mode": "attribute"},
        elided=("atol", "rtol", "ulps"),
    ),
    enumeration("stablehlo.result_accuracy_mode", "DEFAULT", "HIGHEST", "TOLERANCE"),
    *(enumeration(name, *cases, spaced=True) for name, cases in _ENUMERATIONS.items()),
]
STABLEHLO_ATTRIBUTES = [kind for kind in _ATTRIBUTES if kind.name.startswith("stablehlo.")]
CHLO_ATTRIBUTES = [kind for kind in _ATTRIBUTES if kind.name.startswith("chlo.")]
