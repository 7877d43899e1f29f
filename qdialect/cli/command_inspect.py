"""`qopt inspect`."""

from __future__ import annotations

import json
import sys
from collections import Counter

from qdialect import api
from qdialect.analysis.boundary import CODES
from qdialect.cli.flags import Arguments, did_you_mean, write
from qdialect.cli.inspection import Boundary, Inspection, type_text
from qdialect.cli.terminal import OK, WRONG_INPUT, paint, table
from qdialect.errors import UsageError

_KEYS_SHOWN = 4
_BOUNDARIES_SHOWN = 40


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    unwanted = _codes(args.texts("fail-on"))
    model = _load(args)
    found = api.inspect(model)
    write(json.dumps(found.to_json(), indent=1) + "\n" if args.switch("json") else _text(found))
    failing = sorted({b.code for b in found.boundaries} & unwanted)
    if failing:
        print(f"found {', '.join(failing)}", file=sys.stderr)
    return WRONG_INPUT if failing else OK


def _load(args: Arguments) -> api.Model:
    """The model; its report is written first, if wanted."""
    if not args.given("report"):
        return api.load(args.positional[0])
    from qdialect.cli.reporting import report_path, write_inspection

    path = report_path(args.text("report"))
    model = api.load(args.positional[0])
    assert path is not None
    write_inspection(path, model)
    return model


def _codes(given: list[str]) -> set[str]:
    """The boundary codes of `--fail-on`, which may be given more than once."""
    codes = [code.strip() for text in given for code in text.split(",")]
    for code in codes:
        if code not in CODES:
            hint = did_you_mean(code.upper(), CODES)
            raise UsageError(
                f"--fail-on takes boundary codes ({', '.join(CODES)}), not '{code}'{hint}"
            )
    return set(codes)


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
        sections.append(f"{title}\n{_indented(table(rows, {1: True}, stream=sys.stdout))}")
    if found.boundaries:
        sections.append(_boundaries(found.boundaries))
    return "\n".join(sections)


def _boundaries(found: list[Boundary]) -> str:
    """How often each code occurs, and where."""
    counts = Counter(b.code for b in found)
    totals = [(code, str(counts[code]), CODES[code]) for code in CODES if counts[code]]
    rows = [("code", "op", "float ops", "bytes", "what, and a fix")]
    for b in found[:_BOUNDARIES_SHOWN]:
        what = f"{b.message}; fix: {b.fix}" if b.fix else b.message
        place = f"{b.op} {b.key or b.location}".rstrip()
        rows.append((b.code, place, f"{b.flops:,}", f"{b.bytes:,}", what))
    title = paint(f"quantization boundaries ({len(found)})", "bold", sys.stdout)
    text = f"{title}\n{_indented(table(totals, {1: True}))}\n"
    text += _indented(table(rows, {2: True, 3: True}, stream=sys.stdout, heading=True))
    if len(found) > _BOUNDARIES_SHOWN:
        text += f"  and {len(found) - _BOUNDARIES_SHOWN} more: --json lists all\n"
    return text


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
