"""The directive of regions, and the terminators that their text leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, Region
from xdsl.traits import IsTerminator

from qdialect.plugins.mlir.upstream.directives import Directive
from qdialect.plugins.mlir.upstream.states import Reading, Writing
from qdialect.plugins.mlir.upstream.table import find_row


class RegionValue(Directive):
    """`$name` of regions, or `regions`. A terminator without operands, results and attributes
    is left out where the op has an implicit one."""

    def __init__(self, names: Sequence[str], terminator: str, repeat: str = "") -> None:
        self.names = names
        self.terminator = terminator
        self.repeat = repeat

    def parse(self, state: Reading) -> None:
        parser = state.parser
        for name in self.names:
            if self.repeat == "*":
                found = parser.parse_optional_undelimited_comma_separated_list(
                    parser.parse_optional_region, parser.parse_region
                )
                state.regions[name] = list(found or [])
            else:
                state.regions[name] = [parser.parse_region(state.arguments_of(name))]
            for region in state.regions[name]:
                close_region(state, region, self.terminator)

    def parse_optional(self, state: Reading) -> bool:
        name = self.names[0]
        found = state.parser.parse_optional_region(state.arguments_of(name))
        state.regions[name] = [] if found is None else [found]
        if found is not None:
            close_region(state, found, self.terminator)
        return found is not None

    def print(self, state: Writing) -> None:
        regions = [(name, region) for name in self.names for region in state.regions[name]]
        state.printer.print_list(regions, lambda entry: self._print_region(state, *entry))

    def _print_region(self, state: Writing, name: str, region: Region) -> None:
        print_region(state, region, self.terminator, arguments=not state.is_bound(name))

    def is_present(self, state: Writing) -> bool:
        return any(region.blocks for name in self.names for region in state.regions[name])


def close_region(state: Reading, region: Region, terminator: str) -> None:
    """Add the block and the terminator that the text leaves out."""
    if region.first_block is None and (terminator or "no-terminator" in state.row.traits):
        region.add_block(Block())
    if not terminator:
        return
    for block in region.blocks:
        last = block.last_op
        if last is None or not _is_terminator(last):
            row = find_row(terminator)
            regions = [Region(Block()) for _ in row.regions] if row else []
            block.add_op(state.parser.ctx.get_op(terminator).create(regions=regions))


def _is_terminator(op: Operation) -> bool:
    return op.has_trait(IsTerminator, value_if_unregistered=False)


def print_region(
    state: Writing, region: Region, terminator: str, *, arguments: bool = True
) -> None:
    """Write a region; `arguments` is false when they were written before it."""
    state.printer.print_region(
        region,
        print_entry_block_args=arguments,
        print_block_terminators=not _elides(region, terminator),
        print_empty_block=False,
    )


def _elides(region: Region, terminator: str) -> bool:
    block = region.first_block
    last = None if block is None else block.last_op
    if not terminator or last is None or last.name != terminator:
        return False
    if last.operands or last.results or last.attributes or last.properties:
        return False
    return not any(block.first_op for inner in last.regions for block in inner.blocks)
