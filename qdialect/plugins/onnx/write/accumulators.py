"""Sums of integer products in 32 bits: MatMulInteger and ConvInteger.

An op of bytes whose result is an i32 in steps of the product of their scales stores the
sums themselves, which these nodes give.  QuantizeLinear, which would write any other
result, has no 32 bit form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import Accumulator
from qdialect.ir.ops import ConstantOp, NNOp, shape_of
from qdialect.ir.ops.declare import DECLARED, behavior_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.plugins.onnx.dialect import STORED_TRANSPOSED
from qdialect.plugins.onnx.write.quantization import storage_code, zero_point_bytes

if TYPE_CHECKING:
    from qdialect.plugins.onnx.write.exporter import Exporter

_BYTES = ("u8", "i8")
_KINDS = (nn.MatMulOp, nn.FullyConnectedOp, *nn.CONVOLUTIONS)
_LARGEST, _LARGEST_STEP = 2**31 - 1, 255
_FLOAT = 1
#: an i32 in steps this near to the product of the scales is the sum itself
_NEAR = 2.0**-32


def write_accumulator(exporter: Exporter, op: Operation, key: str, hint: str) -> bool:
    """Write `op` as integer products; False if it is none."""
    if not is_accumulator(op):
        return False
    graph, operands = exporter.graph, op.operands
    sides = [exporter.tensor(operands[0]), _weight(exporter, op)]
    zeros = [zero_points(exporter, operands[n], sides[n]) for n in (0, 1)]
    output = exporter.claim(op.results[0], hint)
    bias = len(operands) > 2
    target = graph.tensor(f"{output}_products") if bias else output
    inputs = [*sides, *zeros] if any(zeros) else sides
    while not inputs[-1]:
        inputs.pop()
    name = f"{key}_products" if bias else key
    if isinstance(op, nn.MatMulOp | nn.FullyConnectedOp):
        graph.node("MatMulInteger", inputs, [target], name)
    else:
        values = _values(op)
        graph.node(
            "ConvInteger",
            inputs,
            [target],
            name,
            dilations=values["dilations"],
            group=values["groups"],
            kernel_shape=shape_of(operands[1])[2:],
            pads=values["pads"],
            strides=values["strides"],
        )
    if bias:
        graph.node("Add", [target, _bias(exporter, op)], [output], key)
    return True


def is_accumulator(op: Operation) -> bool:
    """Whether `op` stores sums of products of bytes, which 32 bits hold."""
    behavior = behavior_of(op.name) if op.name in DECLARED else None
    if not isinstance(op, _KINDS) or behavior is None or behavior.accumulator is None:
        return False
    elements = [quant_element(value.type) for value in (*op.operands, *op.results)]
    qparams = [element.qparams for element in elements if element is not None]
    if len(qparams) != len(elements):
        return False
    (lhs, rhs), result, acc = qparams[:2], qparams[-1], behavior.accumulator
    depth = acc.depth(op)
    if depth == DYNAMIC or depth * _LARGEST_STEP**2 > _LARGEST:
        return False
    bytes_ = lhs.storage.spelling in _BYTES and rhs.storage.spelling in _BYTES
    return bytes_ and lhs.is_per_tensor and _is_sum(op, acc, lhs, rhs, result)


def _is_sum(op: Operation, acc: Accumulator, lhs: QParams, rhs: QParams, result: QParams) -> bool:
    storage = result.storage
    if storage.spelling != "i32" or not storage.is_full_range or any(result.zero_point_list()):
        return False
    if not rhs.is_per_tensor and rhs.axis != acc.rhs_axis(op):
        return False
    if not result.is_per_tensor and result.axis != acc.result_axis(op):
        return False
    products = [lhs.scale * scale for scale in rhs.scale_list()]
    steps = result.scale_list()
    count = max(len(products), len(steps))
    if {len(products), len(steps)} - {1, count}:
        return False
    pairs = zip(products * (count // len(products)), steps * (count // len(steps)), strict=True)
    return all(abs(product - step) <= _NEAR * step for product, step in pairs)


def _values(op: Operation) -> dict[str, Sequence[int]]:
    assert isinstance(op, NNOp)
    return op.values


def _weight(exporter: Exporter, op: Operation) -> str:
    """The stored integers of the weight, those of a fully connected op as [K, N]."""
    weight = op.operands[1]
    if not isinstance(op, nn.FullyConnectedOp):
        return exporter.tensor(weight)
    if STORED_TRANSPOSED in op.attributes and isinstance(weight.owner, ConstantOp):
        return exporter.constant(weight.owner, transposed=True)
    source = exporter.tensor(weight)
    turned = exporter.graph.tensor(f"{source}_transposed")
    exporter.graph.node("Transpose", [source], [turned], f"{turned}_node", perm=[1, 0])
    return turned


def zero_points(exporter: Exporter, value: SSAValue, tensor: str) -> str:
    """The zero points of a value, "" where they are 0; one for all if they agree."""
    element = quant_element(value.type)
    assert element is not None
    zeros = element.qparams.zero_point_list()
    if not any(zeros):
        return ""
    raw, shape = zero_point_bytes(element.qparams), (len(zeros),)
    if len(set(zeros)) == 1:
        raw, shape = raw[:1], ()
    code = storage_code(element.qparams)
    return exporter.graph.initializer(f"{tensor}_zero_point", code, shape, raw)


def _bias(exporter: Exporter, op: Operation) -> str:
    """The i32 bias, along the channels of the result."""
    bias = exporter.tensor(op.operands[2])
    below = len(shape_of(op.results[0])) - 2
    if isinstance(op, nn.FullyConnectedOp) or not below:
        return bias
    column = exporter.graph.tensor(f"{bias}_column")
    shape = exporter.graph.ints(f"{bias}_shape", [-1, *(1 for _ in range(below))])
    exporter.graph.node("Reshape", [bias, shape], [column], f"{column}_node")
    return column


def write_scaled(
    exporter: Exporter, op: DCastOp, source: str, output: str, key: str, names: Sequence[str]
) -> bool:
    """`output` = the sums times their scales, if `op` dequantizes such.

    Cast and Mul, which runtimes fuse with the products; DequantizeLinear they do not.
    """
    owner, element = op.input.owner, quant_element(op.input.type)
    if not isinstance(owner, Operation) or element is None or not is_accumulator(owner):
        return False
    qparams = element.qparams
    if qparams.expressed != "f32":
        return False
    import numpy as np

    scales = qparams.scale_array().astype(np.float32)
    if not qparams.is_per_tensor:
        below = len(shape_of(op.input)) - 1 - (qparams.axis or 0)
        scales = scales.reshape(-1, *(1 for _ in range(below)))
    graph = exporter.graph
    real = graph.tensor(f"{output}_sums")
    graph.node("Cast", [source], [real], f"{key}_Cast", to=_FLOAT)
    scale = graph.array(names[0] if names else f"{output}_scale", scales)
    graph.node("Mul", [real, scale], [output], key)
    return True
