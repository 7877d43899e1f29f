"""The `nn` dialect: networks as compiler and ONNX people both read them.

Activations [N, C, spatial...], weights OIHW, tensors of floats or of quantized types.
One file per family of ops holds all that is declared of them (`ir.ops.declare`); a family is
imported when one of its ops is used (`ir.ops.registry`).
"""

# ruff: noqa: F405, RUF022
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect.ir.ops import registry
from qdialect.ir.ops.registry import (
    all_ops,
    default_behaviors,
    default_components,
    find_op,
    op_names,
)

if TYPE_CHECKING:
    from xdsl.ir import Dialect

    from qdialect.ir.behaviors.shapes import *  # noqa: F403
    from qdialect.ir.ops.attention import *  # noqa: F403
    from qdialect.ir.ops.base import NNOp as NNOp
    from qdialect.ir.ops.constants import *  # noqa: F403
    from qdialect.ir.ops.contraction import *  # noqa: F403
    from qdialect.ir.ops.dynamic import *  # noqa: F403
    from qdialect.ir.ops.elementwise import *  # noqa: F403
    from qdialect.ir.ops.functions import *  # noqa: F403
    from qdialect.ir.ops.indexing import *  # noqa: F403
    from qdialect.ir.ops.keys import *  # noqa: F403
    from qdialect.ir.ops.movement import *  # noqa: F403
    from qdialect.ir.ops.normalization import *  # noqa: F403
    from qdialect.ir.ops.ordering import *  # noqa: F403
    from qdialect.ir.ops.pooling import *  # noqa: F403
    from qdialect.ir.ops.recurrent import *  # noqa: F403
    from qdialect.ir.ops.reduction import *  # noqa: F403
    from qdialect.ir.ops.resize import *  # noqa: F403
    from qdialect.ir.ops.spatial_movement import *  # noqa: F403
    from qdialect.ir.ops.tables import *  # noqa: F403

    NN: Dialect

# Type checkers read this list; a test compares it with what the files have.
# fmt: off
__all__ = [
    "AVERAGE_POOLS", "AbsOp", "AddOp", "ArgMaxOp", "ArgMinOp", "AttentionOp", "AveragePoolOp",
    "AvgPool1DOp", "AvgPool2DOp", "AvgPool3DOp", "BatchNormOp", "BlobAttr", "CODE",
    "CONVOLUTIONS", "CeilOp", "ClipOp", "CompareOp", "ConcatOp", "ConstantOp", "Conv1DOp",
    "Conv2DOp", "Conv3DOp", "ConvTranspose1DOp", "ConvTranspose2DOp", "ConvTranspose3DOp",
    "DYNAMIC_CONVOLUTIONS", "DepthToSpaceOp", "DivOp", "DynamicConv1DOp", "DynamicConv2DOp",
    "DynamicConv3DOp", "DynamicMatMulOp", "DynamicOp", "DynamicQuantizeOp", "EluOp", "ErfOp",
    "ExpOp", "ExpandOp", "FlattenOp", "FlipOp", "FloorOp", "FullyConnectedOp",
    "GLOBAL_AVERAGE_POOLS", "GatherOp", "GeluOp", "GlobalAvgPool1DOp", "GlobalAvgPool2DOp",
    "GlobalAvgPool3DOp", "GruOp", "HardSigmoidOp", "HardSwishOp", "Im2colOp", "InsertOp", "KEY",
    "LayerNormOp", "LeakyReluOp", "LogOp", "LrnOp", "LstmOp", "MAX_POOLS", "MatMulOp",
    "MaxPool1DOp", "MaxPool2DOp", "MaxPool3DOp", "MaximumOp", "MinimumOp", "MulOp", "NN",
    "NNOp", "NegOp", "PReluOp", "PadOp", "PowOp", "ReciprocalOp", "ReduceMaxOp", "ReduceMeanOp",
    "ReduceMinOp", "ReduceSumOp", "ReluOp", "RepeatOp", "ReshapeOp", "ReshapeToOp",
    "ResizeLinearOp", "ResizeNearestOp", "RmsNormOp", "RoundOp", "SelectOp", "SigmoidOp", "SliceOp",
    "SoftmaxOp", "SoftplusOp", "SpaceToDepthOp", "SplitOp", "SqrtOp", "SqueezeOp", "SubOp",
    "SwishOp", "TRANSPOSED", "TableOp", "TanhOp", "TileOp", "TopKOp", "TransposeOp",
    "UnsqueezeOp", "WindowOp", "all_ops", "constant_array", "constant_of", "default_behaviors",
    "default_components", "find_op", "keys_of", "make_constant", "op_names", "shape_of",
    "tensor_type",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name == "NN":
        value: Any = registry.dialect()
    elif name in registry.files():
        value = getattr(registry.module(registry.files()[name]), name)
    else:
        raise AttributeError(f"module 'qdialect.ir.ops' has no attribute '{name}'")
    globals()[name] = value
    return value
