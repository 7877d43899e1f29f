"""The profile file: read back as written, merged exactly, refused when it is not right."""

from __future__ import annotations

import json
import random
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdialect.errors import InputError
from qdialect.quantizer.profile.file import load_profile, parse_profile, profile_text, save_profile
from qdialect.quantizer.profile.record import (
    LAST_SAMPLES,
    Channels,
    Entry,
    Profile,
    Settings,
)
from qdialect.quantizer.profile.sketch import observe, observe_rows, rounded

SPECIAL = [0.0, -1e9, np.inf, -np.inf, np.nan, 0.1, -3.3e38, 1e-40]


def one(index: int, channels: Channels = "none", keys: tuple[str, ...] = ("a", "b/c")) -> Profile:
    """The profile of one sample."""
    entries: dict[str, Entry] = {}
    for number, key in enumerate(keys):
        rng = np.random.default_rng([index, number])
        values = rng.normal(size=(3, 20)).astype(np.float32) * np.float32(
            10.0 ** rng.integers(-5, 5)
        )
        values[1, :3] = rng.choice(SPECIAL, 3)
        rows = None if channels == "none" else observe_rows(values, bins=channels == "bins")
        finite = values[np.abs(values) < 1e8]
        extremes = {index: (rounded(float(finite.min())), rounded(float(finite.max())))}
        entries[key] = Entry(observe(values), rows, extremes)
    ops = {"a": "nn.relu:0:-", "b/c": "nn.conv2d:1:2"}
    return Profile("sha256:0", Settings("numpy", channels), ((index, index + 1),), entries, ops=ops)


@pytest.mark.parametrize("channels", ["none", "range", "bins"])
def test_read_back_as_written(channels: Channels, tmp_path: Path) -> None:
    profile = reduce(Profile.merge, [one(i, channels) for i in range(4)])
    text = profile_text(profile)
    assert parse_profile(text) == profile
    save_profile(profile, tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == profile
    assert (tmp_path / "p.json").read_text() == text
    assert set(json.loads(text)["entries"]) == {"a", "b/c"}


@pytest.mark.parametrize("channels", ["none", "range", "bins"])
def test_merged_bytes_do_not_depend_on_the_split(channels: Channels) -> None:
    parts = [one(i, channels) for i in range(12)]
    whole = profile_text(reduce(Profile.merge, parts))
    shuffle = random.Random(0)
    for _ in range(20):
        heap = list(parts)
        while len(heap) > 1:
            shuffle.shuffle(heap)
            heap.append(heap.pop().merge(parse_profile(profile_text(heap.pop()))))
        assert profile_text(heap[0]) == whole


def test_only_the_last_samples_are_kept_one_by_one() -> None:
    profile = reduce(Profile.merge, [one(i, keys=("a",)) for i in range(LAST_SAMPLES + 30)])
    assert list(profile.entries["a"].samples) == list(range(30, LAST_SAMPLES + 30))
    assert profile.samples == ((0, LAST_SAMPLES + 30),)


def test_entries_of_some_samples_only() -> None:
    a, b = one(0, keys=("a",)), one(1, keys=("b",))
    assert list(a.merge(b).entries) == ["a", "b"]


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (one(0), "samples-overlap"),
        (Profile("sha256:1", samples=((1, 2),)), "profile-of-another-model"),
        (one(1, "bins"), "profile-settings-differ"),
    ],
)
def test_what_does_not_merge(other: Profile, code: str) -> None:
    with pytest.raises(InputError) as error:
        one(0).merge(other)
    assert error.value.code == code


def edited(change: Any) -> str:
    data = json.loads(profile_text(one(0, "range")))
    change(data)
    return json.dumps(data)


def entry(data: Any) -> Any:
    return data["entries"]["b/c"]


BROKEN = {
    "schema 0": (lambda d: d.update(version=0), "older"),
    "schema 9": (lambda d: d.update(version=9), "unknown"),
    "no format": (lambda d: d.pop("format"), "not a profile"),
    "missing": (lambda d: d.pop("samples"), "'samples' is missing"),
    "unknown": (lambda d: d.update(more=1), "'more' is not known"),
    "digest": (lambda d: d["model"].update(digest=3), "digest"),
    "ops": (lambda d: d["model"].update(ops=[]), "ops: is not an object"),
    "op": (lambda d: d["model"]["ops"].update(a="nn.relu"), "is no kind with two hashes"),
    "engine": (lambda d: d["settings"].update(engine=3), "engine"),
    "channels": (lambda d: d["settings"].update(channels="some"), "channels"),
    "no channels": (lambda d: d["settings"].update(channels="none"), "there are none"),
    "samples": (lambda d: d.update(samples=[[3, 1]]), "ascend"),
    "entry": (lambda d: d["entries"].update({"b/c": 7}), "'b/c': entry: is not an object"),
    "entry field": (lambda d: entry(d).update(mean=1), "'b/c': 'mean' is not known"),
    "count": (lambda d: entry(d)["tensor"].update(count=1), "'b/c': tensor: the bins"),
    "negative count": (lambda d: entry(d)["tensor"].update(nan=-1), "nan: -1 is not a count"),
    "float count": (lambda d: entry(d)["tensor"].update(nan=1.5), "nan: 1.5 is not a count"),
    "text": (lambda d: entry(d)["tensor"].update(min="a"), "'b/c': min, max: \"a\""),
    "swapped": (lambda d: entry(d)["tensor"].update(min=9e9), "is above maximum"),
    "moved": (lambda d: entry(d)["tensor"].update(max=1e7), "not in the outermost bin"),
    "overflow": (lambda d: entry(d)["tensor"].update(max=1e300), "not a finite float32"),
    "NaN": (lambda d: entry(d)["tensor"].update(min=float("nan")), "NaN is not a number"),
    "exponent": (lambda d: entry(d)["tensor"]["positive"].update({"x": [1]}), "not an exponent"),
    "bins": (lambda d: entry(d)["tensor"]["positive"].update({"13": [0] * 65}), "more than 64"),
    "empty bins": (
        lambda d: entry(d)["tensor"]["positive"].update({"13": [-64, 1]}),
        "more than 64",
    ),
    "merged bins": (
        lambda d: entry(d)["tensor"].update(positive={"5": [1], "1": [-16, 1]}),
        "positive '1': more than 16 bins",
    ),
    "no bins": (lambda d: entry(d)["tensor"]["negative"].update({"13": []}), "nothing is in it"),
    "no run": (lambda d: entry(d)["tensor"]["positive"].update({"5": [-65]}), "is not a count"),
    "extremes": (lambda d: entry(d)["last"].update(samples=[[7, 8]]), "sample 7 is not of this"),
    "short": (lambda d: entry(d)["last"].update(min=[]), "last: min: [] is not a list of 1"),
    "many": (lambda d: entry(d)["last"].update(samples=[[0, 99]]), "more than 64"),
    "turned": (lambda d: entry(d)["last"].update(min=[9e9]), "is above maximum"),
    "no source": (lambda d: d["entries"].update(r={"of": []}), "'r': of: there is no key"),
    "lost source": (lambda d: d["entries"].update(r={"of": ["q"]}), 'there is no entry "q"'),
    "circle": (lambda d: d["entries"].update(r={"of": ["r"]}), "'r': of: it derives from itself"),
    "bounds": (
        lambda d: d["entries"].update(r={"of": ["b/c"], "clamp": [1, 0]}),
        "'r': clamp: [1, 0] are no bounds",
    ),
    "more bounds": (
        lambda d: d["entries"].update(r={"of": ["b/c"], "limit": 1}),
        "'r': 'limit' is not known",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_name_the_key(name: str) -> None:
    change, words = BROKEN[name]
    with pytest.raises(InputError) as error:
        parse_profile(edited(change), "p.json")
    assert words in error.value.message
    assert "p.json" in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["model"].update(digest="\ud800"),
        lambda d: d["settings"].update(engine="a\udfff"),
        lambda d: d["entries"].update({"\udc00": d["entries"]["a"]}),
    ],
)
def test_half_a_character_is_no_text(change: Any) -> None:
    """It could be read, and not be written again."""
    with pytest.raises(InputError, match="is not Unicode"):
        parse_profile(edited(change))


def test_minus_zero_is_zero() -> None:
    """Written as "-0" and read back it was another."""
    profile = one(0, keys=("a",))
    entry = Entry(profile.entries["a"].tensor, None, {0: (rounded(-0.0), rounded(-1e-60))})
    text = profile_text(Profile("sha256:0", Settings("numpy"), ((0, 1),), {"a": entry}))
    assert "-0]" not in text
    assert profile_text(parse_profile(text)) == text
    assert profile_text(parse_profile(text.replace('"max": [0]', '"max": [-0.0]'))) == text


def test_a_key_that_is_there_twice_is_found_in_time() -> None:
    names = ",".join(f'"{i}":0' for i in range(100_000))
    with pytest.raises(InputError, match="'99999' is there twice"):
        parse_profile(f'{{{names},"99999":1}}')


def test_truncated_anywhere() -> None:
    text = profile_text(one(0, "bins"))
    for end in range(0, len(text) - 2, 37):
        with pytest.raises(InputError):
            parse_profile(text[:end])


def test_duplicate_keys() -> None:
    text = profile_text(one(0)).replace('"b/c"', '"a"')
    with pytest.raises(InputError, match="'a' is there twice"):
        parse_profile(text)


def test_random_edits_never_crash() -> None:
    text, rng = profile_text(one(0, "range")), random.Random(1)
    for _ in range(400):
        where = rng.randrange(len(text))
        broken = text[:where] + rng.choice('{}[],:"0-x\n') + text[where + rng.randrange(3) :]
        try:
            parse_profile(broken)
        except InputError:
            continue


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load_profile(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        load_profile(tmp_path / "b.json")
    with pytest.raises(InputError, match="cannot write"):
        save_profile(one(0), tmp_path / "no" / "p.json")
    save_profile(one(0), tmp_path / "p.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.json", "p.json"]
