"""`nn` and `quant` as StableHLO with quantized types.

An op of StableHLO on quantized types dequantizes, computes, and quantizes once, rounding to
even. So an op of `nn` that rounds once and to even is one there, and a `quant.rescale` by a
real number is `uniform_quantize`. Products are summed in 32 bits first (`split-rescale`),
which is what readers multiply codes in. What would be another number in exact arithmetic is
refused; the floats of a reader, and scales that f32 has no number for, may move what is within
2**-22 of a tie. See also `qdialect.plugins.common.lowering.conversion`.

For example

    %1 = nn.add %x, %y : (!x, !y) -> !z

becomes

    %1 = "stablehlo.add"(%x, %y) : (!x, !y) -> !z
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.qparams import QParams
from qdialect.ir.context import session
from qdialect.plugins.common.lowering.conversion import (
    QuantizedInterface,
    TargetDialect,
    convert_module,
)
from qdialect.plugins.common.lowering.emitter import Lowering
from qdialect.plugins.common.lowering.floats.kept import kept_node
from qdialect.plugins.common.lowering.floats.rows import float_rows, joined_rows
from qdialect.plugins.common.lowering.preconditions import reduced_dimensions, spatial_dimensions
from qdialect.plugins.stablehlo.lowering import (
    contraction,
    elementwise,
    normalization,
    ordering,
    pooling,
    rescale,
)
from qdialect.plugins.stablehlo.lowering.emitter import Emitter, supported_qparams
from qdialect.plugins.stablehlo.lowering.floats import StablehloWriter
from qdialect.plugins.stablehlo.lowering.movement import move


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that has one, by name; for what only moves elements see
    `movement.move`."""
    codes: Mapping[str, Lowering[Emitter]] = {
        "quant.rescale": rescale.rescale,
        "quant.qcast": rescale.quantize,
        "quant.dcast": rescale.dequantize,
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
        "nn.softmax": normalization.softmax,
        **{f"nn.max_pool{rank}d": pooling.max_pool for rank in (1, 2, 3)},
        **{f"nn.avg_pool{rank}d": pooling.average_pool for rank in (1, 2, 3)},
        **{
            f"nn.global_avg_pool{rank}d": pooling.reduction("add", spatial_dimensions)
            for rank in (1, 2, 3)
        },
        **{
            f"nn.reduce_{op}": pooling.reduction(name, reduced_dimensions)
            for op, name in (
                ("sum", "add"),
                ("mean", "add"),
                ("max", "maximum"),
                ("min", "minimum"),
            )
        },
        "nn.compare": ordering.compare,
        "nn.select": ordering.select,
        "nn.gather": ordering.gather,
        "nn.arg_max": ordering.extreme_place(smallest=False),
        "nn.arg_min": ordering.extreme_place(smallest=True),
        **{f"nn.conv_transpose{rank}d": contraction.transposed for rank in (1, 2, 3)},
    }
    floats = {**float_rows(StablehloWriter), "onnx.node": kept_node(StablehloWriter)}
    return joined_rows(codes, floats)


def dialect() -> TargetDialect[Emitter]:
    """StableHLO, as a module is lowered to it."""
    return TargetDialect(
        "StableHLO",
        "stablehlo",
        Emitter,
        lowerings(),
        ("stablehlo.",),
        movement=move,
        types=QuantizedInterface(_as_it_is, _as_it_is),
    )


@dataclass(frozen=True)
class ConvertNnToStablehlo(ModulePass):
    """All functions of a module in StableHLO; see the module."""

    name = "convert-nn-to-stablehlo"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Lower all functions; UnsupportedError (`stablehlo-...`)."""
        convert_module(session(ctx), op, dialect())


def _as_it_is(e: Emitter, value: SSAValue, params: QParams) -> SSAValue:
    supported_qparams(params)
    return value
