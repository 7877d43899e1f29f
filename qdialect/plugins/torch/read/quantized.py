"""Quantize and dequantize as PyTorch's quantizers write them.

PyTorch multiplies by the float32 nearest to 1 / scale where ONNX divides; the zero point is added
behind the rounding.  A quantize says so by its rounding, `reciprocal`.  It computes in float32
whatever the type of the floats is; scales are the float32 numbers that it multiplies by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.ir import ops as nn
from qdialect.ir.quant import (
    ROUNDING_KEY,
    DCastOp,
    QCastOp,
    SCastOp,
    UniformType,
    element_type,
    quant_element,
    storage_type,
    with_element,
)
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.torch.program import ElementType, Node, Ref
from qdialect.plugins.torch.read import run_time
from qdialect.plugins.torch.read.parameters import SPELLINGS, Grid, known, qparams, storage
from qdialect.plugins.torch.read.rows import Results, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.ir import Attribute

    from qdialect.plugins.torch.read.importer import Importer

RECIPROCAL = StringAttr("reciprocal")


def quantize(imp: Importer, node: Node) -> Results:
    """`quantize_per_tensor`, `quantize_per_channel`: a `quant.qcast`, or float arithmetic where
    the parameters are those of no type."""
    x = cast("Ref", node.arguments["input"])
    stored = stored_of(imp, node)
    if imp.kind(x) not in FLOATS or stored is None:
        return None
    grid = grid_of(imp, node)
    if grid is None:
        return run_time.quantize(imp, node, stored)
    value = quantized(imp, imp.cast(imp.value(x), f32), stored, grid)
    return None if value is None else [value]


def quantized(imp: Importer, value: SSAValue, stored: Storage, grid: Grid) -> SSAValue | None:
    """Floats quantized as PyTorch does; None where no type has the parameters."""
    import numpy as np

    params = qparams(stored, grid)
    if params is None:
        return None
    factors = (1 / grid.scales.astype(np.float64)).astype(np.float32)
    same = (1 / grid.scales.astype(np.float32).astype(np.float64)).astype(np.float32)
    if np.array_equal(factors, same):
        return _cast(imp, value, params)
    # The reciprocal of the double is another number than that of the float32.
    if not params.is_per_tensor:
        return None
    product = imp.build(nn.MulOp, value, imp.array_of(factors.reshape(()), f32))
    codes = _cast(imp, product, QParams.per_tensor(stored, 1.0, params.zero_point))
    return read_under(imp, codes, params)


def _cast(imp: Importer, value: SSAValue, params: QParams) -> SSAValue:
    cast_ = QCastOp(value, with_element(value.type, UniformType(params)))
    cast_.attributes[ROUNDING_KEY] = RECIPROCAL
    return imp.emit(cast_).results[0]


def dequantize(imp: Importer, node: Node) -> Results:
    """`dequantize_per_tensor`, `dequantize_per_channel`: a `quant.dcast` of codes."""
    name = node.results[0]
    assert isinstance(name, str)
    stored, argument = stored_of(imp, node), cast("Ref", node.arguments["input"])
    if stored is None:
        return None
    grid = grid_of(imp, node)
    if grid is None:
        return run_time.dequantize(imp, node)
    if wraps(stored, grid.zeros) or not _is_exact(stored, imp.element(name)):
        return None
    params = qparams(stored, grid)
    if params is None:
        return _arithmetic(imp, argument, grid) if imp.element(name) == f32 else None
    return [imp.cast(imp.dequantized(codes(imp, argument, params)), imp.element(name))]


def _arithmetic(imp: Importer, argument: Ref, grid: Grid) -> Results:
    """(q - z) * s in floats, for zero points that are no integers (of embeddings) or no codes."""
    import numpy as np

    rank = len(imp.extents_of(argument))
    if grid.blocks or (grid.axis is None and grid.scales.size != 1):
        return None
    shape = [1] * rank
    if grid.axis is not None:
        shape[grid.axis] = -1
    steps = imp.cast(imp.value(argument), f32)
    if grid.zeros is not None:
        zeros = grid.zeros.astype(np.float32).reshape(shape)
        steps = imp.build(nn.SubOp, steps, imp.array_of(zeros, f32))
    scales = grid.scales.astype(np.float32).reshape(shape)
    return [imp.build(nn.MulOp, steps, imp.array_of(scales, f32))]


def wraps(stored: Storage, zeros: NDArray | None) -> bool:  # pyright: ignore[reportMissingTypeArgument,reportUnknownParameterType]
    """Whether the difference of codes and zero points may leave the type that it has: both have
    8 bits and one signedness."""
    import numpy as np

    if zeros is None or zeros.dtype != np.dtype(f"{'i' if stored.signed else 'u'}1"):  # pyright: ignore[reportUnknownMemberType]
        return False
    low, high = stored.full_range
    steps = zeros.astype(np.int64)
    return bool((stored.min - steps < low).any() or (stored.max - steps > high).any())


def _is_exact(stored: Storage, element: Attribute) -> bool:
    """Whether a float of this type has all differences of codes and zero points: PyTorch takes
    them in the type of the result."""
    from qdialect.ir.ops.constants import element_name

    most = {"f32": 1 << 62, "f16": 1 << 11, "bf16": 1 << 8}.get(element_name(element), 0)
    return stored.max - stored.min <= most


def codes(imp: Importer, argument: Ref, params: QParams) -> SSAValue:
    """Stored integers read under `params`: a constant of the quantized type, the quantized value
    that the program has, or a `quant.scast` of its integers."""
    if argument.name in imp.weights:
        return imp.quantized_constant(argument.name, UniformType(params))
    return read_under(imp, imp.value(argument), params)


def read_under(imp: Importer, value: SSAValue, params: QParams) -> SSAValue:
    """The stored integers of a value, read under other parameters."""
    element = UniformType(params)
    if element_type(value.type) == element:
        return value
    if isinstance(element_type(value.type), UniformType):
        stored = storage_type(cast("UniformType", quant_element(value.type)).qparams)
        value = imp.emit(SCastOp(value, with_element(value.type, stored))).results[0]
    return imp.emit(SCastOp(value, with_element(value.type, element))).results[0]


def stored_of(imp: Importer, node: Node) -> Storage | None:
    """The storage of a quantize or dequantize with its bounds; None for one that is not known."""
    arguments = node.arguments
    kind: ElementType = arguments["dtype"]
    spelling = SPELLINGS.get(kind.code)
    bounds = [_whole(imp, arguments[name]) for name in ("quant_min", "quant_max")]
    if spelling is None or bounds[0] is None or bounds[1] is None:
        return None
    return storage(spelling, bounds[0], bounds[1])


def _whole(imp: Importer, argument: object) -> int | None:
    """An integer argument, or a tensor of one integer."""
    array = known(imp, argument)
    return imp.integer(argument) if array is None or array.size != 1 else int(array.reshape(()))


def grid_of(imp: Importer, node: Node) -> Grid | None:
    """The parameters of a quantize or dequantize; None where only a run has them."""
    arguments = node.arguments
    scales = known(imp, arguments.get("scale", arguments.get("scales")))
    points = arguments.get("zero_point", arguments.get("zero_points"))
    zeros = known(imp, points)
    if scales is None or (zeros is None and points is not None):
        return None
    if "group_size" in arguments:
        shape = [extent.number or 0 for extent in imp.extents_of(arguments["input"])]
        group = min(int(arguments["group_size"]), shape[-1])
        return Grid(scales, zeros, blocks=[1] * (len(shape) - 1) + [group], shape=shape)
    if "axis" not in arguments:
        return Grid(scales, zeros)
    rank = len(imp.extents_of(arguments["input"]))
    return Grid(scales, zeros, axis=int(arguments["axis"]) % rank)


def from_integers(other: Rule) -> Rule:
    """`to` floats: stored integers of the program are codes of scale 1; anything else as `other`
    reads it."""

    def rule(imp: Importer, node: Node) -> Results:
        name, argument = node.results[0], node.arguments["self"]
        if not isinstance(name, str) or not isinstance(argument, Ref) or imp.element(name) != f32:
            return other(imp, node)
        value = _stored_weight(imp, argument)
        if value is None:
            return other(imp, node)
        spelling = SPELLINGS[imp.program.graph.tensors[argument.name].code]
        element = UniformType(QParams.per_tensor(spelling, 1.0))
        value = imp.emit(SCastOp(value, with_element(value.type, element))).results[0]
        return [imp.emit(DCastOp(value, with_element(value.type, f32))).results[0]]

    return rule


def _stored_weight(imp: Importer, argument: Ref) -> SSAValue | None:
    """A tensor of 8 bits whose numbers are known, of at least two dimensions."""
    tensor = imp.program.graph.tensors.get(argument.name)
    if tensor is None or tensor.code not in (1, 2) or len(tensor.shape) < 2:
        return None
    return imp.value(argument) if known(imp, argument) is not None else None
