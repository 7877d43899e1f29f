"""Float regions: what is computed between codes and codes.

A float region is all float ops that are connected by float values, from dequantized codes and
constants down to the quantizes that close it, and to results of the function. Found from what
is quantized or returned, in time linear in its size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.ir.behaviors import BehaviorRegistry
from qdialect.ir.ops.constants import ConstantOp
from qdialect.ir.quant import DCastOp, QCastOp


@dataclass
class FloatRegion:
    """The ops in no order, the quantizes that close it, the ops that only tell how its
    values compare, the values that are returned; and what keeps it open, if anything does."""

    ops: list[Operation] = field(default_factory=list[Operation])
    closings: list[QCastOp] = field(default_factory=list[QCastOp])
    orders: list[Operation] = field(default_factory=list[Operation])
    returned: list[SSAValue] = field(default_factory=list[SSAValue])
    open: str = ""


def is_float(kind: Attribute) -> bool:
    """Whether a type is a tensor of floats."""
    return isinstance(kind, TensorType) and isinstance(kind.element_type, AnyFloat)  # pyright: ignore[reportUnknownMemberType]


def float_region_of(ends: Iterable[SSAValue], behaviors: BehaviorRegistry) -> FloatRegion:
    """The float regions of these values."""
    region = FloatRegion()
    ops: dict[Operation, None] = {}
    closings: dict[QCastOp, None] = {}
    orders: dict[Operation, None] = {}
    returned: dict[SSAValue, None] = {}
    pending: list[SSAValue] = list(ends)
    known: set[SSAValue] = set(pending)

    def reach(value: SSAValue) -> None:
        if is_float(value.type) and value not in known:
            known.add(value)
            pending.append(value)

    while pending:
        value = pending.pop()
        owner = value.owner
        if not isinstance(owner, Operation):
            region.open = region.open or "it starts at a float argument"
            continue
        if isinstance(owner, DCastOp | ConstantOp):
            continue
        if owner not in ops:
            ops[owner] = None
            for each in (*owner.operands, *owner.results):
                reach(each)
        for use in value.uses:
            user = use.operation
            behavior = behaviors.get(user)
            if isinstance(user, QCastOp):
                closings[user] = None
            elif isinstance(user, ReturnOp):
                returned[value] = None
            elif behavior is not None and behavior.compares:
                orders[user] = None
                for each in (*user.operands, *user.results):
                    reach(each)
            elif any(is_float(result.type) for result in user.results):
                for each in (*user.operands, *user.results):
                    reach(each)
            else:
                region.open = region.open or f"'{user.name}' takes a float of it"
    region.closings = list(closings)
    region.orders = [op for op in orders if op not in ops]
    region.ops = list(ops)
    region.returned = list(returned)
    return region
