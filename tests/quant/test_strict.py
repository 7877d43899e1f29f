from __future__ import annotations

import pytest
from quant_support import parse_module, structure_error
from xdsl.dialects.builtin import ModuleOp

from qdialect.ir.quant.strict import QuantChecker


def strict_errors(module: ModuleOp) -> list[str]:
    checker = QuantChecker(strict=True)
    errors = (checker.strict_error(op) for op in module.walk())
    return [message for message in errors if message is not None]


def strict(type: str) -> list[str]:
    return strict_errors(parse_module(f'%0 = "test.op"() : () -> {type}'))


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("!quant.uniform<i8:f32, 1.0:300>", "zero point 300 is outside the storage bounds"),
        ("!quant.uniform<i8<-8:7>:f32, 1.0:8>", "zero point 8 is outside the storage bounds -8:7"),
        ("tensor<2x!quant.uniform<u8:f32:0, {1.0,1.0:-1}>>", "zero point -1 is outside"),
        ("tensor<4x3x!quant.uniform<i8:f32:7, {2.0}>>", "must be less than tensor rank"),
        ("tensor<4x!quant.uniform<i8:f32:0, {2.0,3.0}>>", "does not match number of scales"),
        ("tensor<4x!quant.uniform<i8:f32:{0:3}, {2.0}>>", "must be divisible"),
        ("tuple<tensor<1x!quant.uniform<i8:f32, 1.0:300>>>", "zero point 300"),
        ("!quant.calibrated<f16<-70000.0:1.0>>", "exceeds its expressed type"),
    ],
)
def test_type_that_means_nothing_is_reported(type: str, message: str):
    found = strict(type)
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize(
    "type",
    [
        "!quant.uniform<i8:f32, 1.0:-128>",
        "tensor<2x!quant.uniform<i8:f32:0, {2.0,3.0}>>",
        "tensor<?x!quant.uniform<i8:f32:0, {2.0,3.0}>>",
        "tensor<*x!quant.uniform<i8:f32:0, {2.0,3.0}>>",
        "tensor<4x!quant.uniform<i8:f32:{0:2}, {2.0,3.0}>>",
        "!quant.calibrated<f32<-1.0:1.0>>",
        "!quant.any<i8>",
    ],
)
def test_sound_type_is_not_reported(type: str):
    assert strict(type) == []


def test_scalar_value_cannot_be_per_axis():
    module = parse_module(
        '%0 = "test.op"() : () -> !quant.uniform<i8:f32:0, {2.0,3.0}>\n'
        '%1 = "test.op"() : () -> tensor<2x!quant.uniform<i8:f32:0, {2.0,3.0}>>'
    )
    (found,) = strict_errors(module)
    assert found.startswith("scalar types may not use per-axis quantization")


def test_rounding_of_a_cast_must_exist():
    module = parse_module(
        '%0 = "test.op"() : () -> f32\n'
        '%1 = quant.qcast %0 {quant.rounding = "up"} : f32 to !quant.uniform<i8:f32, 2.0>'
    )
    (found,) = strict_errors(module)
    assert found.startswith("'quant.rounding' must be one of half_even")


@pytest.mark.parametrize(
    ("type", "message"),
    [
        (
            "vector<4x!quant.uniform<i8:f32, 1.0>>",
            "failed to verify 'elementType': VectorElementTypeInterface instance",
        ),
        ("memref<4x!quant.any<i8>>", "invalid memref element type"),
        ("!quant.foo<i8>", "unknown quantized type foo"),
    ],
)
def test_structure(type: str, message: str):
    module = parse_module(f"func.func private @f({type})")
    assert structure_error(module) == message
