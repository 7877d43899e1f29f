"""Rewrites keep the names of tensors, so that a second run finds what the first left."""

from __future__ import annotations

from rewrite_support import apply, parse

TEXT = """
!a = tensor<4x!quant.uniform<u8:f32, 0.5:128>>
!b = tensor<4x!quant.uniform<i8:f32, 0.5>>
func.func @main(%x: !a) -> tensor<4xf32> {
  %0 = quant.rescale %x : !a to !b
  %1 = quant.dcast %0 {nn.key = "k", nn.outputs = ["t"], onnx.params = ["s", "z"]}
    : !b to tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""


def test_dequantize_of_rescale() -> None:
    module, ctx = parse(TEXT)
    apply(module, ctx, "fold-rescale")
    (function,) = module.ops
    cast, _ = function.regions[0].block.ops
    assert cast.name == "quant.dcast"
    assert sorted(cast.attributes) == ["nn.key", "nn.outputs", "onnx.params"]
