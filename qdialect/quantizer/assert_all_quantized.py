"""Fail if an op that could be in integers is float, and say of each why.

An op is in integers if a result or an operand is quantized, or if it stands between
dequantize and quantize (which is what QDQ form spells it as). Reasons come from the
remarks of apply-profile where it ran in the same session; of other ops:

| code | meaning |
|---|---|
| `unknown-op` | nothing is declared of the op |
| `no-profile` | nothing is quantized here: the op takes and gives floats |
| `float-result` | it takes dequantized codes, but its result is not quantized |
| `float-operand` | its result is quantized, but not all operands are |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.errors import InputError
from qdialect.ir.behaviors import PortKind
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import constant_of
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant import DCastOp, QCastOp, quant_element
from qdialect.quantizer.apply_profile import ApplyProfile
from qdialect.quantizer.coverage import Coverage, Left, kind_of, left_float
from qdialect.quantizer.selection import concerns
from qdialect.quantizer.values import users
from qdialect.rewrite.remarks import key_text


@dataclass(frozen=True)
class AssertAllQuantized(ModulePass):
    """InputError (`not-all-quantized`) that lists every op left float; see the module."""

    name = "assert-all-quantized"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """InputError that names each float op, if there is one."""
        found = coverage(op, session(ctx))
        if found.left:
            raise InputError(
                f"{len(found.left)} of {found.total} ops are float",
                where=op_where(op),
                code="not-all-quantized",
                notes=tuple(map(str, found.left)),
            )


def coverage(module: ModuleOp, ctx: QContext) -> Coverage:
    """What is quantized in a module, and what is float and why."""
    reasons = {
        (remark.op, remark.key): (remark.code, remark.reason.removeprefix("left float: "))
        for remark in ctx.remarks.remarks
        if remark.pass_name == ApplyProfile.name and remark.key
    }
    quantized: Counter[str] = Counter()
    left: list[Left] = []
    for op in _candidates(module, ctx):
        why = _reason(op, ctx)
        if why is None:
            quantized[op.name] += 1
        else:
            left.append(left_float(op, *reasons.get((op.name, key_text(op)), why)))
    return Coverage(quantized, left)


def _candidates(module: ModuleOp, ctx: QContext) -> Iterator[Operation]:
    """The ops that compute on floats or codes."""
    for op in module.walk():
        if concerns(op) or (_codes(op) and ctx.behaviors.get(op) is not None):
            yield op


def _codes(op: Operation) -> bool:
    return bool(op.operands) and any(quant_element(r.type) is not None for r in op.results)


def _reason(op: Operation, ctx: QContext) -> tuple[str, str] | None:
    if _codes(op):
        return None
    behavior = ctx.behaviors.get(op)
    if behavior is None:
        return "unknown-op", f"nothing is declared of '{kind_of(op)}'"
    operands = [
        value
        for index, value in enumerate(op.operands)
        if behavior.operand_port(index).kind is not PortKind.PLAIN and constant_of(value) is None
    ]
    read = all(_is_read(value, ctx) for value in operands)
    if any(quant_element(value.type) is not None for value in op.operands):
        return None  # codes in, floats out: an accumulator that is dequantized
    written = all(_is_written(result, ctx) for result in op.results)
    # What moves or picks is in integers where codes are on either side: casts pass it.
    if (read or written) if behavior.commutes else (read and written):
        return None
    if read:
        return "float-result", "its operands are codes, its result is not quantized"
    if written:
        return "float-operand", "its result is quantized, an operand is no dequantized value"
    return "no-profile", "it takes and gives floats"


def _is_read(value: SSAValue, ctx: QContext) -> bool:
    """Whether a float comes from codes, straight or through ops that move or pick."""
    owner = value.owner
    while isinstance(owner, Operation):
        if isinstance(owner, DCastOp):
            return True
        behavior = ctx.behaviors.get(owner)
        tied = [] if behavior is None or not behavior.commutes else list(owner.operands[:1])
        if not tied:
            return False
        owner = tied[0].owner
    return False


def _is_written(value: SSAValue, ctx: QContext) -> bool:
    """Whether a float becomes codes at every use, straight or through such ops."""
    pending, visited = [value], set[SSAValue]()
    while pending:
        current = pending.pop()
        if current in visited:
            continue
        visited.add(current)
        below = list(users(current))
        if not below:
            return False
        for user in below:
            if isinstance(user, QCastOp):
                continue
            behavior = None if isinstance(user, ReturnOp) else ctx.behaviors.get(user)
            if behavior is None or not behavior.commutes:
                return False
            pending += user.results
    return True
