"""OpenVINO's CPU plugin on x86 before AMX: what its low-precision transformations make integer.

Convolutions and products take activations of one scale and i8 weights; i8 activations of a
convolution become u8 ones, the same numbers. Transposed convolutions take no zero points. What
the transformations move dequantization past is taken on the codes that come.

    nn.conv_transpose2d %x, %w : (u8 zero=3, i8) -> ...      stays float
"""

from __future__ import annotations

from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.zoo import with_kernels

_CODES = "u8|i8"
_BIAS = "i32 per-axis"
_TRANSPOSED = (Kernel((f"{_CODES} zero=0", "i8 zero=0 per-axis", _BIAS), (_CODES,)),)
_WEIGHTED = (Kernel((_CODES, "i8 per-axis", _BIAS), (_CODES,)),)
_ANY = (Kernel((_CODES,), (_CODES,)),)
_TIED = (Kernel((_CODES, f"{_CODES} as=0"), (f"{_CODES} as=0",)),)

_KERNELS = {
    "nn.constant": (Kernel(),),
    "quant.rescale": _ANY,
    **dict.fromkeys(
        ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.matmul", "nn.fully_connected"), _WEIGHTED
    ),
    **dict.fromkeys(
        ("nn.conv_transpose1d", "nn.conv_transpose2d", "nn.conv_transpose3d"), _TRANSPOSED
    ),
    **dict.fromkeys(
        (
            *("nn.add", "nn.sub", "nn.mul", "nn.relu", "nn.clip", "nn.prelu"),
            *("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.resize_linear"),
            *("nn.global_avg_pool1d", "nn.global_avg_pool2d", "nn.global_avg_pool3d"),
            *("nn.reduce_mean", "nn.reduce_sum"),
        ),
        _ANY,
    ),
    **dict.fromkeys(
        (
            *("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
            *("nn.reduce_max", "nn.reduce_min", "nn.resize_nearest"),
            *("nn.flatten", "nn.reshape", "nn.squeeze", "nn.unsqueeze", "nn.concat"),
            *("nn.depth_to_space", "nn.gather", "nn.pad", "nn.split", "nn.slice"),
            "nn.transpose",
        ),
        _TIED,
    ),
}

TARGET = Target(
    "openvino-cpu",
    "OpenVINO, CPU plugin on x86 before AMX",
    storages=frozenset({"u8", "i8", "i32"}),
    per_block=False,
    keep_whole=with_kernels(_KERNELS),
    kernels=_KERNELS,
    runs_others=False,
)
