"""What ops cost on a runtime, as measured: a JSON file that users can make again.

    {"version": 1, "target": "onnxruntime", "runtime": "1.31.1", "elements": 73728, "unit_ns": 0.37,
     "codes": {"nn.add": 0.4, ...}, "floats": {"nn.exp": 0.4, ...},
     "forms": {"nn.add": [0.4, 0.4], ...}}

Prices are per element of the result, in units of one rescale (a dequantize and a quantize),
which takes `unit_ns` nanoseconds per element.  `codes` are ops that run on codes, `floats`
the same on floats; `nn.conv2d` is that of one tap per channel.
`forms` are what the runtime makes of an op in QDQ and in QOperator form,
all of its optimizations on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, cast

from qdialect.errors import InputError, Where

VERSION = 1


@dataclass(frozen=True)
class PriceTable:
    """See above."""

    target: str
    runtime: str
    elements: int
    unit_ns: float
    codes: Mapping[str, float] = field(default_factory=dict[str, float])
    floats: Mapping[str, float] = field(default_factory=dict[str, float])
    forms: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def to_json(self) -> str:
        """The text of the file: one op to a line, in order."""

        def section(prices: Mapping[str, float | tuple[float, float]]) -> str:
            lines = [f"  {json.dumps(k)}: {json.dumps(prices[k])}" for k in sorted(prices)]
            return "{\n" + ",\n".join(lines) + "\n }" if lines else "{}"

        head = {
            "version": VERSION,
            "target": self.target,
            "runtime": self.runtime,
            "elements": self.elements,
            "unit_ns": self.unit_ns,
        }
        sections = {"codes": self.codes, "floats": self.floats, "forms": self.forms}
        rows = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
        rows += [f" {json.dumps(k)}: {section(v)}" for k, v in sections.items()]
        return "{\n" + ",\n".join(rows) + "\n}\n"


def read_prices(path: Path, target: str) -> PriceTable:
    """The table in a file; InputError (`bad-prices`) where it is not one for `target`."""
    where = Where(str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"cannot read prices: {reason}", where=where, code="bad-prices") from None
    try:
        found = parse_prices(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a price table: {error}", where=where, code="bad-prices") from None
    if found.target != target:
        raise InputError(
            f"these are prices of target '{found.target}', not of '{target}'",
            where=where,
            code="bad-prices",
        )
    return found


def parse_prices(text: str) -> PriceTable:
    """The table in a text; ValueError says what is wrong with it."""
    data: Any = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")
    fields = cast("dict[str, Any]", data)
    if fields.get("version") != VERSION:
        raise ValueError(f"version {fields.get('version')!r}, not {VERSION}")
    for name, kind in (("target", str), ("runtime", str), ("elements", int)):
        if not isinstance(fields.get(name), kind):
            raise ValueError(f"'{name}' is missing or no {kind.__name__}")
    sections = {name: _section(fields, name) for name in ("codes", "floats", "forms")}
    forms: dict[str, tuple[float, float]] = {}
    for op, value in sections["forms"].items():
        pair = cast("list[Any]", value)
        if not isinstance(value, list) or len(pair) != 2:
            raise ValueError(f"'forms' of '{op}' are not two prices")
        forms[op] = (_price(op, pair[0]), _price(op, pair[1]))
    return PriceTable(
        fields["target"],
        fields["runtime"],
        fields["elements"],
        _price("unit_ns", fields.get("unit_ns")),
        {op: _price(op, value) for op, value in sections["codes"].items()},
        {op: _price(op, value) for op, value in sections["floats"].items()},
        forms,
    )


def _section(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value: Any = fields.get(name, {})
    if not isinstance(value, dict):
        raise ValueError(f"'{name}' is no JSON object")
    return cast("dict[str, Any]", value)


def _price(name: str, value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not isfinite(value) or value < 0:
        raise ValueError(f"the price of '{name}' is {value!r}, not a number of at least 0")
    return float(value)


@cache
def shipped_prices(target: str) -> PriceTable:
    """The table that comes with the package."""
    path = Path(__file__).with_name(f"{target}_prices.json")
    return read_prices(path, target)
