"""Whole commands in terminals that lack something, looked at as what they leave on the screen."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from qdialect.ir.context import new_context
from qdialect.plugins.mlir.write import save_module
from tests.generators.sized import GRAPHS

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

from pseudo_terminal import run_in_terminal

COMMANDS = (
    ("optimize", "m.mlir", "-o", "o.mlir"),
    ("inspect", "m.mlir"),
    ("explain", "m.mlir", "--op", "n5"),
    ("optimize", "--help"),
    ("--help",),
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("terminal")
    save_module(GRAPHS["residual"](24, "qdq"), new_context(), place / "m.mlir")
    return place


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "env",
    [
        {},
        {"TERM": "dumb"},
        {"NO_COLOR": "1"},
        {"COLUMNS": "40"},
        {"COLUMNS": "0"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
    ],
    ids=lambda env: " ".join(f"{k}={v}" for k, v in env.items()) or "usual",
)
def test_a_command_in_a_terminal(
    folder: Path, command: tuple[str, ...], env: dict[str, str]
) -> None:
    code, told = run_in_terminal(*command, cwd=folder, **env)
    assert code == 0, told
    assert "Traceback" not in told and "\ufffd" not in told
    if env.get("TERM") == "dumb":
        assert "\x1b" not in told
    if "NO_COLOR" in env:
        assert not COLOUR.search(told)
    if "PYTHONIOENCODING" in env or "LANG" in env:
        assert told.isascii()
    if env.get("COLUMNS") == "40" and "explain" not in command:
        lines = COLOUR.sub("", told).split("\n")
        # What is not a table is a sentence, which the terminal breaks.
        assert all(len(line) <= 40 for line in lines if line.startswith("  "))


def test_a_bar_moves_and_goes(folder: Path) -> None:
    _, told = run_in_terminal("diff", "m.mlir", "m.mlir", "-n", "3", cwd=folder)
    assert "comparing" in told and "3/3" in told
    # The line is cleared, and the cursor is there again.
    assert told.index("\x1b[?25l") < told.index("\x1b[?25h") < told.rindex("\x1b[2K")
    _, plain = run_in_terminal("diff", "m.mlir", "m.mlir", "-n", "3", cwd=folder, TERM="dumb")
    assert "comparing" not in plain and "\x1b" not in plain


def test_an_error_is_red_and_plain_without_colour(folder: Path) -> None:
    code, told = run_in_terminal("inspect", "absent.mlir", cwd=folder)
    assert code == 1 and "\x1b[31merror\x1b[0m: " in told
    code, told = run_in_terminal("inspect", "absent.mlir", cwd=folder, NO_COLOR="1")
    assert code == 1 and "error: " in told and "\x1b" not in told
