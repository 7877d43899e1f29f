"""What a target states of the qparams, shapes and attributes that it takes."""

from __future__ import annotations

import pytest

from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.domains import Domain
from qdialect.algebra.sums import SumType
from qdialect.ir.context import QContext, new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel

CONV = """
!x = tensor<1x3x8x8x!quant.uniform<i8:f32, {x}>>
!w = tensor<4x3x3x3x!quant.uniform<i8:f32, 0.5>>
!y = tensor<1x4x{out}x{out}x!quant.uniform<i8:f32, 0.5>>
func.func @f(%x: !x) -> !y {{
  %w = nn.constant {{value = dense<1> : tensor<4x3x3x3xi8>}} : !w
  %0 = nn.conv2d %x, %w strides [{s}, {s}] : (!x, !w) -> !y
  func.return %0 : !y
}}"""
ZERO = Kernel(("i8 zero=0|-128", "i8"))


def target(*kernels: Kernel, **fields: object) -> Target:
    return Target("acc", "an accelerator", kernels={"nn.conv2d": kernels}, **fields)  # type: ignore[arg-type]


def refused(target: Target, x: str = "0.5", stride: int = 1) -> str | None:
    ctx: QContext = new_context()
    text = CONV.format(x=x, s=stride, out=(8 - 3) // stride + 1)
    (op,) = (op for op in read_module(text, ctx).walk() if op.name == "nn.conv2d")
    return target.refuses(op, [v.type for v in op.operands], [v.type for v in op.results])


@pytest.mark.parametrize(
    ("kernel", "arguments", "why"),
    [
        (ZERO, {}, None),
        (ZERO, {"x": "0.5:-128"}, None),
        (
            Kernel(("i8 zero=0|-128", "i8")),
            {"x": "0.5:3"},
            "operand #0: zero point 3 is not 0|-128",
        ),
        (Kernel(("i8 scale=2^n", "i8")), {"x": "0.3"}, "operand #0: scale 0.3 is not 2^n"),
        (Kernel(("i8",), ("i8 as=0",)), {}, None),
        (
            Kernel(("i8",), ("i8 as=0",)),
            {"x": "0.3"},
            "result #0 has other qparams than operand #0",
        ),
        (Kernel(limits={"strides": "1..2"}), {"stride": 2}, None),
        (Kernel(limits={"strides": "1..2"}), {"stride": 3}, "strides 3 is not 1..2"),
        (Kernel(limits={"rank": "1..3"}), {}, "rank 4 is not 1..3"),
        (Kernel(limits={"extent": "1..7"}), {}, "extent 8 is not 1..7"),
        (Kernel(limits={"channels": "x4"}), {}, "channels 3 is not x4"),
        (Kernel(limits={"window": "1..2"}), {}, "window 3 is not 1..2"),
        (Kernel(limits={"window-size": "1..8"}), {}, "window-size 9 is not 1..8"),
        (Kernel(limits={"strides": "1|3"}), {"stride": 3}, None),
        (Kernel(limits={"strides": "1|3"}), {"stride": 2}, "strides 2 is not 1|3"),
        (Kernel(limits={"strides(1)": "1"}), {"stride": 2}, "strides(1) 2 is not 1"),
        (Kernel(limits={"strides(2)": "1"}), {"stride": 2}, None),
        (Kernel(limits={"batch": "2..3|x5"}), {}, "batch 1 is not 2..3|x5"),
        (Kernel(limits={"factor": "1"}), {}, "factor 0.75 is not 1"),
        (Kernel(limits={"dynamic": "0"}), {}, None),
    ],
)
def test_a_kernel_with_a_domain(kernel: Kernel, arguments: dict[str, object], why: str) -> None:
    assert refused(target(kernel), **arguments) == why  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "limits", "why"),
    [
        ("relu %x", {"dynamic": "0"}, "dynamic 1 is not 0"),
        ("relu %x", {"extent": "1..7", "batch": "1"}, "extent 9 is not 1..7"),
        ("relu %x", {"window": "9", "window-size": "x9"}, None),
        ("relu %x", {"window": "1..8"}, "window 9 is not 1..8"),
        ("relu %x", {"operands": "1", "results": "2..4"}, "results 1 is not 2..4"),
        ("clip %x {min = -1.0 : f64}", {"min": "-1", "max": "6"}, None),
        ("clip %x {min = -1.0 : f64}", {"min": "0..1"}, "min -1 is not 0..1"),
        ("clip %x {max = 5.5 : f64}", {"max": "5|6"}, "max 5.5 is not 5|6"),
    ],
)
def test_numbers_of_ops_of_one_tensor(op: str, limits: dict[str, str], why: str | None) -> None:
    x = "tensor<?x3x9x9x!quant.uniform<i8:f32, 0.5>>"
    text = f"func.func @f(%x: {x}) -> {x} {{ %0 = nn.{op} : ({x}) -> {x} func.return %0 : {x} }}"
    made = next(op for op in read_module(text, new_context()).walk() if op.name.startswith("nn."))
    row = Kernel(limits=limits)
    types = [v.type for v in made.operands], [v.type for v in made.results]
    assert row.refuses_numbers(made, *types) == why


def test_the_window_of_a_reduction_is_what_it_reduces() -> None:
    x, y = (f"tensor<{n}x!quant.uniform<i8:f32, 0.5>>" for n in ("2x3x4x5", "2x3x1x1"))
    text = f"""func.func @f(%x: {x}) -> {y} {{
      %0 = nn.reduce_mean %x axes [-1, 2] keepdims true : ({x}) -> {y} func.return %0 : {y} }}"""
    (op,) = (op for op in read_module(text, new_context()).walk() if op.name == "nn.reduce_mean")
    types = [v.type for v in op.operands], [v.type for v in op.results]
    assert Kernel(limits={"window-size": "20"}).refuses_numbers(op, *types) is None
    assert Kernel(limits={"window(0)": "4"}).refuses_numbers(op, *types) == "window(0) 5 is not 4"


def test_a_limit_is_of_the_kernel_that_takes_the_types() -> None:
    wide, narrow = Kernel(("i16",)), Kernel(("i8",), limits={"strides": "1..2"})
    assert refused(target(wide, narrow), stride=2) is None
    assert refused(target(wide, narrow), stride=3) == "strides 3 is not 1..2"


def test_storages_with_qparams() -> None:
    acc = target(storages=frozenset({"i8 zero=0|-128 scale=2^n", "i32 zero=0"}))
    refuses = acc.refuses_qparams
    assert refuses(QParams.per_tensor("i8", 0.5, -128)) is None
    assert refuses(QParams.per_tensor("i8", 0.5, 1)) == "zero point 1 is not 0|-128"
    assert refuses(QParams.per_tensor("i8", 0.3)) == "scale 0.3 is not 2^n"
    assert refuses(QParams.per_tensor("i32", 0.3)) is None
    assert refuses(QParams.per_tensor("i32", 0.3, 1)) == "zero point 1 is not 0"
    assert refuses(QParams.per_tensor("u8", 0.5)) == "has no u8 tensors"
    assert refuses(QParams.per_axis("i8", 0, [0.5, 1.0])) is None


def test_the_domains_of_ports() -> None:
    acc = target(
        Kernel(("i8", "i8 per-axis zero=0")),
        storages=frozenset({"i8 zero=0|-128"}),
        symmetric=frozenset({"i8"}),
        per_axis=False,
        per_block=False,
    )
    assert acc.port_domains("nn.conv2d", 0) == (Domain.parse("i8 zero=0"),)
    assert acc.port_domains("nn.conv2d", 1) == (Domain.parse("i8 zero=0"),)
    assert acc.port_domains("nn.conv2d", 0, result=True) == (Domain.parse("i8 zero=0"),)


@pytest.mark.parametrize(
    "text", ["i32", "i24 saturating", "i32 pairs=i16", "i40", "i16 saturating pairs=i16"]
)
def test_sums_come_back(text: str) -> None:
    assert str(SumType.parse(text)) == text and Kernel(sums=text).sum_type.largest > 0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"sums": "f32"}, "not a type of sums: 'f32'"),
        ({"sums": "i4"}, "not a type of sums"),
        ({"limits": {"rank": "few"}}, "not a limit: 'few'"),
        ({"limits": {"rank": "1|"}}, "not a limit"),
        ({"operands": ("",)}, "not a type of a kernel"),
    ],
)
def test_a_kernel_that_says_nothing(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Kernel(**fields)  # type: ignore[arg-type]
