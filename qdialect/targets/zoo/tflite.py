"""TensorFlow Lite's 8-bit quantization specification: int8 kernels with fixed and tied qparams.

Activations are i8 with any zero point, weights are symmetric without -128, a bias is i32 with the
product of both scales. Logistic, tanh and softmax have one output scale each; what moves, joins
or compares codes has one scale for all of its tensors.

    nn.softmax %x : (!quant.uniform<i8:f32, 0.1:3>) -> !quant.uniform<i8:f32, 3.90625e-03:-128>
"""

from __future__ import annotations

from qdialect.algebra.rounding import Rounding
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.zoo import with_kernels

WEIGHTS = "i8<-127:127> zero=0"
BIAS = "i32 zero=0"

_ANY = (Kernel(("i8",), ("i8",)),)
_TIED = (Kernel(("i8",), ("i8 as=0",)),)
_ALL_TIED = (Kernel(("i8", "i8 as=0"), ("i8 as=0",)),)
_UNIT = (Kernel(("i8",), ("i8 zero=-128 scale=1/256",)),)

MOVEMENTS = (
    *("nn.flatten", "nn.reshape", "nn.squeeze", "nn.unsqueeze"),
    *("nn.slice", "nn.split", "nn.gather", "nn.tile", "nn.pad", "nn.transpose"),
    *("nn.space_to_depth", "nn.depth_to_space", "nn.resize_nearest"),
)
"""What moves codes; its tensors have the same qparams."""

_KERNELS = {
    "nn.constant": (Kernel(),),
    "quant.rescale": _ANY,
    "nn.conv2d": (Kernel(("i8", f"{WEIGHTS} per-axis(0)", f"{BIAS} per-axis(0)"), ("i8",)),),
    "nn.fully_connected": (Kernel(("i8", WEIGHTS, BIAS), ("i8",)),),
    **dict.fromkeys(
        ("nn.add", "nn.sub", "nn.mul", "nn.relu", "nn.reduce_mean", "nn.global_avg_pool2d"),
        _ANY,
    ),
    "nn.sigmoid": _UNIT,
    "nn.softmax": _UNIT,
    "nn.tanh": (Kernel(("i8",), ("i8 zero=0 scale=1/128",)),),
    **dict.fromkeys(("nn.concat", "nn.maximum", "nn.minimum"), _ALL_TIED),
    **dict.fromkeys(
        ("nn.avg_pool2d", "nn.max_pool2d", "nn.clip", "nn.resize_linear", *MOVEMENTS), _TIED
    ),
    **dict.fromkeys(("nn.arg_max", "nn.compare"), (Kernel(("i8",)),)),
}

TARGET = Target(
    "tflite-int8",
    "TensorFlow Lite, int8 kernels by its 8-bit quantization specification",
    storages=frozenset({"i8", "i32"}),
    activations="i8",
    per_block=False,
    per_axis_zero_points=False,
    keep_whole=with_kernels(_KERNELS),
    kernels=_KERNELS,
    runs_others=False,
    roundings=(Rounding.HALF_UP, Rounding.GEMMLOWP),
)
