"""Passes and pipelines on random programs whose quantizes multiply by reciprocals, and what
`qopt optimize` makes of them if nothing is said."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

import qdialect as qd
from qdialect.ir.context import QContext
from qdialect.ir.quant import (
    ARITHMETIC_KEY,
    IN_FLOATS,
    ROUNDING_KEY,
    QCastOp,
    RescaleOp,
    quant_element,
)
from qdialect.ir.verify.verifier import verify_module
from qdialect.targets.installed import get_target
from qdialect.workflows.optimize_file import FileOptimization
from tests.generators.programs import random_program
from tests.support import program_checks

RECIPROCAL = StringAttr("reciprocal")


def reciprocal_program(seed: int, ops: int, **options: bool) -> tuple[ModuleOp, QContext]:
    """A random program most of whose quantizes multiply; three of four compute in floats."""
    module, ctx = random_program(seed, ops, **options)
    draw = random.Random(seed)
    if seed % 4:
        module.attributes[ARITHMETIC_KEY] = IN_FLOATS
    for op in module.walk():
        if draw.random() < 0.3:
            continue
        if isinstance(op, QCastOp):
            element = quant_element(op.result.type)
            if element is not None and not element.qparams.storage.is_float:
                op.attributes[ROUNDING_KEY] = RECIPROCAL
        elif isinstance(op, RescaleOp):
            if op.fixed_point is None:
                op.properties["rounding"] = RECIPROCAL
        elif "rounding" in op.properties:
            op.properties["rounding"] = RECIPROCAL
    verify_module(module, ctx.blobs, behaviors=ctx.behaviors)
    return module, ctx


@pytest.mark.parametrize("seed", range(300, 316))
def test_contracts_of_all_passes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_checks, "random_program", reciprocal_program)
    tally = program_checks.fuzz_seed(seed, 12, None, 4, ("text", "numerics"), None, seed % 5 == 0)
    assert not tally.failures and tally.runs


MODEL = """
!x = tensor<4x8xf32>
!q = tensor<4x8x!quant.uniform<u8:f32, 0.1:100>>
!p = tensor<4x8x!quant.uniform<u8:f32, 0.25:100>>
module attributes {quant.arithmetic = "expressed"} {
func.func @main(%x: !x) -> !x {
  %0 = quant.qcast %x {quant.rounding = "reciprocal"} : !x to !q
  %1 = quant.dcast %0 : !q to !x
  %2 = nn.sigmoid %1 : (!x) -> !x
  %3 = nn.add %2, %1 : (!x, !x) -> !x
  %4 = quant.qcast %3 {quant.rounding = "reciprocal"} : !x to !p
  %5 = quant.dcast %4 : !p to !x
  return %5 : !x
}
}
"""


@pytest.mark.parametrize("level", [None, "exact", "ties"])
def test_what_is_written_if_nothing_is_said(level: str | None, tmp_path: Path) -> None:
    source, path = tmp_path / "in.mlir", tmp_path / "out.onnx"
    source.write_text(MODEL)
    work = FileOptimization(source, path, get_target("onnxruntime"), level, samples=2)
    work.run()
    (note,) = work.notes
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    if level == "exact":
        assert note.startswith("1 quantizes multiply by rounded reciprocals") and "Mul" in kinds
    else:
        assert note.startswith("1 quantizes divide by their scales") and "Mul" not in kinds
    assert work.result is not None
    (bound,) = work.result.model.ctx.remarks.outputs
    assert bound.contract == ("exact" if level == "exact" else "ties")


def test_other_targets_multiply(tmp_path: Path) -> None:
    """A product is all that TOSA needs of a quantize."""
    source = tmp_path / "in.mlir"
    source.write_text(MODEL)
    assert "reciprocal" in str(qd.optimize(qd.load(source), "tosa", "ties").module)
    assert "reciprocal" not in str(qd.optimize(qd.load(source)).module)
