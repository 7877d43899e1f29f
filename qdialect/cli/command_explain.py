"""`qopt explain`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from qdialect import api
from qdialect.cli.flags import Arguments, write, write_json
from qdialect.cli.terminal import OK, indented, line, paint, table
from qdialect.errors import UsageError
from qdialect.workflows.explain import Decision, Explanation, OpState, decisions_of, explain_op
from qdialect.workflows.inspect import type_text


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    keys = args.texts("op")
    rules, codes = args.texts("rule"), args.texts("code")
    if keys and (rules or codes):
        raise UsageError("--rule and --code are for all ops, --op for some")
    level = args.text("numerics")
    numerics = None if level is None else api.check_numerics(level)
    before = api.load(args.positional[0])
    after = api.optimize(before, args.text("target") or "onnxruntime", numerics)
    if not keys:
        _overview(args, decisions_of(after.ctx.remarks, rules, codes))
        return OK
    found = [explain_op(before, after, key) for key in keys]
    if args.switch("json"):
        shown = [explanation.to_json() for explanation in found]
        write_json(shown[0] if len(shown) == 1 else shown)
    else:
        write("\n".join(_text(explanation) for explanation in found))
    return OK


def _overview(args: Arguments, found: Sequence[Decision]) -> None:
    """What was decided, and how often."""
    if args.switch("json"):
        write_json({"version": 1, "decisions": [asdict(each) for each in found]})
        return
    fired = [d for d in found if d.kind == "fired"]
    refused = [d for d in found if d.kind == "refused"]
    notes = [d for d in found if d.kind not in ("fired", "refused")]
    write(_titled("fired", _decisions(fired) or "nothing\n") + "\n")
    write(_titled("nearly fired, and what was missing", _decisions(refused) or "nothing\n"))
    if notes:
        write("\n" + _titled("notes", _decisions(notes)))
    if not args.has("rule") and not args.has("code"):
        model = args.positional[0]
        where = f"where: qopt explain {model} --rule RULE or --code CODE; at one op: --op KEY"
        write(f"\n{line(where)}")


def _text(found: Explanation) -> str:
    sections = [paint(f"{found.key}, for {found.target}", "bold", sys.stdout) + "\n"]
    sections += [_state("before", state) for state in found.before]
    sections += [_state("after", state) for state in found.after]
    if not found.after:
        sections.append("after\n  no op of that name: it was folded, or became part of another\n")
    if found.declaration:
        sections.append(_titled("declaration", table(found.declaration, stream=sys.stdout)))
    else:
        sections.append("declaration\n  none: passes leave it alone\n")
    if found.target_refuses:
        sections.append(line(f"{found.target} does not run it: {found.target_refuses}"))
    fired = [d for d in found.decisions if d.kind == "fired"]
    sections.append(_titled("fired", _decisions(fired) or "nothing\n"))
    refused = [d for d in found.decisions if d.kind != "fired"]
    sections.append(
        _titled("nearly fired, and what was missing", _decisions(refused) or "nothing\n")
    )
    if found.casts:
        sections.append(_titled("at the casts around it", _decisions(found.casts)))
    return "\n".join(sections)


def _state(title: str, state: OpState) -> str:
    rows = [("op", f"{state.name}  {', '.join(state.keys)}".rstrip()), ("where", state.location)]
    rows += [(f"takes #{n}", type_text(kind)) for n, kind in enumerate(state.operands)]
    rows += [(f"gives #{n}", type_text(kind)) for n, kind in enumerate(state.results)]
    return _titled(title, table([row for row in rows if row[1]], stream=sys.stdout))


def _decisions(found: Sequence[Decision]) -> str:
    rows = [
        (
            f"{d.times} x",
            f"{d.pass_name}: {d.rule}".rstrip(": "),
            f"at {d.op}" + (f" {d.at}" if d.at else ""),
            d.contract if d.kind == "fired" else f"[{d.code}] {d.reason}",
        )
        for d in found
    ]
    return table(rows, {0: True}, stream=sys.stdout)


def _titled(title: str, body: str) -> str:
    return f"{paint(title, 'bold', sys.stdout)}\n{indented(body)}"
