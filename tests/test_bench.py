"""`tools/bench.py`: what it measures, what it stores and what it calls a regression."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

import bench
import bench_draw
import bench_history
import bench_page
import bench_profile
from bench_cases import CASES, DEFAULT, Case, count
from bench_history import Change, Entry
from bench_passes import Setting
from bench_rows import Absent, Rounds, Row, Spread, growth, in_turns, limited, seconds
from gen_graph import FORMS
from qdialect.verify.verifier import verify_module


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", CASES)
def test_cases_are_valid(graph: str, form: str) -> None:
    for size in (10, 300):
        module = Case(f"{graph} {form}", size).build()
        verify_module(module)
        assert count(module) >= size * 0.9


def test_extremes_are_what_they_say() -> None:
    wide = Case("joins quantized", 3000).build()
    assert max(len(op.operands) for op in wide.walk()) > 900
    assert max(len(op.results) for op in wide.walk()) > 900
    shared = Case("users quantized", 3000).build()
    uses = (len(list(r.uses)) for op in shared.walk() for r in op.results)
    assert max(uses) > 900
    known = {f"{graph} {form}" for graph in CASES for form in FORMS}
    assert all(set(names) <= known for names in DEFAULT.values())


def test_spread_is_of_quartiles() -> None:
    assert Spread.of([3.0, 1.0, 2.0, 5.0, 4.0]) == Spread(3.0, 2.0, 4.0, 5)
    assert Spread.of([2.0]) == Spread(2.0, 2.0, 2.0, 1)
    assert Spread.of([2.0, math.inf]).runs == 0


def test_rounds_end_with_their_time() -> None:
    assert list(Rounds(3, 100.0)) == [0, 1, 2]
    assert list(Rounds(3, -1.0)) == [0]


def test_turns_change_who_goes_first() -> None:
    order: list[str] = []
    works = {name: lambda name=name: order.append(name) for name in "ab"}
    times = in_turns(works, Rounds(2, 100.0))
    assert order == ["a", "b", "b", "a"]
    assert {name: len(found) for name, found in times.items()} == {"a": 2, "b": 2}


def test_what_takes_too_long_is_given_up() -> None:
    def forever() -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:  # what is measured may catch what it likes
                continue

    assert seconds(forever, limit=0.05) == math.inf
    with limited(10.0):
        pass


def row(name: str, ops: int, value: float, **ratios: float) -> Row:
    found = {key: Spread(x, x * 0.98, x * 1.02, 5) for key, x in ratios.items()}
    return Row("text", "chain qdq", ops, name, Spread.of([value]), ops, found)


def test_growth_is_an_exponent() -> None:
    rows = [row("flat", 10**k, 1e-6 * 10**k) for k in (3, 4, 5)]
    rows += [row("square", 10**k, 1e-9 * 100**k) for k in (3, 4, 5)]
    found = growth([*rows, row("once", 10, 1.0)])
    assert found == {
        "text/chain qdq/flat": pytest.approx(1.0),
        "text/chain qdq/square": pytest.approx(2.0),
    }
    assert "| square |      2.00 |" in bench_page.grown(rows)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of a small run."""
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    options = ["--cases", "residual quantized", "--sizes", "60", "200", "--table-size", "60"]
    options += ["--repeat", "2", "--seconds", "60", "--json", str(path)]
    assert bench.main(["text", "passes", "table", *options]) == 0
    return path


def test_bench_writes_every_figure(figures: Path) -> None:
    held = json.loads(figures.read_text())
    rows = {row.key: row for row in bench.read_figures(figures)}
    assert {"commit", "machine", "versions", "growth"} <= held.keys()
    case = "residual quantized/200"
    for name in ("parse", "parse generic", "print", "print generic", "verify"):
        assert rows[f"text/{case}/{name}"].ratios["stock xDSL"].median > 0
    assert "our text" in rows[f"text/{case}/read .qmod"].ratios
    assert rows[f"passes/{case}/optimize, memory"].unit == "bytes"
    whole = rows[f"passes/{case}/optimize"]
    assert whole.ratios.keys() == {"stock verify"} and whole.value.runs == 2
    positions = [r for r in rows.values() if not r.watched and r.size == 200]
    assert f"passes/{case}/1. canonicalize" in rows
    assert sum(r.value.median for r in positions) <= whole.value.high
    tabled = {r.name for r in rows.values() if r.section == "table"}
    assert {"dce", "place-rescales"} <= tabled and "convert-nn-to-tosa" not in tabled
    assert {r.size for r in rows.values() if r.section == "table"} == {60}
    assert "passes/residual quantized/optimize" in held["growth"]


def test_known_figures_are_shown_and_stored(
    figures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "history.jsonl"
    for _ in range(2):  # the second run takes the place of the first
        assert bench.main(["--known", str(figures), "--history", str(history)]) == 0
    assert "Growth" in capsys.readouterr().out
    (entry,) = bench_history.read(history)
    assert "text/residual quantized/60/parse / stock xDSL" in entry.ratios
    assert entry.growth and entry.machine == bench_history.machine()


def test_known_figures_keep_their_commit(tmp_path: Path) -> None:
    rows, history = [row("parse", 100, 1.0, xdsl=0.2)], tmp_path / "history.jsonl"
    for name, when in (("new", "2026-02-02 02:02"), ("old", "2026-01-01 01:01")):
        entry = dataclasses.replace(Entry.of(rows), commit=name, when=when)
        bench.write_figures(tmp_path / name, rows, entry)
    options = ["--known", str(tmp_path / "new"), str(tmp_path / "old")]
    assert bench.main([*options, "--history", str(history)]) == 0
    (entry,) = bench_history.read(history)
    assert (entry.commit, entry.when) == ("new", "2026-02-02 02:02")


def other(entry: Entry, factor: float) -> Entry:
    """A run of another commit, on which everything took so many times as long."""
    ratios = {
        key: Spread(r.median * factor, r.low * factor, r.high * factor, r.runs)
        for key, r in entry.ratios.items()
    }
    return dataclasses.replace(entry, commit="other", ratios=ratios)


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (0.01, 1), (100.0, 0)])
def test_regressions_are_told(
    factor: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, history = [row("parse", 100, 1.0, xdsl=0.2)], tmp_path / "history.jsonl"
    known = tmp_path / "known.json"
    bench.write_figures(known, rows, Entry.of(rows))
    bench_history.append(history, other(Entry.of(rows), factor))
    options = ["--known", str(known), "--compare", str(history), "--fail"]
    assert bench.main(options) == code
    said = capsys.readouterr().out
    assert ("worse: none" in said) == (code == 0)
    assert ("text/chain qdq/100/parse / xdsl: 0.002 → 0.2 (100.00x)" in said) == (code == 1)


def test_only_runs_on_the_same_kind_of_machine_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = Entry.of([row("parse", 100, 1.0, xdsl=0.2)])
    foreign = dataclasses.replace(other(entry, 0.1), machine={"system": "elsewhere"})
    bench_history.append(tmp_path / "h", foreign)
    assert not bench.compared(entry, tmp_path / "h")
    assert "nothing to compare with" in capsys.readouterr().out


def test_what_is_within_the_spread_is_no_regression() -> None:
    wide, narrow = Spread(1.0, 0.7, 1.3, 5), Spread(1.2, 1.19, 1.21, 5)
    assert not Change("k", wide, narrow).worse
    assert Change("k", Spread(1.0, 0.99, 1.01, 5), narrow).worse
    assert Change("k", narrow, Spread(1.0, 0.99, 1.01, 5)).better


def test_a_broken_history_is_told(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("{}\n")
    with pytest.raises(SystemExit, match="h:1: not a run"):
        bench_history.read(tmp_path / "h")


def test_what_a_section_lacks_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(*_: object) -> list[Row]:
        raise Absent("nothing here")

    monkeypatch.setitem(bench.SECTIONS, "startup", absent)
    assert bench.main(["startup"]) == 0
    assert "startup: left out: nothing here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no section 'nothing'; there are text"),
        (["text", "--cases", "ring qdq"], "no case 'ring qdq'"),
        (["text", "--fail"], "--fail needs --compare"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        bench.main(arguments)
    assert raised.value.code == 2
    assert said in capsys.readouterr().err


def test_samples_belong_to_the_innermost_package() -> None:
    outer = "main (x.py:1);prepared (bench_profile.py:9);"
    inside = "work_to_profile (bench_profile.py:1);run (qdialect/rewrite/driver.py:7)"
    owners, functions = bench_profile.attributed(
        [
            f"{outer}{inside} 4",
            f"{outer}{inside};PyDict_New (libpython3.so) 2",
            f"{outer}{inside};walk (xdsl/ir/core.py:3);copy (copy.py:1) 3",
            f"{outer}{inside};array_add (numpy/_core/_multiarray_umath.so) 5",
            f"{outer}{inside};gc_collect_main (python3) 1",
            f"{outer}imports (qdialect/api.py:1) 100",
        ]
    )
    assert owners == {"qdialect": 6, "xDSL core": 3, "numpy": 5, "garbage collector": 1}
    assert functions["run (qdialect/rewrite/driver.py)"] == 6
    assert functions["run (qdialect/rewrite/driver.py), in numpy"] == 5


def test_profile_has_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = "work_to_profile (b.py:1);run (qdialect/a.py:7) 3"
    monkeypatch.setattr(bench_profile, "collected", lambda arguments: [stack])
    found = list(bench_profile.rows(["residual qdq 50"], Setting()))
    assert [row.name for row in found] == ["qdialect", "own: run (qdialect/a.py)"]
    assert not any(row.watched for row in found)


def test_what_is_profiled_runs() -> None:
    bench_profile.prepared("residual qdq 30", Setting())()


def test_profile_without_a_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_profile.shutil, "which", lambda *_, **__: None)
    with pytest.raises(Absent, match="pip install py-spy"):
        bench_profile.collected([])


def test_the_page_says_before_and_now(
    figures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    page, history = tmp_path / "speed.md", tmp_path / "history.jsonl"
    page.write_text("# Speed\n\n<!-- bench -->\n<!-- end of bench -->\n")
    bench_history.append(history, other(Entry.of(bench.read_figures(figures)), 2.0))
    options = ["--known", str(figures), "--before", str(figures), "--history", str(history)]
    assert bench.main([*options, "--document", str(page)]) == 0
    text = page.read_text()
    assert "| wanted" in text and "not measured" in text
    assert "| residual quantized, 2" in text and " → " in text
    assert "(speed-growth.png)" in text and "(speed-history.png)" in text
    assert all((tmp_path / f"speed-{name}.png").stat().st_size for name in ("growth", "history"))


def test_a_course_is_a_chain_of_common_ratios() -> None:
    first = Entry.of([row("parse", 100, 1.0, xdsl=0.4), row("print", 100, 1.0, xdsl=9.0)])
    second = Entry.of([row("parse", 100, 1.0, xdsl=0.2), row("verify", 100, 1.0, xdsl=1.0)])
    third = Entry.of([row("verify", 100, 1.0, xdsl=2.0)])
    courses = bench_draw.courses([first, second, third])
    assert courses == {"text / xdsl": pytest.approx([1.0, 0.5, 1.0])}
