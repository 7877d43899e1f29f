"""An accelerator without floats, as many are: i8 codes, i32 accumulators, i8 weights with
a scale per channel.

Floats exist outside only, so the interface is codes. A rescale by a power of two is a
shift; any other takes a multiplication too. What has no kernel of its own (softmax,
division, batch norm) is left between casts, for another processor or for a lowering.
"""

from __future__ import annotations

from qdialect.numerics.rounding import Rounding
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import Kernel

_CONTRACTION = (Kernel(("i8", "i8 per-axis", "i32 per-axis"), ("i8",)),)
_CODES = (Kernel(("i8",), ("i8",)),)

TARGET = Target(
    "integer",
    "a full-integer accelerator: i8, weights per channel, codes at the interface",
    extensions={"start": ("reencode-storage{activations=i8 weights=i8}",)},
    storages=frozenset({"i8", "i32"}),
    activations="i8",
    symmetric=frozenset({"i32"}),
    per_block=False,
    per_axis_zero_points=False,
    floats=False,
    kernels={
        "quant.rescale": _CODES,
        "nn.constant": (Kernel(),),
        **dict.fromkeys(
            (
                "nn.conv1d",
                "nn.conv2d",
                "nn.conv3d",
                "nn.conv_transpose1d",
                "nn.conv_transpose2d",
                "nn.conv_transpose3d",
                "nn.fully_connected",
                "nn.matmul",
            ),
            _CONTRACTION,
        ),
        **dict.fromkeys(
            (
                "nn.abs",
                "nn.add",
                "nn.arg_max",
                "nn.arg_min",
                "nn.avg_pool1d",
                "nn.avg_pool2d",
                "nn.ceil",
                "nn.clip",
                "nn.compare",
                "nn.concat",
                "nn.depth_to_space",
                "nn.elu",
                "nn.erf",
                "nn.exp",
                "nn.expand",
                "nn.flatten",
                "nn.flip",
                "nn.floor",
                "nn.gather",
                "nn.gelu",
                "nn.global_avg_pool1d",
                "nn.global_avg_pool2d",
                "nn.hard_sigmoid",
                "nn.hard_swish",
                "nn.insert",
                "nn.leaky_relu",
                "nn.log",
                "nn.max_pool1d",
                "nn.max_pool2d",
                "nn.maximum",
                "nn.minimum",
                "nn.mul",
                "nn.neg",
                "nn.pad",
                "nn.pow",
                "nn.prelu",
                "nn.reciprocal",
                "nn.reduce_max",
                "nn.reduce_mean",
                "nn.reduce_min",
                "nn.reduce_sum",
                "nn.relu",
                "nn.repeat",
                "nn.reshape",
                "nn.reshape_to",
                "nn.resize_linear",
                "nn.resize_nearest",
                "nn.round",
                "nn.select",
                "nn.sigmoid",
                "nn.slice",
                "nn.softplus",
                "nn.space_to_depth",
                "nn.split",
                "nn.sqrt",
                "nn.squeeze",
                "nn.sub",
                "nn.swish",
                "nn.table",
                "nn.tanh",
                "nn.tile",
                "nn.top_k",
                "nn.transpose",
                "nn.unsqueeze",
            ),
            _CODES,
        ),
    },
    runs_others=False,
    roundings=(Rounding.HALF_EVEN, Rounding.HALF_UP, Rounding.HALF_AWAY),
    price=2.0,
    shift_price=1.0,
    interface=Interface.INTEGER,
)
