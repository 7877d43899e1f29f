"""The custom form of upstream's ops, from tables: reading, writing, and classes.

A table (`tables/arith.txt`) has a row for each op of a dialect, which
`python -m tools.upstream_tables` makes from the ODS definitions. One engine reads and writes
what the rows say; no op has a parser of its own. Only rows of ops that a text names are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.upstream.names import DIALECTS_WITH_ROWS, OTHER_DIALECTS

if TYPE_CHECKING:
    from xdsl.ir import Operation
    from xdsl.parser import Parser
    from xdsl.printer import Printer

__all__ = [
    "DIALECTS_WITH_ROWS",
    "OTHER_DIALECTS",
    "is_written",
    "op_class",
    "parse_op",
    "print_op",
]


def op_class(name: str, base: type[Operation] | None) -> type[Operation] | None:
    """The class of an op, given xDSL's, if it has one."""
    from qdialect.upstream import classes

    return classes.op_class(name, base)


def parse_op(name: str, kind: type[Operation], parser: Parser) -> Operation | None:
    """The op whose name was just read; None when its custom form is not in the tables."""
    if name.partition(".")[0] not in DIALECTS_WITH_ROWS:
        return None
    from qdialect.upstream import syntax

    return syntax.parse_op(name, kind, parser)


def is_written(op: Operation) -> bool:
    """Whether the custom form of `op` is in the tables and `op` is as its row says."""
    if op.name.partition(".")[0] not in DIALECTS_WITH_ROWS:
        return False
    from qdialect.upstream import syntax

    return syntax.is_written(op)


def print_op(op: Operation, printer: Printer) -> bool:
    """Write what follows the name of `op`; False when `is_written` is."""
    if op.name.partition(".")[0] not in DIALECTS_WITH_ROWS:
        return False
    from qdialect.upstream import syntax

    return syntax.print_op(op, printer)
