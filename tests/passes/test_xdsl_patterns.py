"""Our rules as patterns of xDSL: its own canonicalizer and walkers run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.transforms.canonicalize import CanonicalizePass

import qdialect as qd
from qdialect.ir.dialects.canonicalization import Canonicalized
from qdialect.ir.ops import NN, ConstantOp, ReluOp
from qdialect.ir.quant import Quant
from qdialect.passes import load
from qdialect.passes.cleanup.canonicalize import (
    Canonicalize,
    RedundantClamp,
    canonicalization_patterns,
)
from qdialect.rewrite.pattern import RulePattern

LIT = Path(__file__).parents[2] / "lit_tests" / "passes"


def walk(module: ModuleOp, *patterns: RewritePattern, **options: Any) -> None:
    PatternRewriteWalker(GreedyRewritePatternApplier([*patterns]), **options).rewrite_module(module)


@pytest.mark.parametrize("op", [*NN.operations, *Quant.operations], ids=lambda op: op.name)
def test_every_op_has_canonicalization_patterns(op: type[Operation]) -> None:
    assert op.has_trait(Canonicalized) or op is ConstantOp


def test_the_canonicalizer_of_xdsl_does_what_ours_does() -> None:
    ours, theirs = (qd.load(LIT / "canonicalize.mlir") for _ in range(2))
    before = str(ours.module)
    Canonicalize().apply(ours.ctx, ours.module)
    CanonicalizePass().apply(theirs.ctx, theirs.module)
    assert str(theirs.module) == str(ours.module) != before
    for pattern in canonicalization_patterns():  # they outlive the module
        session = pattern.rule.session
        assert not session.remarks.remarks and not session.analyses


@pytest.mark.parametrize(
    ("name", "file", "numerics", "fires"),
    [
        ("sink-rescale", "sink-rescale", "exact", True),
        ("combine-rescale", "combine-rescale-numerics", "exact", False),
        ("combine-rescale", "combine-rescale-numerics", "bounded", True),
    ],
)
def test_a_pass_of_rules_in_a_walker_does_what_it_does_by_itself(
    name: str, file: str, numerics: str, fires: bool
) -> None:
    ours, theirs = (qd.load(LIT / f"{file}.mlir") for _ in range(2))
    rules = cast("Any", load(name)())(numerics=numerics)
    rules.apply(ours.ctx, ours.module)
    walk(theirs.module, *rules.patterns(theirs.ctx))
    assert str(theirs.module) == str(ours.module)
    fired = [
        sorted(r.contract for r in model.ctx.remarks.remarks if r.kind == "fired")
        for model in (ours, theirs)
    ]
    assert fired[0] == fired[1] and bool(fired[0]) == fires


Q = "tensor<4x!quant.uniform<u8:f32, 0.5>>"
RELU_OF_ARGUMENTS = f"""
func.func @f(%x: {Q}, %y: tensor<4x!quant.uniform<u8:f32, 0.5:3>>) -> {Q} {{
  %0 = "vendor.codes"(%x) : ({Q}) -> {Q}
  %1 = nn.relu %0 : ({Q}) -> {Q}
  %2 = nn.relu %1 : ({Q}) -> {Q}
  return %2 : {Q}
}}
"""


class _EraseCodes(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op.name == "builtin.unregistered":
            rewriter.replace(op, [], [op.operands[0]])


@pytest.mark.parametrize("recursive", [False, True])
def test_patterns_of_both_and_a_listener_in_one_walker(tmp_path: Path, recursive: bool) -> None:
    path = tmp_path / "relu.mlir"
    path.write_text(RELU_OF_ARGUMENTS)
    model = qd.load(path)
    gone: list[str] = []
    listener = PatternRewriterListener(operation_removal_handler=[lambda op: gone.append(op.name)])
    ours = RulePattern(RedundantClamp(model.ctx))
    walk(model.module, ours, _EraseCodes(), apply_recursively=recursive, listener=listener)
    assert "vendor" not in str(model.module) and "nn.relu" not in str(model.module)
    assert gone.count(ReluOp.name) == 2 and len(gone) == 3
    assert [r.rule for r in model.ctx.remarks.remarks] == ["redundant-clamp"] * 2
    model.module.verify()
