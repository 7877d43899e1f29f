"""Cases of switches: integers with regions, or with blocks and their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, VectorType, i32, i64
from xdsl.ir import Attribute, Block
from xdsl.parser import UnresolvedOperand

from qdialect.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
    Successor,
    Types,
)
from qdialect.upstream.region_directives import (
    RegionValue,
    close_region,
    print_region,
)
from qdialect.upstream.states import Reading, Writing


class SwitchCases(CustomSyntax):
    """`case 2 { .. } case 5 { .. }`: a property with the integers, and the regions."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        cases, regions = self._parts(arguments)
        integers: list[int] = []
        made = state.regions.setdefault(regions.names[0], [])
        while state.parser.parse_optional_keyword("case"):
            integers.append(state.parser.parse_integer())
            region = state.parser.parse_region()
            close_region(state, region, regions.terminator)
            made.append(region)
        state.properties[cases] = DenseArrayBase.from_list(i64, integers)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        cases, regions = self._parts(arguments)
        integers = cast("Any", state.property(cases)).get_values()
        for integer, region in zip(integers, state.regions[regions.names[0]], strict=True):
            state.new_line()
            state.printer.print_string(f"case {integer} ")
            print_region(state, region, "")

    def _parts(self, arguments: Sequence[Directive | str]) -> tuple[str, RegionValue]:
        (cases,) = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
        (regions,) = [part for part in arguments if isinstance(part, RegionValue)]
        return cases, regions


class SwitchOpCases(CustomSyntax):
    """`default: ^bb1(%x : f32), 42: ^bb2`: the type of the flag, then the default's block,
    operands and types, then the integers, and the cases' blocks, operands and types."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser
        flag, default, values, cases = self._parts(arguments)
        kind = cast("Any", state.types[flag][0])
        parser.parse_keyword("default")
        parser.parse_punctuation(":")
        block, operands, types = _parse_target(state)
        state.successors[default[0]] = [block]
        state.operands[default[1]], state.types[default[1]] = operands, types
        integers: list[int] = []
        blocks: list[Block] = []
        counts: list[int] = []
        all_operands: list[UnresolvedOperand] = []
        all_types: list[Attribute] = []
        while parser.parse_optional_punctuation(","):
            integers.append(parser.parse_integer())
            parser.parse_punctuation(":")
            block, operands, types = _parse_target(state)
            blocks.append(block)
            counts.append(len(operands))
            all_operands += operands
            all_types += types
        if integers:
            shape = VectorType(kind, [len(integers)])
            state.properties[values] = DenseIntOrFPElementsAttr.from_list(shape, integers)
        state.successors[cases[0]] = blocks
        state.operands[cases[1]], state.types[cases[1]] = all_operands, all_types
        state.properties[state.segments_of(cases[1])] = DenseArrayBase.from_list(i32, counts)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        _, default, values, cases = self._parts(arguments)
        state.printer.print_string("  default: ")
        _print_target(state, state.successors[default[0]][0], state.values(default[1]))
        given = cast("Any", state.property(values))
        integers: list[int] = [] if given is None else list(given.get_values())
        sizes = cast("Any", state.property(state.segments_of(cases[1]))).get_values()
        start = 0
        blocks = state.successors[cases[0]]
        for integer, block, size in zip(integers, blocks, sizes, strict=True):
            state.printer.print_string(",")
            state.new_line()
            state.printer.print_string(f"  {integer}: ")
            _print_target(state, block, state.values(cases[1])[start : start + size])
            start += size
        if integers:
            state.new_line()

    def _parts(
        self, arguments: Sequence[Directive | str]
    ) -> tuple[str, tuple[str, str], str, tuple[str, str]]:
        (flag, *_) = [part.names[0] for part in arguments if isinstance(part, Types)]
        blocks = [part.names[0] for part in arguments if isinstance(part, Successor)]
        operands = [part.names[0] for part in arguments if isinstance(part, Operands)]
        (values,) = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
        return flag, (blocks[0], operands[0]), values, (blocks[1], operands[1])


def _parse_target(state: Reading) -> tuple[Block, list[UnresolvedOperand], list[Attribute]]:
    """`^bb1(%x, %y : f32, i32)`."""
    parser = state.parser
    block = parser.parse_successor()
    if not parser.parse_optional_punctuation("("):
        return block, [], []
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types: list[Attribute] = []
    types += parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return block, operands, types


def _print_target(state: Writing, block: Block, values: Sequence[Any]) -> None:
    state.printer.print_block_name(block)
    if values:
        state.printer.print_string("(")
        state.printer.print_list(values, state.printer.print_ssa_value)
        state.printer.print_string(" : ")
        state.printer.print_list(values, lambda value: state.printer.print_attribute(value.type))
        state.printer.print_string(")")


DIRECTIVES = {"SwitchCases": SwitchCases(), "SwitchOpCases": SwitchOpCases()}
