"""`qopt profile show`: what is in a profile, and what follows from it, for people or as JSON."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, cast

from qdialect.cli.flags import Arguments, did_you_mean, write, write_json
from qdialect.cli.terminal import OK, table
from qdialect.errors import InputError, QError, UsageError, Where
from qdialect.profile.distribution import distribution
from qdialect.profile.entries import tensor_range
from qdialect.profile.file import load_profile
from qdialect.profile.ranges import Method, RangeChoice
from qdialect.profile.record import Derived, Profile


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    path = Path(args.positional[0])
    profile = load_profile(path)
    method = cast("Method", args.text("method") or "minmax")
    try:
        choice = RangeChoice(method, percentile=args.number("percentile", 99.99))
    except ValueError as error:
        raise UsageError(str(error)) from None
    keys = args.texts("key") or sorted(profile.entries)
    for key in keys:
        if key not in profile.entries:
            hint = did_you_mean(key, list(profile.entries))
            raise InputError(f"no entry '{key}'{hint}", where=Where(str(path)), code="no-entry")
    by_channel = args.switch("max-of-channel")
    rows = [_row(key, profile, choice, by_channel, path) for key in keys]
    if args.switch("json"):
        write_json(_as_json(profile, rows))
        return OK
    spans = ", ".join(f"{first} to {end - 1}" for first, end in profile.samples)
    write(
        f"model    {profile.digest}\n"
        f"samples  {profile.sample_count}: {spans}\n"
        f"engine   {profile.settings.engine}, channels {profile.settings.channels}\n\n"
    )
    shown = [("key", "low", "high", "zeros", "masked", "NaN", "notes")]
    shown += [
        (
            row["key"],
            f"{row['low']:.6g}",
            f"{row['high']:.6g}",
            f"{row['zeros']:.1%}",
            str(row["masked"]),
            str(row["nan"]),
            ", ".join([*row["reasons"], *([_origin(row["derived"])] if row["derived"] else [])]),
        )
        for row in rows
    ]
    right: dict[int, bool] = dict.fromkeys((1, 2, 3, 4, 5), True)
    write(table(shown, right, stream=sys.stdout, heading=True))
    return OK


def _row(
    key: str, profile: Profile, choice: RangeChoice, by_channel: bool, path: Path
) -> dict[str, Any]:
    entry, rule = profile.entries[key], profile.derived.get(key)
    data = distribution(entry.tensor)
    try:
        chosen = tensor_range(entry, choice, by_channel)
    except QError as error:
        error.where = Where(str(path), node=key)
        raise
    return {
        "key": key,
        "low": chosen.low,
        "high": chosen.high,
        "zeros": data.zeros / max(data.size, 1),
        "masked": data.masked,
        "nan": data.nan,
        "count": int(entry.tensor.count[0]),
        "reasons": list(chosen.reasons),
        "derived": None if rule is None else _as_rule(rule),
    }


def _as_rule(rule: Derived) -> dict[str, Any]:
    """As in the file: what it is made of, and the bounds of a clamp."""
    bounds = [bound if math.isfinite(bound) else None for bound in (rule.low, rule.high)]
    return {"of": list(rule.of), **({"clamp": bounds} if rule.is_clamp else {})}


def _origin(rule: dict[str, Any]) -> str:
    bounds = ["" if bound is None else f"{bound:g}" for bound in rule.get("clamp", ())]
    clamp = f", clamped to [{', '.join(bounds)}]" if bounds else ""
    return f"of {' and '.join(rule['of'])}{clamp}"


def _as_json(profile: Profile, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "version": 1,
        "digest": profile.digest,
        "samples": [list(pair) for pair in profile.samples],
        "values": rows,
    }
