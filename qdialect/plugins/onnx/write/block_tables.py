"""Rows picked from a table in blocks of 4 bits, as GatherBlockQuantized of `com.microsoft`.

    nn.gather (quant.dcast %codes), %i  ->  GatherBlockQuantized(codes, i, scales, zero points)

Only what is picked is dequantized; a DequantizeLinear in front of a Gather would make floats of
the whole table each time that the model runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from qdialect.algebra.qparams.parameters import Layout, QParams
from qdialect.ir.ops import ConstantOp, GatherOp, constant_array, shape_of
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.plugins.onnx.write.narrow_scales import write_scales
from qdialect.plugins.onnx.write.quantization import packed

if TYPE_CHECKING:
    from qdialect.plugins.onnx.write.exporter import Exporter

_STORAGES = ("i4", "u4")
_BITS, _MIDDLE, _UINT8 = 4, 8, 2
_EXPRESSED = ("f32", "f16")


def packed_table(op: Operation) -> tuple[ConstantOp, QParams] | None:
    """The table of an op that is written as GatherBlockQuantized."""
    if not isinstance(op, GatherOp) or op.values["axis"] != 0:
        return None
    cast_op = op.input.owner
    if not isinstance(cast_op, DCastOp) or not isinstance(cast_op.input.owner, ConstantOp):
        return None
    element = quant_element(cast_op.input.type)
    if element is None or element.qparams.layout is not Layout.BLOCK:
        return None
    params, shape = element.qparams, shape_of(cast_op.input)
    if params.storage.spelling not in _STORAGES or not params.storage.is_full_range:
        return None
    block = dict(params.blocks).get(1, 0)
    if len(shape) != 2 or params.storage.quantile is not None or params.expressed not in _EXPRESSED:
        return None
    if params.grid[0] != shape[0] or block < 16 or block & (block - 1):
        return None
    return cast_op.input.owner, params


def is_packed_table(op: Operation) -> bool:
    """A dequantized constant that is only read as such a table."""
    return (
        isinstance(op, DCastOp)
        and op.result.first_use is not None
        and all(
            use.index == 0 and packed_table(use.operation) is not None for use in op.result.uses
        )
    )


def write_table(exporter: Exporter, op: GatherOp, key: str, output: str) -> bool:
    """Write `op` as GatherBlockQuantized; False if it is none."""
    found = packed_table(op)
    if found is None:
        return False
    import numpy as np

    constant, params = found
    graph, name, scales = exporter.graph, exporter.key(constant), params.scale_array()
    codes = constant_array(constant, exporter.ctx.blobs).astype(np.int64) - params.storage.min
    shape = (codes.shape[0], codes.shape[1] // 2)
    inputs = [
        graph.initializer(name, _UINT8, shape, packed(codes, _BITS)),
        exporter.tensor(op.indices),
        write_scales(graph, f"{name}_scales", scales, params.expressed, exporter.opset),
    ]
    zeros = params.zero_point_array() - params.storage.min
    if (zeros != _MIDDLE).any():
        # Rows are in whole bytes.
        zeros = np.pad(zeros, ((0, 0), (0, zeros.shape[1] % 2)))
        shape = (zeros.shape[0], zeros.shape[1] // 2)
        raw = packed(zeros, _BITS)
        inputs.append(graph.initializer(f"{name}_zero_points", _UINT8, shape, raw))
    attributes = {"gather_axis": 0, "quantize_axis": 1, "bits": _BITS}
    attributes["block_size"] = dict(params.blocks)[1]
    graph.node("GatherBlockQuantized", inputs, [output], key, "com.microsoft", **attributes)
    return True
