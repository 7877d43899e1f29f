"""The custom form of upstream's ops, from tables: reading, writing, and classes.

A table (`tables/arith.txt`) has a row for each op of a dialect, which
`python -m tools.upstream_tables` makes from the ODS definitions. One engine reads and writes
what the rows say; no op has a parser of its own. Only rows of ops that a text names are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.plugins.mlir.upstream.names import DIALECTS_WITH_ROWS, OTHER_DIALECTS

if TYPE_CHECKING:
    from xdsl.ir import Operation
    from xdsl.parser import Parser
    from xdsl.printer import Printer

__all__ = [
    "DIALECTS_WITH_ROWS",
    "OTHER_DIALECTS",
    "is_written",
    "op_class",
    "parse_custom_form",
    "print_op",
]


EXACT = frozenset(("builtin", "func", "quant", "stablehlo"))
"""Dialects whose ops xDSL, or a room of ours, verifies as upstream does."""

#: ops in every file, whose custom form xDSL has right: the engine takes time to import
_XDSL_WRITES = frozenset(("builtin.module", "func.func", "func.return"))


def op_class(name: str, base: type[Operation] | None) -> type[Operation] | None:
    """The class of an op, given xDSL's, if it has one."""
    if base is not None and name.partition(".")[0] in EXACT:
        return base
    from qdialect.plugins.mlir.upstream import classes

    return classes.op_class(name, base)


def parse_custom_form(kind: type[Operation], parser: Parser) -> Operation | None:
    """The op whose name was just read; None when no custom form of it is known."""
    from xdsl.ir import Operation

    if kind.dialect_name() in OTHER_DIALECTS:
        return None
    op = None
    if _is_in_tables(kind.name):
        from qdialect.plugins.mlir.upstream import syntax

        op = syntax.parse_op(kind.name, kind, parser)
    if op is None and kind.parse.__func__ is not Operation.parse.__func__:
        op = kind.parse(parser)
    return op


def is_written(op: Operation) -> bool:
    """Whether the custom form of `op` is in the tables and `op` is as its row says."""
    if not _is_in_tables(op.name):
        return False
    from qdialect.plugins.mlir.upstream import syntax

    return syntax.is_written(op)


def print_op(op: Operation, printer: Printer) -> bool:
    """Write what follows the name of `op`; False when `is_written` is."""
    if not _is_in_tables(op.name):
        return False
    from qdialect.plugins.mlir.upstream import syntax

    return syntax.print_op(op, printer)


def _is_in_tables(name: str) -> bool:
    return name not in _XDSL_WRITES and name.partition(".")[0] in DIALECTS_WITH_ROWS
