"""Which op of PyTorch becomes what; any op without an entry stays a `torch.node`.

An op of the same meaning has its row where the op is declared (`ir.ops.declare.aten`); the others
have an import function here.  A key is the name of an op, or of one of its overloads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from qdialect.ir import ops as nn
from qdialect.ir.ops.declare import DECLARED
from qdialect.plugins.torch.read import (
    arithmetic,
    creation,
    elementwise,
    fake_quantize,
    functions,
    indexing,
    layers,
    norms,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    repeats,
    resizing,
    run_time,
    shaping,
    torchao,
)
from qdialect.plugins.torch.read.rows import Rule, same


def _same_ops() -> dict[str, Rule]:
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

_SAME = (
    "alias",
    "alias_copy",
    "detach",
    "detach_copy",
    "detach_",
    "clone",
    "contiguous",
    "lift_fresh_copy",
    "lift",
    "resolve_conj",
    "resolve_neg",
)
_VIEWS = (
    "view",
    "_unsafe_view",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "reshape_as",
    "view_as",
    "ravel",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
)


def _all(names: Iterable[str], rule: Rule) -> dict[str, Rule]:
    """One rule for ops of `aten`, and for those that give a copy instead of a view."""
    return {f"aten.{name}{copy}": rule for name in names for copy in ("", "_copy")}


_FUNCTIONS: Mapping[str, Rule] = {
    **{
        name: functions.onnx_function(name.title())
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh")
    },
    **{name: functions.onnx_function(name.title()) for name in ("asinh", "acosh", "atanh")},
    "exp2": functions.formula(functions.exp2),
    "log2": functions.formula(functions.log_of_base(2.0)),
    "log10": functions.formula(functions.log_of_base(10.0)),
    "log1p": functions.formula(functions.log1p),
    "expm1": functions.formula(functions.expm1),
    "rsqrt": functions.formula(functions.rsqrt),
    "square": functions.formula(functions.square),
    "erfc": functions.formula(functions.erfc),
    "trunc": functions.formula(functions.trunc),
    "fix": functions.formula(functions.trunc),
    "frac": functions.formula(functions.frac),
    "round": functions.formula(functions.rounded, decimals=0),
    "logit": functions.formula(functions.logit, "eps"),
    "nan_to_num": functions.formula(functions.nan_to_num, "posinf", "neginf", nan=0.0),
    "softplus": functions.formula(functions.softplus, beta=1.0, threshold=20.0),
    "mish": functions.formula(functions.mish),
    "log_sigmoid": functions.formula(functions.log_sigmoid),
    "hardsigmoid": functions.properties(nn.HardSigmoidOp, alpha=1 / 6, beta=0.5),
    "elu": functions.formula(functions.elu, alpha=1.0, scale=1.0, input_scale=1.0),
    "celu": functions.formula(functions.celu, alpha=1.0),
    "selu": functions.formula(functions.selu),
    "threshold": functions.formula(functions.threshold, "threshold", "value"),
    "hardshrink": functions.formula(functions.hardshrink, lambd=0.5),
    "softshrink": functions.formula(functions.softshrink, lambd=0.5),
    "rrelu": functions.rrelu,
    "deg2rad": functions.formula(functions.times(math.pi / 180)),
    "rad2deg": functions.formula(functions.times(180 / math.pi)),
    "glu": functions.glu,
    "prelu": functions.prelu,
    "_prelu_kernel": functions.prelu,
    "isnan": functions.is_kind("IsNaN"),
    "isinf": functions.is_kind("IsInf"),
    "sign": functions.sign,
    "sgn": functions.sign,
    "neg": arithmetic.negated,
    "abs": arithmetic.negated,
}

_ARITHMETIC: Mapping[str, Rule] = {
    "add": elementwise.scaled_sum(nn.AddOp),
    "sub": elementwise.scaled_sum(nn.SubOp),
    "rsub": elementwise.scaled_sum(nn.SubOp, reverse=True),
    "mul": arithmetic.product,
    "div": arithmetic.quotient,
    "divide": arithmetic.quotient,
    "true_divide": arithmetic.quotient,
    "floor_divide": arithmetic.quotient,
    "remainder": arithmetic.remainder,
    "fmod": arithmetic.remainder,
    "pow": arithmetic.power,
    "atan2": arithmetic.angle,
    "addcmul": arithmetic.fused(nn.MulOp),
    "addcdiv": arithmetic.fused(nn.DivOp),
    "lerp": arithmetic.between,
    "clamp": elementwise.first_of(elementwise.clamp(), arithmetic.bounded),
    "clamp_min": elementwise.first_of(elementwise.clamp(), arithmetic.bounded),
    "clamp_max": elementwise.first_of(elementwise.clamp(), arithmetic.bounded),
    "hardtanh": elementwise.clamp(-1.0, 1.0),
    "relu6": elementwise.clamp(0.0, 6.0),
    "where": arithmetic.where,
    "masked_fill": arithmetic.masked_fill,
    "isclose": arithmetic.close,
    **{mode: arithmetic.comparison(mode) for mode in ("eq", "ne", "lt", "le", "gt", "ge")},
    "logical_and": arithmetic.logic("And"),
    "logical_or": arithmetic.logic("Or"),
    "logical_xor": arithmetic.logic("Xor"),
    "logical_not": arithmetic.logic("Not"),
    "bitwise_and": arithmetic.bitwise("BitwiseAnd", "And"),
    "bitwise_or": arithmetic.bitwise("BitwiseOr", "Or"),
    "bitwise_xor": arithmetic.bitwise("BitwiseXor", "Xor"),
    "bitwise_not": arithmetic.bitwise("BitwiseNot", "Not"),
    "__and__": arithmetic.bitwise("BitwiseAnd", "And"),
    "__or__": arithmetic.bitwise("BitwiseOr", "Or"),
    "__xor__": arithmetic.bitwise("BitwiseXor", "Xor"),
    "bitwise_left_shift": arithmetic.shift("LEFT"),
    "bitwise_right_shift": arithmetic.shift("RIGHT"),
}

_REDUCTIONS: Mapping[str, Rule] = {
    "mean": reductions.reduce(nn.ReduceMeanOp),
    "sum": reductions.reduce(nn.ReduceSumOp),
    "amax": reductions.reduce(nn.ReduceMaxOp),
    "amin": reductions.reduce(nn.ReduceMinOp),
    "max": reductions.extreme(nn.ReduceMaxOp, nn.ArgMaxOp),
    "min": reductions.extreme(nn.ReduceMinOp, nn.ArgMinOp),
    "argmax": reductions.place(nn.ArgMaxOp),
    "argmin": reductions.place(nn.ArgMinOp),
    "prod": reductions.by_onnx("ReduceProd"),
    "logsumexp": reductions.by_onnx("ReduceLogSumExp"),
    "any": reductions.quantifier("ReduceMax"),
    "all": reductions.quantifier("ReduceMin"),
    "count_nonzero": reductions.count_nonzero,
    "topk": reductions.top_k,
    "sort": reductions.sort,
    "argsort": reductions.sort,
    "cumsum": reductions.running_sum,
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), reductions.spread),
    "norm": reductions.norm,
    "linalg_vector_norm": reductions.norm,
    "log_softmax": reductions.log_softmax,
    "_log_softmax": reductions.log_softmax,
    "cosine_similarity": reductions.similarity,
    "softmax": layers.softmax,
    "_softmax": layers.softmax,
    "_safe_softmax": layers.safe_softmax,
}

_LAYERS: Mapping[str, Rule] = {
    "linear": run_time.integer_linear(products.linear),
    "matmul": products.matmul,
    "mm": products.matmul,
    "bmm": products.matmul,
    "mv": products.matmul,
    "dot": products.matmul,
    "addmm": products.addmm,
    "baddbmm": products.addmm,
    "addmv": products.addmm,
    "outer": products.outer,
    "einsum": products.einsum,
    **{
        f"conv{transposed}{rank}d": products.convolution
        for transposed in ("", "_transpose")
        for rank in (1, 2, 3)
    },
    "convolution": products.convolution,
    "scaled_dot_product_attention": products.attention,
    "batch_norm": layers.batch_norm,
    "_native_batch_norm_legit_no_training": layers.batch_norm,
    "native_batch_norm": layers.batch_norm,
    "_native_batch_norm_legit": norms.batch_statistics,
    "layer_norm": layers.layer_norm,
    "native_layer_norm": layers.layer_norm,
    "group_norm": norms.group_norm,
    "native_group_norm": norms.group_norm,
    "instance_norm": norms.instance_norm,
    "rms_norm": norms.rms_norm,
    "_fused_rms_norm": norms.rms_norm,
    "_weight_norm": norms.weight_norm,
    "_weight_norm_interface": norms.weight_norm,
    **{f"max_pool{rank}d": pooling.max_pool(rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d_with_indices": pooling.max_pool(rank) for rank in (2, 3)},
    **{f"avg_pool{rank}d": pooling.average_pool(rank) for rank in (1, 2, 3)},
    **{
        f"{private}adaptive_{kind}_pool{rank}d": pooling.adaptive_pool(rank, kind)
        for private in ("", "_")
        for kind in ("avg", "max")
        for rank in (1, 2, 3)
    },
    "lstm": recurrent.recurrent(nn.LstmOp),
    "gru": recurrent.recurrent(nn.GruOp),
    "rnn_tanh": recurrent.plain("Tanh"),
    "rnn_relu": recurrent.plain("Relu"),
    "lstm_cell": recurrent.cell(nn.LstmOp),
    "gru_cell": recurrent.cell(nn.GruOp),
    "embedding": layers.embedding,
    **{f"upsample_nearest{rank}d": resizing.nearest(rank, False) for rank in (1, 2, 3)},
    **{f"_upsample_nearest_exact{rank}d": resizing.nearest(rank, True) for rank in (1, 2, 3)},
    "upsample_linear1d": resizing.linear(1),
    "upsample_bilinear2d": resizing.linear(2),
    "upsample_trilinear3d": resizing.linear(3),
    "upsample_bicubic2d": resizing.cubic,
    "grid_sampler": resizing.grid_sampler,
    "grid_sampler_2d": resizing.grid_sampler,
}

_MOVEMENT: Mapping[str, Rule] = {
    "stack": repeats.stack,
    "cat": shaping.concat,
    "concat": shaping.concat,
    "repeat": repeats.repeat,
    "tile": repeats.repeat,
    "repeat_interleave": repeats.repeat_interleave,
    "flip": repeats.flip,
    "roll": repeats.roll,
    "tril": repeats.triangle(False),
    "triu": repeats.triangle(True),
    "meshgrid": repeats.meshgrid,
    "broadcast_tensors": repeats.broadcast_tensors,
    "pad": repeats.pad(),
    "constant_pad_nd": repeats.pad("constant"),
    **{f"reflection_pad{rank}d": repeats.pad("reflect") for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d": repeats.pad("replicate") for rank in (1, 2, 3)},
    "pixel_shuffle": repeats.pixel_shuffle,
    "pixel_unshuffle": repeats.pixel_unshuffle,
    "channel_shuffle": repeats.channel_shuffle,
    "native_channel_shuffle": repeats.channel_shuffle,
    "im2col": repeats.columns,
    "index_select": indexing.index_select,
    "index": indexing.index,
    "index_put": indexing.index_put,
    "gather": indexing.gather,
    "take_along_dim": indexing.gather,
    "scatter": indexing.scatter(),
    "scatter_add": indexing.scatter("add"),
    "scatter_reduce": indexing.scatter(),
    "slice_scatter": indexing.slice_scatter,
    "select_scatter": indexing.select_scatter,
    "copy": indexing.copy,
    "one_hot": indexing.one_hot,
}

_CREATION: Mapping[str, Rule] = {
    **dict.fromkeys(("full", "full_like", "new_full", "fill"), creation.full()),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), creation.full(0)),
    **dict.fromkeys(("empty", "empty_like", "new_empty"), creation.full(0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), creation.full(1)),
    "arange": creation.arange,
    "scalar_tensor": creation.scalar,
    "to": quantized.from_integers(elementwise.convert),
    "_to_copy": quantized.from_integers(elementwise.convert),
    "type_as": elementwise.convert,
}


_SAME_OPS = _same_ops()

RULES: Mapping[str, Rule] = {
    **_SAME_OPS,
    **{
        f"aten.{name}": rule
        for table in (_FUNCTIONS, _ARITHMETIC, _REDUCTIONS, _LAYERS, _MOVEMENT, _CREATION)
        for name, rule in table.items()
    },
    **{f"aten.{name}.other": _SAME_OPS[f"aten.{name}imum"] for name in ("max", "min")},
    **_all(_SAME, elementwise.alias),
    "aten.native_dropout": elementwise.first_alias,
    **dict.fromkeys(
        (f"aten.{kind}dropout" for kind in ("", "feature_", "alpha_")), elementwise.dropout
    ),
    **_all(_VIEWS, shaping.view),
    **_all(("expand", "expand_as", "broadcast_to"), repeats.expand),
    **_all(("permute",), shaping.permute),
    **_all(("transpose", "t", "swapaxes", "swapdims"), shaping.transpose),
    **_all(("movedim", "moveaxis"), repeats.moved),
    **_all(("numpy_T",), repeats.reversed_dimensions(None)),
    **_all(("mT", "mH", "adjoint"), repeats.reversed_dimensions(2)),
    **_all(("slice", "narrow"), shaping.slice_),
    **_all(("select",), indexing.select),
    **_all(("chunk", "split", "split_with_sizes", "tensor_split"), shaping.split),
    **_all(("unbind",), repeats.unbind),
    **_all(("diagonal",), indexing.diagonal),
    **_all(("unfold",), indexing.unfold),
    "quantized_decomposed.quantize_per_tensor": quantized.quantize,
    "quantized_decomposed.quantize_per_channel": quantized.quantize,
    "quantized_decomposed.dequantize_per_tensor": quantized.dequantize,
    "quantized_decomposed.dequantize_per_channel": quantized.dequantize,
    "quantized_decomposed.dequantize_per_channel_group": quantized.dequantize,
    "quantized_decomposed.choose_qparams": run_time.choose_qparams(symmetric=False),
    "quantized_decomposed.choose_qparams_symmetric": run_time.choose_qparams(symmetric=True),
    **fake_quantize.RULES,
    **torchao.RULES,
}


def rule_of(target: str) -> Rule | None:
    """The row of an overload, or of its op."""
    return RULES.get(target) or RULES.get(".".join(target.split(".")[:2]))
