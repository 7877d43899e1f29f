"""TOSA 1.0, integer profile with the extensions for 16-bit activations and 4-bit weights.

A quantized op here is what TOSA spells as RESCALE, an operator on plain integers, and
RESCALE: an addition of i8 codes is two rescales to i32, ADD, and one back; a sigmoid is a
TABLE.  So an operand may have any type that a rescale in front of the operator takes.
Unsigned codes exist at RESCALE only, i32 and i16 have zero point 0, and a channel has
scales of its own in weights only (one multiplier per channel in the RESCALE behind).

A RESCALE rounds half up (SINGLE_ROUND) or twice, as gemmlowp does (DOUBLE_ROUND), never
half to even: making one from an ONNX model is `ties` at best.
"""

from __future__ import annotations

from qdialect.algebra.rounding import Rounding
from qdialect.ir.behaviors import Movement
from qdialect.ir.ops.registry import functions, names_of
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import Kernel

_OUT = "i8|i16|i32"

#: CONV2D, CONV3D, DEPTHWISE_CONV2D, TRANSPOSE_CONV2D: accumulators of i32, and of i48
#: for i16 (no bias of ours is that wide)
_CONVOLUTION = (
    Kernel(("i8", "i8|i4 per-axis", "i32 per-axis"), (_OUT,)),
    Kernel(("i8", "i8|i4 per-axis", "i32 per-axis"), ("i32 per-axis",)),
    Kernel(("i16", "i8 per-axis", "i32 per-axis"), (_OUT,)),
)
_MATMUL = (
    Kernel(("i8", "i8 per-axis"), (_OUT,)),
    Kernel(("i8", "i8 per-axis"), ("i32 per-axis",)),
    Kernel(("i16", "i16"), (_OUT,)),
)
#: ADD, SUB, MUL, MAXIMUM, MINIMUM, REDUCE_SUM on i32, between rescales
_ARITHMETIC = (Kernel(("i8|u8|i16|i32",), (_OUT,)),)
_WINDOW = (Kernel(("i8",), (_OUT,)), Kernel(("i16",), (_OUT,)))
#: REDUCE_SUM and sums of slices, in 32 bits
_SUM = (*_WINDOW, Kernel(("i32",), ("i32",)))
_TIED = (Kernel(("i8",), ("i8",)), Kernel(("i16",), ("i16",)))
_COPY = (*_TIED, Kernel(("i32",), ("i32",)))
_COPY_SMALL = (Kernel(("i4",), ("i4",)), *_COPY)
#: TABLE: 256 codes, or 513 points of i16 with interpolation (an approximation of its own)
_TABLE = (Kernel(("i8",), (_OUT,)),)
_RESCALE = (
    Kernel(("i8",), ("i8|i16|i32|u8",)),
    Kernel(("i16",), ("i8|i16|i32|u8|u16",)),
    Kernel(("i32 per-axis",), ("i8|i16|i32|u8|u16",)),
    Kernel(("u8",), ("i8|i16",)),
    Kernel(("u16",), ("i16",)),
)

_REGIONS = (
    "place-rescales{boundary=maximize-integer numerics=LEVEL},integerize{numerics=LEVEL}",
    "lower-float-regions{numerics=LEVEL}",
    "canonicalize,fold-constants,cse,dce,form-tables{numerics=LEVEL}",
)
"""No float arithmetic: what is left of it goes to integers of 32 bits."""

_WITHOUT_KERNEL = ("nn.im2col", "nn.reshape_to")

_KERNELS = {
    # A gather does any movement; the ops below have other types, or more.
    **{name: _COPY for name in names_of(Movement) if name not in _WITHOUT_KERNEL},
    "quant.rescale": _RESCALE,
    **dict.fromkeys(
        (
            "nn.conv1d",
            "nn.conv2d",
            "nn.conv3d",
            "nn.conv_transpose1d",
            "nn.conv_transpose2d",
            "nn.fully_connected",
        ),
        _CONVOLUTION,
    ),
    "nn.matmul": _MATMUL,
    **dict.fromkeys(("nn.add", "nn.sub", "nn.mul", "nn.reduce_sum"), _ARITHMETIC),
    **dict.fromkeys(("nn.maximum", "nn.minimum", "nn.reduce_max", "nn.reduce_min"), _COPY),
    **dict.fromkeys(
        (
            "nn.avg_pool1d",
            "nn.avg_pool2d",
            "nn.avg_pool3d",
            "nn.global_avg_pool1d",
            "nn.global_avg_pool2d",
            "nn.global_avg_pool3d",
            "nn.reduce_mean",
        ),
        _SUM,
    ),
    "nn.resize_linear": _WINDOW,
    **dict.fromkeys(("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"), _TIED),
    **dict.fromkeys(("nn.relu", "nn.clip"), _COPY),
    **dict.fromkeys(("nn.resize_nearest",), _TIED),
    **dict.fromkeys(functions(), _TABLE),
    "nn.table": (Kernel(("i8", _OUT), (_OUT,)), Kernel(("i16", _OUT), (_OUT,))),
    # A depthwise convolution (`form-depthwise`).
    "nn.batch_norm": (Kernel(("i8",), (_OUT,)),),
    # Lookups, a sum and INTDIV (`form-softmax-tables`).
    "nn.softmax": (Kernel(("i8|i16",), (_OUT,)),),
    "nn.div": (Kernel(("i32",), (_OUT,)),),
    **dict.fromkeys(
        (
            "nn.concat",
            "nn.flatten",
            "nn.insert",
            "nn.reshape",
            "nn.slice",
            "nn.split",
            "nn.squeeze",
            "nn.transpose",
            "nn.unsqueeze",
        ),
        _COPY_SMALL,
    ),
    "nn.arg_max": (Kernel(("i8|i16",)),),
    "nn.compare": (Kernel(("i32",)),),
    # Weights and biases are constants of any type; so are values of kept types.
    "nn.constant": (Kernel(),),
}

TARGET = Target(
    "tosa",
    "TOSA 1.0, integer profile (PRO-INT with EXT-INT16 and EXT-INT4)",
    extensions={
        "start": ("reencode-storage{activations=i8 weights=i8}",),
        "integers": (
            "fold-constants{dequantize=true most=4096}",
            "form-depthwise{numerics=LEVEL}",
        ),
        "floats": _REGIONS,
    },
    storages=frozenset({"i4", "i8", "u8", "i16", "u16", "i32"}),
    activations="i8",
    symmetric=frozenset({"i4", "i16", "i32"}),
    per_block=False,
    per_axis_zero_points=False,
    floats=False,
    kernels=_KERNELS,
    runs_others=False,
    roundings=(Rounding.HALF_UP, Rounding.GEMMLOWP),
    interface=Interface.KEEP,
)
