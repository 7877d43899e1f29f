"""The `nn` dialect: networks as compiler and ONNX people both read them.

NCHW activations, OIHW weights, tensors of floats or of quantized types.
"""

from xdsl.ir import Dialect

from qdialect.dialects.nn import (
    constants,
    contraction,
    elementwise,
    movement,
    normalization,
    pooling,
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
    MulOp,
    ReluOp,
    SigmoidOp,
    SubOp,
    TanhOp,
)
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

NN = Dialect(
    "nn",
    [
        *constants.OPS,
        *contraction.OPS,
        *elementwise.OPS,
        *movement.OPS,
        *normalization.OPS,
        *pooling.OPS,
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
    "DivOp",
    "FlattenOp",
    "FullyConnectedOp",
    "GlobalAvgPool2DOp",
    "HardSigmoidOp",
    "HardSwishOp",
    "LeakyReluOp",
    "MatMulOp",
    "MaxPool2DOp",
    "MulOp",
    "NNOp",
    "PadOp",
    "ReluOp",
    "ReshapeOp",
    "SigmoidOp",
    "SliceOp",
    "SoftmaxOp",
    "SubOp",
    "TanhOp",
    "TransposeOp",
    "constant_array",
    "constant_of",
    "keys_of",
    "make_constant",
    "shape_of",
    "tensor_type",
]
