"""The profile file: JSON, the same text for the same profile. See docs/design/006.

The reader is strict: a file that was cut off, edited by hand or written for another
schema is one error that names the key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn, cast, get_args

import numpy as np

from qdialect.errors import InputError, Where
from qdialect.ir.weights import save_text
from qdialect.quantizer.profile.record import (
    LAST_SAMPLES,
    SCHEMA,
    Channels,
    Derived,
    Entry,
    Profile,
    Settings,
    can_clamp,
    join_intervals,
    with_derived,
)
from qdialect.quantizer.profile.sketch import (
    COARSE_EXPONENT,
    EXPONENT_BIAS,
    HUGE,
    PER_OCTAVE,
    ZERO,
    Sketch,
    bin_code,
    bin_parts,
    edges,
    empty,
    folded,
    global_codes,
    merged_bits,
    no_tops,
)

Json = dict[str, Any]

FORMAT = "qdialect-profile"
_TOP = ("format", "version", "model", "settings", "samples", "entries")
_ROW = ("count", "nan", "-inf", "+inf", "min", "max")
_BINS = ("zero", "negative", "positive")
_LAST = ("samples", "min", "max")
_LARGEST = (1 << 63) - 1


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile, whole or not at all."""
    save_text(path, profile_text(profile), load_profile)


def load_profile(path: Path) -> Profile:
    """Read a profile; InputError (file and key) if it is not exactly one of ours."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(
            f"cannot read: {reason}", where=Where(str(path)), code="unreadable-file"
        ) from None
    return parse_profile(text, str(path))


# -- writing ----------------------------------------------------------------------------


def profile_text(profile: Profile) -> str:
    """The file: keys sorted, one line for the bins of each sign."""
    settings = asdict(profile.settings)
    lines = [
        "{",
        f' "format": {_json(FORMAT)},',
        f' "version": {SCHEMA},',
        f' "model": {{"digest": {_json(profile.digest)}, "ops": {{{_ops_text(profile)}}}}},',
        f' "settings": {_json(settings)},',
        f' "samples": {_json([list(pair) for pair in profile.samples])},',
    ]
    entries = ",".join(
        f"\n  {_json(key)}: {_text(key, profile)}" for key in sorted(profile.entries)
    )
    return "\n".join(lines) + f'\n "entries": {{{entries}\n }}\n}}\n'


def _ops_text(profile: Profile) -> str:
    lines = [f"\n  {_json(key)}: {_json(text)}" for key, text in sorted(profile.ops.items())]
    return ",".join(lines) + ("\n " if lines else "")


def _text(key: str, profile: Profile) -> str:
    rule = profile.derived.get(key)
    if rule is None:
        return _entry_text(profile.entries[key], profile.settings.channels)
    text = f'{{"of": {_json(list(rule.of))}'
    if rule.is_clamp:
        text += f', "clamp": [{_number(rule.low)}, {_number(rule.high)}]'
    return text + "}"


def _entry_text(entry: Entry, channels: Channels) -> str:
    parts = [f'\n   "tensor": {_row_text(entry.tensor, 0, True)}']
    if entry.channels is not None:
        bins = channels == "bins"
        rows = (_row_text(entry.channels, row, bins) for row in range(entry.channels.rows))
        parts.append('\n   "channels": [' + ",".join(f"\n    {row}" for row in rows) + "\n   ]")
    if entry.samples:
        indices = sorted(entry.samples)
        intervals = [list(pair) for pair in join_intervals((i, i + 1) for i in indices)]
        low, high = (",".join(f"{entry.samples[i][side]:g}" for i in indices) for side in (0, 1))
        parts.append(
            f'\n   "last": {{"samples": {_json(intervals)},'
            f'\n    "min": [{low}],\n    "max": [{high}]}}'
        )
    return "{" + ",".join(parts) + "\n  }"


def _row_text(sketch: Sketch, row: int, bins: bool) -> str:
    numbers = {
        "count": int(sketch.count[row]),
        "nan": int(sketch.nan[row]),
        "-inf": int(sketch.low[row]),
        "+inf": int(sketch.high[row]),
    }
    parts = [f"{_json(name)}: {value}" for name, value in numbers.items()]
    low, high = sketch.minimum[row], sketch.maximum[row]
    parts += [f'"min": {_number(low)}', f'"max": {_number(high)}']
    text = ", ".join(parts)
    if bins:
        codes, counts = sketch.row_bins(row)
        zero = codes == ZERO
        text += f', "zero": {int(counts[zero].sum())}'
        for name, sign, top in zip(_BINS[1:], (-1, 1), sketch.tops[row, ::-1], strict=True):
            octaves = _octaves(codes[~zero], counts[~zero], sign, int(top) - EXPONENT_BIAS)
            text += f',\n    "{name}": {{{octaves}}}'
    return "{" + text + "}"


def _octaves(codes: Any, counts: Any, sign: int, top: int) -> str:
    """By exponent: the counts of its bins up to the last that is not empty; -n for n empty
    ones. `top` is the octave that the merging of bins starts from."""
    signs, exponents, steps = bin_parts(codes)
    chosen = signs == sign
    steps = steps[chosen].tolist()
    octaves: list[str] = []
    numbers, starts = np.unique(exponents[chosen], return_index=True)
    texts = counts[chosen].astype(str).tolist()
    ends = [*starts.tolist(), len(steps)]
    for exponent, start, end in zip(numbers.tolist(), ends, ends[1:], strict=False):
        bits = merged_bits(top - exponent)
        before, found = 0, list[str]()
        for index in range(start, end):
            step = steps[index] >> bits
            if step > before:
                found.append("0" if step == before + 1 else f"-{step - before}")
            found.append(texts[index])
            before = step + 1
        octaves.append(f'"{exponent}": [{",".join(found)}]')
    return ", ".join(octaves)


def _number(value: Any) -> str:
    """The shortest text that reads back as the same float32; null where there is none."""
    return str(np.float32(value)) if math.isfinite(value) else "null"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ": "), sort_keys=True)


# -- reading ----------------------------------------------------------------------------


def parse_profile(text: str, file: str = "<profile>") -> Profile:
    """A profile from the text of a file; `file` is its name, for errors."""
    return _Reader(file).profile(text)


# -- JSON values ------------------------------------------------------------------


class _Checks:
    """Checks everything it takes; `at` is where it is, for errors."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.at: list[str] = []

    def fail(self, message: str, code: str = "bad-profile") -> NoReturn:
        place = f"{': '.join(self.at)}: " if self.at else ""
        raise InputError(f"{place}{message}", where=Where(self.file), code=code)

    def object_of(self, pairs: list[tuple[str, Any]]) -> Json:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen = set[str]()
            twice = next(n for n, _ in pairs if n in seen or seen.add(n))
            self.fail(f"'{twice}' is there twice", "duplicate-key")
        for text in (*found, *(v for v in found.values() if isinstance(v, str))):
            if not _is_unicode(text):
                self.fail(f"{text!r} is not Unicode")
        return found

    def constant(self, name: str) -> NoReturn:
        self.fail(f"{name} is not a number here")

    def mapping(self, name: str, value: Any, fields: tuple[str, ...] | None = None) -> Json:
        if not isinstance(value, dict):
            self.fail(f"{name}: is not an object")
        found = cast(Json, value)
        if fields is not None:
            self.fields(found, fields, f"{name}: ")
        return found

    def fields(self, value: Json, fields: tuple[str, ...], prefix: str = "") -> None:
        for name in fields:
            if name not in value:
                self.fail(f"{prefix}'{name}' is missing")
        for name in value:
            if name not in fields:
                self.fail(f"{prefix}'{name}' is not known")

    def integer(self, name: str, value: Any, least: int = 0) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
            self.fail(f"{name}: {_shown(value)} is not a count")
        return value

    def array(self, name: str, value: Any, length: int | None = None) -> list[Any]:
        if not isinstance(value, list) or length not in (None, len(cast("list[Any]", value))):
            of = "" if length is None else f" of {length}"
            self.fail(f"{name}: {_shown(value)} is not a list{of}")
        return cast("list[Any]", value)


def _is_unicode(text: str) -> bool:
    """Not so if half of a surrogate pair was written with an escape: it has no UTF-8."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "[...]"
    return text if len(text) < 40 else text[:36] + " ..."


# -- the fields -------------------------------------------------------------------


class _Reader(_Checks):
    """The fields of a profile."""

    def profile(self, text: str) -> Profile:
        try:
            data: Any = json.loads(
                text, object_pairs_hook=self.object_of, parse_constant=self.constant
            )
        except json.JSONDecodeError as error:
            raise InputError(
                f"not a whole JSON file: {error.msg}",
                where=Where(self.file, error.lineno, error.colno),
                code="bad-profile",
            ) from None
        except (RecursionError, ValueError):
            self.fail("not a profile")
        if not isinstance(data, dict) or cast(Json, data).get("format") != FORMAT:
            self.fail(f'not a profile (no "format": "{FORMAT}")')
        top = cast(Json, data)
        version = top.get("version")
        if type(version) is not int or version != SCHEMA:
            age = "older" if isinstance(version, int) and version < SCHEMA else "unknown"
            self.fail(
                f"the schema is {version}, which is {age} (this reads {SCHEMA}); profile again",
                "profile-schema",
            )
        self.fields(top, _TOP)
        model = self.mapping("model", top["model"], ("digest", "ops"))
        digest = model["digest"]
        if not isinstance(digest, str) or not digest:
            self.fail("model: digest: is not a text")
        ops = self.mapping("model: ops", model["ops"])
        for key, text_of_op in ops.items():
            if not isinstance(text_of_op, str) or text_of_op.count(":") < 2:
                self.fail(f"model: ops: {_shown(key)}: is no kind with two hashes")
        profile = Profile(digest, self._settings(top["settings"]), self._samples(top["samples"]))
        entries = self.mapping("entries", top["entries"])
        read: dict[str, Entry] = {}
        derived: dict[str, Derived] = {}
        for key, value in entries.items():
            self.at = ["entries", f"'{key}'"]
            if isinstance(value, dict) and "of" in value:
                derived[key] = self._derived(cast(Json, value), entries)
            else:
                read[key] = self._entry(value, profile)
        read = with_derived(read, derived)
        for key in derived:
            self.at = ["entries", f"'{key}'"]
            if key not in read:
                self.fail("of: it derives from itself")
        self.at = []
        return Profile(profile.digest, profile.settings, profile.samples, read, derived, ops)

    def _derived(self, value: Json, entries: Json) -> Derived:
        clamp = ("clamp",) if "clamp" in value else ()
        self.fields(value, ("of", *clamp))
        of = self.array("of", value["of"])
        if not of:
            self.fail("of: there is no key")
        for key in of:
            if not isinstance(key, str) or key not in entries:
                self.fail(f"of: there is no entry {_shown(key)}")
        if not clamp:
            return Derived(tuple(of))
        low, high = self.array("clamp", value["clamp"], 2)
        low = -math.inf if low is None else self._float("clamp", low)
        high = math.inf if high is None else self._float("clamp", high)
        if not can_clamp(low, high):
            self.fail(f"clamp: {_shown(value['clamp'])} are no bounds")
        return Derived(tuple(of), low, high)

    def _settings(self, value: Any) -> Settings:
        settings = self.mapping("settings", value, ("channels", "components", "engine"))
        if settings["channels"] not in get_args(Channels):
            self.fail(f"settings: channels: {_shown(settings['channels'])} is not known")
        if not isinstance(settings["engine"], str):
            self.fail(f"settings: engine: {_shown(settings['engine'])} is not a text")
        if not isinstance(settings["components"], bool):
            self.fail(f"settings: components: {_shown(settings['components'])} is not known")
        return Settings(settings["engine"], settings["channels"], settings["components"])

    def _samples(self, value: Any) -> tuple[tuple[int, int], ...]:
        intervals: list[tuple[int, int]] = []
        for pair in self.array("samples", value):
            start, end = (self.integer("samples", n) for n in self.array("samples", pair, 2))
            if start >= end or (intervals and start <= intervals[-1][1]):
                self.fail(f"samples: {_shown(pair)} does not ascend")
            intervals.append((start, end))
        return tuple(intervals)

    def _entry(self, value: Any, profile: Profile) -> Entry:
        entry = self.mapping("entry", value)
        channels = ("channels",) if "channels" in entry else ()
        last = ("last",) if "last" in entry else ()
        self.fields(entry, ("tensor", *channels, *last))
        tensor = self._rows("tensor", [entry["tensor"]], bins=True)
        rows = None
        if channels:
            if profile.settings.channels == "none":
                self.fail("channels: the settings say that there are none")
            array = self.array("channels", entry["channels"])
            rows = self._rows("channels", array, bins=profile.settings.channels == "bins")
        return Entry(tensor, rows, dict(self._extremes(entry["last"], profile)) if last else {})

    def _extremes(self, value: Any, profile: Profile) -> Iterator[tuple[int, tuple[float, float]]]:
        found = self.mapping("last", value, _LAST)
        intervals = self._samples(found["samples"])
        count = sum(end - start for start, end in intervals)
        if count > LAST_SAMPLES:
            self.fail(f"last: samples: more than {LAST_SAMPLES}")
        lows = self.array("last: min", found["min"], count)
        highs = self.array("last: max", found["max"], count)
        indices = (i for start, end in intervals for i in range(start, end))
        for index, low, high in zip(indices, lows, highs, strict=True):
            if not any(a <= index < b for a, b in profile.samples):
                self.fail(f"last: samples: sample {index} is not of this profile")
            yield index, self._ordered("last: min, max", low, high)

    def _ordered(self, name: str, low: Any, high: Any) -> tuple[float, float]:
        least, most = (self._float(name, value) for value in (low, high))
        if least > most:
            self.fail(f"{name}: minimum {least} is above maximum {most}")
        return least, most

    def _float(self, name: str, value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(f"{name}: {_shown(value)} is not a number")
        try:
            with np.errstate(over="ignore"):
                number = float(np.float32(value))
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail(f"{name}: {_shown(value)} is not a finite float32")
        return number + 0.0  # -0 is 0

    def _rows(self, name: str, values: list[Any], *, bins: bool) -> Sketch:
        sketch = empty(len(values))
        codes: list[np.ndarray[Any, Any]] = []
        counts: list[np.ndarray[Any, Any]] = []
        for row, value in enumerate(values):
            fields = self.mapping(name, value, (*_ROW, *_BINS) if bins else _ROW)
            total, nan, low, high = (self.integer(f, fields[f]) for f in _ROW[:4])
            for array, number in zip(
                (sketch.count, sketch.nan, sketch.low, sketch.high),
                (total, nan, low, high),
                strict=True,
            ):
                array[row] = number
            if (fields["min"], fields["max"]) != (None, None):
                extremes = self._ordered("min, max", fields["min"], fields["max"])
                sketch.minimum[row], sketch.maximum[row] = extremes
            if bins:
                found = self._bins(fields)
                if sum(found.values()) + nan + low + high != total:
                    self.fail(f"{name}: the bins, NaN and infinities are not {total} values")
                ordered = np.array(sorted(found), np.int64)
                self._extremes_in_bins(name, ordered, sketch.minimum[row], sketch.maximum[row])
                codes.append(global_codes(row, ordered))
                counts.append(np.array([found[int(code)] for code in ordered], np.int64))
        if not codes:
            return sketch
        kept, totals, tops = folded(np.concatenate(codes), np.concatenate(counts), sketch.tops)
        return replace(sketch, codes=kept, counts=totals, tops=tops)

    def _extremes_in_bins(self, name: str, codes: Any, minimum: Any, maximum: Any) -> None:
        """The extremes are in the outermost bins that they are kept for."""
        # The outermost bins are never merged ones.
        signs, inner, outer = edges(codes[codes != ZERO], no_tops(1))
        for sign, extreme, which in ((-1, minimum, "min"), (1, maximum, "max")):
            ours = (signs == sign) & (inner < HUGE)
            if ours.any():
                last = inner[ours].argmax()
                if not inner[ours][last] <= sign * float(extreme) < outer[ours][last]:
                    self.fail(f"{name}: {which} {extreme} is not in the outermost bin")

    def _bins(self, row: Mapping[str, Any]) -> dict[int, int]:
        zero = self.integer("zero", row["zero"])
        found = {ZERO: zero} if zero else {}
        for name, sign in (("negative", -1), ("positive", 1)):
            octaves = self.mapping(name, row[name])
            exponents = [self._exponent(f"{name} '{text}'", text) for text in octaves]
            top = max((e for e in exponents if e < COARSE_EXPONENT), default=-126)
            for exponent, octave in zip(exponents, octaves.values(), strict=True):
                place = f"{name} '{exponent}'"
                bits = merged_bits(top - exponent)
                length = PER_OCTAVE >> bits
                before, step = len(found), 0
                for count in self.array(place, octave):
                    if self.integer(place, count, -length) > 0 and step < length:
                        found[bin_code(sign, exponent, step << bits)] = count
                    step += max(1, -count)
                if step > length:
                    self.fail(f"{place}: more than {length} bins")
                if len(found) == before:
                    self.fail(f"{place}: nothing is in it")
        return found

    def _exponent(self, place: str, text: str) -> int:
        try:
            exponent = int(text)
        except ValueError:
            exponent = None
        if exponent is None or str(exponent) != text or not -126 <= exponent <= 127:
            self.fail(f"{place}: is not an exponent of float32")
        return exponent
