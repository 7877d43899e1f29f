"""What a terminal gets that a pipe does not, and what is said to a slip of the finger."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qdialect.cli.commands import COMMANDS
from qdialect.cli.terminal import coloured, columns, table
from tests.support.commands import Main, call, qopt, qopt_opt

ROWS = [("name", "count", "what"), ("conv1", "12", "a long text of many words that goes on and on")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def test_a_pipe_gets_plain_lines() -> None:
    text = table(ROWS, {1: True}, stream=io.StringIO(), heading=True)
    assert text == table(ROWS, {1: True})
    assert "\033" not in text and len(text.splitlines()) == 2


def test_a_table_without_room_is_one_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    rows = [*ROWS, ("conv2", "7", "short")]
    text = table(rows, {1: True}, stream=Terminal(), heading=True)
    first, second = text.split("\n\n")
    assert second.split() == ["name", "conv2", "count", "7", "what", "short"]
    assert max(map(len, text.splitlines())) <= 26 and " ".join(first.split()[5:]) == ROWS[1][2]


def test_a_terminal_gets_a_heading_and_lines_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    lines = table(ROWS, {1: True}, stream=Terminal(), heading=True).splitlines()
    assert lines[0].startswith("\033[1m") and len(lines) > 2
    assert all(len(line) <= 46 for line in lines[1:])
    assert " ".join(" ".join(lines[1:]).split()) == "conv1 12 " + ROWS[1][2]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_it_is_not_wanted(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert coloured(Terminal())
    monkeypatch.setenv(name, value)
    assert not coloured(Terminal())


@pytest.mark.parametrize("value", ["0", "wide", "-3", ""])
def test_a_terminal_that_does_not_say_how_wide_it_is(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", value)
    assert columns(Terminal()) is None
    assert len(table(ROWS, stream=Terminal()).splitlines()) == 2


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(*[st.text("ab ", max_size=60)] * 3), min_size=1, max_size=4),
    st.integers(1, 120),
)
def test_any_table_fits_or_is_as_narrow_as_it_gets(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        text = table(rows, stream=Terminal())
    assert max(map(len, text.splitlines()), default=0) <= max(width, 3 * 16 + 4)
    said = "".join("".join(cell) for row in rows for cell in row)
    assert sorted("".join(text.split())) == sorted("".join(said.split()))


@pytest.mark.parametrize(
    ("main", "line", "meant"),
    [
        (qopt, "optimse m.mlir", "optimize"),
        (qopt, "optimize m.mlir -o o.mlir --targt generic", "--target"),
        (qopt, "optimize m.mlir -o o.mlir --target onxruntime", "onnxruntime"),
        (qopt, "optimize m.mlir -o o.mlir --numerics exakt", "exact"),
        (qopt, "optimize m.mlir -o o.mlir -p integeriz", "integerize"),
        (qopt, "optimize m.mlir -o o.mlir -p sink-rescale{numeric=exact}", "numerics"),
        (qopt, "run m.mlir -i x.npz -o y.npz --engine onnxruntme", "onnxruntime"),
        (qopt, "engines install ire", "iree"),
        (qopt, "inspect m.mlir --fail-on b1", "B1"),
        (qopt, "explain m.mlir --op rela", "relu"),
        (qopt_opt, "m.mlir --pass-pipline=dce", "--pass-pipeline"),
        (qopt_opt, "m.mlir -p canonicalise", "canonicalize"),
    ],
)
def test_did_you_mean(
    main: Main, line: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = nn.relu %x {nn.key = "relu"} : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  return %0 : tensor<4xf32>\n}\n"
    )
    done = call(main, *line.split())
    assert done.code in (1, 2)
    assert f"did you mean '{meant}'?" in done.err


def test_engines_as_json() -> None:
    told = json.loads(call(qopt, "engines", "--json").out)
    assert {"numpy", "iree"} <= {engine["name"] for engine in told["engines"]}
    assert all(engine["ready"] == (engine["install"] is None) for engine in told["engines"])


def test_optimize_as_json(tmp_path: Path) -> None:
    source = tmp_path / "m.mlir"
    source.write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = nn.relu %x {nn.key = "relu"} : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  return %0 : tensor<4xf32>\n}\n"
    )
    done = call(qopt, "optimize", str(source), "-o", str(tmp_path / "o.mlir"), "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["before"]["ops"] == told["after"]["ops"] == 1
    assert told["outputs"][0]["contract"] == "exact"


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"completion"}))
def test_every_command_has_json(command: str) -> None:
    assert "--json" in call(qopt, *command.split(), "--help").out
