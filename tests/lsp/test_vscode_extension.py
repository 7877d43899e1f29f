"""The folder of the VS Code extension: valid, complete, and in step with the server."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from qdialect.plugins.mlir.lsp.server import Settings
from qdialect.plugins.mlir.syntax.patterns import textmate

FOLDER = Path(__file__).parents[2] / "tools" / "vscode"
GRAMMAR = FOLDER / "syntaxes" / "mlir.tmLanguage.json"


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def run_node(*arguments: str, given: str = "") -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js")
    done = subprocess.run(
        [node, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_files_it_names_are_there() -> None:
    package = read("package.json")
    contributes = package["contributes"]
    named = [package["main"], contributes["grammars"][0]["path"]]
    named.append(contributes["languages"][0]["configuration"])
    assert [name for name in named if not (FOLDER / name).is_file()] == []
    assert set(read("language-configuration.json")) >= {"comments", "brackets", "wordPattern"}


def test_the_grammar_is_the_one_of_the_package() -> None:
    """`qdialect.plugins.mlir.syntax > tools/vscode/syntaxes/mlir.tmLanguage.json` makes it."""
    assert json.loads(GRAMMAR.read_text(encoding="utf-8")) == textmate()


def test_settings_are_those_of_the_server() -> None:
    """The defaults are equal, too."""
    declared = read("package.json")["contributes"]["configuration"]["properties"]
    defaults = {name.removeprefix("qopt."): entry["default"] for name, entry in declared.items()}
    assert defaults.pop("server") == "qopt-lsp"
    ours = {field.name: getattr(Settings(), field.name) for field in fields(Settings)}
    assert defaults == json.loads(json.dumps(ours))
    assert Settings.of({"qopt": defaults}) == Settings()


@pytest.mark.parametrize("given", [None, 3, [], {"qopt": 3}, {"preflight": 1}, {"delay": "x"}])
def test_settings_of_a_wrong_type_keep_their_defaults(given: Any) -> None:
    assert Settings.of(given) == Settings()


def test_the_script_is_valid() -> None:
    run_node("--check", str(FOLDER / "extension.js"))


def test_the_grammar_compiles() -> None:
    script = (
        "const g = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "for (const p of g.patterns) new RegExp(p.match);"
        "console.log(g.patterns.length)"
    )
    found = run_node("-e", script, given=GRAMMAR.read_text(encoding="utf-8"))
    assert int(found) == len(textmate()["patterns"])
