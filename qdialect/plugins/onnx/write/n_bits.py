"""Products with weights in blocks as MatMulNBits, and with levels (NF4) as MatMulBnb4.

That is where the model had them so, or where a product has to compute with its input as it is
(`onnx.n_bits`: the accuracy level); others go out as DequantizeLinear and MatMul.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from qdialect.algebra.qparams.levels import NORMAL_LEVELS
from qdialect.algebra.qparams.parameters import Layout, QParams, Storage
from qdialect.ir.ops import ConstantOp, MatMulOp, constant_array, shape_of
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.plugins.onnx.dialect import N_BITS
from qdialect.plugins.onnx.write.narrow_scales import write_scales
from qdialect.plugins.onnx.write.quantization import packed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.write.exporter import Exporter

_BITS = {"u2": 2, "u4": 4, "u8": 8}
_EXPRESSED = ("f32", "f16")
_UINT8 = 2
_NF4 = 1
"""The `quant_type` of MatMulBnb4 whose table is that of the format `nf4`."""


def packed_weight(op: Operation) -> tuple[ConstantOp, QParams] | None:
    """The quantized weight of a product that is written as MatMulNBits."""
    if not isinstance(op, MatMulOp) or N_BITS not in op.attributes:
        return None
    cast_op = op.rhs.owner
    if not isinstance(cast_op, DCastOp) or not isinstance(cast_op.input.owner, ConstantOp):
        return None
    element = quant_element(cast_op.input.type)
    if element is None or element.qparams.expressed not in _EXPRESSED:
        return None
    qparams, shape = element.qparams, shape_of(cast_op.input)
    if not _is_level(qparams.storage) and unsigned(qparams).storage.spelling not in _BITS:
        return None
    if qparams.layout is not Layout.BLOCK or len(shape) != 2:
        return None
    block = dict(qparams.blocks).get(0, 1)
    if qparams.grid[1] != shape[1] or block < 16 or block & (block - 1):
        return None
    return cast_op.input.owner, qparams


def _is_level(storage: Storage) -> bool:
    """Whether codes name the levels of MatMulBnb4."""
    return storage == NORMAL_LEVELS


def unsigned(qparams: QParams) -> QParams:
    """The same numbers on codes without a sign."""
    storage = qparams.storage
    plain = not storage.is_float and storage.quantile is None
    return qparams.with_signedness(False) if plain else qparams


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
    """Write `op` as MatMulNBits, or with levels as MatMulBnb4; False if it is none."""
    found = packed_weight(op)
    if found is None:
        return False
    import numpy as np

    constant, qparams = found
    k, n = shape_of(constant.result)
    codes: NDArray[Any] = constant_array(constant, exporter.ctx.blobs).T
    graph, name = exporter.graph, exporter.key(constant)
    scales = qparams.scale_array().T.reshape(-1)
    block = dict(qparams.blocks)[0]
    if _is_level(qparams.storage):
        pairs = codes.reshape(-1, 2).astype(np.uint8)
        raw = ((pairs[:, 0] << 4) | pairs[:, 1]).tobytes()
        stored = graph.initializer(name, _UINT8, (len(raw),), raw)
        steps = write_scales(graph, f"{name}_scales", scales, qparams.expressed, exporter.opset)
        inputs = [exporter.tensor(op.lhs), stored, steps]
        attributes = {"K": k, "N": n, "block_size": block, "quant_type": _NF4}
        graph.node("MatMulBnb4", inputs, [output], key, "com.microsoft", **attributes)
        return True
    codes = codes.astype(np.int64) - qparams.storage.full_range[0]
    qparams = unsigned(qparams)
    bits, blocks = _BITS[qparams.storage.spelling], k // block
    raw = packed(np.ascontiguousarray(codes), bits)
    inputs = [
        exporter.tensor(op.lhs),
        graph.initializer(name, _UINT8, (n, blocks, block * bits // 8), raw),
    ]
    inputs.append(write_scales(graph, f"{name}_scales", scales, qparams.expressed, exporter.opset))
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
