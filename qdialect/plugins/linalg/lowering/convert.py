"""`nn` and `quant` as linalg, arith and tensor, op by op and bit by bit.

For compilers without TOSA. Loops are `linalg.generic`, or the named op where one says the
same; codes are signless integers of at least 8 bits; zero points of constant weights are
folded into the biases; rescales are 64-bit integer arithmetic with the rounding they declare.
Ops of these dialects stay as they are. `casts` says how quantizing floats and dequantizing is
written: `arith`, `quant` (functions then keep quantized types) or `iree`, see
`qdialect.plugins.linalg.lowering.casts`. See also
`qdialect.plugins.common.lowering.conversion`.

For example

    %1 = nn.max_pool2d %x ...

becomes

    %1 = linalg.generic {indexing_maps = ..., iterator_types = ...} ins(%x, %window) ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

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
from qdialect.plugins.linalg.iree_linalg_ext import IREE_LINALG_EXT
from qdialect.plugins.linalg.lowering import (
    contraction,
    elementwise,
    movement,
    ordering,
    pooling,
    resize,
)
from qdialect.plugins.linalg.lowering.casts import CASTS, codes_of, quantized_value
from qdialect.plugins.linalg.lowering.emitter import Emitter
from qdialect.plugins.linalg.lowering.floats import LinalgWriter
from qdialect.plugins.linalg.lowering.movement import move

_UNCHANGED = ("arith.", "linalg.", "math.", "tensor.")


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that has one, by name; for casts see `casts.CASTS`, for
    what only moves elements `movement.move`."""
    codes: Mapping[str, Lowering[Emitter]] = {
        "quant.rescale": elementwise.rescale,
        **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), contraction.convolution),
        "nn.fully_connected": contraction.fully_connected,
        "nn.matmul": contraction.matmul,
        "nn.add": elementwise.arithmetic(arith.AddiOp),
        "nn.sub": elementwise.arithmetic(arith.SubiOp),
        "nn.mul": elementwise.arithmetic(arith.MuliOp),
        "nn.maximum": elementwise.extremum(largest=True),
        "nn.minimum": elementwise.extremum(largest=False),
        **dict.fromkeys(("nn.relu", "nn.clip"), elementwise.clamp),
        "nn.div": elementwise.divide,
        "nn.table": elementwise.table,
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
        "nn.slice": movement.slices,
        **{f"nn.conv_transpose{rank}d": contraction.lower_transposed for rank in (1, 2, 3)},
        "nn.resize_linear": resize.resize_linear,
        "nn.compare": ordering.compare,
        "nn.select": ordering.select,
        "nn.gather": ordering.gather,
        "nn.arg_max": ordering.extreme_place(smallest=False),
        "nn.arg_min": ordering.extreme_place(smallest=True),
    }
    floats = {**float_rows(LinalgWriter), "onnx.node": kept_node(LinalgWriter)}
    return joined_rows(codes, floats)


Casts = Literal["arith", "quant", "iree"]


def dialect(casts: Casts) -> TargetDialect[Emitter]:
    """linalg, arith and tensor, as a module is lowered to them."""
    return TargetDialect(
        "linalg",
        "linalg",
        Emitter,
        {**lowerings(), **CASTS[casts]},
        _UNCHANGED,
        ("iree_linalg_ext.",),
        movement=move,
        types=QuantizedInterface(codes_of, quantized_value) if casts == "quant" else None,
    )


@dataclass(frozen=True)
class ConvertNnToLinalg(ModulePass):
    """All functions of a module in linalg; see the module."""

    name = "convert-nn-to-linalg"

    casts: Casts = "arith"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Lower all functions; UnsupportedError (`linalg-...`)."""
        qctx = session(ctx)
        convert_module(qctx, op, dialect(self.casts))
        if self.casts == "iree" and IREE_LINALG_EXT.name not in qctx.registered_dialect_names:
            qctx.load_dialect(IREE_LINALG_EXT)
