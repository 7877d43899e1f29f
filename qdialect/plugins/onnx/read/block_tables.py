"""`GatherBlockQuantized` of `com.microsoft`: rows picked from a table in blocks of 4 bits.

    GatherBlockQuantized(codes, i, scales)  ->  nn.gather (quant.dcast %codes), %i

Codes are two to a byte, the first in its lower half. Other tables (of other axes, bits and types)
and parameters that are no constants stay ONNX nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, StringAttr

from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir import ops as nn
from qdialect.ir.ops import KEY, make_constant
from qdialect.ir.quant import DCastOp, UniformType, with_element
from qdialect.plugins.onnx.dialect import ELEMENTS
from qdialect.plugins.onnx.read.compute import Results
from qdialect.plugins.onnx.read.importer import Importer
from qdialect.plugins.onnx.read.n_bits import replace_makers
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.tensors import ELEMENT_NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTES = IntegerType(8, Signedness.UNSIGNED)


def gather(imp: Importer, node: Node) -> Results:
    """`GatherBlockQuantized` of rows of a matrix."""
    block, codes = int(node.get("block_size", 128)), imp.static(node.input(0))
    scale = imp.statics.get(node.input(2))
    scales = imp.static(node.input(2))
    axes = node.get("gather_axis", 0), node.get("quantize_axis", 1)
    if codes is None or scale is None or scales is None or axes != (0, 1) or codes.ndim != 2:
        return None
    if codes.dtype != np.uint8 or node.get("bits", 4) != 4:
        return None
    rows, depth = codes.shape[0], 2 * codes.shape[1]
    if ELEMENTS[imp.statics[node.input(0)].data_type] != _BYTES or depth % block:
        return None
    if scales.shape != (rows, depth // block):
        return None
    zeros = np.full(scales.shape, 8)
    if node.input(3):
        points = imp.static(node.input(3))
        if points is None or points.shape != (rows, -(-scales.shape[1] // 2)):
            return None
        zeros = _halves(points)[:, : scales.shape[1]]
    if not (np.isfinite(scales) & (scales > 0)).all():
        return None
    expressed = ELEMENTS[scale.data_type]
    params = QParams.blockwise(
        "u4",
        [(0, 1), (1, block)],
        scales.shape,
        [float(s) for s in scales.reshape(-1)],
        [int(z) for z in zeros.reshape(-1)],
        ELEMENT_NAMES[expressed],
    )
    node.names_inputs = False
    replace_makers(imp, node.input(2))
    constant = make_constant(_halves(codes), UniformType(params), imp.ctx.blobs)
    constant.attributes[KEY] = StringAttr(node.input(0))
    imp.emit(constant)
    kind = with_element(constant.result.type, expressed)
    real = imp.emit(DCastOp(constant.result, kind)).results[0]
    indices = imp.value(node.input(1))
    return [imp.build(nn.GatherOp, real, indices, output=node.output(0), axis=0)]


def _halves(array: NDArray[Any]) -> NDArray[np.uint8]:
    low, high = array & 15, array >> 4
    return np.stack([low, high], axis=2).reshape(len(array), -1).astype(np.uint8)
