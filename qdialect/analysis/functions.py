"""Functions and the symbol tables that they stand in."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation


def is_private(function: FuncOp) -> bool:
    """Whether only its own module may call a function."""
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"


def module_of(op: Operation) -> Operation | None:
    """The module in which symbols that `op` names are looked up."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        parent = parent.parent_op()
    return parent
