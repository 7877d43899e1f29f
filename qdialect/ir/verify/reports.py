"""Errors about ops, at the places of the ops."""

from __future__ import annotations

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation

from qdialect.errors import InputError, Note
from qdialect.ir.ops.locations import op_where


def op_name(op: Operation) -> str:
    """The name of an op in the text, also of one nobody knows."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def invalid(
    op: Operation, message: str, *, bare: bool = False, notes: tuple[Note, ...] = ()
) -> InputError:
    """An error about `op`: `'dialect.op' op message`, or the message alone (`bare`).  Further
    lines of the message become notes."""
    first, *rest = message.strip().split("\n")
    prefix = f"'{op_name(op)}' op"
    if not bare and not first.startswith(prefix):
        first = f"{prefix} {first}"
    lines = tuple(line.strip() for line in rest if line.strip())
    return InputError(first, where=op_where(op), code="invalid-ir", notes=(*notes, *lines))


def invalid_place(op: Operation, message: str) -> InputError:
    """An error at the place of `op` that is not about the op as such."""
    return InputError(message, where=op_where(op), code="invalid-ir")


def note(op: Operation, text: str) -> Note:
    """A note at the place of `op`."""
    return Note(text, op_where(op))
