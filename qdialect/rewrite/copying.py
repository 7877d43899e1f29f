"""Copies of modules, in one sweep."""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block, Operation, Region, SSAValue

_Op = TypeVar("_Op", bound=Operation)


def copied(op: _Op) -> _Op:
    """`op.clone()`: ops are made with the operands that they have, where those come before
    them, as they mostly do; xDSL's makes all ops first, and then sets all operands."""
    copying = _Copying()
    made = copying.copy(op)
    copying.finish()
    return made


class _Copying:
    def __init__(self) -> None:
        self._values: dict[SSAValue, SSAValue] = {}
        self._blocks: dict[Block, Block] = {}
        #: ops with operands that came after them, or from elsewhere
        self._open: list[tuple[Operation, Operation]] = []

    def copy(self, op: _Op) -> _Op:
        values = self._values
        old = op._operands  # pyright: ignore[reportPrivateUsage]
        operands = [values.get(operand, operand) for operand in old]
        made = type(op).create(
            operands=operands,
            result_types=[result.type for result in op.results],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
            successors=[self._blocks.get(block, block) for block in op.successors],
        )
        for region in op.regions:
            made.add_region(self._region(region))
        if any(one is other for one, other in zip(old, operands, strict=True)):
            self._open.append((op, made))
        for before, after in zip(op.results, made.results, strict=True):
            self._name(before, after)
        return made

    def finish(self) -> None:
        """Give ops the operands that were copied after them."""
        for op, made in self._open:
            made.operands = [self._values.get(operand, operand) for operand in op.operands]

    def _region(self, region: Region) -> Region:
        made = Region()
        blocks = list(region.blocks)
        for block in blocks:
            self._blocks[block] = copy = Block(arg_types=[arg.type for arg in block.args])
            made.add_block(copy)
            for before, after in zip(block.args, copy.args, strict=True):
                after.location = before.location
                self._name(before, after)
        for block in blocks:
            self._blocks[block].add_ops([self.copy(op) for op in block.ops])
        return made

    def _name(self, before: SSAValue, after: SSAValue) -> None:
        self._values[before] = after
        if before.name_hint is not None:
            after.name_hint = before.name_hint
