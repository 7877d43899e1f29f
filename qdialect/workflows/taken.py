"""Which ops of a model a target takes on codes, and why not the others.

Judged is what kernels would run, so QDQ files go through `AS_KERNELS_RUN` first, for no target:
every op between casts becomes one on codes. An op on codes is taken, or the target says why not; a
constant has the bounds that its codes keep to. Of an op on floats only that is known which holds
whatever its qparams will be: that there is no kernel, or that a number of it is beyond the limits
of all of them.

    nn.conv2d %x, %w strides [4, 4]    refused: strides 4 is not 1..3
    nn.erf %y : tensor<4xf32>          on floats: nothing runs 'nn.erf' on integers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from xdsl.dialects.builtin import AnyFloat, ModuleOp, UnregisteredOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.context import QContext
from qdialect.ir.dialects.kept import KeptOp, kind_of
from qdialect.ir.ops import ConstantOp
from qdialect.ir.quant import DCastOp, QCastOp, SCastOp, element_type, quant_element
from qdialect.rewrite.remarks import location_text, name_text
from qdialect.targets.base import Target

AS_KERNELS_RUN = "integerize,fold-rescale,cse,dce"
"""What takes float ops between casts for the ops on codes that kernels run."""
_APART = (ModuleOp, FuncOp, CallOp, ReturnOp, ConstantOp, QCastOp, DCastOp, SCastOp)
ON_FLOATS = "on floats"


@dataclass
class Kind:
    """How many ops of one kind are taken, refused on codes, and on floats; of these, how many no
    kernel would take on any codes."""

    op: str
    taken: int = 0
    refused: int = 0
    floats: int = 0
    never: int = 0


@dataclass
class Reason:
    """Why so many ops of one kind are not taken, and one of them."""

    op: str
    reason: str
    count: int
    example: str


@dataclass
class Taken:
    """What a target takes of a model."""

    target: str
    kinds: list[Kind] = field(default_factory=list[Kind])
    reasons: list[Reason] = field(default_factory=list[Reason])

    @property
    def taken(self) -> int:
        """How many ops are taken."""
        return sum(kind.taken for kind in self.kinds)

    @property
    def total(self) -> int:
        """How many ops there are, apart from casts and constants."""
        return sum(kind.taken + kind.refused + kind.floats for kind in self.kinds)

    @property
    def possible(self) -> int:
        """How many ops are taken, or on floats and of a kind and shape that kernels have."""
        return sum(kind.taken + kind.floats - kind.never for kind in self.kinds)

    @property
    def on_floats(self) -> bool:
        """Whether there are ops, and none on codes."""
        return self.total > 0 and not any(kind.taken or kind.refused for kind in self.kinds)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "taken": self.taken, "total": self.total, "possible": self.possible}


def taken_of(module: ModuleOp, session: QContext, target: Target) -> Taken:
    """What the target takes of a module, as it is."""
    kinds: dict[str, Kind] = {}
    reasons: dict[tuple[str, str], Reason] = {}
    for op in module.walk():
        if isinstance(op, _APART) or not _has_numbers(op):
            continue
        name = kind_of(op)
        kind = kinds.setdefault(name, Kind(name))
        why = _judge(op, target, kind, session)
        if why is not None:
            found = reasons.setdefault((name, why), Reason(name, why, 0, _place(op)))
            found.count += 1
    return Taken(
        target.name,
        sorted(kinds.values(), key=lambda k: (-(k.taken + k.refused + k.floats), k.op)),
        sorted(reasons.values(), key=lambda r: (-r.count, r.op, r.reason)),
    )


def _judge(op: Operation, target: Target, kind: Kind, session: QContext) -> str | None:
    """Count an op; why it is not taken, or None."""
    operands, results = ([v.type for v in values] for values in (op.operands, op.results))
    if isinstance(op, KeptOp | UnregisteredOp):
        kind.floats += 1
        kind.never += 1
        return "qdialect does not know it"
    if any(quant_element(type) is not None for type in (*operands, *results)):
        why = target.refuses(op, operands, results)
        if why is not None and _fits_by_bounds(op, target, session):
            why = None
        kind.taken += why is None
        kind.refused += why is not None
        return why
    kind.floats += 1
    why = _never(op, target, operands, results)
    kind.never += why is not None
    return ON_FLOATS if why is None else f"{ON_FLOATS}: {why}"


def _fits_by_bounds(op: Operation, target: Target, session: QContext) -> bool:
    """Whether the target takes an op whose constants have bounds that their codes keep to."""
    constants = [isinstance(v.owner, ConstantOp) for v in op.operands]
    if not any(constants):
        return False
    operands = [
        narrowed_qparams(v, session) if constant else qparams_of(v)
        for v, constant in zip(op.operands, constants, strict=True)
    ]
    return target.refuses_with(op, operands, list(map(qparams_of, op.results))) is None


def _never(
    op: Operation, target: Target, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    """Why no kernel takes an op on any codes, or None if one may."""
    rows = target.kernels.get(op.name)
    if rows is None:
        return None if target.runs_others else f"nothing runs '{op.name}' on integers"
    if not rows:
        return f"no integer kernel for '{op.name}'"
    reasons = [row.refuses_numbers(op, operands, results) for row in rows]
    return None if None in reasons else reasons[0]


def _has_numbers(op: Operation) -> bool:
    """Whether an op has floats or codes, not indices and conditions only."""
    elements = (element_type(v.type) for v in (*op.operands, *op.results))
    return isinstance(op, KeptOp | UnregisteredOp) or any(
        isinstance(element, AnyFloat) or quant_element(element) is not None for element in elements
    )


def _place(op: Operation) -> str:
    return name_text(op) or location_text(op.location)
