"""The ops that an importer builds for one node of a model at a time."""

from __future__ import annotations

from xdsl.ir import Block, Operation


class OpsOfNode:
    """The block of the function that is imported, and what it has of the node imported now."""

    def __init__(self) -> None:
        self.block = Block()
        #: ops of the node that is imported now
        self.emitted: list[Operation] = []

    def emit(self, op: Operation) -> Operation:
        """Append an op of the node being imported."""
        self.block.add_op(op)
        self.emitted.append(op)
        return op

    def take_back(self) -> None:
        """Erase what was emitted of the node being imported."""
        for op in reversed(self.emitted):
            op.detach()
            op.erase()
        self.emitted.clear()
