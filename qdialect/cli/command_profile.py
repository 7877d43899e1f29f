"""`qopt profile`: calibrate a float model; `qopt profile merge` and `show`."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from qdialect import api
from qdialect.cli.files import writable
from qdialect.cli.flags import Arguments, write, write_json
from qdialect.cli.terminal import OK, interrupted, line, progress, say, table
from qdialect.errors import InputError, QError, UsageError, Where, did_you_mean
from qdialect.quantizer.profile.distribution import distribution
from qdialect.quantizer.profile.entries import tensor_range
from qdialect.quantizer.profile.file import load_profile, save_profile
from qdialect.quantizer.profile.model_identity import ModelIdentity
from qdialect.quantizer.profile.ranges import Method, RangeChoice
from qdialect.quantizer.profile.record import Channels, Derived, Profile, Settings
from qdialect.workflows.calibrate import (
    Interrupted,
    calibrate,
    calibrate_on_workers,
    new_profile,
    open_data,
    still_to_do,
)


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    source = args.text("data")
    if source is None:
        raise UsageError("--data DIR|NPZ is missing")
    model_path = Path(args.positional[0])
    output = writable(args.text("o") or f"{model_path.stem}.profile.json", (".json",))
    partial_path = output.with_name(f"{output.name}.partial")
    engine = args.text("engine") or "numpy"
    if engine != "dask" and (args.has("workers") or args.has("worker-engine")):
        raise UsageError("--workers and --worker-engine are for --engine dask")
    inner = (args.text("worker-engine") or "numpy") if engine == "dask" else engine
    channels = cast("Channels", args.text("channels") or "none")
    settings = Settings(inner, channels, not args.switch("no-components"))

    model = api.load(model_path)
    whole = args.switch("whole-files")
    data = open_data(model, Path(source), whole)
    start = new_profile(model, settings)
    if args.switch("resume") and partial_path.exists():
        start = _resumed(partial_path, start)
    first = args.integer("first", 0)
    requested = _chosen_samples(args.text("samples"), len(data))
    numbers = still_to_do(start, requested, first)
    watch = partial(progress, label="profiling")
    try:
        if engine == "dask":
            profile = calibrate_on_workers(
                model_path,
                Path(source),
                whole,
                start,
                numbers,
                first,
                workers=args.text("workers") or "2",
                watch=watch,
            )
        else:
            profile = calibrate(
                model,
                data,
                start,
                numbers,
                first,
                watch=watch,
                save=lambda so_far: save_profile(so_far, partial_path),
            )
    except Interrupted as stop:
        return _interrupted(stop.profile, partial_path, len(requested))
    save_profile(profile, output)
    with suppress(OSError):
        partial_path.unlink()
    if args.switch("json"):
        write_json(as_json(profile, output))
    elif not args.switch("quiet"):
        _summary(profile, output)
    return OK


def as_json(profile: Profile, output: Path) -> dict[str, Any]:
    """What a profile written to `output` is of, and the keys where something is wrong."""
    return {
        "version": 1,
        "output": str(output),
        "digest": profile.digest,
        "samples": profile.sample_count,
        "values": len(profile.entries),
        "wrong": _wrong(profile),
    }


def _resumed(path: Path, fresh: Profile) -> Profile:
    """The profile a run left when it was interrupted; of this model and these settings."""
    found = load_profile(path)
    ModelIdentity(fresh.ops).check(found, path)
    if found.settings != fresh.settings:
        raise InputError(
            "was gathered with other settings; use them again, or delete it",
            where=Where(str(path)),
            code="profile-settings-differ",
        )
    return found


def _interrupted(profile: Profile, path: Path, requested: int) -> int:
    if profile.sample_count:
        save_profile(profile, path)
        say(
            f"interrupted after {profile.sample_count} of {requested} samples; kept in {path}, "
            "go on with --resume"
        )
    return interrupted()


def _summary(profile: Profile, output: Path) -> None:
    """What was seen, and the keys where something is wrong, on standard error."""
    say(f"{profile.sample_count} samples, {len(profile.entries)} values: {output}")
    for problem, keys in _wrong(profile).items():
        shown = ", ".join(f"'{key}'" for key in keys[:5])
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        say(f"{problem} in {shown}{more}", "warning")


def _wrong(profile: Profile) -> dict[str, list[str]]:
    """Keys of values that are not what one calibrates on, by what is wrong."""
    rows = [(key, entry.tensor) for key, entry in profile.entries.items()]
    found = {
        "NaN": [key for key, row in rows if row.nan[0]],
        "infinity": [key for key, row in rows if row.low[0] + row.high[0]],
        "nothing but zeros": [key for key, row in rows if row.minimum[0] == row.maximum[0] == 0],
        "no numbers": [key for key, row in rows if not len(row.codes)],
    }
    return {problem: keys for problem, keys in found.items() if keys}


def _chosen_samples(text: str | None, count: int) -> range:
    """`A:B`, either end optional, as sample numbers; all without a text."""
    if text is None:
        return range(count)
    start, colon, end = text.partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, end)):
        raise UsageError(f"--samples takes A:B, not '{text}'")
    low, high = int(start or 0), int(end or count)
    if low >= high or high > count:
        raise InputError(
            f"samples {low} to {high} are asked for, but the data has {count}", code="bad-data"
        )
    return range(low, high)


def run_merge(args: Arguments) -> int:
    """`qopt profile merge`: profiles of parts of a data set as one."""
    name = args.text("o")
    if name is None:
        raise UsageError("-o P.json is missing")
    output = writable(name, (".json",))
    merged = None
    for source in args.positional:
        profile = load_profile(Path(source))
        try:
            merged = profile if merged is None else merged.merge(profile)
        except QError as error:
            error.where = error.where or Where(source)
            raise
    assert merged is not None
    save_profile(merged, output)
    if args.switch("json"):
        write_json(as_json(merged, output))
    return OK


def run_show(args: Arguments) -> int:
    """`qopt profile show`: what is in a profile, and what follows from it."""
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
        write_json(_shown(profile, rows))
        return OK
    spans = ", ".join(f"{first} to {end - 1}" for first, end in profile.samples)
    write(
        f"model    {line(profile.digest)}"
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


def _shown(profile: Profile, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "version": 1,
        "digest": profile.digest,
        "samples": [list(pair) for pair in profile.samples],
        "values": rows,
    }
