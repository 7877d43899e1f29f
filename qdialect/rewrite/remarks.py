"""What was done, what was refused and why: one record per decision."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from qdialect.algebra.contract import Contract
from qdialect.ir.ops.keys import keys_of

Kind = Literal["fired", "refused", "note"]


@dataclass(frozen=True)
class Remark:
    """One decision of one rule at one op."""

    kind: Kind
    pass_name: str
    rule: str
    location: str
    op: str
    key: str
    contract: str = ""
    steps: float = 0.0
    code: str = ""
    reason: str = ""

    @property
    def place(self) -> str:
        """As `place_of` the op."""
        return self.key or self.location or self.op

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        name = f"'{self.op}'" + (f" ({self.key})" if self.key else "")
        if self.kind == "fired":
            tail = f"{self.rule} fired, {self.contract}"
            tail += f" ({self.reason})" if "assuming" in self.reason else ""
        elif self.kind == "refused":
            tail = f"{self.rule} refused [{self.code}]: {self.reason}"
        else:
            tail = f"[{self.code}] {self.reason}"
        return f"{place}remark: {name} {tail}"


@dataclass(frozen=True)
class OutputBound:
    """How far one result of a function may be from what it first was.

    `contract` is the weakest class of `causes`, the rewrites above it; `steps` and `real`
    (its quantization steps, real units) are infinite where there is no bound, and
    `blocked` names the ops whose results move without one.
    """

    function: str
    result: int
    contract: str
    steps: float
    real: float
    causes: list[Remark]
    blocked: list[str]

    def __str__(self) -> str:
        text = f"@{self.function} result #{self.result}: {self.contract}"
        if self.real:
            known = f"at most {self.steps:g} steps" if isfinite(self.steps) else "no bound"
            text += f", {known} off after {len(self.causes)} rewrites"
        return text + (f", none through {', '.join(self.blocked)}" if self.blocked else "")

    def as_json(self) -> dict[str, Any]:
        """Plain values; null for no bound, causes by rule, key and location."""
        return {
            "function": self.function,
            "result": self.result,
            "contract": self.contract,
            "steps": self.steps if isfinite(self.steps) else None,
            "real": self.real if isfinite(self.real) else None,
            "causes": [
                {"rule": c.rule, "key": c.key, "location": c.location, "contract": c.contract}
                for c in self.causes
            ],
            "blocked": self.blocked,
        }


def fired_remark(pass_name: str, rule: str, op: Operation, contract: Contract) -> Remark:
    """That `rule` fired at `op`, under `contract`."""
    return Remark(
        "fired",
        pass_name,
        rule,
        location_text(op.location),
        op.name,
        key_text(op),
        contract=str(contract),
        steps=contract.steps,
        reason=contract.note,
    )


@dataclass
class RemarkLog:
    """The remarks of a session in order, and the error bounds of the results."""

    remarks: list[Remark] = field(default_factory=list["Remark"])
    outputs: list[OutputBound] = field(default_factory=list["OutputBound"])

    def add(self, remark: Remark) -> None:
        """Append a remark."""
        self.remarks.append(remark)

    def at(
        self, where: Operation, kind: Kind, name: str, code: str, reason: str, **other: str
    ) -> None:
        """Append a remark of the pass `name` on an op; `other`: fields that differ."""
        place = {"location": location_text(where.location), "key": key_text(where)}
        fields: dict[str, Any] = {"rule": name, "op": where.name, **place, **other}
        self.add(Remark(kind, name, code=code, reason=reason, **fields))

    def fired(self) -> dict[str, int]:
        """How often each rule fired."""
        return self._count("fired")

    def refused(self) -> dict[str, int]:
        """How often each rule was refused."""
        return self._count("refused")

    def _count(self, kind: Kind) -> dict[str, int]:
        counts: dict[str, int] = {}
        for remark in self.remarks:
            if remark.kind == kind:
                counts[remark.rule] = counts.get(remark.rule, 0) + 1
        return counts

    def to_json(self) -> str:
        """The text of a file of remarks: version, remarks, and the bounds of the results."""
        entries: list[dict[str, Any]] = [asdict(remark) for remark in self.remarks]
        outputs = [bound.as_json() for bound in self.outputs]
        return json.dumps({"version": 1, "remarks": entries, "outputs": outputs}, indent=1)


def location_text(location: Attribute) -> str:
    """A location as people read it: `file:line:col`, or a name."""
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}:{location.column.data}"
    if isinstance(location, NameLoc):
        return location_text(location.location) or location.desc.data
    if isinstance(location, FusedLoc):
        entries: Any = location.locations
        texts = [location_text(entry) for entry in entries]
        return next(filter(None, texts), "")
    return ""


ANYWHERE = "*"
"""In `QContext.barred`: the rule must not fire at any op."""


def place_of(op: Operation) -> str:
    """What tells an op from others when the same passes run again: its key, else its
    location, else its kind."""
    return key_text(op) or location_text(op.location) or op.name


def key_text(op: Operation) -> str:
    """The op's stable key (several joined by commas), or nothing."""
    return ",".join(keys_of(op))


def name_text(op: Operation) -> str:
    """What people know an op by: its key, else what it was built for (the node that its location
    names), or nothing."""
    location = op.location
    named = location.desc.data if isinstance(location, NameLoc) else ""
    return key_text(op) or named
