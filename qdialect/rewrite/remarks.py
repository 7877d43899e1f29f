"""What was done, what was refused and why: one record per decision."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, NameLoc, StringAttr
from xdsl.ir import Attribute, Operation

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


@dataclass
class RemarkLog:
    """The remarks of a session, in the order they were made."""

    remarks: list[Remark] = field(default_factory=list["Remark"])

    def add(self, remark: Remark) -> None:
        self.remarks.append(remark)

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
        entries: list[dict[str, Any]] = [asdict(remark) for remark in self.remarks]
        return json.dumps({"version": 1, "remarks": entries}, indent=1)


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


def key_text(op: Operation) -> str:
    """The op's stable key (several joined by commas), or nothing."""
    attribute = op.attributes.get("nn.key")
    if attribute is None:
        return ""
    if isinstance(attribute, StringAttr):
        return attribute.data
    entries: Any = getattr(attribute, "data", ())
    return ",".join(entry.data for entry in entries if isinstance(entry, StringAttr))
