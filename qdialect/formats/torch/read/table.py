"""Which op of PyTorch becomes what; any op without an entry stays a `torch.node`.

An op of the same meaning has its row where the op is declared (`ops.declare.aten`); the others
have an import function here.  A key is the name of an op, or of one of its overloads.
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect import ops as nn
from qdialect.formats.torch.read import elementwise, layers, products, quantized, shaping
from qdialect.formats.torch.read.rows import Rule, same
from qdialect.ops.declare import DECLARED


def _same_ops() -> dict[str, Rule]:
    """The rows that ops declare."""
    rows: dict[str, Rule] = {}
    for kind in nn.all_ops():
        declared = DECLARED[kind.name]
        if declared.aten is not None:
            onnx = declared.onnx.op_type if declared.onnx is not None else None
            rows[f"aten.{declared.aten.op}"] = same(kind, declared.aten, onnx)
    return rows


#: checks of what is known already
NOTHING = frozenset(
    {
        "aten._assert_tensor_metadata",
        "aten._assert_scalar",
        "aten._assert_async",
        "aten.sym_constrain_range",
        "aten.sym_constrain_range_for_size",
    }
)

RULES: Mapping[str, Rule] = {
    **_same_ops(),
    "aten.add": elementwise.scaled_sum(nn.AddOp),
    "aten.sub": elementwise.scaled_sum(nn.SubOp),
    "aten.rsub": elementwise.scaled_sum(nn.SubOp, reverse=True),
    "aten.clamp": elementwise.clamp(),
    "aten.hardtanh": elementwise.clamp(-1.0, 1.0),
    "aten.relu6": elementwise.clamp(0.0, 6.0),
    "aten.pow.Tensor_Scalar": elementwise.power,
    "aten.alias": elementwise.alias,
    "aten.detach": elementwise.alias,
    "aten.clone": elementwise.alias,
    "aten.contiguous": elementwise.alias,
    "aten.lift_fresh_copy": elementwise.alias,
    "aten.dropout": elementwise.dropout,
    "aten.to": elementwise.convert,
    "aten._to_copy": elementwise.convert,
    "aten.type_as": elementwise.convert,
    "aten.linear": products.linear,
    "aten.matmul": products.matmul,
    "aten.mm": products.matmul,
    "aten.bmm": products.matmul,
    "aten.addmm": products.addmm,
    "aten.conv1d": products.convolution,
    "aten.conv2d": products.convolution,
    "aten.conv3d": products.convolution,
    "aten.conv_transpose1d": products.convolution,
    "aten.conv_transpose2d": products.convolution,
    "aten.conv_transpose3d": products.convolution,
    "aten.convolution": products.convolution,
    "aten.scaled_dot_product_attention": products.attention,
    "aten.view": shaping.view,
    "aten.reshape": shaping.view,
    "aten.flatten": shaping.view,
    "aten.unflatten": shaping.view,
    "aten.squeeze": shaping.view,
    "aten.unsqueeze": shaping.view,
    "aten.permute": shaping.permute,
    "aten.transpose": shaping.transpose,
    "aten.t": shaping.transpose,
    "aten.cat": shaping.concat,
    "aten.chunk": shaping.split,
    "aten.split": shaping.split,
    "aten.split_with_sizes": shaping.split,
    "aten.slice": shaping.slice_,
    "aten.batch_norm": layers.batch_norm,
    "aten._native_batch_norm_legit_no_training": layers.batch_norm,
    "aten.layer_norm": layers.layer_norm,
    "aten.native_layer_norm": layers.layer_norm,
    "aten.softmax": layers.softmax,
    "aten._softmax": layers.softmax,
    "aten.max_pool1d": layers.max_pool(1),
    "aten.max_pool2d": layers.max_pool(2),
    "aten.max_pool3d": layers.max_pool(3),
    "aten.avg_pool1d": layers.average_pool(1),
    "aten.avg_pool2d": layers.average_pool(2),
    "aten.avg_pool3d": layers.average_pool(3),
    "aten.adaptive_avg_pool1d": layers.adaptive_average_pool(1),
    "aten.adaptive_avg_pool2d": layers.adaptive_average_pool(2),
    "aten._adaptive_avg_pool2d": layers.adaptive_average_pool(2),
    "aten.adaptive_avg_pool3d": layers.adaptive_average_pool(3),
    "aten.mean": layers.reduce(nn.ReduceMeanOp),
    "aten.sum": layers.reduce(nn.ReduceSumOp),
    "aten.amax": layers.reduce(nn.ReduceMaxOp),
    "aten.amin": layers.reduce(nn.ReduceMinOp),
    "aten.embedding": layers.embedding,
    "quantized_decomposed.quantize_per_tensor": quantized.quantize,
    "quantized_decomposed.quantize_per_channel": quantized.quantize,
    "quantized_decomposed.dequantize_per_tensor": quantized.dequantize,
    "quantized_decomposed.dequantize_per_channel": quantized.dequantize,
}


def rule_of(target: str) -> Rule | None:
    """The row of an overload, or of its op."""
    return RULES.get(target) or RULES.get(".".join(target.split(".")[:2]))
