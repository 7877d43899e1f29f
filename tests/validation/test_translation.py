"""What a comparison in reals lets pass: a tie that 64 bits cannot tell, with all that follows."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from qdialect.ir.context import new_context
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module
from qdialect.rewrite.summary import summarize
from qdialect.workflows.validation.translation import compared

TIES = """
!a = tensor<256x!quant.uniform<i8:f32, 0.31:1>>
!b = tensor<256x!quant.uniform<i16:f32, 0.31:-2>>
!c = tensor<256x!quant.uniform<i16:f32, 0.1:-1>>
!f = tensor<256xf32>
func.func @main(%x: !a) -> !c {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.leaky_relu %0 alpha 0.16666666666666666 : (!f) -> !f
  %2 = quant.qcast %1 : !f to !b
  %3 = quant.dcast %2 : !b to !f
  %4 = nn.add %3, %3 : (!f, !f) -> !f
  %5 = quant.qcast %4 : !f to !c
  func.return %5 : !c
}
"""
"""Every sixth negative code is on a tie; a step of !b is six of the result."""

NO_TIES = TIES.replace("0.16666666666666666", "0.17")
CODES = np.arange(-128, 128).astype(np.int8)


def judged(before: str, after: str, pipeline: str = "") -> tuple[bool, float]:
    """Whether `after`, behind a pipeline, is said to be wrong on all codes, and by how many
    steps."""
    ctx = new_context()
    module = read_module(before, ctx)
    other = read_module(after, ctx)
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)) if pipeline else ():
        instance.apply(ctx, other)
    (function,) = (op for op in other.ops if isinstance(op, FuncOp))
    (one,) = compared(ctx, module, other, function, summarize(ctx, other), [[CODES]])
    assert one.bound.real == 0
    return one.is_wrong, one.worst.max_steps


def test_a_tie_may_be_on_either_side() -> None:
    """The op on codes is exact; floats of 64 bits put one sixth of code -105 on a tie."""
    assert judged(TIES, TIES, "integerize") == (False, 0.0)
    assert judged(TIES, TIES, "form-tables") == (False, 0.0)


ONE_MORE = """%6 = nn.constant dense<0.1> : tensor<256xf32> : !f
  %7 = nn.add %4, %6 : (!f, !f) -> !f
  %5 = quant.qcast %7 :"""


@pytest.mark.parametrize("program", [TIES, NO_TIES], ids=["ties", "no ties"])
@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        ("0.31:-2", "0.31:-3", 0),  # only the codes in between
        ("add %3, %3", "sub %3, %3", 80),
        ("add %3, %3", "add %3, %0", 6),
        ("%5 = quant.qcast %4 :", ONE_MORE, 1),
    ],
)
def test_another_program_is_wrong(program: str, old: str, new: str, steps: float) -> None:
    """Also where it is one step off."""
    assert old in program
    wrong, far = judged(program, program.replace(old, new))
    assert wrong == bool(steps)
    assert far >= steps


def test_a_slope_that_moves_few_codes_is_wrong() -> None:
    """It moves some codes to the next step of !b as a tie would, but these are on none."""
    wrong, far = judged(NO_TIES, NO_TIES.replace("alpha 0.17", "alpha 0.171"))
    assert wrong and far >= 6


CASTS = """
!a = tensor<256x!quant.uniform<i8:f32, 0.25:1>>
!b = tensor<256x!quant.uniform<i8:f32, 0.5:-2>>
!f = tensor<256xf32>
func.func @main(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.qcast %0 : !f to !b
  func.return %1 : !b
}
"""


def test_a_tie_of_codes_is_on_one_side() -> None:
    """Casts of codes are exact in 64 bits, so which way half a step goes is compared."""
    up = CASTS.replace("%0 : !f to", '%0 {quant.rounding = "half_up"} : !f to')
    assert judged(CASTS, up) == (True, 1.0)
    assert judged(CASTS, CASTS, "fold-rescale") == (False, 0.0)
