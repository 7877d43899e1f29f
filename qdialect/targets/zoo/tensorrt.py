"""NVIDIA TensorRT, explicit quantization to int8: symmetric codes, placed by Q/DQ.

Everything has zero point 0; activations have one scale, weights may have one per output channel.
TensorRT makes a layer one on codes where dequantizes are in front of it and a quantize is behind
it, and moves both past what commutes with them. So a layer is taken on i8 codes in and out, and is
float otherwise.

    %2 = nn.add %0, %1 : (!quant.uniform<i8:f32, 0.1>, !quant.uniform<i8:f32, 0.2>)
                       -> !quant.uniform<i8:f32, 0.3>
"""

from __future__ import annotations

from qdialect.algebra.rounding import Rounding
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.zoo import with_kernels

_BIAS = "i32 per-axis(0)"


def _weighted(axis: int) -> tuple[Kernel, ...]:
    """Weights with a scale for each entry of the dimension that holds the output channels."""
    return (Kernel(("i8", f"i8 per-axis({axis})", _BIAS), ("i8",)),)


_ANY = (Kernel(("i8",), ("i8",)),)
_TIED = (Kernel(("i8", "i8 as=0"), ("i8 as=0",)),)

_KERNELS = {
    "nn.constant": (Kernel(),),
    "quant.rescale": _ANY,
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _weighted(0)),
    **dict.fromkeys(
        ("nn.conv_transpose1d", "nn.conv_transpose2d", "nn.conv_transpose3d"), _weighted(1)
    ),
    "nn.fully_connected": _weighted(0),
    "nn.matmul": (Kernel(("i8", "i8 per-axis(1)"), ("i8",)),),
    **dict.fromkeys(
        (
            *("nn.add", "nn.mul", "nn.relu", "nn.clip", "nn.batch_norm"),
            *("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"),
            *("nn.global_avg_pool1d", "nn.global_avg_pool2d", "nn.global_avg_pool3d"),
        ),
        _ANY,
    ),
    **dict.fromkeys(
        (
            *("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
            *("nn.flatten", "nn.reshape", "nn.squeeze", "nn.unsqueeze", "nn.expand"),
            *("nn.transpose", "nn.concat", "nn.split", "nn.slice", "nn.tile", "nn.gather"),
        ),
        _TIED,
    ),
}

TARGET = Target(
    "tensorrt",
    "NVIDIA TensorRT, explicit quantization to int8",
    storages=frozenset({"i8", "i32"}),
    activations="i8",
    symmetric=frozenset({"i8", "i32"}),
    per_block=False,
    keep_whole=with_kernels(_KERNELS),
    kernels=_KERNELS,
    runs_others=False,
    roundings=(Rounding.HALF_EVEN,),
)
