"""`tools.bench`: what it measures, what it stores and what it calls a regression."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from qdialect.ir.verify.verifier import verify_module
from tests.generators.sized import FORMS
from tools.bench import compiler, figures
from tools.bench.cases import CASES, DEFAULT, Case, count
from tools.bench.figures import Change
from tools.bench.rows import Absent, Rounds, Row, Spread, growth, in_turns, limited, seconds


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
    assert "| square |      2.00 |" in figures.growth_tables(rows)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of a small run."""
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    options = ["--cases", "residual quantized", "--sizes", "60", "200", "--table-size", "60"]
    options += ["--repeat", "2", "--seconds", "60", "--json", str(path)]
    assert compiler.main(["text", "passes", "table", *options]) == 0
    return path


def test_bench_writes_every_figure(measured: Path) -> None:
    found = figures.load(measured)
    rows = {row.key: row for row in found["rows"]}
    assert {"commit", "when", "machine", "versions"} <= found.keys()
    case = "residual quantized/200"
    for name in ("parse", "parse generic", "print", "print generic", "verify"):
        assert rows[f"text/{case}/{name}"].ratios["stock xDSL"].median > 0
    assert "our text" in rows[f"text/{case}/read .mlirbc"].ratios
    assert rows[f"passes/{case}/optimize, memory"].unit == "bytes"
    whole = rows[f"passes/{case}/optimize"]
    assert whole.ratios.keys() == {"stock verify"} and whole.value.runs == 2
    positions = [r for r in rows.values() if not r.watched and r.size == 200]
    assert any(r.name.endswith(". canonicalize") for r in positions)
    assert sum(r.value.median for r in positions) <= whole.value.high
    tabled = {r.name for r in rows.values() if r.section == "table"}
    assert {"dce", "place-rescales"} <= tabled and "convert-nn-to-tosa" not in tabled
    assert {r.size for r in rows.values() if r.section == "table"} == {60}


def test_known_figures_are_shown_and_put_into_a_page(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n\n<!-- bench -->\n<!-- end of bench -->\n")
    assert compiler.main(["--known", str(measured), "--document", str(page)]) == 0
    assert "Growth" in capsys.readouterr().out
    text = page.read_text()
    assert "| text: residual quantized, " in text and "passes" in text
    assert "| optimize " in text and ". canonicalize" not in text


def slower(rows: list[Row], factor: float) -> list[Row]:
    """Rows of a run in which everything took so many times as long."""

    def times(x: Spread) -> Spread:
        return Spread(x.median * factor, x.low * factor, x.high * factor, x.runs)

    return [replace(r, ratios={name: times(x) for name, x in r.ratios.items()}) for r in rows]


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (0.01, 1), (100.0, 0)])
def test_regressions_are_told(
    factor: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row("parse", 100, 1.0, xdsl=0.2)]
    now, before = tmp_path / "now.json", tmp_path / "before.json"
    figures.write(now, rows)
    figures.write(before, slower(rows, factor))
    assert compiler.main(["--known", str(now), "--compare", str(before), "--fail"]) == code
    said = capsys.readouterr().out
    assert ("worse: none" in said) == (code == 0)
    assert ("text/chain qdq/100/parse / xdsl: 0.002 → 0.2 (100.00x)" in said) == (code == 1)


def test_only_runs_on_the_same_kind_of_machine_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, path = [row("parse", 100, 1.0, xdsl=0.2)], tmp_path / "before.json"
    figures.write(path, slower(rows, 0.1))
    assert figures.report_changes(rows, path)
    monkeypatch.setattr(figures, "machine", lambda: {"system": "elsewhere"})
    assert not figures.report_changes(rows, path)
    assert "nothing to compare with" in capsys.readouterr().out


def test_costs_of_our_own_are_not_compared() -> None:
    found = figures.compared([row("parse", 100, 1.0, **{"our text": 0.2, "stock xDSL": 0.5})])
    assert list(found) == ["text/chain qdq/100/parse / stock xDSL"]


def test_figures_of_another_program_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"f\.json: not figures"):
        figures.load(tmp_path / "f.json")


def test_what_is_within_the_spread_is_no_regression() -> None:
    wide, narrow = Spread(1.0, 0.7, 1.3, 5), Spread(1.2, 1.19, 1.21, 5)
    assert not Change("k", wide, narrow).worse
    assert Change("k", Spread(1.0, 0.99, 1.01, 5), narrow).worse
    assert Change("k", narrow, Spread(1.0, 0.99, 1.01, 5)).better


def test_what_a_section_lacks_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(*_: object) -> list[Row]:
        raise Absent("nothing here")

    monkeypatch.setitem(compiler.SECTIONS, "startup", absent)
    assert compiler.main(["startup"]) == 0
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
        compiler.main(arguments)
    assert raised.value.code == 2
    assert said in capsys.readouterr().err
