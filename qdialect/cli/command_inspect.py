"""`qopt inspect`."""

from __future__ import annotations

import json
import sys

from qdialect import api
from qdialect.cli.flags import Arguments, write
from qdialect.cli.inspection import Inspection, type_text
from qdialect.cli.terminal import OK, paint, table

_KEYS_SHOWN = 4


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    found = api.inspect(api.load(args.positional[0]))
    write(json.dumps(found.to_json(), indent=1) + "\n" if args.switch("json") else _text(found))
    return OK


def _text(found: Inspection) -> str:
    sections = [
        _section(found.name or "module", [("inputs", ""), *_typed(found.inputs)]),
        table([("outputs", ""), *_typed(found.outputs)]),
        _section(
            "quantization",
            [
                ("quantize", str(found.quantize)),
                ("dequantize", str(found.dequantize)),
                ("storage casts", str(found.storage_casts)),
                ("rescale", str(found.rescales)),
                ("quantized ops", str(found.quantized)),
                ("mixed ops", str(found.mixed)),
                ("float ops", str(found.float)),
            ],
        ),
        _section(f"ops ({found.total})", [(name, str(count)) for name, count in found.ops.items()]),
        _section(
            "weights",
            [("constants", str(found.constants)), ("bytes", f"{found.weight_bytes:,}")],
        ),
    ]
    if found.unknown:
        rows = [(u.kind, str(u.count), _some(u.keys)) for u in found.unknown]
        title = paint("kept as they are", "warning", sys.stdout)
        sections.append(f"{title}\n{_indented(table(rows, {1: True}))}")
    return "\n".join(sections)


def _typed(values: dict[str, str]) -> list[tuple[str, str]]:
    return [(f"  {name}", type_text(kind)) for name, kind in values.items()]


def _section(title: str, rows: list[tuple[str, str]]) -> str:
    body = table(rows, {1: all(row[1].replace(",", "").isdecimal() for row in rows)})
    return f"{paint(title, 'bold', sys.stdout)}\n{_indented(body) if rows else ''}"


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _some(keys: list[str]) -> str:
    shown = ", ".join(keys[:_KEYS_SHOWN])
    return f"{shown}, ..." if len(keys) > _KEYS_SHOWN else shown
