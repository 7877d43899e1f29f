"""What of a model a target takes: each op that it refuses, why, and what would make it legal.

What would make an op legal is found out, not guessed: passes are run on a clone of the module, and
where none helps, the op is asked for on codes of other storages. For a target of i8 codes only,

    %y = nn.relu %x : (!u8) -> !u8

is `has no u8 tensors; legal after reencode-storage{activations=i8 weights=i8}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation

from qdialect.algebra.qparams import QParams, Storage
from qdialect.analysis.accumulators import risk, unproven
from qdialect.errors import QError
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.quant import UniformType, element_type, quant_element, with_element
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.rewrite.op_numbers import number_ops, numbers_of
from qdialect.rewrite.refused import is_computed, refused_by_target, refused_types
from qdialect.rewrite.remarks import key_text, location_text
from qdialect.workflows.taken import AS_KERNELS_RUN

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.ir.context import QContext
    from qdialect.targets.base import Target

_STORAGES = ("i8", "u8", "i16")
_REASONS = 3
_UNSIGNED_WEIGHTS = "reencode-storage{activations=keep weights=u8}"
"""For kernels that add up products of unsigned weights in another way."""


@dataclass(frozen=True)
class RefusedOp:
    """An op that a target does not run: why, and what would make it legal (nothing if empty)."""

    op: str
    key: str
    location: str
    reason: str
    legal: str

    @property
    def advice(self) -> str:
        """What would make it legal, for people."""
        return self.legal or "nothing that was tried makes it legal"


@dataclass
class TargetReport:
    """How many ops of a model `target` has a say in, those that it refuses, and which sums may not
    fit what it adds them up in."""

    target: str
    ops: int = 0
    refused: list[RefusedOp] = field(default_factory=list[RefusedOp])
    sums: str = ""

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """For each op: key, location, name, why it is refused, what would make it legal."""
        return [(r.key, r.location, r.op, r.reason, r.advice) for r in self.refused]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def target_report(module: ModuleOp, session: QContext, target: Target) -> TargetReport:
    """What `target` refuses of a module, and what would make it legal.

    Linear in ops where it refuses nothing, else up to seven pipelines are run on clones.
    """
    ctx = _for(session, target)
    found = refused_ops(module, ctx)
    computed = sum(_counts(op, ctx) for op in module.walk())
    report = TargetReport(target.name, computed, sums=unfit_sums(module, ctx))
    if not found:
        return report
    numbers = {op: number for number, op in enumerate(module.walk())}
    fixes = _fixes(module, ctx, {numbers[op] for op in found})
    for op, reason in found.items():
        fix = fixes.get(numbers[op], "") or _legal_storages(op, ctx)
        place = location_text(op.location)
        report.refused.append(RefusedOp(op.name, key_text(op), place, reason, fix))
    return report


def left_over(module: ModuleOp, session: QContext) -> str:
    """How many ops of a module the target of the session refuses, as a line for people, with the
    most frequent reasons; nothing if it takes all."""
    refused = refused_ops(module, session)
    reasons = Counter((op.name, reason) for op, reason in refused.items()).most_common(_REASONS)
    shown = "; ".join(f"{name}: {reason}" for (name, reason), _ in reasons)
    name = session.target.name
    ops = "1 op is" if len(refused) == 1 else f"{len(refused)} ops are"
    return (
        f"{ops} left that '{name}' refuses ({shown}); qopt inspect --target {name} says what "
        "would make them legal"
        if refused
        else ""
    )


def unfit_sums(module: ModuleOp, session: QContext) -> str:
    """Which sums of a module, as kernels run it, may leave what the target of the session adds up
    in, and what helps, as a line for people; nothing if all fit."""
    if not session.target.restricts_sums:
        return ""
    ctx, clone = session.clone(), module.clone()
    _run(clone, ctx, AS_KERNELS_RUN)
    found = risk(clone, ctx)
    if not found:
        return ""
    before = unproven(clone.walk(), ctx)[1]
    _run(clone, ctx, _UNSIGNED_WEIGHTS)
    left, after = unproven(clone.walk(), ctx)
    # Kernels have to take them then.
    if not left and after == before:
        found += f"; none may after {_UNSIGNED_WEIGHTS}, which is exact"
    return f"{found}; fit-sums{{numerics=relaxed}} rounds their weights again"


def _run(module: ModuleOp, session: QContext, text: str) -> None:
    for _, instance in PassRegistry().build(parse_pipeline(text)):
        instance.apply(session, module)
        session.analyses.clear()


def refused_ops(module: ModuleOp, session: QContext) -> dict[Operation, str]:
    """The ops of a module that the target of the session refuses, each with the reason."""
    found = ((op, refused_by_target(session, op)) for op in module.walk())
    return {op: reason for op, reason in found if reason}


def _for(session: QContext, target: Target) -> QContext:
    ctx = session.clone()
    ctx.target = target
    return ctx


def _counts(op: Operation, ctx: QContext) -> bool:
    return bool(op.operands and op.results) and is_computed(ctx, op)


# -- passes -------------------------------------------------------------------------------


def _pipelines(target: Target) -> Iterator[tuple[str, str]]:
    """What may help, with how a user says it; what changes least comes first."""
    for storage in ("i8", "u8"):
        if target.storages is None or storage in target.tensor_domains:
            text = f"reencode-storage{{activations={storage} weights={storage}}}"
            yield text, f"legal after {text}"
    for text in ("normalize-quant-types", "integerize", "fold-rescale,fold-constants"):
        yield text, f"legal after {text}"
    for level in ("exact", "bounded", "relaxed"):
        command = f"qopt optimize --target {target.name} --numerics {level}"
        yield optimize_pipeline(target, level), f"legal or gone after {command}"


def _fixes(module: ModuleOp, session: QContext, refused: set[int]) -> dict[int, str]:
    """By number of an op, what leaves nothing refused in its place."""
    found: dict[int, str] = {}
    for text, said in _pipelines(session.target):
        left = _left(module, session, text)
        found.update((number, said) for number in refused - left)
        refused &= left
        if not refused:
            break
    return found


def _left(module: ModuleOp, session: QContext, text: str) -> set[int]:
    """The ops, by number, that what is refused behind a pipeline comes from; all if it fails."""
    clone, ctx = module.clone(), session.clone()
    number_ops(clone)
    every = sum(1 for _ in clone.walk())
    try:
        _run(clone, ctx, text)
    except QError:
        return set(range(every))
    return {number for op in refused_ops(clone, ctx) for number in numbers_of(op.location)}


# -- types --------------------------------------------------------------------------------


def _legal_storages(op: Operation, session: QContext) -> str:
    """On which codes the target would run `op`, per tensor and with zero points of 0."""
    target, behavior = session.target, session.behaviors.get(op)
    known = _STORAGES if target.storages is None else target.tensor_domains
    storages = sorted(known, key=lambda name: (Storage.of(name).width, name))
    legal = [
        storage
        for storage in storages
        if refused_types(
            session,
            op,
            [_on(op, behavior, v.type, storage, index) for index, v in enumerate(op.operands)],
            [_on(op, behavior, v.type, storage, None) for v in op.results],
        )
        is None
    ]
    many = " or ".join(legal)
    return f"legal on {many} codes, per tensor with zero points of 0" if legal else ""


def _on(
    op: Operation, behavior: Behavior | None, kind: Attribute, storage: str, index: int | None
) -> Attribute:
    """The type of an operand (None: of a result) on codes of a storage; a bias on i32."""
    element = quant_element(kind)
    if element is None and not isinstance(element_type(kind), AnyFloat):
        return kind
    if op.name in ("quant.qcast", "quant.dcast") and element is None:
        return kind
    port = None if index is None or behavior is None else behavior.operand_port(index)
    if port is not None and port.kind is PortKind.BIAS:
        storage = "i32"
    return with_element(kind, UniformType(QParams.per_tensor(storage, 1.0, 0)))
