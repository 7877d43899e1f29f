"""What a target refuses of a model, why, and what would make it legal: what is said is tried."""

from __future__ import annotations

import re

from qdialect import api
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.targets.installed import get_target
from qdialect.workflows.model import Model
from qdialect.workflows.target_report import RefusedOp, left_over, refused_ops, target_report
from tests.support.strange_targets import STRANGE

TEXT = """
!f = tensor<4xf32>
!i = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!j = tensor<4x!quant.uniform<i8:f32, 1.0>>
!u = tensor<4x!quant.uniform<u8:f32, 0.5:131>>
func.func @main(%x: !f, %y: !i) -> (!f, !i, !i) {
  %0 = quant.qcast %x : !f to !u
  %1 = nn.relu %0 {nn.key = "unsigned"} : (!u) -> !u
  %2 = quant.dcast %1 : !u to !f
  %3 = nn.softmax %y axis 0 {nn.key = "softmax"} : (!i) -> !i
  %4 = quant.dcast %y : !i to !f
  %5 = nn.tanh %4 {nn.key = "float"} : (!f) -> !f
  %6 = quant.qcast %5 : !f to !i
  func.return %2, %3, %6 : !f, !i, !i
}
"""


def model(text: str = TEXT) -> Model:
    ctx = new_context()
    return Model(read_module(text, ctx), ctx)


def report(name: str) -> dict[str, RefusedOp]:
    found = target_report(model().module, model().ctx, get_target(name)).refused
    return {one.key or one.op: one for one in found}


def test_each_refused_op_has_a_reason_and_what_would_make_it_legal() -> None:
    found = report("integer")
    assert {key: one.reason for key, one in found.items()} == {
        "quant.qcast": "has no u8 tensors",
        "unsigned": "has no u8 tensors",
        "quant.dcast": "has no u8 tensors",
        "softmax": "nothing runs 'nn.softmax' on integers",
        "float": "no float arithmetic",
    }
    signed = "legal after reencode-storage{activations=i8 weights=i8}"
    assert found["unsigned"].legal == found["quant.qcast"].legal == signed
    assert found["float"].legal == "legal after integerize"
    # Its pieces on codes.
    relaxed = "legal or gone after qopt optimize --target integer --numerics relaxed"
    assert found["softmax"].advice == relaxed


def test_the_passes_that_are_named_make_it_legal() -> None:
    passes = {re.sub("^legal after ", "", one.legal): one for one in report("integer").values()}
    tried = 0
    for text, one in passes.items():
        if not text or text == one.legal:  # a command
            continue
        after = api.run_passes(model(), text, target="integer")
        left = refused_ops(after.module, after.ctx)
        assert one.key not in {str(op.attributes.get("nn.key")).strip('"') for op in left}
        tried += 1
    assert tried == 2


def test_nothing_is_said_where_all_is_taken() -> None:
    assert not target_report(model().module, model().ctx, get_target("generic")).refused
    assert left_over(model().module, model().ctx) == ""


def test_types_are_tried_where_no_pass_helps() -> None:
    text = "!u = tensor<4x!quant.uniform<u8:f32, 0.5:131>>\nfunc.func @main(%x: !u) -> !u {\n"
    text += "  %0 = nn.relu %x : (!u) -> !u\n  func.return %0 : !u\n}\n"
    one = model(text)
    (refused,) = target_report(one.module, one.ctx, STRANGE["16-bit codes only"]).refused
    assert refused.legal == "legal on i16 or i32 codes, per tensor with zero points of 0"
    one.ctx.target = STRANGE["16-bit codes only"]
    assert left_over(one.module, one.ctx).startswith(
        "1 op is left that '16-bit codes only' refuses (nn.relu: has no u8 tensors)"
    )


def test_inspect_has_it() -> None:
    found = api.inspect(model(), "integer").to_json()["target"]
    assert found["target"] == "integer"
    assert {one["op"] for one in found["refused"]} >= {"nn.relu", "nn.softmax", "nn.tanh"}
    assert "target" not in api.inspect(model()).to_json()
