"""Which lowering an op has: the one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.ir import Operation

from qdialect.lowerings.emitter import Lowering
from qdialect.lowerings.stablehlo import contraction, elementwise, functions, pooling, requantize
from qdialect.lowerings.stablehlo.emitter import Emitter
from qdialect.ops.shapes import normalize_axes


def _spatial(op: Operation, rank: int) -> Sequence[int]:
    return range(2, rank)


def _axes(op: Operation, rank: int) -> Sequence[int]:
    from qdialect.ops.base import NNOp

    assert isinstance(op, NNOp)
    return normalize_axes(op.values["axes"], rank)


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that has one, by name; for what only moves elements see
    `movement.move`."""
    return {
        "quant.rescale": requantize.rescale,
        "quant.qcast": requantize.quantize,
        "quant.dcast": requantize.dequantize,
        **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), contraction.convolution),
        "nn.fully_connected": contraction.fully_connected,
        "nn.matmul": contraction.matmul,
        "nn.add": elementwise.arithmetic("add"),
        "nn.sub": elementwise.arithmetic("subtract"),
        "nn.mul": elementwise.arithmetic("multiply"),
        "nn.maximum": elementwise.extremum("maximum"),
        "nn.minimum": elementwise.extremum("minimum"),
        **dict.fromkeys(("nn.relu", "nn.clip"), elementwise.clamp),
        "nn.table": elementwise.table,
        "nn.softmax": functions.softmax,
        **{f"nn.max_pool{rank}d": pooling.max_pool for rank in (1, 2, 3)},
        **{f"nn.avg_pool{rank}d": pooling.average_pool for rank in (1, 2, 3)},
        **{f"nn.global_avg_pool{rank}d": pooling.reduction("add", _spatial) for rank in (1, 2, 3)},
        **{
            f"nn.reduce_{op}": pooling.reduction(name, _axes)
            for op, name in (
                ("sum", "add"),
                ("mean", "add"),
                ("max", "maximum"),
                ("min", "minimum"),
            )
        },
    }
