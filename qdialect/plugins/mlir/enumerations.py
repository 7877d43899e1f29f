"""Attributes that are one of a few names: `#tosa.resize_mode<BILINEAR>`, or, `spaced`,
`#stablehlo<comparison_direction EQ>`."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, TypeVar, cast

from typing_extensions import override
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Kind = TypeVar("Kind", bound=Attribute)


class EnumAttr(Data[str], ABC):
    """One of `cases`."""

    cases: ClassVar[tuple[str, ...]]

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return cls.parse_case(parser)

    @classmethod
    def parse_case(cls, parser: AttrParser) -> str:
        """The name alone."""
        case = parser.parse_identifier()
        if case not in cls.cases:
            parser.raise_error(f"{cls.name} is one of {', '.join(cls.cases)}, not '{case}'")
        return case


class SpacedEnumAttr(EnumAttr, SpacedOpaqueSyntaxAttribute, ABC):
    """The same without brackets of its own."""

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> str:
        return cls.parse_case(parser)


def derived(base: type[Kind], name: str, **members: object) -> type[Kind]:
    """The class of the attribute `name`, with members that `base` reads."""
    made = type(name, (base,), {"name": name, "__module__": base.__module__, **members})
    return cast("type[Kind]", irdl_attr_definition(made))


def enumeration(name: str, *cases: str, spaced: bool = False) -> type[EnumAttr]:
    """The class of the attribute `name`, which is one of `cases`."""
    return derived(SpacedEnumAttr if spaced else EnumAttr, name, cases=cases)
