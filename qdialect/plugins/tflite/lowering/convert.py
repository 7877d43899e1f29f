"""`nn` and `quant` as the builtin ops of TFLite files, as XNNPACK in LiteRT computes them.

An op on codes becomes the op of which that kernel gives the same codes: products round once, halves
to even, as ONNX Runtime's do; additions, rescales and functions are decided on tables of all codes.
What no kernel gives is refused (`compute-in-floats` makes floats between casts of it). Windows
have channels last, and transposes are written only where they do not cancel. See also
`qdialect.plugins.common.lowering.conversion`.

For example

    %1 = nn.conv2d %x, %w, %b pads [1, 1, 1, 1] : (!x, !w, !b) -> !y

becomes

    %1 = tflite.node "CONV_2D" (%x, %w, %b) options {padding = "SAME", ...} : (!x, !w, !b) -> !y
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.contract import Numerics, level_named
from qdialect.algebra.qparams import QParams
from qdialect.ir.context import session
from qdialect.plugins.common.lowering.conversion import (
    QuantizedInterface,
    TargetDialect,
    convert_module,
)
from qdialect.plugins.common.lowering.emitter import Lowering
from qdialect.plugins.common.lowering.floats.rows import joined_rows
from qdialect.plugins.common.lowering.preconditions import reduced_dimensions, spatial_dimensions
from qdialect.plugins.tflite.lowering import (
    convolution,
    elementwise,
    floats,
    movement,
    ordering,
    products,
    reduction,
    rescale,
    resize,
    windows,
)
from qdialect.plugins.tflite.lowering.emitter import Emitter


@cache
def lowerings() -> Mapping[str, Lowering[Emitter]]:
    """The lowering of every op that has one, by name; for what only moves elements see
    `movement.move`."""
    codes: Mapping[str, Lowering[Emitter]] = {
        "quant.rescale": rescale.rescale,
        "quant.qcast": rescale.quantize,
        "quant.dcast": rescale.dequantize,
        "quant.scast": rescale.read_as,
        **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), convolution.convolution),
        **dict.fromkeys(("nn.conv_transpose1d", "nn.conv_transpose2d"), convolution.transposed),
        "nn.fully_connected": products.fully_connected,
        "nn.matmul": products.matmul,
        "nn.dynamic_matmul": products.matmul,
        **dict.fromkeys(("nn.dynamic_conv1d", "nn.dynamic_conv2d"), convolution.convolution),
        "nn.add": elementwise.arithmetic("ADD"),
        "nn.sub": elementwise.arithmetic("SUB"),
        "nn.mul": elementwise.arithmetic("MUL"),
        "nn.maximum": elementwise.extremum("MAXIMUM"),
        "nn.minimum": elementwise.extremum("MINIMUM"),
        **dict.fromkeys(("nn.relu", "nn.clip"), elementwise.clamp),
        **dict.fromkeys(elementwise.BUILTINS, elementwise.function),
        "nn.softmax": elementwise.softmax,
        "nn.table": elementwise.table,
        **dict.fromkeys(("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"), windows.max_pool),
        **dict.fromkeys(("nn.avg_pool1d", "nn.avg_pool2d"), reduction.average_pool),
        **{
            f"nn.global_avg_pool{rank}d": reduction.reduction("MEAN", spatial_dimensions)
            for rank in (1, 2, 3)
        },
        "nn.reduce_mean": reduction.reduction("MEAN", reduced_dimensions),
        "nn.reduce_sum": reduction.reduction("SUM", reduced_dimensions),
        "nn.reduce_max": reduction.reduction("REDUCE_MAX", reduced_dimensions),
        "nn.reduce_min": reduction.reduction("REDUCE_MIN", reduced_dimensions),
        **dict.fromkeys(("nn.reshape", "nn.flatten"), movement.reshape),
        "nn.compare": ordering.compare,
        "nn.select": ordering.select,
        "nn.gather": ordering.gather,
        "nn.top_k": ordering.top_k,
        "nn.arg_max": ordering.extreme_place(smallest=False),
        "nn.arg_min": ordering.extreme_place(smallest=True),
        "nn.resize_nearest": resize.nearest,
        "nn.depth_to_space": movement.depth_to_space,
        "nn.space_to_depth": movement.space_to_depth,
    }
    return {**joined_rows(codes, floats.rows()), "nn.resize_linear": resize.linear}


def dialect(numerics: Numerics = Numerics.TIES) -> TargetDialect[Emitter]:
    """TFLite, as a module is lowered to it; kernels may differ from ops as far as `numerics`
    allows."""
    return TargetDialect(
        "TFLite",
        "tflite",
        lambda session: Emitter(session, numerics),
        lowerings(),
        ("tflite.",),
        movement=movement.move,
        types=QuantizedInterface(_as_it_is, _as_it_is),
        dynamic=True,
    )


@dataclass(frozen=True)
class ConvertNnToTflite(ModulePass):
    """All functions of a module as ops of TFLite files; see the module."""

    name = "convert-nn-to-tflite"

    numerics: str = "ties"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Lower all functions; UnsupportedError (`tflite-...`)."""
        convert_module(session(ctx), op, dialect(level_named(self.numerics)))


def _as_it_is(e: Emitter, value: SSAValue, params: QParams) -> SSAValue:
    e.element(params)
    return value
