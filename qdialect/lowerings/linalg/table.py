"""Which lowering an op has: the one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.dialects import arith
from xdsl.ir import Operation

from qdialect.lowerings.emitter import Lowering
from qdialect.lowerings.linalg import (
    arithmetic,
    contraction,
    movement,
    ordering,
    pooling,
    resize,
    transposed,
)
from qdialect.lowerings.linalg.emitter import Emitter
from qdialect.ops.shapes import normalize_axes


def _spatial(op: Operation, rank: int) -> Sequence[int]:
    return range(2, rank)


def _axes(op: Operation, rank: int) -> Sequence[int]:
    from qdialect.ops.base import NNOp

    assert isinstance(op, NNOp)
    return normalize_axes(op.values["axes"], rank)


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that has one, by name; for casts see `casts.CASTS`, for
    what only moves elements `movement.move`."""
    return {
        "quant.rescale": arithmetic.rescale,
        **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), contraction.convolution),
        "nn.fully_connected": contraction.fully_connected,
        "nn.matmul": contraction.matmul,
        "nn.add": arithmetic.arithmetic(arith.AddiOp),
        "nn.sub": arithmetic.arithmetic(arith.SubiOp),
        "nn.mul": arithmetic.arithmetic(arith.MuliOp),
        "nn.maximum": arithmetic.extremum(largest=True),
        "nn.minimum": arithmetic.extremum(largest=False),
        **dict.fromkeys(("nn.relu", "nn.clip"), arithmetic.clamp),
        "nn.div": arithmetic.divide,
        "nn.table": arithmetic.table,
        **{f"nn.max_pool{rank}d": pooling.max_pool for rank in (1, 2, 3)},
        **{f"nn.avg_pool{rank}d": pooling.average_pool for rank in (1, 2, 3)},
        **{f"nn.global_avg_pool{rank}d": pooling.reduction("sum", _spatial) for rank in (1, 2, 3)},
        **{
            f"nn.reduce_{op}": pooling.reduction(name, _axes)
            for op, name in (("sum", "sum"), ("mean", "sum"), ("max", "max"), ("min", "min"))
        },
        "nn.slice": movement.slices,
        **{f"nn.conv_transpose{rank}d": transposed.lower_transposed for rank in (1, 2, 3)},
        "nn.resize_linear": resize.resize_linear,
        "nn.compare": ordering.compare,
        "nn.select": ordering.select,
        "nn.gather": ordering.gather,
        "nn.arg_max": ordering.extreme_place(smallest=False),
        "nn.arg_min": ordering.extreme_place(smallest=True),
    }
