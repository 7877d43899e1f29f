"""`MatMulNBits` and `MatMulBnb4` of `com.microsoft`: products with a weight quantized in blocks.

    MatMulNBits(x, w)  ->  nn.matmul %x, quant.dcast %w

The weight [K, N] has a scale and a zero point for every `block_size` elements of a column.
Nodes with permuted rows (`g_idx`), a last block that is not full, zero points that are
floats, or parameters that are no constants stay ONNX nodes.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams.levels import NORMAL_LEVELS
from qdialect.algebra.qparams.parameters import QParams
from qdialect.errors import InputError
from qdialect.ir import ops as nn
from qdialect.ir.ops import KEY, make_constant
from qdialect.ir.quant import DCastOp, UniformType, element_type, with_element
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.onnx.dialect import ELEMENTS, N_BITS
from qdialect.plugins.onnx.read.compute import Results
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.quantization import shape_of
from qdialect.plugins.onnx.read.tensors import ELEMENT_NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer

_STORAGES = {2: "u2", 4: "u4", 8: "u8"}


def matmul(imp: Importer, node: Node) -> Results:
    """`MatMulNBits`, and its bias added."""
    bits, block = int(node.get("bits", 4)), int(node.get("block_size", 0))
    k, n = int(node.get("K", 0)), int(node.get("N", 0))
    kind = imp.type_of(node.input(0))
    if shape_of(kind) is None or element_type(kind) not in FLOATS or bits not in _STORAGES:
        return None
    if node.input(4) or node.get("weight_prepacked", 0) or min(k, n, block) < 1 or k % block:
        return None
    weight, scale = imp.static(node.input(1)), imp.statics.get(node.input(2))
    if weight is None or scale is None or ELEMENTS[scale.data_type] != element_type(kind):
        return None
    bias = imp.type_of(node.input(5))
    if node.input(5) and (shape_of(bias) is None or element_type(bias) != element_type(kind)):
        return None
    points = None
    if node.input(3):
        points = imp.static(node.input(3))
        if points is None or points.dtype.str != "|u1":
            return None
    codes = _codes(node, weight, bits, (n, k), "weight")
    element = _element(imp, node, bits, block, points)
    if element is None:
        return None
    output = "" if node.input(5) else node.output(0)
    product = _product(imp, node, codes.T, element, output, int(node.get("accuracy_level", 0)))
    if not node.input(5):
        return [product]
    return [imp.build(nn.AddOp, product, imp.value(node.input(5)), output=node.output(0))]


def matmul_of_levels(imp: Importer, node: Node) -> Results:
    """`MatMulBnb4` of the levels NF4; the others (FP4) stay a node."""
    import numpy as np

    k, n, block = (int(node.get(name, 0)) for name in ("K", "N", "block_size"))
    kind = imp.type_of(node.input(0))
    if shape_of(kind) is None or element_type(kind) not in FLOATS or min(k, n, block) < 1:
        return None
    if node.get("quant_type", -1) != 1 or node.get("transB", 1) != 1 or k % block or k % 2:
        return None
    weight, scale = imp.static(node.input(1)), imp.statics.get(node.input(2))
    if weight is None or scale is None or ELEMENTS[scale.data_type] != element_type(kind):
        return None
    scales = imp.static(node.input(2))
    if weight.dtype != np.uint8 or scales is None or scales.size * block != n * k:
        return None
    if weight.size * 2 != n * k:
        raise InputError(
            f"the weight has {weight.size} bytes, but {n} rows of {k} codes need {n * k // 2}",
            where=node.where,
            code="invalid-node",
        )
    steps = scales.reshape(n, -1).T.reshape(-1)
    if not (np.isfinite(steps) & (steps > 0)).all():
        return None
    halves = np.stack([weight.reshape(-1) >> 4, weight.reshape(-1) & 15], axis=1)
    expressed, blocks = ELEMENT_NAMES[ELEMENTS[scale.data_type]], [(0, block), (1, 1)]
    params = QParams.blockwise(
        NORMAL_LEVELS, blocks, (k // block, n), [float(s) for s in steps], None, expressed
    )
    return [_product(imp, node, halves.reshape(n, k).T, UniformType(params), node.output(0), 0)]


def _product(
    imp: Importer,
    node: Node,
    codes: NDArray[Any],
    element: UniformType,
    output: str,
    level: int,
) -> SSAValue:
    """The product with a weight [K, N] in codes, which is to be written so again."""
    node.names_inputs = False
    replace_makers(imp, node.input(2))
    constant = make_constant(codes.astype("u1"), element, imp.ctx.blobs)
    constant.attributes[KEY] = StringAttr(node.input(1))
    imp.emit(constant)
    kind = element_type(imp.type_of(node.input(0)))
    real = imp.emit(DCastOp(constant.result, with_element(constant.result.type, kind))).results[0]
    product = imp.build(nn.MatMulOp, imp.value(node.input(0)), real, output=output)
    cast("Any", product.owner).attributes[N_BITS] = IntegerAttr(level, i64)
    return product


def replace_makers(imp: Importer, name: str) -> None:
    """Let go of the ops that compute a parameter of constants, where nothing else reads them."""
    pending = [imp.values[name]] if name in imp.values else []
    while pending:
        op = pending.pop(0).owner
        if isinstance(op, Operation):
            imp.replaced.append(op)
            pending += op.operands


def _codes(
    node: Node, packed: NDArray[Any], bits: int, shape: tuple[int, int], what: str
) -> NDArray[Any]:
    """Rows of codes, lowest bits first, each row in whole bytes."""
    import numpy as np

    rows, columns = shape
    per_byte = 8 // bits
    if packed.size != rows * -(-columns // per_byte) or packed.dtype != np.uint8:
        raise InputError(
            f"the {what} has {packed.size} elements, but {rows} rows of {columns} codes of "
            f"{bits} bits need {rows * -(-columns // per_byte)} bytes",
            where=node.where,
            code="invalid-node",
        )
    bytes_ = packed.reshape(rows, -1, 1)
    codes = (bytes_ >> np.arange(0, 8, bits, dtype=np.uint8)) & ((1 << bits) - 1)
    return codes.reshape(rows, -1)[:, :columns]


def _element(
    imp: Importer, node: Node, bits: int, block: int, points: NDArray[Any] | None
) -> UniformType | None:
    """The type of the weight [K, N], or None for scales that no type has."""
    import numpy as np

    k, n = int(node.get("K", 0)), int(node.get("N", 0))
    scales = imp.static(node.input(2))
    if scales is None or scales.size != n * (k // block) or scales.dtype.kind != "f":
        return None
    steps = [float(s) for s in scales.reshape(n, -1).T.reshape(-1)]
    if not all(isfinite(s) and s > 0 for s in steps):
        return None
    zeros: NDArray[Any] = np.full((n, k // block), 1 << (bits - 1))
    if points is not None:
        zeros = _codes(node, points, bits, (n, k // block), "zero point")
    expressed = ELEMENT_NAMES[ELEMENTS[imp.statics[node.input(2)].data_type]]
    listed = [int(z) for z in zeros.T.reshape(-1)]
    blocks, grid = [(0, block), (1, 1)], (k // block, n)
    return UniformType(QParams.blockwise(_STORAGES[bits], blocks, grid, steps, listed, expressed))
