"""A wrong pass is found out, traced to one rewrite and to one value, and reduced."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.cli.opt import main as qopt_opt
from qdialect.errors import InputError
from qdialect.workflows.validation.numerics_check import NumericsCheck

WRONG = '''
from xdsl.universe import Universe
from dataclasses import dataclass
from qdialect.algebra.contract import Contract, Numerics
from qdialect.rewrite import Rule
from qdialect.rewrite.remarks import key_text
from qdialect.passes.rule_pass import RulePass


class DropRelu(Rule):
    """Says that a relu changes nothing, which is true of those behind another only."""

    name = "drop-relu"

    def roots(self):
        return ["nn.relu"]

    def match(self, op):
        return op if "drop" in key_text(op) else None

    def check(self, match):
        return Contract(Numerics.EXACT)

    def rewrite(self, match, rewriter):
        rewriter.replace(match, [match.operands[0]])


@dataclass(frozen=True)
class DropRelus(RulePass):
    name = "drop-relus"

    def rules(self, session):
        return [DropRelu(session)]


UNIVERSE = Universe(all_passes={"drop-relus": lambda: DropRelus})
'''

TEXT = """
!q = tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<8x8x!quant.uniform<i8:f32, 0.25>>
func.func @other(%x: !q) -> !q {
  return %x : !q
}
func.func @main(%x: !q, %y: !q) -> (!q, !q) {
  %0 = nn.add %x, %y {nn.key = "add"} : (!q, !q) -> !q
  %1 = nn.relu %0 {nn.key = "first"} : (!q) -> !q
  %2 = nn.relu %1 {nn.key = "drop_1"} : (!q) -> !q
  %3 = nn.relu %2 {nn.key = "drop_2"} : (!q) -> !q
  %4 = nn.add %3, %y {nn.key = "second"} : (!q, !q) -> !q
  %5 = nn.relu %4 {nn.key = "drop_wrong"} : (!q) -> !q
  %6 = nn.add %5, %x {nn.key = "third"} : (!q, !q) -> !q
  %7 = nn.relu %6 {nn.key = "last"} : (!q) -> !q
  %8 = nn.relu %7 {nn.key = "drop_4"} : (!q) -> !q
  return %8, %1 : !q, !q
}
"""


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "wrong_pass.py").write_text(WRONG)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wrong_pass", raising=False)
    (tmp_path / "in.mlir").write_text(TEXT)
    return "--load-plugin=wrong_pass"


def test_the_rewrite_the_value_and_a_small_program(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small.mlir"
    flags = ["-p", "drop-relus", "--verify-numerics=4", wrong]
    kept = f"--mlir-pass-pipeline-crash-reproducer={small}"
    out = tmp_path / "out.mlir"
    assert qopt_opt([str(tmp_path / "in.mlir"), *flags, kept, "-o", str(out)]) == 1
    assert not out.exists()
    said = capsys.readouterr().err
    assert "error: pass 'drop-relus' changed the results of @main" in said
    assert re.search(r"in\.mlir:13:\d+: rewrite 3 of 4 makes it: drop-relu on 'nn\.relu'", said)
    assert "(drop_wrong)" in said
    assert "the first value that differs is that of 'third'" in said
    text = small.read_text()
    assert "drop_wrong" in text
    assert text.count("nn.relu") == 1
    assert "nn.add" not in text
    assert "@other" not in text
    again = ["--run-reproducer", "--verify-numerics=4", str(small), wrong, "-o", str(out)]
    assert qopt_opt(again) == 1
    assert "rewrite 1 of 1 makes it" in capsys.readouterr().err


def test_without_a_path_the_program_is_kept_and_named(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qopt_opt([str(tmp_path / "in.mlir"), "-p", "drop-relus", "--verify-numerics", wrong])
    found = re.search(r"--verify-numerics=4 (\S+\.mlir)", capsys.readouterr().err)
    assert found
    kept = Path(found.group(1))
    assert "drop-relus" in kept.read_text()
    kept.unlink()


def test_a_right_pass_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.mlir").write_text(TEXT)
    assert qopt_opt([str(tmp_path / "in.mlir"), "-p", "canonicalize", "--verify-numerics=4"]) == 0
    assert capsys.readouterr().err == ""


def test_given_inputs_are_run_too(wrong: str, tmp_path: Path) -> None:
    model = qd.load(tmp_path / "in.mlir")
    zeros = {"arg0": np.zeros((4, 8), np.int8), "arg1": np.zeros((4, 8), np.int8)}
    qd.run_passes(model, "canonicalize", verify_numerics=2, inputs=zeros)
    with pytest.raises(InputError, match="those of no function: @other takes arg0") as error:
        qd.run_passes(model, "canonicalize", verify_numerics=2, inputs={"z": zeros["arg0"]})
    assert error.value.code == "bad-input"


def test_the_api_raises_with_the_rewrite(wrong: str, tmp_path: Path) -> None:
    from qdialect.pipeline.manager import PassManager
    from qdialect.pipeline.plugins import Plugins
    from qdialect.pipeline.text import parse_pipeline

    plugins = Plugins(("wrong_pass",))
    model = qd.load(tmp_path / "in.mlir")
    passes = plugins.registry().build(parse_pipeline("drop-relus"))
    # No random inputs tell: only the given ones do.
    given = {"arg0": np.full((4, 8), 100, np.int8), "arg1": np.full((4, 8), -126, np.int8)}
    check = NumericsCheck(0, inputs=given)
    with pytest.raises(InputError) as error:
        PassManager(model.ctx, passes, instrumentation=[check]).run(model.module.clone())
    assert error.value.code == "numerics"
    assert any("rewrite 3 of 4" in note for note in error.value.notes)


def test_a_tie_that_64_bits_cannot_decide_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "tie.mlir").write_text(
        """
!x = tensor<256x!quant.uniform<i8:f32, 0.037099998444318771>>
!y = tensor<256x!quant.uniform<u8:f32, 0.037099998444318771:255>>
func.func @main(%x: !x) -> !y {
  %0 = quant.dcast %x : !x to tensor<256xf32>
  %1 = nn.leaky_relu %0 : (tensor<256xf32>) -> tensor<256xf32>
  %2 = quant.qcast %1 : tensor<256xf32> to !y
  return %2 : !y
}
"""
    )
    every = {"arg0": np.arange(-128, 128, dtype=np.int8)}
    model = qd.load(tmp_path / "tie.mlir")
    made = qd.run_passes(model, "integerize{numerics=ties}", verify_numerics=1, inputs=every)
    assert any(op.name == "nn.leaky_relu" for op in made.module.walk())
