"""Prices of ops of a float module in LiteRT."""

from __future__ import annotations

import numpy as np

from qdialect.ir.context import new_context
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.tflite.target_kernels import FLOAT, I8
from qdialect.targets.installed import get_target

NN = """
!q = tensor<1x32x20x20x!quant.uniform<i8:f32, 0.05>>
!f = tensor<1x32x20x20xf32>
func.func @main(%x: !f, %w: tensor<32x1x3x3xf32>, %s: tensor<1x64x20x20xf32>) -> !f {
  %c = nn.constant dense<0.5> : tensor<64x32x1x1xf32> : tensor<64x32x1x1xf32>
  %d = nn.constant dense<0.5> : tensor<32x1x7x7xf32> : tensor<32x1x7x7xf32>
  %0 = nn.conv2d %x, %c : (!f, tensor<64x32x1x1xf32>) -> tensor<1x64x20x20xf32>
  %1 = nn.relu %0 : (tensor<1x64x20x20xf32>) -> tensor<1x64x20x20xf32>
  %2 = nn.conv2d %x, %d pads [3, 3, 3, 3] groups 32 : (!f, tensor<32x1x7x7xf32>) -> !f
  %3 = nn.hard_swish %2 : (!f) -> !f
  %4 = nn.add %3, %x : (!f, !f) -> !f
  %5 = nn.softplus %4 : (!f) -> !f
  func.return %5 : !f
}
"""


def test_the_target_prices_ops_of_a_float_module() -> None:
    module = read_module(NN, new_context())
    found = {op.name: op for op in module.walk() if isinstance(op, NNOp)}
    convs = [op for op in module.walk() if op.name == "nn.conv2d"]
    target = get_target("litert")

    def price(op: NNOp, state: str) -> float:
        price = target.state_price(op, state)
        assert price is not None and price >= 0
        return price

    point, large = convs
    # On codes a convolution takes less, its clamp nothing, a depthwise one of 49 taps much more.
    assert price(point, I8) < price(point, FLOAT)  # pyright: ignore[reportArgumentType]
    assert price(found["nn.relu"], I8) == price(found["nn.relu"], FLOAT) == 0
    assert price(large, FLOAT) > price(point, FLOAT)  # pyright: ignore[reportArgumentType]
    assert price(found["nn.add"], I8) > 0
    # XNNPACK has it on floats, LiteRT's own kernel on codes is slow.
    assert price(found["nn.hard_swish"], I8) > 5 * price(found["nn.hard_swish"], FLOAT)
    assert target.state_price(found["nn.softplus"], I8) is None
    assert np.isfinite(target.start_price()) and target.op_price(found["nn.add"]) > 0
    assert target.state_cast_price("quant.qcast", 1000) is not None
