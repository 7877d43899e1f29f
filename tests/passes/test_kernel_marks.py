"""No exact rewrite changes what an op computes that names whose kernel it is."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from random_graphs import random_graph
from rewrite_support import parse
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.errors import QError
from qdialect.interpreter import Interpreter, evaluate_op
from qdialect.ir.context import QContext
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import KERNEL, kernels_of
from qdialect.ir.quant import RescaleOp
from qdialect.rewrite import Driver, Refusal, Rewriter, Rule
from qdialect.rewrite.kernel_marks import distance, weakened
from qdialect.rewrite.rewriter import retyped

TEXT = """
!a = tensor<4x!quant.uniform<i8:f32, 0.5>>
!b = tensor<4x!quant.uniform<i8:f32, 0.25>>
func.func @main(%x: !a, %y: !a) -> !b {
  %0 = nn.add %x, %y {nn.kernel = "litert-xnn"} : (!a, !a) -> !a
  %1 = quant.rescale %0 : !a to !b
  func.return %1 : !b
}
"""


class _Fuse(Rule[RescaleOp]):
    """Claims that an op may write the result of a rescale at once."""

    name = "fuse"
    contract = EXACT
    keeps_mark = True

    def roots(self) -> list[str]:
        return ["quant.rescale"]

    def match(self, op: Operation) -> RescaleOp | None:
        return op if isinstance(op, RescaleOp) else None

    def check(self, match: RescaleOp) -> Contract | Refusal:
        return self.contract

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        owner = match.input.owner
        assert isinstance(owner, Operation)
        new = retyped(owner, owner.operands, [match.result.type])
        if not self.keeps_mark:
            del new.attributes[KERNEL]
        rewriter.insert(new, match, keep=owner)
        rewriter.replace(match, new.results)


def _names(module: Operation) -> list[str]:
    return [op.name for op in module.walk()][2:]


@pytest.mark.parametrize("keeps_mark", [True, False])
def test_an_exact_rewrite_of_a_marked_op_is_taken_back(keeps_mark: bool) -> None:
    module, ctx = parse(TEXT)
    rule = _Fuse(ctx)
    rule.keeps_mark = keeps_mark
    before = str(module)
    assert Driver(ctx, [rule], pass_name="p").run(module) == 0
    assert str(module) == before
    (remark,) = ctx.remarks.remarks
    assert (remark.kind, remark.code) == ("refused", "kernel")
    assert "'nn.add' is what the kernel of litert-xnn computes" in remark.reason
    assert "only exact is allowed" in remark.reason


@pytest.mark.parametrize("level", [Numerics.BOUNDED, Numerics.SATURATION, Numerics.RELAXED])
def test_it_fires_where_the_kernels_may_differ_and_says_by_how_much(level: Numerics) -> None:
    module, ctx = parse(TEXT)
    assert Driver(ctx, [_Fuse(ctx)], pass_name="p", numerics=level).run(module) == 1
    assert _names(module) == ["nn.add", "func.return"]
    (remark,) = ctx.remarks.remarks
    assert (remark.kind, remark.contract) == ("fired", "bounded(2)")
    assert ctx.error_bounds.changes


def test_what_is_decided_by_the_kernels_is_exact() -> None:
    module, ctx = parse(TEXT)
    rule = _Fuse(ctx)
    rule.contract = Contract(Numerics.EXACT, by_kernels=True)
    assert Driver(ctx, [rule], pass_name="p").run(module) == 1
    assert not ctx.error_bounds.changes


def test_a_mark_that_onnx_runtime_has_is_judged_as_before() -> None:
    module, ctx = parse(TEXT.replace(' = "litert-xnn"', ""))
    assert Driver(ctx, [_Fuse(ctx)], pass_name="p").run(module) == 1


class _Sink(Rule[Operation]):
    """Moves transposes of both operands behind an add."""

    name = "sink"

    def roots(self) -> list[str]:
        return ["nn.add"]

    def match(self, op: Operation) -> Operation | None:
        owners = [value.owner for value in op.operands]
        found = all(isinstance(o, Operation) and o.name == "nn.transpose" for o in owners)
        return op if found else None

    def check(self, match: Operation) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        sources: list[SSAValue] = []
        moved: list[Operation] = []
        for value in match.operands:
            assert isinstance(value.owner, Operation)
            moved.append(value.owner)
            sources += value.owner.operands
        new = retyped(match, sources, [sources[0].type])
        rewriter.insert(new, match, keep=match)
        after = retyped(moved[0], new.results, match.result_types)
        rewriter.insert(after, match)
        rewriter.replace(match, after.results)


def test_marked_ops_move_past_movements() -> None:
    text = """
    !a = tensor<2x4x!quant.uniform<i8:f32, 0.5>>
    !t = tensor<4x2x!quant.uniform<i8:f32, 0.5>>
    func.func @main(%x: !a, %y: !a) -> !t {
      %0 = nn.transpose %x perm [1, 0] : (!a) -> !t
      %1 = nn.transpose %y perm [1, 0] : (!a) -> !t
      %2 = nn.add %0, %1 {nn.kernel = "litert-xnn"} : (!t, !t) -> !t
      func.return %2 : !t
    }
    """
    module, ctx = parse(text)
    assert Driver(ctx, [_Sink(ctx)], pass_name="p").run(module) == 1
    assert _names(module) == ["nn.add", "nn.transpose", "func.return"]


class _Swap(Rule[Operation]):
    """Puts `new` in place of a value of another type that a marked op reads."""

    name = "swap"

    def roots(self) -> list[str]:
        return ["quant.rescale"]

    def match(self, op: Operation) -> Operation | None:
        return op

    def check(self, match: Operation) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        rewriter.replace(match, match.operands)


def test_operands_of_marked_ops_keep_their_qparams() -> None:
    text = """
    !a = tensor<4x!quant.uniform<i8:f32, 0.5>>
    !b = tensor<4x!quant.uniform<i8:f32, 0.25>>
    func.func @main(%x: !a) -> !b {
      %0 = quant.rescale %x : !a to !b
      %1 = nn.leaky_relu %0 alpha 0.1 {nn.kernel = "litert-opt"} : (!b) -> !b
      func.return %1 : !b
    }
    """
    module, ctx = parse(text)
    assert Driver(ctx, [_Swap(ctx)], pass_name="p").run(module) == 0
    assert "'nn.leaky_relu'" in ctx.remarks.remarks[0].reason


PASSES: Sequence[tuple[str, str]] = [
    (
        "place-rescales",
        """%0 = nn.add %x, %x {nn.kernel = "litert-ref"} : (!a, !a) -> !a
           %1 = quant.rescale %0 : !a to !b""",
    ),
    (
        "fold-rescale",
        """%0 = nn.mul %x, %x {nn.kernel = "litert-opt"} : (!a, !a) -> !a
           %1 = quant.rescale %0 : !a to !b""",
    ),
    (
        "cse",
        """%0 = nn.mul %x, %x {nn.kernel = "litert-opt"} : (!a, !a) -> !b
           %2 = nn.mul %x, %x {nn.kernel = "litert-xnn"} : (!a, !a) -> !b
           %1 = nn.maximum %0, %2 : (!b, !b) -> !b""",
    ),
    (
        "form-tables",
        """%1 = nn.hard_swish %x {nn.kernel = "litert-opt"} : (!a) -> !b""",
    ),
]


@pytest.mark.parametrize(("passes", "body"), PASSES)
def test_passes_leave_marked_ops(passes: str, body: str) -> None:
    from qdialect.workflows.model import Model, run_passes

    types = TEXT.partition("func")[0]
    text = f"{types}func.func @main(%x: !a) -> !b {{ {body} func.return %1 : !b }}"
    module, ctx = parse(text)
    after = run_passes(Model(module, ctx), passes).module

    def marked(top: Operation) -> list[str]:
        return [str(op) for op in top.walk() if kernels_of(op) is not None]

    assert marked(after) == marked(module)


def test_how_far_kernels_are() -> None:
    from qdialect.ir.ops import AddOp, MulOp

    module, _ctx = parse(TEXT)
    add = next(op for op in module.walk() if isinstance(op, AddOp))
    assert distance(add).level is Numerics.BOUNDED
    x = create_ssa_value(add.operands[0].type)
    mul = MulOp(x, x, attributes={KERNEL: StringAttr("litert-xnn")})
    assert distance(mul).level is Numerics.TIES
    assert weakened(EXACT, distance(mul)).level is Numerics.TIES
    assert weakened(Contract(Numerics.TIES, 1), distance(mul)).level is Numerics.BOUNDED
    saturating = Contract(Numerics.SATURATION, 3)
    assert weakened(saturating, distance(mul)) == saturating


MARKS = ("litert-xnn", "litert-opt", "litert-ref")


def _mark(ctx: QContext, module: Operation, seed: int) -> int:
    """Let ops name kernels, where the interpreter knows what those compute; how many."""
    choose = random.Random(seed)
    marked = 0
    for op in list(module.walk()):
        if op.name not in ("nn.add", "nn.sub", "nn.mul", "nn.sigmoid", "nn.tanh"):
            continue
        op.attributes[KERNEL] = StringAttr(choose.choice(MARKS))
        shapes = [shape_of(value) for value in op.operands]
        try:
            evaluate_op(op, [np.zeros(shape, np.int8) for shape in shapes], ctx)
            marked += 1
        except QError:
            del op.attributes[KERNEL]
    return marked


@pytest.mark.parametrize("seed", range(40))
def test_graphs_with_marks_keep_their_codes(seed: int) -> None:
    from qdialect.workflows.model import Model, resolved_target
    from qdialect.workflows.optimize import optimize

    program = random_graph(seed)
    module, ctx = parse(program.text)
    marked = _mark(ctx, module, seed)
    target = resolved_target(("generic", "litert", "onnxruntime")[seed % 3])
    after = optimize(Model(module, ctx), target, "exact")
    inputs = program.inputs
    first = Interpreter(ctx, module).run(inputs)
    second = Interpreter(after.ctx, after.module).run(inputs)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b), program.text
    assert marked >= 0
