"""The `nn` dialect: networks as compiler and ONNX people both read them.

NCHW activations, OIHW weights, tensors of floats or of quantized types.
"""

from xdsl.ir import Dialect

from qdialect.dialects.nn import (
    constants,
    contraction,
    elementwise,
    indexing,
    movement,
    normalization,
    pooling,
    spatial_movement,
    views,
)
from qdialect.dialects.nn.base import KEY, NNOp, keys_of, shape_of, tensor_type
from qdialect.dialects.nn.constants import (
    BlobAttr,
    ConstantOp,
    constant_array,
    constant_of,
    make_constant,
)
from qdialect.dialects.nn.contraction import Conv2DOp, FullyConnectedOp, MatMulOp
from qdialect.dialects.nn.elementwise import (
    AddOp,
    ClipOp,
    DivOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    ReluOp,
    SigmoidOp,
    SubOp,
    TanhOp,
)
from qdialect.dialects.nn.indexing import GatherOp, SelectOp, SplitOp
from qdialect.dialects.nn.movement import (
    ConcatOp,
    FlattenOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from qdialect.dialects.nn.normalization import BatchNormOp, SoftmaxOp
from qdialect.dialects.nn.pooling import AvgPool2DOp, GlobalAvgPool2DOp, MaxPool2DOp
from qdialect.dialects.nn.spatial_movement import (
    DepthToSpaceOp,
    Im2colOp,
    ResizeNearestOp,
    SpaceToDepthOp,
)
from qdialect.dialects.nn.views import (
    ExpandOp,
    FlipOp,
    RepeatOp,
    SqueezeOp,
    TileOp,
    UnsqueezeOp,
)

NN = Dialect(
    "nn",
    [
        *constants.OPS,
        *contraction.OPS,
        *elementwise.OPS,
        *indexing.OPS,
        *movement.OPS,
        *normalization.OPS,
        *pooling.OPS,
        *spatial_movement.OPS,
        *views.OPS,
    ],
    [BlobAttr],
)

__all__ = [
    "KEY",
    "NN",
    "AddOp",
    "AvgPool2DOp",
    "BatchNormOp",
    "BlobAttr",
    "ClipOp",
    "ConcatOp",
    "ConstantOp",
    "Conv2DOp",
    "DepthToSpaceOp",
    "DivOp",
    "ExpandOp",
    "FlattenOp",
    "FlipOp",
    "FullyConnectedOp",
    "GatherOp",
    "GlobalAvgPool2DOp",
    "HardSigmoidOp",
    "HardSwishOp",
    "Im2colOp",
    "LeakyReluOp",
    "MatMulOp",
    "MaxPool2DOp",
    "MaximumOp",
    "MinimumOp",
    "MulOp",
    "NNOp",
    "PadOp",
    "ReluOp",
    "RepeatOp",
    "ReshapeOp",
    "ResizeNearestOp",
    "SelectOp",
    "SigmoidOp",
    "SliceOp",
    "SoftmaxOp",
    "SpaceToDepthOp",
    "SplitOp",
    "SqueezeOp",
    "SubOp",
    "TanhOp",
    "TileOp",
    "TransposeOp",
    "UnsqueezeOp",
    "constant_array",
    "constant_of",
    "keys_of",
    "make_constant",
    "shape_of",
    "tensor_type",
]
