"""`Target.state_price`: what an op of a float module takes in each state, by the shipped table."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isfinite

import pytest
from xdsl.ir import Operation

import qdialect as qd
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.mlir.read import read_module
from qdialect.targets.price_table import parse_prices, shipped_prices
from tests.support.price_files import table_text

TARGET = qd.get_target("onnxruntime")
STATES = ("float", "u8 i8", "i8 i8", "dynamic")


def ops(body: str) -> list[Operation]:
    """The `nn` ops of a function that are no constants."""
    module = read_module(body, qd.new_context())
    return [op for op in module.walk() if isinstance(op, NNOp) and op.name != "nn.constant"]


def conv(channels: int, side: int, behind: str = "", batch: str = "1") -> list[Operation]:
    """A 3x3 convolution, and ops on its result `%1`."""
    image = f"tensor<{batch}x{channels}x{side}x{side}xf32>"
    weights = f"tensor<{channels}x{channels}x3x3xf32>"
    last = behind.count("=") + 1
    return ops(
        f"!t = {image}\n"
        f"func.func @f(%x: !t) -> !t {{\n"
        f"  %w = nn.constant dense<0.5> : {weights} : {weights}\n"
        f"  %1 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!t, {weights}) -> !t\n{behind}\n"
        f"  func.return %{last} : !t\n}}"
    )


def product(rows: int, depth: int, columns: int) -> Operation:
    """A product with constant weights."""
    x, y = f"tensor<{rows}x{depth}xf32>", f"tensor<{rows}x{columns}xf32>"
    w = f"tensor<{columns}x{depth}xf32>"
    return ops(
        f"func.func @f(%x: {x}) -> {y} {{\n  %w = nn.constant dense<0.5> : {w} : {w}\n"
        f"  %1 = nn.fully_connected %x, %w : ({x}, {w}) -> {y}\n  func.return %1 : {y}\n}}"
    )[0]


def unary(name: str, *shape: int) -> Operation:
    """An op of one operand."""
    kind = f"tensor<{''.join(f'{n}x' for n in shape)}f32>"
    return ops(
        f"func.func @f(%x: {kind}) -> {kind} {{\n  %1 = {name} %x : ({kind}) -> {kind}\n"
        f"  func.return %1 : {kind}\n}}"
    )[0]


@pytest.mark.parametrize("state", ["float", "u8 i8", "i8 i8"])
def test_larger_convolutions_take_longer(state: str) -> None:
    prices = [TARGET.state_price(conv(c, s)[0], state) for c, s in ((16, 8), (32, 8), (32, 28))]
    known = [price for price in prices if price is not None and isfinite(price) and price > 0]
    assert len(known) == 3 and known == sorted(known) and len(set(known)) == 3


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("rows", [1, 64])
def test_larger_products_take_longer(state: str, rows: int) -> None:
    sizes = ((32, 32), (128, 128), (512, 1024))
    prices = [TARGET.state_price(product(rows, *size), state) for size in sizes]
    known = [price for price in prices if price is not None and price > 0]
    assert len(known) == 3 and known == sorted(known) and known[0] < known[2]


def test_every_op_measured_costs_more_on_more_elements() -> None:
    for name in ("nn.swish", "nn.gelu", "nn.softmax", "nn.sigmoid", "nn.exp"):
        for state in ("float", "u8 i8"):
            small, large = (TARGET.state_price(unary(name, 1, n), state) for n in (64, 65536))
            assert small is not None and large is not None and 0 < small < large, (name, state)


def test_casts_cost_a_start_and_each_element() -> None:
    for name in ("quant.qcast", "quant.dcast"):
        few, many = (TARGET.state_cast_price(name, n) for n in (1, 100_000))
        assert few is not None and many is not None and 0 < few < many < 100_000 * few


def test_what_the_runtime_fuses_costs_nothing() -> None:
    made = conv(32, 28, "  %2 = nn.relu %1 : (!t) -> !t\n  %3 = nn.swish %2 : (!t) -> !t")
    for state in ("float", "u8 i8"):
        assert TARGET.state_price(made[1], state) == 0
        price = TARGET.state_price(made[2], state)
        assert price is not None and price > 0
    # Its result is used twice, so it stays a kernel of its own on floats.
    made = conv(32, 28, "  %2 = nn.relu %1 : (!t) -> !t\n  %3 = nn.mul %2, %1 : (!t, !t) -> !t")
    assert TARGET.state_price(made[1], "float")


def test_the_sigmoid_of_a_swish_is_its_own_kernel_on_codes_only() -> None:
    """QuickGelu on floats; QLinearSigmoid and QLinearMul on codes."""
    op = unary("nn.swish", 1, 32, 80, 80)
    floats, codes = (TARGET.state_price(op, state) for state in ("float", "u8 i8"))
    assert floats is not None and codes is not None and floats < codes


def test_what_has_no_kernel_on_codes_is_priced_with_its_casts() -> None:
    op = unary("nn.exp", 1, 1000)
    floats, codes = (TARGET.state_price(op, state) for state in ("float", "u8 i8"))
    casts = [TARGET.state_cast_price(n, 1000) for n in ("quant.qcast", "quant.dcast")]
    assert floats is not None and codes is not None
    assert codes == pytest.approx(floats + sum(each or 0 for each in casts))


def test_unknown_extents_are_priced_as_assumed() -> None:
    known, assumed = (conv(32, 28, batch=batch)[0] for batch in ("1", "?"))
    price = TARGET.state_price(known, "float")
    assert price and TARGET.state_price(assumed, "float") == price


def test_a_view_is_a_node_that_moves_nothing() -> None:
    price = TARGET.state_price(unary("nn.reshape", 1, 100_000), "float")
    assert price is not None and price < 2000


def test_without_dot_products_codes_take_longer_and_floats_do_not() -> None:
    """The products, that is: their reads and writes take what they took."""
    slow = qd.get_target("x86-without-vnni")
    op = conv(64, 28)[0]
    for state in ("float", "i8 i8"):
        assert slow.state_price(op, state) == TARGET.state_price(op, state)
    ours, theirs = (each.state_price(op, "u8 i8") for each in (TARGET, slow))
    assert ours is not None and theirs is not None and 1.2 * ours < theirs < 3 * ours
    dynamic = product(64, 256, 256)
    ours, theirs = (each.state_price(dynamic, "dynamic") for each in (TARGET, slow))
    assert ours is not None and theirs is not None and 1.2 * ours < theirs < 3 * ours


GATED = """!t = tensor<1x32x40x40xf32>
func.func @f(%x: !t) -> !t {{
  %w = nn.constant dense<0.5> : tensor<32x32x1x1xf32> : tensor<32x32x1x1xf32>
  %1 = nn.conv2d %x, %w : (!t, tensor<32x32x1x1xf32>) -> !t
  %2 = nn.{gate} %1{how} : (!t) -> !t
  %3 = nn.mul %1, %2 : (!t, !t) -> !t
  {rest}
}}
"""


@pytest.mark.parametrize(
    ("gate", "how", "fused"),
    [("sigmoid", "", False), ("hard_sigmoid", " alpha 0.16666667 beta 0.5", True)],
)
def test_a_product_with_its_own_sigmoid_is_one_kernel_on_floats(
    gate: str, how: str, fused: bool
) -> None:
    """QuickGelu; a hard swish is part of the convolution."""
    alone = unary("nn.swish" if gate == "sigmoid" else "nn.hard_swish", 1, 32, 40, 40)
    whole = TARGET.state_price(alone, "float")
    made = ops(GATED.format(gate=gate, how=how, rest="func.return %3 : !t"))
    assert TARGET.state_price(made[1], "float") == 0
    price = TARGET.state_price(made[2], "float")
    assert price is not None and whole is not None
    assert price < 0.8 * whole if fused else price == whole
    # Another user of the sigmoid: both run.
    both = "%4 = nn.add %2, %3 : (!t, !t) -> !t\n  func.return %4 : !t"
    made = ops(GATED.format(gate=gate, how=how, rest=both))
    assert TARGET.state_price(made[1], "float")


def test_a_scale_inside_the_sigmoid_is_part_of_the_kernel() -> None:
    """x * sigmoid(1.702 x), as GELU is approximated."""
    made = ops(
        "!t = tensor<1x64x768xf32>\n"
        "func.func @f(%x: !t) -> !t {\n"
        "  %c = nn.constant dense<1.702> : tensor<f32> : tensor<f32>\n"
        "  %1 = nn.mul %x, %c : (!t, tensor<f32>) -> !t\n"
        "  %2 = nn.sigmoid %1 : (!t) -> !t\n"
        "  %3 = nn.mul %x, %2 : (!t, !t) -> !t\n  func.return %3 : !t\n}"
    )
    prices = [TARGET.state_price(op, "float") for op in made]
    assert prices == [0, 0, TARGET.state_price(unary("nn.swish", 1, 64, 768), "float")]
    assert all(TARGET.state_price(op, "u8 i8") for op in made)


def test_a_layer_norm_does_an_addition_that_nothing_else_reads() -> None:
    """SkipLayerNormalization, which takes longer than both."""
    head = (
        "func.func @f(%x: tensor<1x64x192xf32>, %y: tensor<1x64x192xf32>) -> "
        "tensor<1x64x192xf32> {\n"
        "  %s = nn.constant dense<1.0> : tensor<192xf32> : tensor<192xf32>\n"
        "  %1 = nn.add %x, %y : (tensor<1x64x192xf32>, tensor<1x64x192xf32>) -> "
        "tensor<1x64x192xf32>\n"
        "  %2 = nn.layer_norm %1, %s, %s : (tensor<1x64x192xf32>, tensor<192xf32>, "
        "tensor<192xf32>) -> tensor<1x64x192xf32>\n"
    )
    single = ops(head + "  func.return %2 : tensor<1x64x192xf32>\n}")
    more = (
        "  %3 = nn.add %1, %2 : (tensor<1x64x192xf32>, tensor<1x64x192xf32>) -> "
        "tensor<1x64x192xf32>\n  func.return %3 : tensor<1x64x192xf32>\n}"
    )
    shared = ops(head + more)
    assert TARGET.state_price(single[0], "float") == 0
    assert TARGET.state_price(shared[0], "float")
    skip, plain = (TARGET.state_price(each[1], "float") for each in (single, shared))
    assert skip is not None and plain is not None and skip > plain
    # On codes the addition is an op of its own.
    assert TARGET.state_price(single[0], "u8 i8")


def test_what_was_not_measured_has_no_price() -> None:
    assert TARGET.state_price(conv(16, 8)[0], "dynamic") is None
    assert TARGET.state_price(conv(16, 8)[0], "u4 u4") is None
    assert TARGET.state_price(unary("nn.swish", 1, 8), "dynamic") is None
    assert qd.get_target("generic").state_price(conv(16, 8)[0], "float") is None
    assert qd.get_target("generic").state_cast_price("quant.qcast", 5) is None
    empty = TARGET.with_prices(replace(shipped_prices("onnxruntime"), kernels={}))
    assert empty.state_price(conv(16, 8)[0], "float") is None
    assert empty.state_cast_price("quant.qcast", 5) is None


def test_a_price_is_the_sum_of_its_terms() -> None:
    data = json.loads(table_text(shipped_prices("onnxruntime")))
    data["kernels"] = {"nn.exp": {"float": {"node": 100, "element": 0.5}}}
    target = TARGET.with_prices(parse_prices(json.dumps(data)))
    assert target.state_price(unary("nn.exp", 10, 20), "float") == 100 + 0.5 * 200
