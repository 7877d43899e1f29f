"""Which ops are to stay float, by what people call them.

| name | ops |
|---|---|
| a key | the op with that key, or of which it is a piece |
| `nn.gelu`, `gelu` | all of that kind |
| `first`, `last` | the first and the last product with weights, in program order |

A key comes first: an op that is called `last` is the one that is meant.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.context import QContext
from qdialect.ops.component_keys import all_keys
from qdialect.quantization.values import is_constant, op_keys

ENDS = ("first", "last")


def kept_ops(function: FuncOp, ctx: QContext, names: frozenset[str]) -> dict[str, list[Operation]]:
    """The ops by each of the names, in program order; none where a name says nothing."""
    found: dict[str, list[Operation]] = {name: [] for name in sorted(names)}
    if not found:
        return found
    ops = list(function.body.block.ops)
    for op in ops:
        for key in {*op_keys(op), *_piece_keys(op, ctx)} & found.keys():
            found[key].append(op)
    for name in [name for name, held in found.items() if not held]:
        found[name] = _of_kind(name, ops) or _end(name, ops, ctx)
    return found


def _piece_keys(op: Operation, ctx: QContext) -> Iterator[str]:
    for keys in all_keys(op, ctx.components).values():
        yield from keys


def _of_kind(name: str, ops: list[Operation]) -> list[Operation]:
    kind = name if "." in name else f"nn.{name}"
    return [op for op in ops if op.name == kind]


def _end(name: str, ops: list[Operation], ctx: QContext) -> list[Operation]:
    if name not in ENDS:
        return []
    weighted = [op for op in ops if _has_weights(op, ctx)]
    return weighted[:1] if name == ENDS[0] else weighted[-1:]


def _has_weights(op: Operation, ctx: QContext) -> bool:
    behavior = ctx.behaviors.get(op)
    acc = None if behavior is None else behavior.accumulator
    return acc is not None and any(is_constant(op.operands[n]) for n in (acc.lhs, acc.rhs))
