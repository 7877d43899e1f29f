"""What passes did to ops: the remarks of the run that wrote a file, kept beside it.

    qopt-opt in.mlir -p sink-rescale -o out.mlir --remarks=out.remarks.json

An op is found again by its key, which every rewrite carries along, else by its location.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from qdialect.rewrite.remarks import Remark

SUFFIX = ".remarks.json"


class Event(NamedTuple):
    """One decision of a pass at an op."""

    kind: str
    pass_name: str
    rule: str
    keys: tuple[str, ...]
    location: str
    contract: str
    code: str
    reason: str

    def is_about(self, keys: Sequence[str], location: str) -> bool:
        """Whether it is about the op with these keys, or without one at this place."""
        if self.keys:
            return not set(self.keys).isdisjoint(keys)
        return bool(self.location) and self.location == location

    def text(self) -> str:
        """The decision for people."""
        rule = "" if self.rule == self.pass_name else f" ({self.rule})"
        if self.kind == "fired":
            assumed = f", {self.reason}" if "assuming" in self.reason else ""
            return f"`{self.pass_name}`{rule} changed it: {self.contract}{assumed}"
        if self.kind == "refused":
            return f"`{self.pass_name}`{rule} left it [{self.code}]: {self.reason}"
        return f"`{self.pass_name}` [{self.code}] {self.reason}"


def events_of(remarks: Iterable[Remark]) -> list[Event]:
    """The events of a session."""
    return [_event(vars(remark)) for remark in remarks]


def events_beside(file: Path) -> list[Event]:
    """The events in `x.remarks.json` beside `x.mlir`; none where there is no such file."""
    try:
        data: Any = json.loads(file.with_suffix(SUFFIX).read_text(encoding="utf-8"))
        return [_event(entry) for entry in data["remarks"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _event(entry: dict[str, Any]) -> Event:
    key = str(entry.get("key", ""))
    return Event(
        str(entry["kind"]),
        str(entry["pass_name"]),
        str(entry["rule"]),
        tuple(key.split(",")) if key else (),
        str(entry.get("location", "")),
        str(entry.get("contract", "")),
        str(entry.get("code", "")),
        str(entry.get("reason", "")),
    )
