"""Shows the op that a verifier rejects below the error, as mlir-opt does.

x.mlir:2:8: error: 'arith.addi' op requires the same type for all operands and results
x.mlir:2:8: note: see current operation: %0 = "arith.addi"(%arg0, %arg1) : (i32, i64) -> i32
"""

from __future__ import annotations

from io import StringIO

from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove

from qdialect.errors import Block, QError
from qdialect.formats.mlir.write.names import value_names
from qdialect.formats.mlir.write.printer import MLIRPrinter
from qdialect.formats.mlir.write.style import Style
from qdialect.verify.structure import NO_TERMINATOR

LARGEST_SHOWN = 16
"""Dense attributes with more elements are left out."""


def show_operation(error: QError, *, below: bool = True) -> QError:
    """`error`, with a note that shows its op, and with the op in the message where that ends
    with it.  With `below=False` there is no note."""
    op = error.operation
    if not isinstance(op, Operation):
        return error
    text = operation_text(op)
    if error.code == NO_TERMINATOR:
        error.message = Block(f"{error.message}, has {text}", error.where)
    if below and "failed to satisfy constraint" not in error.message:
        # Attributes are verified when they are read, as there is no op yet.
        lines = f"\n{text}" if "\n" in text else text
        error.notes = (Block(f"see current operation: {lines}", error.where), *error.notes)
    error.operation = None
    return error


def operation_text(op: Operation) -> str:
    """One op in the generic form; values are named as in the isolated op around it."""
    scope = op
    while not scope.has_trait(IsolatedFromAbove, value_if_unregistered=False):
        parent = scope.parent_op()
        if parent is None:
            break
        scope = parent
    stream = StringIO()
    printer = MLIRPrinter(stream, print_generic_format=True, style=Style(elide_above=LARGEST_SHOWN))
    names = value_names(scope, generic=True)
    outside = [operand for operand in op.operands if operand not in names]
    printer.take_names({**names, **dict.fromkeys(outside, _UNKNOWN)}, scope)
    try:
        printer.print_op(op)
    except Exception as error:
        return f"<<the op cannot be printed: {type(error).__name__}>>"
    return stream.getvalue().replace(f"%{_UNKNOWN}", "<<UNKNOWN SSA VALUE>>")


_UNKNOWN = "<<UNKNOWN SSA VALUE>>"
