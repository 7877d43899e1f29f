"""Which lowering an op has: the one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.ir import Operation

from qdialect.dialects.nn.views import normalize_axes
from qdialect.lowerings.emitter import Lowering
from qdialect.lowerings.tosa import contraction, division, elementwise, movement, pooling
from qdialect.lowerings.tosa.emitter import Emitter
from qdialect.lowerings.tosa.rescale import lower_rescale


def _spatial(op: Operation, rank: int) -> Sequence[int]:
    return range(2, rank)


def _axes(op: Operation, rank: int) -> Sequence[int]:
    from qdialect.dialects.nn.base import NNOp

    assert isinstance(op, NNOp)
    return normalize_axes(op.values["axes"], rank)


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that TOSA can express, by name."""
    return {
        "quant.rescale": lower_rescale,
        **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), contraction.lower_convolution),
        "nn.fully_connected": contraction.lower_fully_connected,
        "nn.matmul": contraction.lower_matmul,
        **{f"nn.{n}": elementwise.arithmetic(n) for n in ("add", "sub", "mul")},
        **{f"nn.{n}": elementwise.extremum(n) for n in ("maximum", "minimum")},
        **dict.fromkeys(("nn.relu", "nn.clip"), elementwise.clamp),
        "nn.div": division.divide,
        "nn.table": elementwise.table,
        **dict.fromkeys(("nn.max_pool1d", "nn.max_pool2d"), pooling.max_pool),
        **dict.fromkeys(("nn.avg_pool1d", "nn.avg_pool2d"), pooling.average_pool),
        **{f"nn.global_avg_pool{rank}d": pooling.reduction("sum", _spatial) for rank in (1, 2, 3)},
        **{
            f"nn.reduce_{op}": pooling.reduction(name, _axes)
            for op, name in (("sum", "sum"), ("mean", "sum"), ("max", "max"), ("min", "min"))
        },
        **dict.fromkeys(
            ("nn.reshape", "nn.flatten", "nn.squeeze", "nn.unsqueeze"), movement.reshape
        ),
        "nn.transpose": movement.transpose,
        "nn.concat": movement.concat,
        "nn.pad": movement.pad,
        "nn.slice": movement.slices,
    }
