"""What the shipped targets run, what they cost, and that passes ask them."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import qdialect as qd
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.errors import QError, UsageError
from qdialect.ir.behaviors import Behavior, Port, PortKind
from qdialect.ir.context import QContext, new_context
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.onnx.target import TARGET as ONNXRUNTIME
from qdialect.plugins.tosa.target import TARGET as TOSA
from qdialect.targets.base import Interface, Target
from qdialect.targets.describe import description
from qdialect.targets.generic import TARGET as GENERIC
from qdialect.targets.integer import TARGET as INTEGER
from qdialect.targets.kernels import Kernel

SHIPPED = [GENERIC, INTEGER, ONNXRUNTIME, TOSA]


def i8(scale: float = 0.5, zero: int = 0) -> QParams:
    return QParams.per_tensor("i8", scale, zero)


def parse(text: str, target: Target | None = None) -> tuple[ModuleOp, QContext]:
    ctx = new_context()
    if target is not None:
        ctx.target = target
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return module, ctx


def op_in(text: str, name: str) -> tuple[Operation, QContext]:
    module, ctx = parse(text)
    return next(op for op in module.walk() if op.name == name), ctx


def refused(target: Target, text: str, name: str) -> str | None:
    op, _ = op_in(text, name)
    return target.refuses(op, [v.type for v in op.operands], [v.type for v in op.results])


CONV = """
func.func @f(%x: tensor<1x2x4x4x!quant.uniform<{x}>>,
             %w: tensor<3x2x1x1x!quant.uniform<{w}>>) -> tensor<1x3x4x4x!quant.uniform<{y}>> {{
  %0 = nn.conv2d %x, %w : (tensor<1x2x4x4x!quant.uniform<{x}>>,
    tensor<3x2x1x1x!quant.uniform<{w}>>) -> tensor<1x3x4x4x!quant.uniform<{y}>>
  func.return %0 : tensor<1x3x4x4x!quant.uniform<{y}>>
}}"""
UNARY = """
func.func @f(%x: tensor<4x!quant.uniform<{x}>>) -> tensor<4x!quant.uniform<{y}>> {{
  %0 = nn.{op} %x : (tensor<4x!quant.uniform<{x}>>) -> tensor<4x!quant.uniform<{y}>>
  func.return %0 : tensor<4x!quant.uniform<{y}>>
}}"""
A = "i8:f32, 0.5:3"
U = "u8:f32, 0.5:131"
CHANNELS = "i8:f32:0, {0.5,0.25,0.125}"


@pytest.mark.parametrize(
    ("target", "x", "w", "y", "reason"),
    [
        (TOSA, A, A, A, None),
        (TOSA, A, CHANNELS, "i16:f32, 0.5", None),
        (TOSA, A, "i4:f32, 0.5", A, None),
        (TOSA, "i16:f32, 0.5", CHANNELS, "i32:f32, 0.5", None),
        (TOSA, U, A, A, "none of its 3 kernels"),
        (TOSA, A, A, U, "none of its 3 kernels"),
        (TOSA, "i16:f32, 0.5:3", A, A, "the zero point of i16 is 0"),
        (TOSA, A, "i8:f32:0, {0.5:1,0.25,0.125}", A, "a tensor has one zero point"),
        (INTEGER, A, CHANNELS, A, None),
        (INTEGER, A, "i4:f32, 0.5", A, "has no i4 tensors"),
        (INTEGER, A, A, "i32:f32, 0.5", "result #0 is i32, not i8"),
        (ONNXRUNTIME, U, A, U, None),
        (GENERIC, "i16:f32, 0.5:3", "i4:f32, 0.5:1", U, None),
    ],
)
def test_convolutions(target: Target, x: str, w: str, y: str, reason: str | None) -> None:
    found = refused(target, CONV.format(x=x, w=w, y=y), "nn.conv2d")
    assert found is None if reason is None else found is not None and reason in found


@pytest.mark.parametrize(
    ("target", "op", "x", "y", "reason"),
    [
        (TOSA, "tanh", A, "i16:f32, 0.5", None),
        (TOSA, "tanh", "i16:f32, 0.5", A, "operand #0 is i16, not i8"),
        (TOSA, "relu", A, A, None),
        (TOSA, "flip", "i32:f32, 0.5", "i32:f32, 0.5", None),
        (INTEGER, "flip", "i32:f32, 0.5", "i32:f32, 0.5", "operand #0 is i32, not i8"),
        (TOSA, "softmax", A, A, None),
        (TOSA, "floor", A, A, None),
        (INTEGER, "softmax", A, A, "nothing runs 'nn.softmax' on integers"),
        (ONNXRUNTIME, "softmax", A, A, None),
    ],
)
def test_ops_on_one_tensor(target: Target, op: str, x: str, y: str, reason: str | None) -> None:
    text = UNARY.format(op=op, x=x, y=y)
    if op == "flip":
        text = text.replace("flip %x", "flip %x axes [0]")
    if op == "softmax":
        text = text.replace("softmax %x", "softmax %x axis 0")
    assert refused(target, text, f"nn.{op}") == reason


def test_activations_have_one_scale_on_integer_targets() -> None:
    kind = "i8:f32:0, {0.5,0.5,0.25,0.5}"
    text = UNARY.format(op="relu", x=kind, y=kind)
    assert refused(GENERIC, text, "nn.relu") is None
    for target in (TOSA, INTEGER):
        found = refused(target, text, "nn.relu")
        assert found is not None and "i8 per axis" in found


def test_no_float_arithmetic() -> None:
    text = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}"""
    assert refused(TOSA, text, "nn.relu") == refused(INTEGER, text, "nn.relu")
    assert refused(INTEGER, text, "nn.relu") == "no float arithmetic"
    assert refused(ONNXRUNTIME, text, "nn.relu") is None


def test_prices() -> None:
    u8, i16, i32 = (QParams.per_tensor(s, 0.5, 0) for s in ("u8", "i16", "i32"))
    assert GENERIC.rescale_price(i8(), u8) == 1.0
    assert INTEGER.rescale_price(i8(), i8(0.25, 7)) == 1.0
    assert INTEGER.rescale_price(i8(), i8(0.3)) == 2.0
    assert INTEGER.rescale_price(i8(), u8) == inf
    assert TOSA.rescale_price(i8(), u8) == TOSA.rescale_price(u8, i8()) == 1.0
    assert TOSA.rescale_price(u8, i32) == inf
    assert TOSA.rescale_price(i8(), QParams.per_tensor("i16", 0.5, 1)) == inf
    assert TOSA.rescale_price(i32, i16) == 1.0
    per_axis = QParams.per_axis("i8", 0, [0.5, 0.25])
    assert INTEGER.rescale_price(i8(), per_axis) == inf


def test_rounding() -> None:
    assert GENERIC.rounding(Rounding.GEMMLOWP) is Rounding.GEMMLOWP
    assert TOSA.rounding(Rounding.HALF_EVEN) is Rounding.HALF_UP
    assert TOSA.rounding(Rounding.GEMMLOWP) is Rounding.GEMMLOWP
    assert INTEGER.rounding(Rounding.GEMMLOWP) is Rounding.HALF_EVEN


@pytest.mark.parametrize("target", SHIPPED, ids=lambda t: t.name)
def test_lookup_and_description(target: Target) -> None:
    rows = dict(description(target))
    assert rows["name"] == target.name and rows["summary"] == target.summary
    assert optimize_pipeline(target, "exact")


def test_a_kernel_that_means_nothing() -> None:
    with pytest.raises(ValueError, match="not a type of a kernel: 'i8 sometimes'"):
        Kernel(("i8 sometimes",))


# -- passes ask ---------------------------------------------------------------------------

QDQ = """
!f = tensor<1x8xf32>
!a = tensor<1x8x!quant.uniform<{s}:f32, 0.5:{z}>>
!b = tensor<1x8x!quant.uniform<{s}:f32, {step}:{z}>>
func.func @main(%x: !f) -> !f {{
  %0 = quant.qcast %x : !f to !a
  %1 = quant.dcast %0 : !a to !f
  %2 = nn.{op} %1 : (!f) -> !f
  %3 = quant.qcast %2 : !f to !b
  %4 = quant.dcast %3 : !b to !f
  func.return %4 : !f
}}"""


def ops(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith(("nn.", "quant."))]


def run(text: str, target: Target, pipeline: str) -> tuple[ModuleOp, QContext]:
    module, ctx = parse(text, target)
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)
    verify_module(module, ctx)
    return module, ctx


@pytest.mark.parametrize("target", [INTEGER, TOSA], ids=lambda t: t.name)
def test_an_unsigned_model_for_a_signed_target(target: Target) -> None:
    text = QDQ.format(s="u8", z=131, op="tanh", step="0.25")
    module, _ = run(text, target, optimize_pipeline(target, "ties"))
    casts = [] if target.interface is Interface.INTEGER else ["quant.qcast", "quant.dcast"]
    # Such targets run a function of codes as a lookup.
    assert sorted(ops(module)) == sorted([*casts, "nn.constant", "nn.table"])
    assert "u8" not in str(module)


def test_what_the_target_cannot_run_stays_between_casts() -> None:
    text = QDQ.format(s="i8", z=3, op="softmax", step="0.25").replace("%1 :", "%1 axis 1 :")
    module, ctx = run(text, INTEGER, optimize_pipeline(INTEGER, "exact"))
    assert ops(module) == ["quant.dcast", "nn.softmax", "quant.qcast"]
    reasons = {r.reason for r in ctx.remarks.remarks if r.code == "target"}
    assert reasons == {"integer: nothing runs 'nn.softmax' on integers"}


def test_a_rounding_the_target_does_not_have_is_ties() -> None:
    text = QDQ.format(s="i8", z=3, op="tanh", step="0.25")
    module, ctx = run(text, TOSA, "integerize")
    assert "nn.tanh" in ops(module) and "quant.dcast" in ops(module)
    (refusal,) = {r.reason for r in ctx.remarks.remarks if r.rule == "integerize-op"}
    assert refusal == "would be ties (tosa rounds half_up), but only exact is allowed"
    module, ctx = run(text, TOSA, "integerize{numerics=ties}")
    (tanh,) = [op for op in module.walk() if op.name == "nn.tanh"]
    assert "half_up" in str(tanh.properties["rounding"])


@pytest.mark.parametrize(("step", "level"), [("0.25", "exact"), ("1.0", "ties"), ("0.3", "exact")])
def test_rescales_without_a_tie_are_exact_whatever_the_rounding(step: str, level: str) -> None:
    text = f"""
!a = tensor<8x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<8x!quant.uniform<i8:f32, {step}:3>>
func.func @main(%x: !a) -> !b {{
  %0 = quant.dcast %x : !a to tensor<8xf32>
  %1 = quant.qcast %0 : tensor<8xf32> to !b
  func.return %1 : !b
}}"""
    module, ctx = run(text, TOSA, f"integerize{{numerics={level}}}")
    (fired,) = [r for r in ctx.remarks.remarks if r.kind == "fired"]
    assert fired.contract == level
    assert ops(module) == ["quant.rescale"]
    assert "half_up" in str(next(o for o in module.walk() if o.name == "quant.rescale"))


def test_declarations_of_a_target_hold_while_it_is_the_target() -> None:
    ctx = new_context()
    pool = ctx.behaviors.named("nn.avg_pool2d")
    assert pool is not None
    tied = Behavior(
        "nn.avg_pool2d",
        (Port("input", PortKind.TIED),),
        (Port("result", PortKind.TIED),),
    )
    ctx.target = replace(GENERIC, name="npu", behaviors=(tied,))
    found = ctx.behaviors.named("nn.avg_pool2d")
    assert found is not None and found.is_tied and not found.commutes
    ctx.target = GENERIC
    assert ctx.behaviors.named("nn.avg_pool2d") is pool


def test_an_unknown_target() -> None:
    with pytest.raises(UsageError, match="unknown target 'tossa'; did you mean 'tosa'") as error:
        qd.get_target("tossa")
    assert error.value.code == "unknown-target"
    assert isinstance(error.value, QError)
