"""`qopt inspect`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from qdialect import api
from qdialect.analysis.boundary import CODES
from qdialect.cli.files import load_model, report_output
from qdialect.cli.flags import Arguments, write, write_json
from qdialect.cli.terminal import OK, WRONG_INPUT, indented, line, paint, say, table
from qdialect.errors import UsageError, did_you_mean
from qdialect.ir.weights import save_text
from qdialect.plugins.tflite.files import TARGETS
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.workflows.inspect import Boundary, Inspection, LitertOps, litert_ops
from qdialect.workflows.taken import AS_KERNELS_RUN, ON_FLOATS, Taken
from qdialect.workflows.target_report import TargetReport

_KEYS_SHOWN = 4
_BOUNDARIES_SHOWN = 5
"""Of each code; those that cost most."""
_REASONS_SHOWN = 20


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    unwanted = _codes(args.texts("fail-on"))
    several = len(args.positional) > 1
    for flag in ("json", "report"):
        if several and args.has(flag):
            raise UsageError(f"--{flag} is for one model")
    target = None if (name := args.text("target")) is None else get_target(name)
    exits = [_inspect(path, args, unwanted, several, target) for path in args.positional]
    return max(exits)


def _inspect(
    path: str, args: Arguments, unwanted: set[str], several: bool, target: Target | None
) -> int:
    """One model; its exit code. Of several, each has its path above it."""
    found = api.inspect(_load(path, args), target=target)
    if Path(path).suffix in TARGETS:
        written = api.load(path, as_written=True)
        found.litert = litert_ops(written.module)
    if args.switch("json"):
        write_json(found.to_json())
    else:
        write(f"{line(path)}\n{_text(found)}\n" if several else _text(found))
    failing = sorted({b.code for b in found.boundaries} & unwanted)
    if failing:
        say(f"{path}: found {', '.join(failing)}")
    return WRONG_INPUT if failing else OK


def _load(path: str, args: Arguments) -> api.Model:
    """The model, as it is or as kernels run it; its report is written first, if wanted."""
    page = report_output(args.text("report"))
    model = load_model(args, path)
    if args.switch("integerized"):
        model = api.run_passes(model, AS_KERNELS_RUN)
    if page is not None:
        from qdialect.workflows.report import inspection_page

        save_text(page, inspection_page(model, args.text("target")))
    return model


def _codes(texts: list[str]) -> set[str]:
    """The boundary codes of `--fail-on`, which may be given more than once."""
    codes = [code.strip() for text in texts for code in text.split(",")]
    for code in codes:
        if code not in CODES:
            hint = did_you_mean(code.upper(), CODES)
            raise UsageError(
                f"--fail-on takes boundary codes ({', '.join(CODES)}), not '{code}'{hint}"
            )
    return set(codes)


def _text(found: Inspection) -> str:
    counts = [
        ("quantize", found.quantize),
        ("dequantize", found.dequantize),
        ("storage casts", found.storage_casts),
        ("rescale", found.rescales),
        ("ops on codes", found.quantized),
        ("ops on codes and floats", found.mixed),
        ("ops on floats", found.float),
    ]
    shown = [(name, str(count)) for name, count in counts]
    ops = [(name, str(count)) for name, count in found.ops.items()]
    weights = [("constants", str(found.constants)), ("bytes", f"{found.weight_bytes:,}")]
    sections = [
        _section(found.name or "module", table(found.interface_rows(), stream=sys.stdout)),
        _section("quantization", table(shown, {1: True})),
        _section(f"ops ({found.total})", table(ops, {1: True})),
        _section("weights", table(weights, {1: True})),
    ]
    if found.unknown:
        rows = [(u.kind, str(u.count), _some(u.keys)) for u in found.unknown]
        title = "kept as they are: ops that qdialect does not know"
        sections.append(_section(title, table(rows, {1: True}, stream=sys.stdout), "warning"))
    if found.target is not None and found.target.refused:
        sections.append(_refused(found.target))
    if found.target is not None and found.target.sums:
        sections.append(_section(f"sums on {found.target.target}", line(found.target.sums)))
    if found.boundaries:
        sections.append(_boundaries(found.boundaries))
    if found.taken is not None:
        sections.append(_taken(found.taken))
    if found.litert is not None:
        sections.append(_litert(found.litert))
    return "\n".join(sections)


def _litert(found: LitertOps) -> str:
    """The ops of a TFLite file, what XNNPACK runs of them, and why not the others."""
    rows = [("op in the file", "count", "XNNPACK takes")]
    rows += [
        (name, str(count), str(found.taken.get(name, 0)))
        for name, count in sorted(found.ops.items(), key=lambda item: (-item[1], item[0]))
    ]
    text = table(rows, {1: True, 2: True}, heading=True)
    if found.refused:
        why = [(str(count), reason) for reason, count in found.refused.items()]
        text += "\n" + table([("count", "why not"), *why], {0: True}, heading=True)
    total, taken = sum(found.ops.values()), sum(found.taken.values())
    return _section(f"taken by XNNPACK in LiteRT: {taken} of {total} ops", text)


def _boundaries(found: list[Boundary]) -> str:
    """How often each code occurs, and where it costs most."""
    counts = Counter(b.code for b in found)
    totals = [(code, str(counts[code]), CODES[code]) for code in CODES if counts[code]]
    rows = [("code", "op", "float ops", "bytes", "what, and a fix")]
    for code, _, _ in totals:
        same = [b for b in found if b.code == code]
        for b in sorted(same, key=lambda b: (b.flops, b.bytes), reverse=True)[:_BOUNDARIES_SHOWN]:
            what = f"{b.message}; {b.advice}"
            place = f"{b.op} {b.key or b.location}".rstrip()
            rows.append((b.code, place, f"{b.flops:,}", f"{b.bytes:,}", what))
    text = table(totals, {1: True}) + "\n"
    text += table(rows, {2: True, 3: True}, stream=sys.stdout, heading=True)
    rest = len(found) - len(rows) + 1
    more = f"{rest} more that cost less: --json lists all, --report shows where they are\n"
    return _section(f"quantization boundaries ({len(found)})", text) + (more if rest else "")


def _refused(found: TargetReport) -> str:
    """The ops that the target refuses, equal reasons together."""
    title = f"refused by {found.target}: {len(found.refused)} of {found.ops} ops as they stand"
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in found.refused:
        group = groups.setdefault((one.op, one.reason, one.advice), [])
        group.append(one.key or one.location)
    rows = [("op", "times", "refused as", "what would make it legal", "where")]
    rows += [
        (op, str(len(places)), reason, legal, _some(list(filter(None, places))))
        for (op, reason, legal), places in groups.items()
    ]
    body = table(rows, {1: True}, stream=sys.stdout, heading=True)
    return _section(title, body)


def _taken(found: Taken) -> str:
    """What a target takes by kind of op, then why not the rest."""
    rows = [("op", "taken", "refused", "on floats", "of these never")]
    rows += [
        (k.op, *(str(n) if n else "" for n in (k.taken, k.refused, k.floats, k.never)))
        for k in found.kinds
    ]
    text = table(rows, dict.fromkeys(range(1, 5), True), heading=True)
    # That a float model is on floats needs no lines.
    reasons = [r for r in found.reasons if not (found.on_floats and r.reason == ON_FLOATS)]
    if reasons:
        why = [("count", "op", "why not", "for example")]
        why += [(str(r.count), r.op, r.reason, r.example) for r in reasons[:_REASONS_SHOWN]]
        text += "\n" + table(why, {0: True}, stream=sys.stdout, heading=True)
    if rest := len(reasons[_REASONS_SHOWN:]):
        text += f"{rest} more reasons: --json lists all\n"
    if found.on_floats:
        text += (
            f"nothing is on codes: once quantized, {found.possible} may be taken; what is, depends "
            f"on qparams (qopt quantize --target {found.target}, then inspect the result)\n"
        )
    title = f"taken by {found.target} on codes: {found.taken} of {found.total} ops"
    return _section(title, text)


def _section(title: str, body: str, colour: str = "bold") -> str:
    return f"{paint(title, colour, sys.stdout)}\n{indented(body)}"


def _some(keys: list[str]) -> str:
    shown = ", ".join(keys[:_KEYS_SHOWN])
    return f"{shown}, ..." if len(keys) > _KEYS_SHOWN else shown
