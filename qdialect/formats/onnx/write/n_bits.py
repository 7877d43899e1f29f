"""Products with weights in blocks as MatMulNBits, where the model had them so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from qdialect.dialects.onnx import DATA_TYPES, N_BITS
from qdialect.formats.onnx.write.quantization import packed
from qdialect.ops import ConstantOp, MatMulOp, constant_array, shape_of
from qdialect.qparams.parameters import Layout, QParams
from qdialect.quant import FLOAT_TYPES, DCastOp, quant_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.formats.onnx.write.exporter import Exporter

_BITS = {"u2": 2, "u4": 4, "u8": 8}
_DTYPES = {"f32": "<f4", "f16": "<f2"}
_UINT8 = 2


def packed_weight(op: Operation) -> tuple[ConstantOp, QParams] | None:
    """The quantized weight of a product that is written as MatMulNBits."""
    if not isinstance(op, MatMulOp) or N_BITS not in op.attributes:
        return None
    cast_op = op.rhs.owner
    if not isinstance(cast_op, DCastOp) or not isinstance(cast_op.input.owner, ConstantOp):
        return None
    element = quant_element(cast_op.input.type)
    if element is None or element.qparams.storage.spelling not in _BITS:
        return None
    if element.qparams.expressed not in _DTYPES:
        return None
    qparams, shape = element.qparams, shape_of(cast_op.input)
    if qparams.layout is not Layout.BLOCK or len(shape) != 2 or not qparams.storage.is_full_range:
        return None
    block = dict(qparams.blocks).get(0, 1)
    if qparams.grid[1] != shape[1] or block < 16 or block & (block - 1):
        return None
    return cast_op.input.owner, qparams


def is_packed_weight(op: Operation) -> bool:
    """A dequantized constant that is only read as such a weight."""
    return (
        isinstance(op, DCastOp)
        and isinstance(op.input.owner, ConstantOp)
        and op.result.first_use is not None
        and all(
            use.index == 1 and packed_weight(use.operation) is not None for use in op.result.uses
        )
    )


def write_n_bits(exporter: Exporter, op: MatMulOp, key: str, output: str) -> bool:
    """Write `op` as MatMulNBits; False if it is none."""
    found = packed_weight(op)
    if found is None:
        return False
    import numpy as np

    constant, qparams = found
    k, n = shape_of(constant.result)
    bits, block = _BITS[qparams.storage.spelling], dict(qparams.blocks)[0]
    blocks = k // block
    codes: NDArray[Any] = constant_array(constant, exporter.ctx.blobs).T
    graph, name = exporter.graph, exporter.key(constant)
    raw = packed(np.ascontiguousarray(codes), bits)
    inputs = [
        exporter.tensor(op.lhs),
        graph.initializer(name, _UINT8, (n, blocks, block * bits // 8), raw),
    ]
    scales = qparams.scale_array().T.reshape(-1)
    code = DATA_TYPES[FLOAT_TYPES[qparams.expressed]]
    inputs.append(
        graph.initializer(
            f"{name}_scales",
            code,
            (n * blocks,),
            scales.astype(_DTYPES[qparams.expressed]).tobytes(),
        )
    )
    zeros = qparams.zero_point_array().T
    if (zeros != 1 << (bits - 1)).any():
        wide = np.zeros((n, -(-blocks * bits // 8) * 8 // bits), np.int64)
        wide[:, :blocks] = zeros
        size = wide.size * bits // 8
        raw = packed(wide, bits)
        inputs.append(graph.initializer(f"{name}_zero_points", _UINT8, (size,), raw))
    level = cast("IntegerAttr[Any]", op.attributes[N_BITS]).value.data
    graph.node(
        "MatMulNBits",
        inputs,
        [output],
        key,
        "com.microsoft",
        K=k,
        N=n,
        bits=bits,
        block_size=block,
        accuracy_level=level or None,
    )
    return True
