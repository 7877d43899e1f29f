"""What `optimize` did to one op or to all, and which rewrites nearly fired, with what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.errors import InputError, did_you_mean
from qdialect.ir.behaviors.describe import described
from qdialect.ir.ops import keys_of
from qdialect.ir.ops.keys import texts
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp
from qdialect.rewrite.remarks import Remark, RemarkLog, location_text

if TYPE_CHECKING:
    from qdialect.workflows.model import Model

_OUTPUTS = "nn.outputs"
_SHOWN = 6


@dataclass
class OpState:
    """An op at one time."""

    name: str
    keys: list[str]
    location: str
    operands: list[str]
    results: list[str]


@dataclass
class Decision:
    """One decision, made `times` times: `fired` under a contract, or not, by the condition
    (`code`) that failed and what it said (`reason`). `at` is a neighbour's key, or nothing."""

    kind: str
    pass_name: str
    rule: str
    op: str
    contract: str
    code: str
    reason: str
    at: str = ""
    times: int = 1


@dataclass
class Explanation:
    """The result of `explain_op`. `casts` are decisions at the casts right around the op."""

    key: str
    target: str
    before: list[OpState]
    after: list[OpState]
    declaration: list[tuple[str, str]]
    target_refuses: str
    decisions: list[Decision] = field(default_factory=list[Decision])
    casts: list[Decision] = field(default_factory=list[Decision])

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"version": 1, **asdict(self)}


def explain_op(before: Model, after: Model, key: str) -> Explanation:
    """What became of the op that `key` names; InputError (`no-op`) if there is none.

    `key` is an op's name in the model, that of a value it gives, or where it is written.
    """
    ops = _named(before.module, key)
    if not ops:
        declared = [op for op in before.module.walk() if before.ctx.behaviors.get(op)]
        some = [next(filter(None, _names(op)), "") for op in declared[:_SHOWN]]
        known = {name for op in before.module.walk() for name in _names(op)} - {""}
        raise InputError(
            f"no op '{key}'{did_you_mean(key, sorted(known))}",
            code="no-op",
            notes=(f"ops are known by name or place: {', '.join(some)}, ...",) if some else (),
        )
    keys = {name for op in ops for name in keys_of(op)} or {key}
    places = {location_text(op.location) for op in ops if not keys_of(op)} - {""}
    around = {
        name: op.name
        for op in _casts_around(ops)
        for name in keys_of(op) or (location_text(op.location),)
        if name and name not in keys
    }
    target = after.ctx.target
    remarks = after.ctx.remarks.remarks
    behavior = before.ctx.behaviors.get(ops[-1])
    now = [op for op in after.module.walk() if keys & set(keys_of(op))]
    refusal = next(filter(None, (_refusal(target.refuses, op) for op in now)), "")
    return Explanation(
        key,
        target.name,
        [_state(op) for op in ops],
        [_state(op) for op in now],
        [] if behavior is None else described(behavior),
        refusal,
        _decisions(r for r in remarks if _is_at(r, keys, places)),
        _decisions((r for r in remarks if _is_at(r, set(around), set(around))), named=True),
    )


def decisions_of(log: RemarkLog, rules: Sequence[str], codes: Sequence[str]) -> list[Decision]:
    """All decisions, the same ones counted; only those of `rules` (passes, too) and `codes`
    where there are some, and then by op. InputError (`no-remark`) for names that no remark has."""
    remarks = log.remarks
    _check(rules, {n for r in remarks for n in (r.rule, r.pass_name)}, "rule or pass")
    _check(codes, {r.code for r in remarks}, "condition")
    if rules:
        remarks = [r for r in remarks if r.rule in rules or r.pass_name in rules]
    if codes:
        remarks = [r for r in remarks if r.code in codes]
    found = _decisions(remarks, named=bool(rules or codes))
    return found if rules or codes else sorted(found, key=lambda d: -d.times)


def _check(names: Sequence[str], known: set[str], what: str) -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, sorted(known - {""}))
            raise InputError(f"there is no remark on a {what} '{name}'{hint}", code="no-remark")


def _refusal(refuses: Any, op: Operation) -> str:
    operands, results = ([v.type for v in values] for values in (op.operands, op.results))
    return refuses(op, operands, results) or ""


def _names(op: Operation) -> tuple[str, ...]:
    return (*keys_of(op), *texts(op.attributes.get(_OUTPUTS)), location_text(op.location))


def _named(module: ModuleOp, key: str) -> list[Operation]:
    """The ops with that key, else those that give a value of that name, or are there."""
    ops = [op for op in module.walk() if not isinstance(op, ModuleOp | FuncOp)]
    found = [op for op in ops if key in keys_of(op)]
    return found or [op for op in ops if key in _names(op)]


def _casts_around(ops: Sequence[Operation]) -> Iterable[Operation]:
    """Casts and rescales that give what `ops` take, or take what they give."""
    for op in ops:
        users = [use.operation for value in op.results for use in value.uses]
        for other in (*(value.owner for value in op.operands), *users):
            if isinstance(other, QCastOp | DCastOp | RescaleOp):
                yield other


def _is_at(remark: Remark, keys: set[str], places: set[str]) -> bool:
    if remark.key:
        return not keys.isdisjoint(remark.key.split(","))
    return bool(remark.location) and remark.location in places


def _decisions(remarks: Iterable[Remark], *, named: bool = False) -> list[Decision]:
    """In the order they were first made; the same again is counted."""
    counts = Counter(
        (
            r.kind,
            r.pass_name,
            r.rule,
            r.op,
            r.contract,
            r.code,
            r.reason,
            (r.key or r.location) if named else "",
        )
        for r in remarks
    )
    return [Decision(*decision, times=times) for decision, times in counts.items()]


def _state(op: Operation) -> OpState:
    return OpState(
        op.name,
        list(keys_of(op)),
        location_text(op.location),
        [str(value.type) for value in op.operands],
        [str(value.type) for value in op.results],
    )
