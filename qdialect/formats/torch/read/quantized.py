"""Quantize and dequantize as PyTorch's quantizers write them.

PyTorch multiplies by the float32 nearest to 1 / scale where ONNX divides; the zero point is added
behind the rounding.  A quantize says so by its rounding, `reciprocal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from qdialect.dialects.onnx import FLOATS
from qdialect.errors import InputError
from qdialect.formats.torch.program import ELEMENT_TYPES, ElementType, Node, Ref
from qdialect.formats.torch.read.rows import Results
from qdialect.ops.constants import element_name
from qdialect.qparams import QParams, Storage
from qdialect.quant import (
    ROUNDING_KEY,
    QCastOp,
    SCastOp,
    UniformType,
    element_type,
    quant_element,
    storage_type,
    with_element,
)

if TYPE_CHECKING:
    from qdialect.formats.torch.read.importer import Importer

RECIPROCAL = StringAttr("reciprocal")


def quantize(imp: Importer, node: Node) -> Results:
    """`quantize_per_tensor`, `quantize_per_channel`: a `quant.qcast`."""
    x = cast("Ref", node.arguments["input"])
    expressed = imp.kind(x)
    if expressed not in FLOATS:
        return None
    params = qparams(imp, node, element_name(expressed))
    if params is None:
        return None
    value = imp.value(x)
    return [quantized(imp, value, params)]


def quantized(imp: Importer, value: SSAValue, params: QParams) -> SSAValue:
    """A value quantized as PyTorch does."""
    cast_ = QCastOp(value, with_element(value.type, UniformType(params)))
    cast_.attributes[ROUNDING_KEY] = RECIPROCAL
    return imp.emit(cast_).results[0]


def dequantize(imp: Importer, node: Node) -> Results:
    """`dequantize_per_tensor`, `dequantize_per_channel`: a `quant.dcast` of codes."""
    name = node.results[0]
    assert isinstance(name, str)
    params = qparams(imp, node, element_name(imp.element(name)))
    if params is None:
        return None
    return [imp.dequantized(codes(imp, cast("Ref", node.arguments["input"]), params))]


def codes(imp: Importer, argument: Ref, params: QParams) -> SSAValue:
    """Stored integers read under `params`: a constant of the quantized type, the quantized value
    that the program has, or a `quant.scast` of its integers."""
    element = UniformType(params)
    if argument.name in imp.weights:
        return imp.quantized_constant(argument.name, element)
    value = imp.value(argument)
    if element_type(value.type) == element:
        return value
    if isinstance(element_type(value.type), UniformType):
        stored = storage_type(cast("UniformType", quant_element(value.type)).qparams)
        value = imp.emit(SCastOp(value, with_element(value.type, stored))).results[0]
    return imp.emit(SCastOp(value, with_element(value.type, element))).results[0]


def qparams(imp: Importer, node: Node, expressed: str) -> QParams | None:
    """The parameters of a quantize or dequantize; None where they are not known before the run.

    InputError (`bad-qparams`) for parameters that no type has.
    """
    arguments = node.arguments
    kind: ElementType = arguments["dtype"]
    spelling = ELEMENT_TYPES.get(kind.code, "").replace("ui", "u")
    low, high = (imp.integer(arguments[name]) for name in ("quant_min", "quant_max"))
    if spelling.lstrip("ui") not in ("8", "16", "32") or low is None or high is None:
        return None
    scales = imp.array(arguments.get("scale", arguments.get("scales")))
    zeros = imp.array(arguments.get("zero_point", arguments.get("zero_points")))
    if scales is None:
        return None
    try:
        storage = Storage.of(spelling, low, high)
        numbers = [float(scale) for scale in scales.reshape(-1)]
        points = [int(z) for z in zeros.reshape(-1)] if zeros is not None else [0] * len(numbers)
        if "axis" not in arguments:
            return QParams.per_tensor(storage, numbers[0], points[0], expressed)
        rank = len(imp.extents_of(arguments["input"]))
        return QParams.per_axis(storage, int(arguments["axis"]) % rank, numbers, points, expressed)
    except ValueError as error:
        raise InputError(str(error), where=imp.program.where(node), code="bad-qparams") from None
