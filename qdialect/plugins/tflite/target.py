"""LiteRT (TensorFlow Lite) on a CPU, with XNNPACK, and Circle files for the same ops.

Codes are i8. What a row takes is what `convert-nn-to-tflite` has an integer kernel for that gives
the codes of the op; other ops are better left on floats, between casts, where XNNPACK runs them
as well. Weights have zero point 0 and perhaps a scale per channel, a bias is i32 on the scale of
the sums. SOFTMAX gives codes of 1/256 from -128 only. Codes of 8 bits without a sign are
re-encoded, q - 128, but for those at the interface.

    nn.leaky_relu %x : i8       on floats: the kernel for codes has multipliers of 8 bits
"""

from __future__ import annotations

from dataclasses import replace

from qdialect.algebra.rounding import Rounding
from qdialect.ir.ops.registry import default_components
from qdialect.plugins.tflite.target_priced import PricedLitert
from qdialect.targets.base import Interface
from qdialect.targets.kernels import Kernel

_WEIGHTS = "i8 zero=0"
_BIAS = "i32 zero=0"
_ANY = (Kernel(("i8",), ("i8",)),)
_TIED = (Kernel(("i8",), ("i8 as=0",)),)
_WINDOW = (Kernel(("i8",), ("i8 as=0",), limits={"rank": "3..4", "dilations": "1"}),)

MOVEMENTS = (
    *("nn.concat", "nn.expand", "nn.flatten", "nn.flip", "nn.gather", "nn.repeat", "nn.tile"),
    *("nn.reshape", "nn.slice", "nn.split", "nn.squeeze", "nn.transpose", "nn.unsqueeze"),
    *("nn.pad", "nn.select", "nn.space_to_depth", "nn.depth_to_space", "nn.resize_nearest"),
)
"""What copies codes."""


def _convolution(axis: int) -> tuple[Kernel, ...]:
    weights = f"{_WEIGHTS} per-axis({axis})"
    return (Kernel(("i8", weights, f"{_BIAS} per-axis(0)"), ("i8",)),)


_KERNELS = {
    "nn.constant": (Kernel(),),
    "quant.rescale": (
        Kernel(("i8",), ("i8|u8",)),
        Kernel(("u8",), ("i8|u8",)),
    ),
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.fully_connected"), _convolution(0)),
    **dict.fromkeys(("nn.conv_transpose1d", "nn.conv_transpose2d"), _convolution(1)),
    "nn.matmul": (Kernel(("i8", f"{_WEIGHTS} per-axis(1)"), ("i8",)),),
    **dict.fromkeys(("nn.add", "nn.sub", "nn.mul"), _ANY),
    **dict.fromkeys(("nn.maximum", "nn.minimum"), _ANY),
    **dict.fromkeys(("nn.sigmoid", "nn.tanh"), _ANY),
    "nn.softmax": (Kernel(("i8",), ("i8 zero=-128 scale=1/256",)),),
    **dict.fromkeys(("nn.avg_pool1d", "nn.avg_pool2d"), _ANY),
    **{f"nn.global_avg_pool{rank}d": _ANY for rank in (1, 2, 3)},
    **dict.fromkeys(("nn.reduce_mean", "nn.reduce_sum"), _ANY),
    **dict.fromkeys(("nn.max_pool1d", "nn.max_pool2d"), _WINDOW),
    **dict.fromkeys(("nn.relu", "nn.clip", "nn.reduce_max", "nn.reduce_min"), _TIED),
    **dict.fromkeys(MOVEMENTS, (*_TIED, Kernel(("i32",), ("i32 as=0",)))),
    **dict.fromkeys(("nn.arg_max", "nn.arg_min", "nn.compare"), (Kernel(("i8",)),)),
}

TARGET = PricedLitert(
    "litert",
    "LiteRT (TensorFlow Lite) on a CPU, with XNNPACK",
    storages=frozenset({"i8", "u8", "i16", "i32"}),
    activations="i8",
    symmetric=frozenset({"i16", "i32"}),
    per_block=False,
    per_axis_zero_points=False,
    keep_whole=frozenset(default_components()),
    kernels=_KERNELS,
    runs_others=False,
    engines=frozenset({"litert-xnn", "litert-opt", "litert-ref"}),
    roundings=(Rounding.HALF_EVEN,),
    extensions={
        "start": (
            "form-delegated{numerics=LEVEL},dce",
            "reencode-storage{activations=i8 weights=i8 numerics=LEVEL}",
        )
    },
    interface=Interface.KEEP,
    boundary="minimize-conversions",
)

CIRCLE = replace(
    TARGET,
    name="circle",
    summary="Circle files: the ops of TensorFlow Lite, for the ONE runtime",
)
