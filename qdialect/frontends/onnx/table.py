"""Which ONNX op becomes what: one entry per op; any other op stays an `onnx.node`.

A rule returns the results, or None when the node has a form it does not cover.
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.dialects import nn
from qdialect.frontends.onnx import compute, constants, indexing, movement, quantization
from qdialect.frontends.onnx.compute import Rule, same

RULES: Mapping[tuple[str, str], Rule] = {
    ("", "QuantizeLinear"): quantization.quantize,
    ("", "DequantizeLinear"): quantization.dequantize,
    ("com.microsoft", "QuantizeLinear"): quantization.quantize,
    ("com.microsoft", "DequantizeLinear"): quantization.dequantize,
    ("", "Constant"): constants.constant,
    ("", "ConstantOfShape"): constants.constant_of_shape,
    ("", "Identity"): movement.alias,
    ("", "Dropout"): movement.alias,
    ("", "Conv"): compute.conv,
    ("", "ConvTranspose"): compute.conv_transpose,
    ("", "Gemm"): compute.gemm,
    ("", "MatMul"): same(nn.MatMulOp, 2),
    ("", "Add"): same(nn.AddOp, 2),
    ("", "Sum"): same(nn.AddOp, 2),
    ("", "Sub"): same(nn.SubOp, 2),
    ("", "Mul"): same(nn.MulOp, 2),
    ("", "Div"): same(nn.DivOp, 2),
    ("", "Max"): compute.extremum(nn.MaximumOp),
    ("", "Min"): compute.extremum(nn.MinimumOp),
    ("", "Relu"): same(nn.ReluOp),
    ("", "LeakyRelu"): same(nn.LeakyReluOp, alpha=0.009999999776482582),
    ("", "Sigmoid"): same(nn.SigmoidOp),
    ("", "Tanh"): same(nn.TanhOp),
    ("", "HardSigmoid"): same(nn.HardSigmoidOp, alpha=0.20000000298023224, beta=0.5),
    ("", "HardSwish"): same(nn.HardSwishOp),
    ("", "Neg"): same(nn.NegOp),
    ("", "Abs"): same(nn.AbsOp),
    ("", "Exp"): same(nn.ExpOp),
    ("", "Log"): same(nn.LogOp),
    ("", "Sqrt"): same(nn.SqrtOp),
    ("", "Reciprocal"): same(nn.ReciprocalOp),
    ("", "Erf"): same(nn.ErfOp),
    ("", "Gelu"): compute.gelu,
    ("", "Swish"): same(nn.SwishOp, alpha=1.0),
    ("", "Softplus"): same(nn.SoftplusOp),
    ("", "Elu"): same(nn.EluOp, alpha=1.0),
    ("", "PRelu"): compute.prelu,
    ("", "Pow"): compute.power,
    ("", "Floor"): same(nn.FloorOp),
    ("", "Ceil"): same(nn.CeilOp),
    ("", "Round"): same(nn.RoundOp),
    ("", "Clip"): compute.clip,
    ("", "Softmax"): compute.softmax,
    ("", "BatchNormalization"): compute.batch_norm,
    ("", "MaxPool"): compute.max_pool,
    ("", "AveragePool"): compute.average_pool,
    ("", "GlobalAveragePool"): compute.global_average_pool,
    ("", "Concat"): movement.concat,
    ("", "Reshape"): movement.reshape,
    ("", "Flatten"): movement.flatten,
    ("", "Squeeze"): indexing.squeeze,
    ("", "Unsqueeze"): indexing.unsqueeze,
    ("", "Transpose"): movement.transpose,
    ("", "Expand"): indexing.expand,
    ("", "Tile"): indexing.tile,
    ("", "Split"): indexing.split,
    ("", "Gather"): indexing.gather,
    ("", "Where"): indexing.where,
    ("", "DepthToSpace"): indexing.depth_to_space,
    ("", "SpaceToDepth"): indexing.space_to_depth,
    ("", "Resize"): indexing.resize,
    ("", "Slice"): movement.slice_,
    ("", "Pad"): movement.pad,
}
