"""Reads and writes the custom form of the ops that have a row."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.plugins.mlir.upstream.attributes import default_of
from qdialect.plugins.mlir.upstream.directives import Custom, print_all
from qdialect.plugins.mlir.upstream.grammar import format_of
from qdialect.plugins.mlir.upstream.states import (
    OPERAND_SEGMENTS,
    RESULT_SEGMENTS,
    Reading,
    Writing,
    inherent_as_attribute,
    parts_of,
)
from qdialect.plugins.mlir.upstream.table import Value, find_row


def parse_op(name: str, kind: type[Operation], parser: Parser) -> Operation | None:
    """The op whose name the parser has just read; None when its custom form is unknown.

    Raises ParseError.
    """
    found = format_of(name)
    row = find_row(name)
    if found is None or row is None:
        return None
    start = parser.pos
    state = Reading(row, parser)
    for element in found.elements:
        element.parse(state)
    state.start = start
    for value in (*row.operands, *row.results):
        state.types_of(value.name)
    return _make(state, kind, start)


def is_written(op: Operation) -> bool:
    """Whether the custom form of `op` is known, and `op` has the parts that its row says."""
    found = format_of(op.name)
    row = find_row(op.name)
    if found is None or row is None:
        return False
    present = op.properties.keys() | op.attributes.keys()
    if not all(
        kind.presence != "required" or name not in found.properties or name in present
        for name, kind in row.properties.items()
    ):
        return False
    try:
        parts_of(row, op)
    except VerifyException:
        return False
    customs = (part.syntax for part in found.elements if isinstance(part, Custom))
    return all(syntax.can_write(op) for syntax in customs)


def print_op(op: Operation, printer: Printer) -> bool:
    """Write what follows the name of `op`; False when its custom form is unknown."""
    found = format_of(op.name)
    row = find_row(op.name)
    if found is None or row is None or not is_written(op):
        return False
    state = Writing(row, op, printer)
    state.written |= found.properties
    print_all(state, found.elements)
    return True


def _make(state: Reading, kind: type[Operation], start: int) -> Operation:
    row, parser = state.row, state.parser
    sizes: list[int] = []
    operands: list[Any] = []
    for value in row.operands:
        given = state.operands.get(value.name, [])
        types = state.types[value.name]
        if len(types) != len(given):
            parser.raise_error(f"expected {len(given)} operand types but had {len(types)}", start)
        operands += [
            parser.resolve_operand(operand, kind)
            for operand, kind in zip(given, types, strict=True)
        ]
        sizes.append(len(given))
    properties = dict(state.properties)
    for name, entry in row.properties.items():
        if name not in properties:
            default = default_of(entry, parser.ctx)
            if default is not None:
                properties[name] = default
    if "operand-segments" in row.traits:
        properties[OPERAND_SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
    results = [state.types[value.name] for value in row.results]
    if "result-segments" in row.traits:
        properties[RESULT_SEGMENTS] = DenseArrayBase.from_list(i32, [len(part) for part in results])
    attributes = dict(state.attributes)
    for name in inherent_as_attribute(kind) & properties.keys():
        attributes[name] = properties.pop(name)
    return kind.create(
        operands=operands,
        result_types=[type for part in results for type in part],
        properties=properties,
        attributes=attributes,
        successors=[b for value in row.successors for b in state.successors.get(value.name, ())],
        regions=[region for value in row.regions for region in _regions(state, value)],
    )


def _regions(state: Reading, value: Value) -> list[Region]:
    """The regions of this name: one without blocks where the text has none."""
    return state.regions.get(value.name) or ([] if value.repeat else [Region()])
