from __future__ import annotations

import pytest
from quant_support import parse_module, print_generic, rejection
from xdsl.dialects import test as test_dialect
from xdsl.dialects.builtin import StringAttr, TensorType, f32, i8
from xdsl.ir import Attribute, SSAValue
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.rounding import Rounding
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, UniformType, cast_rounding

Q = UniformType.per_tensor("i8", 0.5)
QT = TensorType(Q, [4])


def value(type: Attribute) -> SSAValue:
    return test_dialect.TestOp(result_types=[type]).results[0]


def cast(name: str, source: str, target: str) -> str:
    return (
        f"func.func @f(%a: {source}) -> {target} {{\n"
        f"  %0 = quant.{name} %a : {source} to {target}\n"
        f"  func.return %0 : {target}\n}}\n"
    )


def test_ops_are_pure():
    for op in (QCastOp, DCastOp, SCastOp, RescaleOp):
        assert op.has_trait(Pure)


def test_constructors():
    float_value = value(TensorType(f32, [4]))
    QCastOp(float_value, QT).verify()
    DCastOp(value(QT), TensorType(f32, [4])).verify()
    SCastOp(value(QT), TensorType(i8, [4])).verify()
    assert RescaleOp(value(QT), QT).rounding is Rounding.HALF_EVEN
    assert RescaleOp(value(QT), QT, multiplier=[3], shift=[4]).fixed_point == [(3, 4)]


def test_rounding_of_a_cast():
    op = QCastOp(value(TensorType(f32, [4])), QT)
    assert cast_rounding(op) is Rounding.HALF_EVEN
    op.attributes["quant.rounding"] = StringAttr("half_away")
    assert cast_rounding(op) is Rounding.HALF_AWAY
    op.attributes["quant.rounding"] = StringAttr("up")
    with pytest.raises(ValueError, match="up"):
        cast_rounding(op)


SUB = "!quant.uniform<i8:f32:{blocks}, {scales}>"


@pytest.mark.parametrize(
    ("dims", "blocks", "scales", "message"),
    [
        ("4x8x", "{1:4}", "{{2.0,3.0}}", None),
        ("?x?x", "{0:2,1:4}", "{{2.0,3.0},{2.0,3.0}}", None),
        ("4x8x", "{1:2,1:4}", "{{2.0,3.0}}", None),
        (
            "4x9x",
            "{1:4}",
            "{{2.0,3.0},{2.0,3.0}}",
            "tensor dimension size 9 at axis 1 must be divisible by the corresponding block size 4",
        ),
        ("8x", "{0:2}", "{{2.0}}", "Rank of scales 2 must match the rank of the tensor 1"),
        (
            "4x0x",
            "{1:4}",
            "{{2.0},{3.0}}",
            "tensor dimension size of zero is not allowed with sub-channel quantization",
        ),
        (
            "?x8x",
            "{1:4}",
            "{{2.0,3.0},{2.0,3.0}}",
            "dimension size 1 of scales tensor at axis 0 should match "
            "(tensor dimension at axis / block sizes at axis) = 1",
        ),
        (
            "*x",
            "{0:2}",
            "{2.0}",
            "tensor containing the sub-channel quantized type must be ranked",
        ),
    ],
)
def test_block_grid_must_fit_the_shape(dims: str, blocks: str, scales: str, message: str | None):
    quantized = f"tensor<{dims}!quant.uniform<i8:f32:{blocks}, {scales}>>"
    assert rejection(cast("qcast", f"tensor<{dims}f32>", quantized)) == message


def test_rescale_round_trips_in_both_forms():
    text = """
    func.func @f(%a: tensor<2x!quant.uniform<i32:f32:0, {0.5,0.25}>>) {
      %0 = quant.rescale %a : tensor<2x!quant.uniform<i32:f32:0, {0.5,0.25}>>
                           to tensor<2x!quant.uniform<i8:f32, 0.5:3>>
      %1 = quant.rescale %a rounding half_up multiplier [1073741824, 1073741825] shift [30, 31]
        {note = "x"} : tensor<2x!quant.uniform<i32:f32:0, {0.5,0.25}>>
                    to tensor<2x!quant.uniform<i8:f32, 0.5:3>>
      %2 = quant.rescale %0 rounding half_even : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
                                              to tensor<2x!quant.uniform<u8:f32, 0.5:3>>
      func.return
    }
    """
    module = parse_module(text)
    assert str(parse_module(str(module))) == str(module)
    assert str(parse_module(print_generic(module))) == str(module)
    assert "rounding half_up multiplier [1073741824, 1073741825] shift [30, 31] {" in str(module)
    assert "rounding half_even" not in str(module)


PER_TENSOR = "tensor<2x!quant.uniform<i8:f32, 0.5>>"
PER_AXIS = "tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>"


@pytest.mark.parametrize(
    ("source", "middle", "target", "message"),
    [
        ("tensor<2xf32>", "", PER_TENSOR, "operand #0 must be scalar or tensor of uniform"),
        (PER_TENSOR, "", "tensor<2xi8>", "result #0 must be scalar or tensor of uniform"),
        (PER_TENSOR, "", "tensor<3x!quant.uniform<i8:f32, 0.5>>", "with matching shape"),
        (PER_TENSOR, "", "tensor<2x!quant.uniform<i8:f16, 0.5>>", "same expressed type"),
        (PER_TENSOR, "", "tensor<2x!quant.uniform<f8E5M2:f32, 0.5>>", "must be an integer"),
        (
            PER_TENSOR,
            "",
            "tensor<2x!quant.uniform<i8:f32:0, {0.5}>>",
            "quantized dimension size does not match number of scales",
        ),
        (PER_TENSOR, "multiplier [1]", PER_TENSOR, "must be given together"),
        (PER_TENSOR, "multiplier [1, 2] shift [1]", PER_TENSOR, "must have the same length"),
        (PER_AXIS, "multiplier [1, 2, 3] shift [1, 1, 1]", PER_TENSOR, "must be 1 or 2"),
        (
            PER_AXIS,
            "multiplier [1, 2] shift [1, 1]",
            "tensor<2x!quant.uniform<i8:f32:{0:1}, {0.5,0.25}>>",
            "same axes and blocks",
        ),
        (PER_TENSOR, "multiplier [-1] shift [1]", PER_TENSOR, "must not be negative"),
        (PER_TENSOR, "multiplier [1] shift [63]", PER_TENSOR, "shift must be in [0, 62]"),
        (PER_TENSOR, "rounding up", PER_TENSOR, "Expected one of"),
        (PER_TENSOR, "multiplier [4294967296] shift [1]", PER_TENSOR, "integer value too large"),
    ],
)
def test_wrong_rescale_is_rejected(source: str, middle: str, target: str, message: str):
    text = (
        f"func.func @f(%a: {source}) {{\n"
        f"  %0 = quant.rescale %a {middle} : {source} to {target}\n  func.return\n}}\n"
    )
    assert message in (rejection(text) or "")


def test_unknown_rounding_in_generic_form():
    op = RescaleOp(value(QT), QT)
    op.properties["rounding"] = StringAttr("up")
    with pytest.raises(VerifyException, match="rounding must be one of half_even"):
        op.verify()
