"""Tables of prices as text, one op to a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qdialect.targets.price_table import VERSION, Prices, PriceTable


def table_text(table: PriceTable) -> str:
    """The text of the file that `read_prices` reads."""
    head = {
        "version": VERSION,
        "target": table.target,
        "runtime": table.runtime,
        "cpu": table.cpu,
    }
    rows = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    rows.append(' "sizes": [\n' + ",\n".join(map(_prices, table.sizes)) + "\n ]")
    kernels = [f"  {json.dumps(name)}: {_lines(table.kernels[name])}" for name in table.kernels]
    rows.append(' "kernels": {\n' + ",\n".join(kernels) + "\n }")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _prices(prices: Prices) -> str:
    def section(each: Mapping[Any, Any]) -> str:
        lines = [f'    "{k}": {json.dumps(each[k])}' for k in sorted(each)]
        return "{\n" + ",\n".join(lines) + "\n   }" if lines else "{}"

    head = {"elements": prices.elements, "unit_ns": prices.unit_ns}
    rows = [f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    for name in ("codes", "floats", "forms", "transposed", "apart", "channels"):
        rows.append(f'   "{name}": {section(getattr(prices, name))}')
    return "  {\n" + ",\n".join(rows) + "\n  }"


def _lines(states: Mapping[str, Mapping[str, float]]) -> str:
    each = [f"   {json.dumps(state)}: {json.dumps(dict(states[state]))}" for state in states]
    return "{\n" + ",\n".join(each) + "\n  }"
