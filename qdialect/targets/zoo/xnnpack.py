"""XNNPACK, as the delegate of TensorFlow Lite gives it quantized operators.

Codes are i8, or u8 in files of the older scheme, never both in one operator; weights may have a
scale per channel. Which tensors share qparams is what TensorFlow Lite asks of the file.

    nn.split %x : i8 into 5 tensors      stays with TensorFlow Lite: two to four are taken
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.zoo import with_kernels
from qdialect.targets.zoo.tflite import WEIGHTS

_CODES = ("i8", "u8")


def _any(limits: Mapping[str, str] | None = None) -> tuple[Kernel, ...]:
    """One kernel for signed codes and one for unsigned ones."""
    return tuple(Kernel((codes,), (codes,), limits=limits or {}) for codes in _CODES)


def _tied(limits: Mapping[str, str] | None = None) -> tuple[Kernel, ...]:
    return tuple(
        Kernel((codes, f"{codes} as=0"), (f"{codes} as=0",), limits=limits or {})
        for codes in _CODES
    )


def _weighted(layout: str) -> tuple[Kernel, ...]:
    return (
        Kernel(("i8", f"{WEIGHTS}{layout}", f"i32{layout and ' per-axis(0)'}"), ("i8",)),
        Kernel(("u8", "u8", "i32"), ("u8",)),
    )


_STEPS = ({"window": "2..65536"}, {"window": "1", "strides": "1"})
_MEAN = {"rank": "4"}

_KERNELS = {
    "nn.constant": (Kernel(),),
    **dict.fromkeys(
        ("nn.add", "nn.sub", "nn.mul", "nn.leaky_relu", "nn.sigmoid", "nn.tanh"), _any()
    ),
    "quant.rescale": _any(),
    "nn.elu": (Kernel(("i8",), ("i8",)),),
    "nn.conv2d": _weighted(" per-axis(0)"),
    "nn.conv_transpose2d": _weighted(""),
    "nn.fully_connected": _weighted(""),
    "nn.max_pool2d": tuple(kernel for limits in _STEPS for kernel in _tied(limits)),
    "nn.global_avg_pool2d": _any(_MEAN),
    "nn.reduce_mean": _any({**_MEAN, "axes": "2..3"}),
    "nn.resize_linear": _tied({"rank": "4"}),
    "nn.concat": _tied({"operands": "2..4"}),
    "nn.split": _tied({"results": "2..4"}),
    **dict.fromkeys(
        (
            *("nn.depth_to_space", "nn.space_to_depth", "nn.pad"),
            *("nn.flatten", "nn.reshape", "nn.squeeze", "nn.unsqueeze"),
            *("nn.slice", "nn.transpose"),
        ),
        _tied(),
    ),
}

TARGET = Target(
    "xnnpack",
    "XNNPACK, the delegate of TensorFlow Lite, quantized operators",
    storages=frozenset({"i8", "u8", "i32"}),
    activations="i8",
    symmetric=frozenset({"i32"}),
    per_block=False,
    per_axis_zero_points=False,
    keep_whole=with_kernels(_KERNELS),
    kernels=_KERNELS,
    runs_others=False,
)
