"""The public cases through the command: `qopt-opt` prints and rejects as mlir-opt 22 does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from _pytest.capture import CaptureFixture
from quant_support import CASES, find_iree_opt, find_mlir_opt

from qdialect.cli.opt import main

VALID = sorted((CASES / "valid").glob("*.mlir"))
INVALID = sorted((CASES / "invalid").glob("*.mlir"))
TRANSFORM = sorted((CASES / "transform").glob("*.mlir"))
CRASH = sorted((CASES / "crash").glob("*.mlir"))
FORMS = {"custom": [], "generic": ["--mlir-print-op-generic"]}

SEMANTICS = {
    "o29_dense_constant_of_quant": "a message of the parser",
    "t64_quantile_v22": "LLVM 24 syntax, which is read whatever is printed",
}
"""Invalid cases whose message differs, or that are accepted, and why."""

RIGHT_HERE = {
    "c01_dcast_of_qcast": "upstream's fold erases a rounding and a clip",
    "c07_qdq_chain": "folds here too, by `fold-rescale` and not by `canonicalize`",
    "l02_q_scalar_bounds": "upstream truncates and wraps",
    "l04_d_u8": "upstream subtracts the zero point in floats",
    "l06_q_per_axis": "upstream truncates and wraps",
    "l08_q_sub_channel": "upstream truncates and wraps",
    "l10_q_unranked": "upstream truncates and wraps",
    "n02_normalize_unsound_block": "upstream makes two scales of four",
    "s03_strip_block_args": "upstream refuses",
}
"""Transformations on whose result we deliberately differ, and why."""


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
@pytest.mark.parametrize("form", FORMS)
def test_valid_case_prints_exactly(path: Path, form: str, capsys: CaptureFixture[str]):
    assert main([str(path), *FORMS[form]]) == 0
    assert capsys.readouterr().out == path.with_suffix(f".{form}.txt").read_text()


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_case_ends_with_upstreams_message(path: Path, capsys: CaptureFixture[str]):
    if path.stem in SEMANTICS:
        pytest.skip(SEMANTICS[path.stem])
    assert main([str(path)]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    wanted = path.with_suffix(".err.txt").read_text().splitlines()
    first = next(line.split("error: ", 1)[1] for line in wanted if "error: " in line)
    # Of a custom form, upstream names the op.
    assert told[0].split("error: ", 1)[1] == re.sub(r"^custom op '\S+' ", "", first)


def pipeline(path: Path) -> str:
    """The passes of the `// args:` line."""
    (line,) = (text for text in path.read_text().splitlines() if text.startswith("// args:"))
    return ",".join(word.lstrip("-") for word in line.removeprefix("// args:").split())


@pytest.mark.parametrize("path", TRANSFORM, ids=lambda path: path.stem)
def test_transformation(path: Path, capsys: CaptureFixture[str]):
    code = main([str(path), "-p", pipeline(path)])
    out = capsys.readouterr().out
    assert code == 0
    expected = path.with_suffix(".custom.txt")
    same = expected.exists() and out == expected.read_text()
    assert same == (path.stem not in RIGHT_HERE)


@pytest.mark.parametrize("path", CRASH, ids=lambda path: path.stem)
def test_no_crash(path: Path, capsys: CaptureFixture[str]):
    """What mlir-opt 22 crashes on is read as LLVM 24 does, or rejected with a place."""
    arguments = ["-p", pipeline(path)] if "// args:" in path.read_text() else []
    code = main([str(path), *arguments])
    told = capsys.readouterr()
    later = path.with_suffix(".v24.txt")
    if code == 0:
        assert told.out.strip() == later.read_text().strip()
    else:
        assert code == 1
        assert f"{path.name}:" in told.err and "error: " in told.err


def ours(path: Path, capsys: CaptureFixture[str], *options: str) -> str:
    assert main([str(path), *options]) == 0
    return capsys.readouterr().out


def theirs(tool: str, text: str, *options: str) -> str:
    done = subprocess.run([tool, *options], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:600]
    return done.stdout


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
@pytest.mark.parametrize("form", FORMS)
def test_mlir_opt_changes_nothing_in_our_text(
    path: Path, form: str, capsys: CaptureFixture[str], tmp_path: Path
):
    """ours -> mlir-opt 22 -> ours: the same text three times."""
    tool = find_mlir_opt()
    if tool is None:
        pytest.skip("no mlir-opt 22: set QDIALECT_MLIR_OPT, or install qdialect[mlir]")
    text = ours(path, capsys, *FORMS[form])
    back = tmp_path / "back.mlir"
    back.write_text(theirs(tool, text, *FORMS[form]))
    assert back.read_text() == text
    assert ours(back, capsys, *FORMS[form]) == text


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_iree_opt_changes_nothing_in_our_text(
    path: Path, capsys: CaptureFixture[str], tmp_path: Path
):
    """The generic form, which does not depend on the release."""
    tool = find_iree_opt()
    if tool is None:
        pytest.skip("no iree-opt: set QDIALECT_IREE_OPT, or install qdialect[iree]")
    generic = FORMS["generic"]
    text = ours(path, capsys, *generic)
    back = tmp_path / "back.mlir"
    back.write_text(theirs(tool, text, *generic))
    assert back.read_text() == text
    assert ours(back, capsys, *generic) == text
