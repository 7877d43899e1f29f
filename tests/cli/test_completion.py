"""The scripts are what the shells take, and know every command and flag."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qdialect.cli import opt
from qdialect.cli.command_completion import SHELLS
from qdialect.cli.commands import COMMANDS
from qdialect.passes import PASSES
from tests.support.commands import call, qopt


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last word."""
    function = "_shtab_" + words[0].replace("-", "_")
    line = " ".join(f"'{word}'" for word in words)
    source = (
        f"source {script}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n{function}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", source], capture_output=True, text=True, check=True, timeout=30
    )
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "qopt.bash"
    path.write_text(call(qopt, "completion", "bash").out)
    return path


def test_bash_offers_commands(script: Path) -> None:
    assert completed(script, "qopt", "") == {name.split()[0] for name in COMMANDS}
    assert completed(script, "qopt", "opt") == {"optimize"}


@pytest.mark.parametrize("name", COMMANDS)
def test_bash_offers_every_flag(script: Path, name: str) -> None:
    wanted = {text for flag in COMMANDS[name].flags for text in flag.spellings()}
    assert completed(script, "qopt", *name.split(), "-") == wanted


def test_bash_offers_values(script: Path) -> None:
    assert {"generic", "onnxruntime"} <= completed(script, "qopt", "optimize", "--target", "")
    assert completed(script, "qopt", "optimize", "--numerics", "ex") == {"exact"}
    assert completed(script, "qopt-opt", "m.mlir", "-p", "") == set(PASSES)
    flags = {text for flag in opt.COMMAND.flags for text in flag.spellings()}
    assert completed(script, "qopt-opt", "-") == flags


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_knows_every_command(shell: str, tmp_path: Path) -> None:
    text = call(qopt, "completion", shell).out
    for name, command in COMMANDS.items():
        assert name.split()[-1] in text
        for flag in command.flags:
            assert flag.name in text
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} to read the script with")
    path = tmp_path / "script"
    path.write_text(text)
    subprocess.run([shell, "-n", str(path)], check=True, timeout=30)


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish to complete in")
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("qopt opt", "optimize"),
        ("qopt optimize --num", "--numerics"),
        ("qopt optimize --numerics ", "bounded"),
        ("qopt-opt -p sink", "sink-rescale"),
        ("qopt profile m", "merge"),
    ],
)
def test_fish_offers_words(line: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "qopt.fish"
    path.write_text(call(qopt, "completion", "fish").out)
    asked = f"source {path}; complete -C '{line}'"
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        ["fish", "-c", asked], capture_output=True, text=True, timeout=30, env=home
    )
    assert word in [offer.split("\t")[0] for offer in done.stdout.splitlines()], done.stderr


def test_another_shell_is_refused() -> None:
    done = call(qopt, "completion", "bsh")
    assert done.code == 2
    assert "did you mean 'bash'?" in done.err


def test_without_shtab_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = call(qopt, "completion", "bash")
    assert done.code == 2 and "pip install 'qdialect[completion]'" in done.err
