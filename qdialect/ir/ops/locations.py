"""Where an op came from: the place in the input that its location or its key names."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from qdialect.errors import Where
from qdialect.ir.ops.keys import keys_of


def op_where(op: Operation) -> Where | None:
    """The place of `op`, or of the nearest op around it that has one; an op without a
    place of its own is named by its key."""
    current: Operation | None = op
    while current is not None:
        where = _where_of(current.location)
        if where is not None:
            keys = keys_of(op) if current is not op else ()
            return Where(where.file, node=keys[0]) if keys else where
        current = current.parent_op()
    keys = keys_of(op)
    return Where(node=keys[0]) if keys else None


def _where_of(location: Attribute) -> Where | None:
    """The place a location names: a position in a file, or a named node."""
    name: str | None = None
    pending = [location]
    while pending:
        current = pending.pop()
        if isinstance(current, FileLineColLoc):
            file = current.filename.data
            if name and current.column.data == 0:
                # An importer's location: the line is the number of a node.
                return Where(file, node=name)
            # A module that no text spells out is at line 0 of its file, as in mlir-opt.
            line = current.line.data
            return Where(file, line, current.column.data) if line else Where(file)
        if isinstance(current, NameLoc):
            name = name or current.desc.data
            pending.append(current.location)
        elif isinstance(current, FusedLoc):
            parts = current.locations
            if isinstance(parts, ArrayAttr):
                pending.extend(reversed(cast("ArrayAttr[Attribute]", parts).data))
    return Where(node=name) if name else None
