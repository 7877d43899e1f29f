from __future__ import annotations

import re

import pytest
from quant_support import context, parse_type
from xdsl.dialects.builtin import TensorType, f16, f32
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from qdialect.algebra.qparams.parameters import QParams, Storage
from qdialect.ir.quant import (
    AnyParams,
    AnyType,
    CalibratedRange,
    CalibratedType,
    TextVersion,
    UniformType,
    expressed_type,
    printing_for,
    quant_element,
    storage_type,
    with_element,
)


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("!quant.uniform<i8:f32, 0.5>", UniformType.per_tensor("i8", 0.5)),
        (
            "!quant.uniform<i8<-127:127>:f16, 0.5:3>",
            UniformType.per_tensor(Storage.of("i8", -127), 0.5, 3, "f16"),
        ),
        (
            "!quant<uniform<u8:f32:1, {0.5:3, 0.25}>>",
            UniformType.per_axis("u8", 1, [0.5, 0.25], [3, 0]),
        ),
        (
            "!quant.uniform<i4:f16:{0:1,1:32}, {{0.1:7,0.25:3}}>",
            UniformType.blockwise("i4", [(0, 1), (1, 32)], (1, 2), [0.1, 0.25], [7, 3], "f16"),
        ),
        ("!quant.any<u4>", AnyType(AnyParams(Storage.of("u4")))),
        ("!quant.any<i8:f32>", AnyType(AnyParams(Storage.of("i8"), "f32"))),
        ("!quant.calibrated<f32<-1.0:6.0>>", CalibratedType(CalibratedRange("f32", -1.0, 6.0))),
    ],
)
def test_text_and_constructor_give_the_same_type(text: str, built: object):
    assert parse_type(text) == built
    assert parse_type(str(built)) == built


def test_per_axis_flattens_nested_braces():
    assert parse_type("!quant.uniform<i8:f32:0, {{2.0},{{3.0}}}>") == UniformType.per_axis(
        "i8", 0, [2.0, 3.0]
    )


def test_comments_and_spaces_may_separate_all_tokens():
    text = "!quant.uniform< i8 < -8 : 7 > : f32 : 0 , // scales\n { 2.0 : - 5 , 3.0 } >"
    assert str(parse_type(text)) == "!quant.uniform<i8<-8:7>:f32:0, {2.000000e+00:-5,3.000000e+00}>"


def test_aliases_are_resolved():
    text = """
    !s = i8
    !e = f32
    !q = !quant.uniform<!s:!e, 2.0>
    func.func private @f(tensor<2x!q>)
    """
    module = Parser(context(), text).parse_module()
    assert "tensor<2x!quant.uniform<i8:f32, 2.000000e+00>>" in str(module)


def test_versions_differ_in_signed_keywords():
    type = parse_type("!quant.uniform<ui8<1:255>:f32, 2.0>")
    assert str(type) == "!quant.uniform<u8<1:255>:f32, 2.000000e+00>"
    with printing_for(TextVersion.V24):
        assert str(type) == "!quant.uniform<ui8<1:255>:f32, 2.000000e+00>"
    assert str(type) == "!quant.uniform<u8<1:255>:f32, 2.000000e+00>"


@pytest.mark.parametrize(
    "text",
    [
        "!quant.uniform<f8E4M3FN:f32, 2.000000e+00>",
        "!quant.uniform<f4E2M1FN<-4:4>:f32, 2.000000e+00>",
        "!quant.quantile<ui1:f16, {-1.000000e+00,1.000000e+00}>",
        "!quant.uniform<!quant.quantile<ui1:f16, {-1.000000e+00,1.000000e+00}>:f32, 2.000000e+00>",
        "!quant.uniform<!quant.quantile<i2:f16, {0.000000e+00,1.000000e+00}, <0:1>>"
        ":f32:0, {2.000000e+00}>",
        "!quant.uniform<i8:f80, 1.000000e-01>",
    ],
)
def test_llvm_24_text_round_trips(text: str):
    with printing_for(TextVersion.V24):
        assert str(parse_type(text)) == text


def test_sub_channel_zero_point_may_be_the_signed_reading_of_its_bits():
    """mlir-opt prints u8 200 as -56; i8 255 is the only way to make it read -1."""
    read = parse_type("!quant.uniform<u8:f32:{0:1}, {1.0:-56}>")
    assert read == parse_type("!quant.uniform<u8:f32:{0:1}, {1.0:200}>")
    read = parse_type("!quant.uniform<i8:f32:{0:1}, {1.0:255}>")
    assert read == parse_type("!quant.uniform<i8:f32:{0:1}, {1.0:-1}>")


def test_sub_channel_f32_bits_are_read_and_printed_as_a_double():
    """mlir-opt prints 0x4996B438 here, which it cannot read."""
    read = parse_type("!quant.uniform<i8:f32:{0:1}, {0x4996B438}>")
    assert str(read) == "!quant.uniform<i8:f32:{0:1}, {0x4132D68700000000}>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!quant.uniform<i8:f32:{0:1}, {1.0:300}>", "zero point 300 does not fit storage type"),
        ("!quant.uniform<i8:f32, 0x7FF8000000000000>", "scale NAN out of expressed type range"),
        ("!quant.uniform<i8:f32, 1.0e400>", "scale INF out of expressed type range"),
        ("!quant.uniform<f16:f32, 1.0>", "illegal storage type prefix"),
        ("!quant.uniform<index:f32, 1.0>", "illegal storage type prefix"),
        ("!quant.uniform<i8:index, 1.0>", "invalid kind of type specified"),
        ("!quant.uniform<i8:f32:{1:0,-1:1}, {2.0}>", "illegal quantized dimension: -1"),
        ("!quant.uniform<i8:f32:{0:1}, {{1.0}, {1.0, 2.0}}>", "ranks are not consistent"),
        ("!quant.uniform<i8:f32:0, {1.0, 2.0, 3.0, -4.0}>", "scale -4.000000e+00 out of"),
        ("!quant.quantile<ui2:f16, {0.0,1.0,2.0}>", "quantile LUT size (3) must equal"),
        ("!quant.calibrated<f32>", "expected '<'"),
        ("!quant.uniform", "expected '<'"),
    ],
)
def test_bad_type_is_rejected_at_a_position(text: str, message: str):
    with pytest.raises(ParseError, match=re.escape(message)) as caught:
        parse_type(text)
    assert 0 < caught.value.span.start <= len(text)


def test_error_in_a_long_list_points_behind_the_scale():
    text = f"!quant.uniform<i8:f32:0, {{{'1.0, ' * 500}-1.0}}>"
    with pytest.raises(ParseError) as caught:
        parse_type(text)
    assert text[: caught.value.span.start].endswith("-1.0")


def test_many_channels_are_bytes():
    scales = [0.001 * (k + 1) for k in range(4096)]
    type = UniformType.per_axis("i8", 0, scales, [k % 256 - 128 for k in range(4096)])
    read = parse_type(str(type))
    assert isinstance(read, UniformType)
    assert read == type
    assert isinstance(read.qparams.scales, bytes)
    assert read.qparams.scale_list() == scales


def test_element_helpers():
    qparams = QParams.per_tensor("u4", 0.5, expressed="f16")
    tensor = TensorType(UniformType(qparams), [2, 3])
    assert quant_element(tensor) == UniformType(qparams)
    assert quant_element(UniformType(qparams)) == UniformType(qparams)
    assert quant_element(f32) is None
    assert storage_type(qparams).width.data == 4
    assert expressed_type(qparams) == f16
    assert with_element(tensor, f32) == TensorType(f32, [2, 3])
    assert with_element(f16, f32) == f32
    with pytest.raises(ValueError, match="not an integer"):
        storage_type(QParams.per_tensor("f8E5M2", 0.5))
