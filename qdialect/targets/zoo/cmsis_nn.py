"""CMSIS-NN: kernels for Arm Cortex-M, bit for bit those of TensorFlow Lite for Microcontrollers.

Kernels of int8 follow the 8-bit specification (`tflite.py`); some exist for int16 too, which has
zero point 0, and convolutions and fully connected layers take int4 weights with int8 codes. There
are fewer kernels than TensorFlow Lite has operators: what has none runs in plain C or not at all.

    nn.conv2d %x, %w : (i8, i4 per-axis(0)) -> i8          arm_convolve_s4
"""

from __future__ import annotations

from qdialect.algebra.rounding import Rounding
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.zoo import with_kernels
from qdialect.targets.zoo.tflite import BIAS, WEIGHTS

_BOTH = (Kernel(("i8",), ("i8",)), Kernel(("i16",), ("i16",)))
_TIED = (Kernel(("i8", "i8 as=0"), ("i8 as=0",)),)
_BOTH_TIED = (*_TIED, Kernel(("i16", "i16 as=0"), ("i16 as=0",)))
_INT4 = "i4 zero=0"


def _weighted(*rows: tuple[str, str, str]) -> tuple[Kernel, ...]:
    return tuple(
        Kernel((codes, f"{weights}{layout}", f"{BIAS}{layout and ' per-axis(0)'}"), (codes,))
        for codes, weights, layout in rows
    )


_KERNELS = {
    "nn.constant": (Kernel(),),
    "nn.conv2d": _weighted(
        ("i8", WEIGHTS, " per-axis(0)"),
        ("i8", _INT4, " per-axis(0)"),
        ("i16", WEIGHTS, " per-axis(0)"),
    ),
    "nn.conv_transpose2d": _weighted(("i8", WEIGHTS, " per-axis(1)")),
    "nn.fully_connected": _weighted(
        ("i8", WEIGHTS, " per-axis(0)"), ("i8", _INT4, ""), ("i16", WEIGHTS, "")
    ),
    **dict.fromkeys(("nn.matmul", "nn.add", "nn.mul"), _BOTH),
    **dict.fromkeys(("nn.max_pool2d", "nn.avg_pool2d"), _BOTH_TIED),
    "nn.softmax": (
        Kernel(("i8",), ("i8 zero=-128 scale=1/256",)),
        Kernel(("i16",), ("i16 zero=0 scale=1/32768",)),
    ),
    **dict.fromkeys(
        (
            *("nn.minimum", "nn.maximum", "nn.pad", "nn.transpose", "nn.relu"),
            *("nn.flatten", "nn.reshape", "nn.squeeze", "nn.unsqueeze", "nn.concat"),
        ),
        _TIED,
    ),
    "nn.clip": (Kernel(("i8",), ("i8 as=0",), limits={"min": "0", "max": "6"}),),
}

TARGET = Target(
    "cmsis-nn",
    "CMSIS-NN, kernels for Arm Cortex-M",
    storages=frozenset({"i4", "i8", "i16", "i32"}),
    activations="i8",
    symmetric=frozenset({"i4", "i16", "i32"}),
    per_block=False,
    per_axis_zero_points=False,
    keep_whole=with_kernels(_KERNELS),
    kernels=_KERNELS,
    runs_others=False,
    roundings=(Rounding.HALF_UP, Rounding.GEMMLOWP),
)
