"""What a rewrite changes about ops that are more than functions of real numbers, rounded once.

An op that names whose kernel it is (`nn.kernel = "litert-xnn"`) is what that kernel computes with
these qparams, bit by bit; a contraction of a model of floats is what its order of sums gives
(`analysis/summation.py`). Rules prove what they change in the reals, so this is asked of every
value that a rewrite replaces, at one place: between the old value and what the new one reads there
must be the same such ops as above the new one. For

    %0 = nn.add %x, %y {nn.kernel = "litert-xnn"} : (!a, !b) -> !c
    %1 = quant.rescale %0 : !c to !d

an add of `!a` and `!b` that gives `!d` at once has other multipliers, and is no exact rewrite;
neither is one without the mark. Ops move past movements of their operands as they do without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.index import captured_values
from qdialect.analysis.summation import is_in_integers, order_of_sums
from qdialect.ir.context import QContext
from qdialect.ir.ops.base import KERNEL, KERNEL_OP, KERNEL_ORDER, PINNED, kernels_of
from qdialect.ir.quant import ROUNDING_KEY, QCastOp, cast_rounding, element_type, quant_element

_READS_ONLY = {
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), frozenset({"pads"})),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), frozenset({"axis"})),
}
"""Properties that say which numbers an op reads, not what its kernel computes of them: the border
of a convolution adds nothing to exact sums."""
_ONE_ROUNDING = frozenset(("nn.conv2d", "nn.conv_transpose2d", "nn.fully_connected", "nn.mul"))
"""What XNNPACK computes as the exact value, but for products and scales in 32-bit floats."""
_PRODUCTS = frozenset(
    (
        *("nn.conv1d", "nn.conv2d", "nn.conv_transpose1d", "nn.conv_transpose2d"),
        *("nn.fully_connected", "nn.matmul"),
    )
)
_STEPS = {"nn.resize_linear": 4, "nn.hard_swish": 2, "nn.reduce_mean": 2}
"""How far kernels are taken to be from the real value, rounded once, where that is more than one
step: of 10 fraction bits (4 were measured), of 16-bit fixed point and of a zero point that is
rounded by itself (estimates)."""


class KernelChangeError(Exception):
    """A rewrite would change what marked ops compute; `contract` is what is true of it at best."""

    def __init__(self, reason: str, contract: Contract) -> None:
        super().__init__(reason)
        self.reason = reason
        self.contract = contract


def distance(op: Operation) -> Contract:
    """How far the kernel that defines a marked op may be from its real value, rounded once."""
    if kernels_of(op) == "litert-xnn" and op.name in _ONE_ROUNDING:
        return Contract(Numerics.TIES, 1)
    return Contract(Numerics.BOUNDED, _STEPS.get(op.name, 1))


def weakened(contract: Contract, by: Contract) -> Contract:
    """The contract of a rewrite that changes marked ops, too."""
    if contract.level > Numerics.BOUNDED:
        return contract
    steps = contract.steps + by.steps
    level = max(contract.level, by.level)
    if level is Numerics.TIES and steps > 1:
        level = Numerics.BOUNDED
    notes = ", ".join(note for note in (contract.note, by.note) if note)
    return replace(contract, level=level, steps=steps, note=notes)


def release_products(module: Operation) -> None:
    """Let products of XNNPACK be the casts and float ops that they stand for, and its quantizes
    divide by the scale: both differ from what they stand for beside ties only."""
    for op in module.walk():
        if kernels_of(op) == "litert-xnn" and op.name in _PRODUCTS:
            for name in (KERNEL, KERNEL_OP, KERNEL_ORDER):
                op.attributes.pop(name, None)
        elif isinstance(op, QCastOp) and cast_rounding(op) is Rounding.RECIPROCAL:
            del op.attributes[ROUNDING_KEY]


@dataclass(frozen=True)
class Replaced:
    """`new`, which is computed by `above`, is put in place of `old`, and `reads` says which values
    both read. Where more than `most` ops lie in between nothing is known, and the first one that
    counts does."""

    old: SSAValue
    new: SSAValue
    reads: Callable[[SSAValue], bool]
    above: Iterable[Operation]
    most: int

    def check_kernels(self) -> None:
        """KernelChangeError where both are not the same function, as far as marked ops are
        concerned, or a pinned op is replaced."""
        for op in self._before:
            if PINNED in op.attributes:
                reason = (
                    f"'{op.name}' is pinned, as the runtime rounds only some floats of its type"
                )
                raise KernelChangeError(reason, Contract(Numerics.RELAXED, inf))
        wrong = self._changed(lambda op: None if kernels_of(op) is None else _function(op))
        old, new = self.old, self.new
        if old.type != new.type and _numbers(old.type) != _numbers(new.type):
            wrong += [use.operation for use in old.uses if kernels_of(use.operation) is not None]
        if not wrong:
            return
        kernels = kernels_of(wrong[0])
        reason = f"'{wrong[0].name}' is what the kernel of {kernels} computes with its qparams"
        worst = max(map(distance, wrong), key=lambda one: (one.level, one.steps))
        steps = sum(distance(op).steps for op in wrong)
        note = f"the kernels of {kernels} round in ways of their own"
        raise KernelChangeError(reason, replace(worst, steps=steps, note=note))

    def check_sums(self, session: QContext) -> None:
        """KernelChangeError where contractions add up their products in another way."""
        wrong = self._changed(lambda op: order_of_sums(session, op))
        # An op of a target adds up its products as its dialect defines.
        if not wrong or any(op.dialect_name() != "nn" for op in wrong):
            return
        reason = f"'{wrong[0].name}' would add up its products in another order"
        if any(is_in_integers(op) for op in wrong):
            note = "x86 before VNNI adds products of u8 and i8 in pairs that saturate"
            raise KernelChangeError(reason, Contract(Numerics.SATURATION, inf, note))
        note = "floats round in another order"
        raise KernelChangeError(reason, Contract(Numerics.TIES, 1, note))

    def _changed(self, function: Callable[[Operation], Hashable | None]) -> list[Operation]:
        """The ops in between, before and after, whose `function` is on one side only."""
        changed = Counter[Hashable]()
        before, after = ([(op, function(op)) for op in ops] for ops in (self._before, self.above))
        changed.update(key for _, key in before)
        changed.subtract(key for _, key in after)
        return [op for op, key in (*before, *after) if key is not None and changed[key]]

    @cached_property
    def _before(self) -> Sequence[Operation]:
        """The ops that compute `old` of what both read."""
        seen = dict[Operation, None]()
        pending = [self.old]
        while pending and len(seen) <= self.most:
            value = pending.pop()
            owner = value.owner
            if isinstance(owner, Block) or owner in seen or self.reads(value):
                continue
            seen[owner] = None
            pending += owner.operands
            pending += captured_values(owner) if owner.regions else ()
        return list(seen)


def _function(op: Operation) -> Hashable:
    """What a marked op is a function by: equal for ops that compute the same of their operands."""
    ignored = _READS_ONLY.get(op.name, frozenset[str]())
    properties = sorted((n, a) for n, a in op.properties.items() if n not in ignored)
    return (
        kernels_of(op),
        op.name,
        tuple(properties),
        tuple(_numbers(value.type) for value in op.operands),
        tuple(_numbers(value.type) for value in op.results),
    )


def _numbers(kind: Attribute) -> Hashable:
    """What the numbers of a type are, wherever they lie: movements renumber axes."""
    element = quant_element(kind)
    if element is None:
        return element_type(kind)
    q = element.qparams
    return q.storage, q.expressed, tuple(q.scale_list()), tuple(q.zero_point_list())
