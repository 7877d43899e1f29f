"""`nn` and `quant` as TOSA, op by op and bit by bit.

What rounds is a `quant.rescale` in fixed-point form already (`split-rescale`,
`convert-rescale`); see `qdialect.plugins.common.lowering.conversion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.passes import ModulePass

from qdialect.ir.context import session
from qdialect.plugins.common.lowering.conversion import TargetDialect, convert_module
from qdialect.plugins.common.lowering.emitter import Lowering
from qdialect.plugins.common.lowering.floats.rows import joined_rows
from qdialect.plugins.common.lowering.preconditions import reduced_dimensions, spatial_dimensions
from qdialect.plugins.tosa.lowering import (
    casts,
    contraction,
    elementwise,
    floats,
    ordering,
    pooling,
)
from qdialect.plugins.tosa.lowering.emitter import Emitter
from qdialect.plugins.tosa.lowering.movement import move
from qdialect.plugins.tosa.lowering.rescale import lower_rescale
from qdialect.plugins.tosa.lowering.resize import resize_linear


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that TOSA can express, by name, but for those that only move
    elements (`movement.move`)."""
    codes: Mapping[str, Lowering[Emitter]] = {
        "quant.rescale": lower_rescale,
        "quant.qcast": casts.quantize,
        "quant.dcast": casts.dequantize,
        "quant.scast": elementwise.read_as,
        **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), contraction.lower_convolution),
        "nn.fully_connected": contraction.lower_fully_connected,
        "nn.matmul": contraction.lower_matmul,
        **{f"nn.{n}": elementwise.arithmetic(n) for n in ("add", "sub", "mul")},
        **{f"nn.{n}": elementwise.extremum(n) for n in ("maximum", "minimum")},
        **dict.fromkeys(("nn.relu", "nn.clip"), elementwise.clamp),
        "nn.div": elementwise.divide,
        "nn.table": elementwise.table,
        **{f"nn.conv_transpose{rank}d": contraction.lower_transposed for rank in (1, 2, 3)},
        **{f"nn.max_pool{rank}d": pooling.max_pool for rank in (1, 2, 3)},
        **{f"nn.avg_pool{rank}d": pooling.average_pool for rank in (1, 2, 3)},
        **{
            f"nn.global_avg_pool{rank}d": pooling.reduction("sum", spatial_dimensions)
            for rank in (1, 2, 3)
        },
        **{
            f"nn.reduce_{op}": pooling.reduction(name, reduced_dimensions)
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
    return joined_rows(codes, floats.rows())


def dialect() -> TargetDialect[Emitter]:
    """TOSA, as a module is lowered to it."""
    rows, own = lowerings(), ("tosa.",)
    return TargetDialect("TOSA", "tosa", Emitter, rows, written=own, movement=move, index=i32)


@dataclass(frozen=True)
class ConvertNnToTosa(ModulePass):
    """All functions of a module in TOSA; see the module."""

    name = "convert-nn-to-tosa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Lower all functions; UnsupportedError (`tosa-...`)."""
        convert_module(session(ctx), op, dialect())
