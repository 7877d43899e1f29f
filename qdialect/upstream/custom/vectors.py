"""Syntax of vectors: transfers with their default maps, masked regions, shuffles."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr, VectorType, i1
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from qdialect.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
    Types,
)
from qdialect.upstream.region_directives import (
    RegionValue,
)
from qdialect.upstream.states import Reading, Writing
from qdialect.upstream.types import element_of


def _properties(arguments: Sequence[Directive | str]) -> list[str]:
    return [part.kind.name for part in arguments if isinstance(part, PropertyValue)]


def _types(arguments: Sequence[Directive | str]) -> list[str]:
    return [part.names[0] for part in arguments if isinstance(part, Types)]


def _minor_identity(base: Any, vector: Any) -> AffineMap:
    """The map of a transfer that has none: the last dimensions of `base`, in order."""
    rank = len(base.get_shape())
    element = element_of(base)
    inner = len(element.get_shape()) if isinstance(element, VectorType) else 0
    if rank == 0 and tuple(vector.get_shape()) == (1,):
        return AffineMap(0, 0, (AffineExpr.constant(0),))
    count = len(vector.get_shape()) - inner
    return AffineMap(rank, 0, tuple(AffineExpr.dimension(rank - count + n) for n in range(count)))


def _mask_type(vector: Any, places: AffineMap) -> Attribute:
    """The type of the mask of a transfer: the extents of `vector` in the order of memory."""
    used: list[tuple[int, int]] = []
    for index, result in enumerate(places.results):
        if isinstance(result, AffineDimExpr):
            used.append((result.position, index))
    order = [index for _, index in sorted(used)]
    extents = [vector.get_shape()[index] for index in order] or [1]
    flags = (
        [bool(flag) for flag in vector.get_scalable_dims()]
        if any(bool(flag) for flag in vector.get_scalable_dims())
        else []
    )
    if not flags or not order:
        return VectorType(i1, extents)
    scalable = ArrayAttr([IntegerAttr.from_bool(flags[index]) for index in order])
    return VectorType(i1, extents, scalable)


class TransferAttributes(CustomSyntax):
    """`attr-dict` of a transfer, whose map and `in_bounds` are left out where they are the usual
    ones: arguments are the two, and the types of memory and vector."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        for name, value in state.parser.parse_optional_attr_dict().items():
            inherent = name in state.row.properties
            (state.properties if inherent else state.attributes)[name] = value

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        places, bounds = _properties(arguments)
        base, vector = (state.types(name)[0] for name in _types(arguments))
        shown = {
            name: value for name, value in state.properties.items() if name not in state.written
        }
        given = cast("Any", state.property(places))
        if given is not None and given.data != _minor_identity(base, vector):
            shown[places] = given
        inside = cast("Any", state.property(bounds))
        if inside is not None and any(entry.value.data for entry in inside.data):
            shown[bounds] = inside
        if shown:
            state.printer.print_string(" ")
            state.printer.print_attr_dict(shown)


class TransferDefaults(CustomSyntax):
    """Nothing in the text: the map, `in_bounds` and the type of the mask that are left out."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        places, bounds = _properties(arguments)
        base, vector = (cast("Any", state.types_of(name)[0]) for name in _types(arguments))
        usual = AffineMapAttr(_minor_identity(base, vector))
        found = cast("AffineMapAttr", state.properties.setdefault(places, usual))
        outside = ArrayAttr([IntegerAttr.from_bool(False)] * len(found.data.results))
        state.properties.setdefault(bounds, outside)
        (mask,) = [part.names[0] for part in arguments if isinstance(part, Operands)]
        if state.operands.get(mask):
            state.types[mask] = [_mask_type(vector, found.data)]

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        del state, arguments


class ShuffledType(CustomSyntax):
    """Nothing in the text: the type of a shuffle has as many elements as the mask."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        source, result = _types(arguments)
        kind = cast("Any", state.types_of(source)[0])
        (mask,) = _properties(arguments)
        count = len(cast("Any", state.properties[mask]).get_values())
        state.types[result] = [VectorType(kind.element_type, [count, *kind.get_shape()[1:]])]

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        del state, arguments


class MaskedRegion(CustomSyntax):
    """`{ vector.load .. }` on one line: a region of one op, whose results it yields."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        (region,) = [part for part in arguments if isinstance(part, RegionValue)]
        made = state.parser.parse_region()
        block = made.first_block
        if block is None:
            block = Block()
            made.add_block(block)
        last = block.last_op
        if last is None or last.name != region.terminator:
            results = () if last is None else last.results
            end = state.parser.ctx.get_op(region.terminator)
            block.add_op(end.create(operands=results))
        state.regions[region.names[0]] = [made]

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        (region,) = [part for part in arguments if isinstance(part, RegionValue)]
        (made,) = state.regions[region.names[0]]
        state.printer.print_string("{")
        for op in self._shown(made, region.terminator):
            state.printer.print_string(" ")
            state.print_without_results(op)
        state.printer.print_string(" }")

    def _shown(self, region: Region, terminator: str) -> list[Operation]:
        ops = [op for block in region.blocks for op in block.ops]
        yields = len(ops) == 2 and ops[1].name == terminator
        return ops[:1] if yields and list(ops[1].operands) == list(ops[0].results) else ops


DIRECTIVES = {
    "MaskedRegion": MaskedRegion(),
    "ShuffledType": ShuffledType(),
    "TransferAttributes": TransferAttributes(),
    "TransferDefaults": TransferDefaults(),
}
