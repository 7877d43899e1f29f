"""`MatMulInteger` and `ConvInteger`: sums of integer products, as accumulators.

    MatMulInteger(a, b, za, zb)  ->  nn.matmul %a, %b : (!a, !b) -> !quant.uniform<i32:f32, 1.0>

The operands are read with the zero points of the node and the scale they have, or 1, and
the result has the product of the scales: the sum itself is what is stored.  A product
that the 32 bits might not hold wraps in a runtime, so the node stays; and so it does
without constant zero points.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import Block, Operation, SSAValue

from qdialect.algebra.qparams.parameters import QParams
from qdialect.errors import InputError
from qdialect.ir import ops as nn
from qdialect.ir.ops import ConstantOp
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type, quant_element, with_element
from qdialect.plugins.onnx.read.compute import Results, convolution_window
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.quantization import shape_of, storage_name, under

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer

_BYTES = ("u8", "i8")
_LARGEST = 2**31 - 1
_LARGEST_STEP = 255


def matmul(imp: Importer, node: Node) -> Results:
    """`MatMulInteger`; the zero points of its second operand may be those of columns."""
    shapes = _shapes(imp, node)
    if shapes is None or not all(shapes) or not _fits(shapes[0][-1]):
        return None
    columns = len(shapes[1]) - 1 if len(shapes[1]) > 1 else None
    return _product(imp, node, shapes, columns, nn.MatMulOp)


def conv(imp: Importer, node: Node) -> Results:
    """`ConvInteger`; the zero points of its weight may be those of output channels."""
    shapes = _shapes(imp, node)
    if shapes is None:
        return None
    window = convolution_window(node, shapes)
    if window is None or not _fits(prod(shapes[1][1:])):
        return None
    kind = nn.CONVOLUTIONS[len(shapes[0]) - 3]
    groups = int(node.get("group", 1))
    return _product(imp, node, shapes, 0, kind, groups=groups, **window)


def _shapes(imp: Importer, node: Node) -> list[tuple[int, ...]] | None:
    found = [shape_of(imp.type_of(name)) for name in node.inputs[:2]]
    shapes = [shape for shape in found if shape is not None]
    return shapes if len(shapes) == 2 else None


def _fits(depth: int) -> bool:
    """Whether 32 bits hold a sum of this many products of bytes."""
    return depth != DYNAMIC and depth * _LARGEST_STEP**2 <= _LARGEST


def _product(
    imp: Importer,
    node: Node,
    shapes: Sequence[tuple[int, ...]],
    channels: int | None,
    kind: type[Any],
    **properties: Any,
) -> Results:
    given = [_element(imp, node, number, channels, shapes[number]) for number in (0, 1)]
    if given[0] is None or given[1] is None:
        return None
    lhs, rhs = given[0], given[1]
    node.names_inputs = False
    values = [under(imp, name, e) for name, e in zip(node.inputs, (lhs, rhs), strict=False)]
    sums = _sums(kind, shapes, lhs.qparams, rhs.qparams)
    return [imp.build(kind, *values, output=node.output(0), element=sums, **properties)]


def _sums(
    kind: type[Any], shapes: Sequence[tuple[int, ...]], lhs: QParams, rhs: QParams
) -> UniformType:
    """The i32 type of the sums of products."""
    scales = [lhs.scale * scale for scale in rhs.scale_list()]
    if len(set(scales)) == 1:
        return UniformType(QParams.per_tensor("i32", scales[0], 0, lhs.expressed))
    ranks = [len(shape) for shape in shapes]
    axis = max(ranks) - 1 - (ranks[0] == 1) if kind is nn.MatMulOp else 1
    return UniformType(QParams.per_axis("i32", axis, scales, None, lhs.expressed))


def _element(
    imp: Importer, node: Node, number: int, channels: int | None, shape: tuple[int, ...]
) -> UniformType | None:
    """How the node reads an operand: its zero points, and the scales it has, else 1."""
    declared = element_type(imp.type_of(node.input(number)))
    storage, name = storage_name(declared), node.input(2 + number)
    if storage not in _BYTES:
        return None
    zeros = [0]
    if name:
        found = imp.static(name)
        if found is None:
            return None
        given = storage_name(imp.loaded.tensors.element(imp.statics[name]))
        if given != storage:
            raise InputError(
                f"the zero point's type {given} is not the tensor's type {storage}",
                where=node.where,
                code="bad-qparams",
            )
        axis = channels if number else None
        if not _is_along(found, axis, shape):
            return None
        zeros = [int(z) for z in found.reshape(-1)]
    if isinstance(declared, UniformType) and declared.qparams.zero_point_list() == zeros:
        along = declared.qparams.is_per_tensor or (
            number == 1 and declared.qparams.axis == channels
        )
        if along and declared.qparams.expressed == "f32":
            return declared
    if len(set(zeros)) == 1:
        return UniformType(QParams.per_tensor(storage, 1.0, zeros[0], "f32"))
    assert channels is not None
    return UniformType(QParams.per_axis(storage, channels, [1.0] * len(zeros), zeros, "f32"))


def _is_along(zeros: NDArray[Any], axis: int | None, shape: tuple[int, ...]) -> bool:
    """One zero point, or one per index of dimension `axis`."""
    if zeros.size == 1:
        return True
    if axis is None or zeros.size != shape[axis]:
        return False
    aligned = (1,) * (len(shape) - zeros.ndim) + zeros.shape
    return zeros.ndim == 1 or (zeros.ndim == len(shape) and aligned[axis] == zeros.size)


# -- the scale that follows ---------------------------------------------------------------


def is_accumulator(op: Operation | Block) -> bool:
    """Whether `op` sums products of codes in 32 bits."""
    if not isinstance(op, nn.MatMulOp | nn.Conv1DOp | nn.Conv2DOp | nn.Conv3DOp):
        return False
    elements = [quant_element(value.type) for value in (*op.operands, *op.results)]
    return None not in elements and storage_name(element_type(op.result.type)) == "i32"


def channels_of(op: Operation) -> int:
    """The dimension of the result that the channels of the weight lie along."""
    return len(shape_of(op.results[0].type) or ()) - 1 if isinstance(op, nn.MatMulOp) else 1


def rescaled(imp: Importer, op: Operation, sums: UniformType) -> SSAValue:
    """The same accumulator with the scales of `sums`, and the weight with what these leave
    beside the scale of the other side.

    The products may miss `sums` by a rounding of doubles, but storing them in steps of it
    gives the integer back.
    """
    lhs, rhs = (cast("UniformType", element_type(v.type)).qparams for v in op.operands)
    scales, zeros = sums.qparams.scale_list(), rhs.zero_point_list()
    count = max(len(scales), len(zeros))
    shares = [scale / lhs.scale for scale in scales * (count // len(scales))]
    zeros = zeros * (count // len(zeros))
    weight = op.operands[1]
    if count == 1:
        params = QParams.per_tensor(rhs.storage, shares[0], zeros[0], "f32")
    else:
        axis = len(shape_of(weight.type) or ()) - 1 if isinstance(op, nn.MatMulOp) else 0
        params = QParams.per_axis(rhs.storage, axis, shares, zeros, "f32")
    made = op.clone({weight: _reread(imp, weight, UniformType(params))})
    made.results[0]._type = with_element(op.results[0].type, sums)  # pyright: ignore[reportPrivateUsage]
    imp.replaced.append(op)
    return imp.emit(made).results[0]


def _reread(imp: Importer, value: SSAValue, element: UniformType) -> SSAValue:
    owner = value.owner
    if isinstance(owner, ConstantOp):
        imp.replaced.append(owner)
        return imp.constant(nn.keys_of(owner)[0], element)
    return imp.quantized(value, element)
