"""What a rewrite changes about ops that name whose kernel they are (`nn.kernel = "litert-xnn"`).

Such an op is what that kernel computes with these qparams, bit by bit, not a function of real
numbers that is rounded once. Rules prove what they change for the latter, so this is asked of every
value that a rewrite replaces, at one place: between the old value and what the new one reads there
must be the same marked ops as above the new one. For

    %0 = nn.add %x, %y {nn.kernel = "litert-xnn"} : (!a, !b) -> !c
    %1 = quant.rescale %0 : !c to !d

an add of `!a` and `!b` that gives `!d` at once has other multipliers, and is no exact rewrite;
neither is one without the mark. Ops move past movements of their operands as they do without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.analysis.index import captured_values
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.rounding import Rounding
from qdialect.ops.base import KERNEL, KERNEL_OP, KERNEL_ORDER, kernels_of
from qdialect.quant import ROUNDING_KEY, QCastOp, cast_rounding, element_type, quant_element

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


def check_replaced(
    old: SSAValue,
    new: SSAValue,
    reads: Callable[[SSAValue], bool],
    above: Iterable[Operation],
    most: int,
) -> None:
    """KernelChangeError where `new`, which is computed by `above`, is not the same function as
    `old` of what `reads` says that both read, as far as marked ops are concerned.

    Where more than `most` ops lie in between nothing is known, and the first marked one counts."""
    before, changed = _marked_above(old, reads, most), Counter[Hashable]()
    after = [op for op in above if kernels_of(op) is not None]
    for op in before:
        changed[_function(op)] += 1
    for op in after:
        changed[_function(op)] -= 1
    wrong = [op for op in (*before, *after) if changed[_function(op)]]
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


def _marked_above(old: SSAValue, reads: Callable[[SSAValue], bool], most: int) -> list[Operation]:
    found: list[Operation] = []
    seen = set[Operation]()
    pending = [old]
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(owner, Block) or owner in seen or reads(value):
            continue
        if len(seen) >= most:
            return found
        seen.add(owner)
        if kernels_of(owner) is not None:
            found.append(owner)
        pending += owner.operands
        pending += captured_values(owner) if owner.regions else ()
    return found


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
