"""The `nn` dialect: networks as compiler and ONNX people both read them.

Activations [N, C, spatial...], weights OIHW, tensors of floats or of quantized types.

A module of ops is imported when one of its ops is used: defining an op takes long.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.ir import Dialect, Operation

    from qdialect.ops.activations import (
        ClipOp,
        HardSigmoidOp,
        HardSwishOp,
        LeakyReluOp,
        ReluOp,
        SigmoidOp,
        TanhOp,
    )
    from qdialect.ops.attention import AttentionOp
    from qdialect.ops.base import KEY, NNOp, shape_of, tensor_type
    from qdialect.ops.constants import (
        BlobAttr,
        ConstantOp,
        constant_array,
        constant_of,
        make_constant,
    )
    from qdialect.ops.contraction import (
        CONVOLUTIONS,
        TRANSPOSED,
        Conv1DOp,
        Conv2DOp,
        Conv3DOp,
        ConvTranspose1DOp,
        ConvTranspose2DOp,
        ConvTranspose3DOp,
        FullyConnectedOp,
        MatMulOp,
    )
    from qdialect.ops.dynamic import (
        CODE,
        DYNAMIC_CONVOLUTIONS,
        DynamicConv1DOp,
        DynamicConv2DOp,
        DynamicConv3DOp,
        DynamicMatMulOp,
        DynamicOp,
        DynamicQuantizeOp,
    )
    from qdialect.ops.elementwise import AddOp, DivOp, MaximumOp, MinimumOp, MulOp, SubOp
    from qdialect.ops.functions import (
        AbsOp,
        CeilOp,
        EluOp,
        ErfOp,
        ExpOp,
        FloorOp,
        GeluOp,
        LogOp,
        NegOp,
        PowOp,
        PReluOp,
        ReciprocalOp,
        RoundOp,
        SoftplusOp,
        SqrtOp,
        SwishOp,
    )
    from qdialect.ops.indexing import GatherOp, InsertOp, SelectOp, SplitOp
    from qdialect.ops.interpolation import ResizeLinearOp
    from qdialect.ops.keys import keys_of
    from qdialect.ops.movement import (
        ConcatOp,
        FlattenOp,
        PadOp,
        ReshapeOp,
        ReshapeToOp,
        SliceOp,
        TransposeOp,
    )
    from qdialect.ops.normalization import BatchNormOp, LayerNormOp, LrnOp, SoftmaxOp
    from qdialect.ops.ordering import ArgMaxOp, ArgMinOp, CompareOp, TopKOp
    from qdialect.ops.pooling import (
        AVERAGE_POOLS,
        GLOBAL_AVERAGE_POOLS,
        MAX_POOLS,
        AveragePoolOp,
        AvgPool1DOp,
        AvgPool2DOp,
        AvgPool3DOp,
        GlobalAvgPool1DOp,
        GlobalAvgPool2DOp,
        GlobalAvgPool3DOp,
        MaxPool1DOp,
        MaxPool2DOp,
        MaxPool3DOp,
        WindowOp,
    )
    from qdialect.ops.recurrent import GruOp, LstmOp
    from qdialect.ops.reduction import ReduceMaxOp, ReduceMeanOp, ReduceMinOp, ReduceSumOp
    from qdialect.ops.spatial_movement import (
        DepthToSpaceOp,
        Im2colOp,
        ResizeNearestOp,
        SpaceToDepthOp,
    )
    from qdialect.ops.tables import TableOp
    from qdialect.ops.views import ExpandOp, FlipOp, RepeatOp, SqueezeOp, TileOp, UnsqueezeOp

    NN: Dialect

#: the ops of each module, without `nn.`, in the order of the dialect
OPS: Mapping[str, str] = {
    "attention": "attention",
    "constants": "constant",
    "contraction": (
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
        "fully_connected matmul"
    ),
    "dynamic": "dynamic_quantize dynamic_matmul dynamic_conv1d dynamic_conv2d dynamic_conv3d",
    "elementwise": "add sub mul div maximum minimum",
    "activations": "relu clip leaky_relu sigmoid tanh hard_sigmoid hard_swish",
    "functions": (
        "neg abs exp log sqrt reciprocal erf gelu swish softplus elu pow floor ceil round prelu"
    ),
    "indexing": "split gather select insert",
    "interpolation": "resize_linear",
    "movement": "reshape reshape_to flatten transpose slice pad concat",
    "normalization": "batch_norm layer_norm softmax lrn",
    "ordering": "compare arg_max arg_min top_k",
    "pooling": (
        "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d "
        "global_avg_pool1d global_avg_pool2d global_avg_pool3d"
    ),
    "recurrent": "lstm gru",
    "reduction": "reduce_max reduce_min reduce_mean reduce_sum",
    "spatial_movement": "depth_to_space space_to_depth im2col resize_nearest",
    "tables": "table",
    "views": "squeeze unsqueeze expand tile repeat flip",
}

#: what else is found where
_WHERE: Mapping[str, str] = {
    "activations": "ClipOp HardSigmoidOp HardSwishOp LeakyReluOp ReluOp SigmoidOp TanhOp",
    "attention": "AttentionOp",
    "base": "KEY NNOp shape_of tensor_type",
    "keys": "keys_of",
    "constants": "BlobAttr ConstantOp constant_array constant_of make_constant",
    "contraction": (
        "CONVOLUTIONS TRANSPOSED Conv1DOp Conv2DOp Conv3DOp ConvTranspose1DOp "
        "ConvTranspose2DOp ConvTranspose3DOp FullyConnectedOp MatMulOp"
    ),
    "dynamic": (
        "CODE DYNAMIC_CONVOLUTIONS DynamicConv1DOp DynamicConv2DOp DynamicConv3DOp "
        "DynamicMatMulOp DynamicOp DynamicQuantizeOp"
    ),
    "elementwise": "AddOp DivOp MaximumOp MinimumOp MulOp SubOp",
    "functions": (
        "AbsOp CeilOp EluOp ErfOp ExpOp FloorOp GeluOp LogOp NegOp PowOp PReluOp "
        "ReciprocalOp RoundOp SoftplusOp SqrtOp SwishOp"
    ),
    "indexing": "GatherOp InsertOp SelectOp SplitOp",
    "interpolation": "ResizeLinearOp",
    "movement": "ConcatOp FlattenOp PadOp ReshapeOp ReshapeToOp SliceOp TransposeOp",
    "normalization": "BatchNormOp LayerNormOp LrnOp SoftmaxOp",
    "ordering": "ArgMaxOp ArgMinOp CompareOp TopKOp",
    "pooling": (
        "AVERAGE_POOLS GLOBAL_AVERAGE_POOLS MAX_POOLS AveragePoolOp AvgPool1DOp "
        "AvgPool2DOp AvgPool3DOp GlobalAvgPool1DOp GlobalAvgPool2DOp GlobalAvgPool3DOp "
        "MaxPool1DOp MaxPool2DOp MaxPool3DOp WindowOp"
    ),
    "recurrent": "GruOp LstmOp",
    "reduction": "ReduceMaxOp ReduceMeanOp ReduceMinOp ReduceSumOp",
    "spatial_movement": "DepthToSpaceOp Im2colOp ResizeNearestOp SpaceToDepthOp",
    "tables": "TableOp",
    "views": "ExpandOp FlipOp RepeatOp SqueezeOp TileOp UnsqueezeOp",
}

_MODULES = {name: module for module, names in _WHERE.items() for name in names.split()}
_OP_MODULES = {f"nn.{op}": module for module, ops in OPS.items() for op in ops.split()}


def find_op(name: str) -> type[Operation] | None:
    """The op `name` of this dialect, without the other modules of ops."""
    module = _OP_MODULES.get(name)
    if module is None:
        return None
    ops: list[type[Operation]] = _module(module).OPS
    return next(op for op in ops if op.name == name)


def _module(name: str) -> Any:
    return import_module(f"qdialect.ops.{name}")


def _dialect() -> Dialect:
    from xdsl.ir import Dialect

    ops = [op for module in OPS for op in _module(module).OPS]
    return Dialect("nn", ops, [_module("constants").BlobAttr])


def __getattr__(name: str) -> Any:
    if name == "NN":
        value: Any = _dialect()
    elif name in _MODULES:
        value = getattr(_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'qdialect.ops' has no attribute '{name}'")
    globals()[name] = value
    return value


__all__ = [
    "AVERAGE_POOLS",
    "CODE",
    "CONVOLUTIONS",
    "DYNAMIC_CONVOLUTIONS",
    "GLOBAL_AVERAGE_POOLS",
    "KEY",
    "MAX_POOLS",
    "NN",
    "OPS",
    "TRANSPOSED",
    "AbsOp",
    "AddOp",
    "ArgMaxOp",
    "ArgMinOp",
    "AttentionOp",
    "AveragePoolOp",
    "AvgPool1DOp",
    "AvgPool2DOp",
    "AvgPool3DOp",
    "BatchNormOp",
    "BlobAttr",
    "CeilOp",
    "ClipOp",
    "CompareOp",
    "ConcatOp",
    "ConstantOp",
    "Conv1DOp",
    "Conv2DOp",
    "Conv3DOp",
    "ConvTranspose1DOp",
    "ConvTranspose2DOp",
    "ConvTranspose3DOp",
    "DepthToSpaceOp",
    "DivOp",
    "DynamicConv1DOp",
    "DynamicConv2DOp",
    "DynamicConv3DOp",
    "DynamicMatMulOp",
    "DynamicOp",
    "DynamicQuantizeOp",
    "EluOp",
    "ErfOp",
    "ExpOp",
    "ExpandOp",
    "FlattenOp",
    "FlipOp",
    "FloorOp",
    "FullyConnectedOp",
    "GatherOp",
    "GeluOp",
    "GlobalAvgPool1DOp",
    "GlobalAvgPool2DOp",
    "GlobalAvgPool3DOp",
    "GruOp",
    "HardSigmoidOp",
    "HardSwishOp",
    "Im2colOp",
    "InsertOp",
    "LayerNormOp",
    "LeakyReluOp",
    "LogOp",
    "LrnOp",
    "LstmOp",
    "MatMulOp",
    "MaxPool1DOp",
    "MaxPool2DOp",
    "MaxPool3DOp",
    "MaximumOp",
    "MinimumOp",
    "MulOp",
    "NNOp",
    "NegOp",
    "PReluOp",
    "PadOp",
    "PowOp",
    "ReciprocalOp",
    "ReduceMaxOp",
    "ReduceMeanOp",
    "ReduceMinOp",
    "ReduceSumOp",
    "ReluOp",
    "RepeatOp",
    "ReshapeOp",
    "ReshapeToOp",
    "ResizeLinearOp",
    "ResizeNearestOp",
    "RoundOp",
    "SelectOp",
    "SigmoidOp",
    "SliceOp",
    "SoftmaxOp",
    "SoftplusOp",
    "SpaceToDepthOp",
    "SplitOp",
    "SqrtOp",
    "SqueezeOp",
    "SubOp",
    "SwishOp",
    "TableOp",
    "TanhOp",
    "TileOp",
    "TopKOp",
    "TransposeOp",
    "UnsqueezeOp",
    "WindowOp",
    "constant_array",
    "constant_of",
    "find_op",
    "keys_of",
    "make_constant",
    "shape_of",
    "tensor_type",
]
