"""Other orders of the ops of a program, and comparisons that do not see order."""

# pyright: basic
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from qdialect.ir.ops import keys_of


def shuffle(module: ModuleOp, seed: int) -> None:
    """Put the ops of every function in another topological order."""
    chooser = random.Random(seed)
    for function in module.walk():
        if isinstance(function, FuncOp):
            for block in function.body.blocks:
                _shuffle_block(block, chooser)


def _shuffle_block(block: Block, chooser: random.Random) -> None:
    *ops, last = block.ops
    waiting = {op: len({v.owner for v in op.operands} & set(ops)) for op in ops}
    ready = [op for op in ops if not waiting[op]]
    order: list[Operation] = []
    while ready:
        op = ready.pop(chooser.randrange(len(ready)))
        order.append(op)
        users = {use.operation for result in op.results for use in result.uses}
        for user in [other for other in ops if other in users]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    assert len(order) == len(ops)
    for op in order:
        op.detach()
        block.insert_op_before(op, last)


def structure(module: ModuleOp, *, keys: bool = True) -> Counter[Hashable]:
    """The ops of a module as a multiset that does not depend on their order."""
    known: dict[SSAValue, int] = {}
    found: Counter[Hashable] = Counter()
    for function in module.walk():
        if not isinstance(function, FuncOp):
            continue
        for block in function.body.blocks:
            known.update((arg, -1 - arg.index) for arg in block.args)
            for op in block.ops:
                identity = hash(_identity(op, known, keys))
                found[op.name, identity] += 1
                known.update((r, hash((identity, r.index))) for r in op.results)
    return found


def _identity(op: Operation, known: dict[SSAValue, int], keys: bool) -> Hashable:
    attributes: dict[str, Hashable] = {n: a for n, a in op.attributes.items() if n != "nn.key"}
    if keys and op.attributes.get("nn.key") is not None:
        # Ops that became one have the keys of all, in the order in which they met.
        attributes["nn.key"] = tuple(sorted(keys_of(op)))
    return (
        op.name,
        tuple(known[v] for v in op.operands),
        tuple(sorted(op.properties.items())),
        tuple(sorted(attributes.items())),
        tuple(r.type for r in op.results),
    )
