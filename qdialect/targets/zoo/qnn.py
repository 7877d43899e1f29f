"""Qualcomm's HTP through QNN, as ONNX Runtime's execution provider gives it quantized models.

The HTP runs quantized models only, of fixed shapes; operators typically take u8 and u16. With
16-bit codes sigmoid and tanh have one output scale each, and one side of a product is u8.

    nn.sigmoid %x : (u16) -> u16 zero=0 scale=1/65536
"""

from __future__ import annotations

from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.zoo import with_kernels

_FIXED = {"dynamic": "0"}
_CODES = ("u8", "u16")


def _rows(*types: tuple[tuple[str, ...], str]) -> tuple[Kernel, ...]:
    return tuple(Kernel(operands, (result,), limits=_FIXED) for operands, result in types)


def _weighted(axis: int) -> tuple[Kernel, ...]:
    weights = ("u8", f"i8 per-axis({axis})")
    return _rows(
        *(((codes, each, "i32 zero=0 per-axis(0)"), codes) for codes in _CODES for each in weights)
    )


_ANY = _rows(*(((codes,), codes) for codes in _CODES))
_TIED = _rows(*(((codes, f"{codes} as=0"), f"{codes} as=0") for codes in _CODES))
_ORDER = _rows(*(((codes,), "*") for codes in _CODES))

_KERNELS = {
    "nn.constant": (Kernel(),),
    "quant.rescale": _rows((("u8|u16",), "u8|u16")),
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _weighted(0)),
    **dict.fromkeys(("nn.conv_transpose2d", "nn.conv_transpose3d"), _weighted(1)),
    "nn.fully_connected": _weighted(0),
    "nn.matmul": _rows((("u8", "u8|u16"), "u8|u16"), (("u16", "u8"), "u8|u16")),
    "nn.sigmoid": _rows((("u8",), "u8"), (("u16",), "u16 zero=0 scale=1/65536")),
    "nn.tanh": _rows((("u8",), "u8"), (("u16",), "u16 zero=32768 scale=1/32768")),
    **dict.fromkeys(
        (
            *("nn.add", "nn.sub", "nn.mul", "nn.div", "nn.pow", "nn.neg", "nn.abs"),
            *("nn.exp", "nn.log", "nn.sqrt", "nn.floor", "nn.round", "nn.elu", "nn.gelu"),
            *("nn.hard_swish", "nn.leaky_relu", "nn.prelu", "nn.relu", "nn.clip"),
            *("nn.softmax", "nn.lrn", "nn.batch_norm", "nn.reduce_mean", "nn.reduce_sum"),
            *("nn.avg_pool2d", "nn.avg_pool3d", "nn.resize_linear"),
            *("nn.global_avg_pool2d", "nn.global_avg_pool3d"),
        ),
        _ANY,
    ),
    **dict.fromkeys(
        (
            *("nn.maximum", "nn.minimum", "nn.reduce_max", "nn.reduce_min"),
            *("nn.max_pool2d", "nn.max_pool3d", "nn.resize_nearest"),
            *("nn.concat", "nn.split", "nn.gather", "nn.select", "nn.expand", "nn.tile"),
            *("nn.flatten", "nn.reshape", "nn.squeeze", "nn.unsqueeze", "nn.transpose"),
            *("nn.slice", "nn.pad", "nn.depth_to_space", "nn.space_to_depth"),
        ),
        _TIED,
    ),
    **dict.fromkeys(("nn.compare", "nn.arg_max", "nn.arg_min", "nn.top_k"), _ORDER),
}

TARGET = Target(
    "qnn-htp",
    "Qualcomm HTP through QNN and ONNX Runtime",
    storages=frozenset({"u8", "i8", "u16", "i32"}),
    per_block=False,
    per_axis_zero_points=False,
    floats=False,
    keep_whole=with_kernels(_KERNELS),
    kernels=_KERNELS,
    runs_others=False,
)
