"""Which ONNX op becomes what; any op without an entry stays an `onnx.node`.

An op of the same meaning has its row where the op is declared (`ir.ops.declare.onnx`); the
others have an import function here. A function returns the results, or None when the node
has a form it does not cover.
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.ir import ops as nn
from qdialect.ir.ops.declare import DECLARED
from qdialect.plugins.onnx.read import (
    block_tables,
    compute,
    constants,
    dynamic,
    einsum,
    float_quant,
    gemm,
    idioms,
    indexing,
    integer_products,
    movement,
    n_bits,
    ordering,
    qonnx,
    qoperator,
    quantization,
    quark,
    quark_ops,
    reciprocals,
    recurrent,
    reduction,
    scatter,
)
from qdialect.plugins.onnx.read.compute import Rule, same
from qdialect.plugins.onnx.read.qonnx_ops import in_domains


def _same_ops() -> dict[tuple[str, str], Rule]:
    rows = ((kind, DECLARED[kind.name].onnx) for kind in nn.all_ops())
    return {
        ("", row.op_type): same(kind, row.operands, **row.attributes)
        for kind, row in rows
        if row is not None and row.reads
    }


RULES: Mapping[tuple[str, str], Rule] = {
    **_same_ops(),
    ("", "QuantizeLinear"): reciprocals.quantize,
    ("", "DequantizeLinear"): quantization.dequantize,
    ("com.microsoft", "QuantizeLinear"): reciprocals.quantize,
    ("com.microsoft", "DequantizeLinear"): quantization.dequantize,
    ("", "Constant"): constants.constant,
    ("", "ConstantOfShape"): constants.constant_of_shape,
    ("", "Cast"): constants.cast,
    ("", "Identity"): movement.alias,
    ("", "Dropout"): movement.alias,
    ("", "Conv"): compute.conv,
    ("", "ConvTranspose"): compute.conv_transpose,
    ("", "Gemm"): gemm.gemm,
    ("", "ConvInteger"): integer_products.conv,
    ("", "DynamicQuantizeLinear"): dynamic.quantize,
    ("com.microsoft", "DynamicQuantizeMatMul"): dynamic.matmul,
    ("com.microsoft", "MatMulNBits"): n_bits.matmul,
    ("com.microsoft", "GatherBlockQuantized"): block_tables.gather,
    ("com.microsoft", "MatMulBnb4"): n_bits.matmul_of_levels,
    ("", "MatMulInteger"): integer_products.matmul,
    ("", "Einsum"): einsum.einsum,
    ("", "Sum"): compute.total,
    ("", "Mul"): idioms.multiply,
    ("", "Max"): compute.extremum(nn.MaximumOp),
    ("", "Min"): compute.extremum(nn.MinimumOp),
    ("", "Gelu"): compute.gelu,
    ("", "PRelu"): compute.prelu,
    ("", "Pow"): compute.power,
    ("", "Clip"): compute.clip,
    ("", "Softmax"): compute.softmax,
    ("", "LRN"): compute.lrn,
    ("", "Attention"): compute.attention,
    ("", "LSTM"): recurrent.recurrent(nn.LstmOp, "sigmoid", "tanh", "tanh"),
    ("", "GRU"): recurrent.recurrent(nn.GruOp, "sigmoid", "tanh"),
    ("", "LayerNormalization"): compute.layer_norm,
    ("", "RMSNormalization"): compute.layer_norm,
    ("", "BatchNormalization"): compute.batch_norm,
    ("", "MaxPool"): compute.max_pool,
    ("", "AveragePool"): compute.average_pool,
    ("", "GlobalAveragePool"): compute.global_average_pool,
    ("", "GlobalMaxPool"): reduction.global_max_pool,
    ("", "ReduceMax"): reduction.reduce(nn.ReduceMaxOp, axes_since=18, moves=True),
    ("", "ReduceMin"): reduction.reduce(nn.ReduceMinOp, axes_since=18, moves=True),
    ("", "ReduceMean"): reduction.reduce(nn.ReduceMeanOp, axes_since=18),
    ("", "ReduceSum"): reduction.reduce(nn.ReduceSumOp, axes_since=13),
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
    ("", "Equal"): ordering.compare("eq"),
    ("", "Less"): ordering.compare("lt"),
    ("", "LessOrEqual"): ordering.compare("le"),
    ("", "Greater"): ordering.compare("gt"),
    ("", "GreaterOrEqual"): ordering.compare("ge"),
    ("", "Not"): ordering.negation,
    ("", "ArgMax"): ordering.place(nn.ArgMaxOp),
    ("", "ArgMin"): ordering.place(nn.ArgMinOp),
    ("", "TopK"): ordering.top_k,
    ("", "Where"): indexing.where,
    ("", "ScatterND"): scatter.scatter_nd,
    ("", "ScatterElements"): scatter.scatter_elements,
    ("", "DepthToSpace"): indexing.depth_to_space,
    ("", "SpaceToDepth"): indexing.space_to_depth,
    ("", "Resize"): indexing.resize,
    ("", "Slice"): movement.slice_,
    ("", "Pad"): movement.pad,
    **dict.fromkeys(quark_ops.QUANTIZE, quark.quantize),
    **dict.fromkeys(quark_ops.DEQUANTIZE, quark.dequantize),
    **qoperator.RULES,
    **dict.fromkeys(in_domains("Quant", "IntQuant"), qonnx.quant),
    **dict.fromkeys(in_domains("BipolarQuant"), qonnx.bipolar),
    **dict.fromkeys(in_domains("Trunc"), qonnx.trunc),
    **dict.fromkeys(in_domains("FloatQuant"), float_quant.float_quant),
}
