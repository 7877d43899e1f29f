"""QOperator nodes: ONNX's QLinear ops and those of `com.microsoft`, as quantized `nn` ops.

A QLinear op is defined as dequantize, op in real numbers, quantize half to even, which
is what a quantized `nn` op means.  Kernels of ONNX Runtime come close to that: what each
gives away is in `qdialect/plugins/onnx/write/kernels.py`.  The op is marked (`nn.kernel`), so that
it is written as that kernel again and no rewrite that changes its arithmetic is `exact`;
QLinearConcat and QLinearWhere give what rescales in float32 and a movement give.  Nodes whose
qparams are not constants, activations with several scales, and channels-last layouts stay ONNX
nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir import ops as nn
from qdialect.ir.ops.base import KERNEL
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import (
    RescaleOp,
    UniformType,
    element_type,
    expressed_type,
    quant_element,
    with_element,
)
from qdialect.plugins.onnx.dialect import STORED_TRANSPOSED
from qdialect.plugins.onnx.read.compute import convolution_window
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.quantization import Place, element_at, shape_of, storage_name, under
from qdialect.plugins.onnx.read.windows import pool_window

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None
Rule = Callable[["Importer", Node], Results]


@dataclass(frozen=True)
class Read:
    """Positions among a node's inputs of a tensor, its scale and its zero point.

    `axis`: the dimension that several scales go along; None where one scale is needed.
    """

    tensor: int
    scale: int
    zero: int
    axis: int | None = None


_FIRST, _SECOND = Read(0, 1, 2), Read(3, 4, 5)
_UNARY = (_FIRST,)
_BINARY = (_FIRST, _SECOND)
_MS = "com.microsoft"

READS: Mapping[tuple[str, str], Sequence[Read]] = {
    ("", "QLinearConv"): (_FIRST, Read(3, 4, 5, axis=0)),
    (_MS, "QLinearConv"): (_FIRST, Read(3, 4, 5, axis=0)),
    ("", "QLinearMatMul"): (_FIRST, Read(3, 4, 5, axis=-1)),
    (_MS, "QGemm"): (_FIRST, Read(3, 4, 5, axis=-1)),
    (_MS, "MatMulIntegerToFloat"): (Read(0, 2, 4), Read(1, 3, 5, axis=-1)),
    (_MS, "QLinearAdd"): _BINARY,
    (_MS, "QLinearMul"): _BINARY,
    (_MS, "QLinearSigmoid"): _UNARY,
    (_MS, "QLinearLeakyRelu"): _UNARY,
    (_MS, "QLinearSoftmax"): _UNARY,
    (_MS, "QLinearAveragePool"): _UNARY,
    (_MS, "QLinearGlobalAveragePool"): _UNARY,
    (_MS, "QLinearReduceMean"): _UNARY,
    (_MS, "QLinearWhere"): (Read(1, 2, 3), Read(4, 5, 6)),
}
"""What each op reads quantized; `QLinearConcat` has as many inputs as it likes."""


def reads_of(node: Node) -> Sequence[Read]:
    """What a node reads quantized, () for a node that is no QOperator node."""
    place = (node.domain, node.op_type)
    if place == (_MS, "QLinearConcat"):
        return [Read(i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)]
    return READS.get(place, ())


def read_element(imp: Importer, node: Node, read: Read, source: Attribute) -> UniformType | None:
    """How a node reads a tensor of type `source`; None if it does not say so in constants
    or in a way we have no type for."""
    storage, shape = storage_name(element_type(source)), shape_of(source)
    scale = imp.statics.get(node.input(read.scale))
    if storage is None or shape is None or scale is None:
        return None
    axis = read.axis
    if node.op_type == "QGemm" and axis is not None and node.get("transB", 0):
        axis = 0
    if axis is None and list(scale.dims) not in ([], [1]):
        return None
    if len(scale.dims) > 1:
        return None
    place = Place(node.input(read.scale), node.input(read.zero), axis or 0)
    return element_at(imp, node, place, storage, shape)


@dataclass(frozen=True)
class _Quantized:
    """The quantized operands of a node under one expressed type, not yet values."""

    imp: Importer
    node: Node
    names: list[str]
    elements: list[UniformType]

    @staticmethod
    def of(imp: Importer, node: Node) -> _Quantized | None:
        """None if any operand stays a plain integer tensor."""
        names: list[str] = []
        elements: list[UniformType] = []
        for read in reads_of(node):
            name = node.input(read.tensor)
            element = read_element(imp, node, read, imp.type_of(name))
            if element is None:
                return None
            names.append(name)
            elements.append(element)
        if len({element.qparams.expressed for element in elements}) != 1:
            return None
        node.names_inputs = False
        return _Quantized(imp, node, names, elements)

    def times(self, index: int, factor: float) -> _Quantized | None:
        """The same with the numbers of an operand multiplied; None if a file could not
        hold the scales."""
        if factor == 1.0:
            return self
        qparams = self.elements[index].qparams
        scales = [scale * factor for scale in qparams.scale_list()]
        if not all(s > 0 and s == round_to_format(s, qparams.expressed) for s in scales):
            return None
        zeros = qparams.zero_point_list()
        made = (
            QParams.per_tensor(qparams.storage, scales[0], zeros[0], qparams.expressed)
            if qparams.axis is None
            else QParams.per_axis(qparams.storage, qparams.axis, scales, zeros, qparams.expressed)
        )
        elements = [*self.elements]
        elements[index] = UniformType(made)
        return _Quantized(self.imp, self.node, self.names, elements)

    def shape(self, index: int) -> tuple[int, ...]:
        found = shape_of(self.imp.type_of(self.names[index]))
        assert found is not None
        return found

    def value(self, index: int) -> SSAValue:
        return under(self.imp, self.names[index], self.elements[index])

    def values(self) -> list[SSAValue]:
        return [self.value(index) for index in range(len(self.names))]

    def result(self, scale: int, zero: int) -> UniformType | None:
        """The quantized type of the result, which has one scale."""
        name, first = self.node.input(zero), self.elements[0].qparams
        given = self.imp.statics.get(self.node.input(scale))
        if given is None or list(given.dims) not in ([], [1]):
            return None
        storage: str | None = first.storage.spelling
        if name:
            zeros = self.imp.statics.get(name)
            if zeros is None:
                return None
            storage = storage_name(self.imp.loaded.tensors.element(zeros))
        place = Place(self.node.input(scale), name)
        element = element_at(self.imp, self.node, place, storage, ())
        if element is None or element.qparams.expressed != first.expressed:
            return None
        return element

    def bias(self, name: str) -> SSAValue | None:
        """An i32 bias in steps of input scale times weight scale; None if it is none."""
        kind = self.imp.type_of(name)
        if element_type(kind) != IntegerType(32) and storage_name(element_type(kind)) != "i32":
            return None
        lhs, rhs = (element.qparams for element in self.elements[:2])
        scales = [lhs.scale * scale for scale in rhs.scale_list()]
        made = (
            QParams.per_tensor("i32", scales[0], 0, lhs.expressed)
            if rhs.is_per_tensor
            else QParams.per_axis("i32", 0, scales, None, lhs.expressed)
        )
        return under(self.imp, name, UniformType(made))


def simple(kind: type[Any], *result: int, **defaults: Any) -> Rule:
    """An op of the same attributes, `defaults` being ONNX's; scale and zero point of the
    result are at the positions `result`."""

    def rule(imp: Importer, node: Node) -> Results:
        found = _Quantized.of(imp, node)
        element = found and found.result(*result)
        if found is None or element is None:
            return None
        given = {name: node.get(name, value) for name, value in defaults.items()}
        values = found.values()
        return [imp.build(kind, *values, output=node.output(0), element=element, **given)]

    return rule


def softmax(imp: Importer, node: Node) -> Results:
    """`QLinearSoftmax`; before opset 13 it normalizes all dimensions from `axis` on.

    The runtime's kernel may be a step low anywhere.
    """
    rank = len(shape_of(imp.type_of(node.input(0))) or ())
    axis = int(node.get("axis", -1))
    if int(node.get("opset", 13)) < 13 and axis not in (-1, rank - 1):
        return None
    return simple(nn.SoftmaxOp, 3, 4, axis=-1)(imp, node)


def conv(imp: Importer, node: Node) -> Results:
    """`QLinearConv`, its bias in steps of the product of the scales."""
    found = _Quantized.of(imp, node)
    element = found and found.result(6, 7)
    if found is None or element is None or node.get("channels_last", 0):
        return None
    shapes = [found.shape(0), found.shape(1)]
    window = convolution_window(node, shapes)
    if window is None or DYNAMIC in shapes[1]:
        return None
    operands = _with_bias(found, 8)
    if operands is None:
        return None
    kind = nn.CONVOLUTIONS[len(shapes[0]) - 3]
    groups = int(node.get("group", 1))
    built = imp.build(
        kind, *operands, output=node.output(0), element=element, groups=groups, **window
    )
    return [built]


def _with_bias(found: _Quantized, position: int) -> list[SSAValue] | None:
    name = found.node.input(position)
    if not name:
        return found.values()
    bias = found.bias(name)
    return None if bias is None else [*found.values(), bias]


def gemm(imp: Importer, node: Node) -> Results:
    """`QGemm` with a vector C, as `nn.fully_connected`; without a scale for the result,
    it is a float.  The factor alpha is in the scales of the weight, and so of C."""
    from qdialect.plugins.onnx.read.transposed import transposed_constant

    found = _Quantized.of(imp, node)
    found = found and found.times(1, float(node.get("alpha", 1.0)))
    if found is None or node.flag("transA", False):
        return None
    element = expressed_type(found.elements[0].qparams) if not node.input(7) else found.result(7, 8)
    weight = found.shape(1)
    if element is None or len(weight) != 2 or len(found.shape(0)) != 2:
        return None
    turned = node.flag("transB", False)
    outputs = weight[0] if turned else weight[1]
    if node.input(6) and shape_of(imp.type_of(node.input(6))) != (outputs,):
        return None
    if not turned and found.names[1] not in imp.statics:
        return None
    operands = _with_bias(found, 6)
    if operands is None:
        return None
    if not turned:
        constant = transposed_constant(imp, operands[1])
        assert constant is not None
        operands[1] = constant
    result = imp.build(nn.FullyConnectedOp, *operands, output=node.output(0), element=element)
    if not turned:
        cast("Any", result.owner).attributes[STORED_TRANSPOSED] = UnitAttr()
    return [result]


def matmul(imp: Importer, node: Node) -> Results:
    """`QLinearMatMul`; several scales are those of the columns of a matrix."""
    found = _Quantized.of(imp, node)
    element = found and found.result(6, 7)
    if found is None or element is None or not _columns(found):
        return None
    return [imp.build(nn.MatMulOp, *found.values(), output=node.output(0), element=element)]


def matmul_to_float(imp: Importer, node: Node) -> Results:
    """`MatMulIntegerToFloat`: the product as floats, and a bias added."""
    found = _Quantized.of(imp, node)
    if found is None or not _columns(found):
        return None
    element, bias = expressed_type(found.elements[0].qparams), imp.type_of(node.input(6))
    if node.input(6) and (shape_of(bias) is None or element_type(bias) != element):
        return None
    if node.input(6) and len(found.shape(1)) < 2:
        return None  # the runtime adds it to columns, and there are none
    product = imp.build(
        nn.MatMulOp,
        *found.values(),
        output="" if node.input(6) else node.output(0),
        element=element,
    )
    if not node.input(6):
        return [product]
    return [imp.build(nn.AddOp, product, imp.value(node.input(6)), output=node.output(0))]


def _columns(found: _Quantized) -> bool:
    return found.elements[1].qparams.is_per_tensor or len(found.shape(1)) == 2


def average_pool(imp: Importer, node: Node) -> Results:
    """`QLinearAveragePool`.  The runtime's i8 kernel rounds ties away from zero."""
    found = _Quantized.of(imp, node)
    element = found and found.result(3, 4)
    if found is None or element is None or node.get("channels_last", 0):
        return None
    shape = found.shape(0)
    window = pool_window(node, shape)
    if window is None:
        return None
    include = node.flag("count_include_pad", False)
    kind = nn.AVERAGE_POOLS[len(shape) - 3]
    built = imp.build(
        kind,
        found.value(0),
        output=node.output(0),
        element=element,
        count_include_pad=include,
        **window,
    )
    return [built]


def global_average_pool(imp: Importer, node: Node) -> Results:
    """`QLinearGlobalAveragePool`."""
    found = _Quantized.of(imp, node)
    element = found and found.result(3, 4)
    if found is None or element is None or node.get("channels_last", 0):
        return None
    rank = len(found.shape(0))
    if rank not in range(3, 6):
        return None
    kind = nn.GLOBAL_AVERAGE_POOLS[rank - 3]
    return [imp.build(kind, found.value(0), output=node.output(0), element=element)]


def reduce_mean(imp: Importer, node: Node) -> Results:
    """`QLinearReduceMean`; the runtime has no kernel for it."""
    found = _Quantized.of(imp, node)
    element = found and found.result(3, 4)
    if found is None or element is None:
        return None
    shape = found.shape(0)
    axes = node.get("axes", ()) or tuple(range(len(shape)))
    if 0 in [shape[a] for a in axes if -len(shape) <= a < len(shape)]:
        return None
    keep = node.flag("keepdims", True)
    x = found.value(0)
    built = imp.build(
        nn.ReduceMeanOp, x, output=node.output(0), element=element, axes=axes, keepdims=keep
    )
    return [built]


def concat(imp: Importer, node: Node) -> Results:
    """`QLinearConcat`: rescales into the result's qparams, and a concatenation."""
    found = _Quantized.of(imp, node) if len(node.inputs) > 2 else None
    element = found and found.result(0, 1)
    if found is None or element is None or not _same_storage(found, element):
        return None
    values = _rescaled(found, element)
    axis = int(node.get("axis", 0))
    return [imp.build(nn.ConcatOp, *values, output=node.output(0), axis=axis)]


def where(imp: Importer, node: Node) -> Results:
    """`QLinearWhere`: rescales into the result's qparams, and a choice."""
    found = _Quantized.of(imp, node)
    element = found and found.result(7, 8)
    condition = imp.type_of(node.input(0))
    if found is None or element is None or not _same_storage(found, element):
        return None
    if shape_of(condition) is None or element_type(condition) != IntegerType(1):
        return None
    values = [imp.value(node.input(0)), *_rescaled(found, element)]
    return [imp.build(nn.SelectOp, *values, output=node.output(0))]


def _same_storage(found: _Quantized, element: UniformType) -> bool:
    return all(e.qparams.storage == element.qparams.storage for e in found.elements)


def _rescaled(found: _Quantized, element: UniformType) -> list[SSAValue]:
    values: list[SSAValue] = []
    for value in found.values():
        if element_type(value.type) != element:
            op = RescaleOp(value, with_element(value.type, element))
            value = found.imp.emit(op).results[0]
        values.append(value)
    return values


def _kernel(rule: Rule) -> Rule:
    """The op on codes that `rule` builds is defined by the kernel that the node names."""

    def marked(imp: Importer, node: Node) -> Results:
        results = rule(imp, node)
        pending = [value.owner for value in results or ()]
        for op in pending:
            if isinstance(op, Operation) and any(quant_element(v.type) for v in op.operands):
                op.attributes[KERNEL] = UnitAttr()
            elif isinstance(op, Operation):  # a bias is added to the floats that a kernel gives
                pending += [v.owner for v in op.operands]
        return results

    return marked


RULES: Mapping[tuple[str, str], Rule] = {
    ("", "QLinearConv"): _kernel(conv),
    (_MS, "QLinearConv"): _kernel(conv),
    ("", "QLinearMatMul"): _kernel(matmul),
    (_MS, "QGemm"): _kernel(gemm),
    (_MS, "MatMulIntegerToFloat"): _kernel(matmul_to_float),
    (_MS, "QLinearAdd"): _kernel(simple(nn.AddOp, 6, 7)),
    (_MS, "QLinearMul"): _kernel(simple(nn.MulOp, 6, 7)),
    (_MS, "QLinearSigmoid"): _kernel(simple(nn.SigmoidOp, 3, 4)),
    (_MS, "QLinearLeakyRelu"): _kernel(simple(nn.LeakyReluOp, 3, 4, alpha=0.009999999776482582)),
    (_MS, "QLinearSoftmax"): _kernel(softmax),
    (_MS, "QLinearAveragePool"): _kernel(average_pool),
    (_MS, "QLinearGlobalAveragePool"): _kernel(global_average_pool),
    (_MS, "QLinearReduceMean"): reduce_mean,
    (_MS, "QLinearConcat"): concat,
    (_MS, "QLinearWhere"): where,
}
