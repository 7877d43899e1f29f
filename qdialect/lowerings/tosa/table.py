"""Which lowering an op has: the one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.ir import Operation

from qdialect.lowerings.emitter import Lowering
from qdialect.lowerings.tosa import contraction, division, elementwise, ordering, pooling
from qdialect.lowerings.tosa.emitter import Emitter
from qdialect.lowerings.tosa.rescale import lower_rescale
from qdialect.lowerings.tosa.resize import resize_linear
from qdialect.lowerings.tosa.transposed import lower_transposed
from qdialect.ops.shapes import normalize_axes


def _spatial(op: Operation, rank: int) -> Sequence[int]:
    return range(2, rank)


def _axes(op: Operation, rank: int) -> Sequence[int]:
    from qdialect.ops.base import NNOp

    assert isinstance(op, NNOp)
    return normalize_axes(op.values["axes"], rank)


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that TOSA can express, by name, but for those that only move
    elements (`movement.move`)."""
    return {
        "quant.rescale": lower_rescale,
        "quant.scast": elementwise.read_as,
        **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), contraction.lower_convolution),
        "nn.fully_connected": contraction.lower_fully_connected,
        "nn.matmul": contraction.lower_matmul,
        **{f"nn.{n}": elementwise.arithmetic(n) for n in ("add", "sub", "mul")},
        **{f"nn.{n}": elementwise.extremum(n) for n in ("maximum", "minimum")},
        **dict.fromkeys(("nn.relu", "nn.clip"), elementwise.clamp),
        "nn.div": division.divide,
        "nn.table": elementwise.table,
        **{f"nn.conv_transpose{rank}d": lower_transposed for rank in (1, 2, 3)},
        **{f"nn.max_pool{rank}d": pooling.max_pool for rank in (1, 2, 3)},
        **{f"nn.avg_pool{rank}d": pooling.average_pool for rank in (1, 2, 3)},
        **{f"nn.global_avg_pool{rank}d": pooling.reduction("sum", _spatial) for rank in (1, 2, 3)},
        **{
            f"nn.reduce_{op}": pooling.reduction(name, _axes)
            for op, name in (("sum", "sum"), ("mean", "sum"), ("max", "max"), ("min", "min"))
        },
        "nn.resize_linear": resize_linear,
        "nn.compare": ordering.compare,
        "nn.arg_max": ordering.extreme_place(smallest=False),
        "nn.arg_min": ordering.extreme_place(smallest=True),
        "nn.select": ordering.select,
        "nn.gather": ordering.gather,
        "nn.top_k": ordering.no_top_k,
    }
