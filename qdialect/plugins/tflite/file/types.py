"""Types of tensors: those of files as types of MLIR, and back.

Integers with scales are quantized types whose storage is theirs; other numbers are plain, unsigned
ones `ui8`; what MLIR has no type for (strings, resources) is a `!tflite.type`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ComplexType,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

from qdialect.algebra.qparams.parameters import Layout
from qdialect.ir.quant import UniformType
from qdialect.plugins.tflite.dialect import TfliteType
from qdialect.plugins.tflite.file.elements import RANGES
from qdialect.plugins.tflite.file.model import Quantization, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

ELEMENTS: dict[str, Attribute] = {
    "FLOAT32": builtin.f32,
    "FLOAT16": builtin.f16,
    "FLOAT64": builtin.f64,
    "BFLOAT16": builtin.bf16,
    "FLOAT8_E4M3FN": builtin.f8E4M3FN,
    "FLOAT8_E5M2": builtin.f8E5M2,
    "BOOL": IntegerType(1),
    "COMPLEX64": ComplexType(builtin.f32),
    "COMPLEX128": ComplexType(builtin.f64),
    **{f"INT{width}": IntegerType(width) for width in (2, 4, 8, 16, 32, 64)},
    **{f"UINT{n}": IntegerType(n, Signedness.UNSIGNED) for n in (4, 8, 16, 32, 64)},
}
"""Element types by their names in the schema."""

NAMES = {element: name for name, element in ELEMENTS.items()}

ValueOf = Callable[[int], "NDArray[Any] | None"]
"""The constant value of a tensor of the subgraph by its number."""


def tensor_type(tensor: Tensor, value_of: ValueOf) -> TensorType[Attribute]:
    """The type of a tensor; ValueError where its qparams have none."""
    shape = tensor.signature if tensor.signature is not None else tensor.shape
    extents = [DYNAMIC_INDEX if extent < 0 else extent for extent in shape]
    return TensorType(_element(tensor, value_of), extents)


def _element(tensor: Tensor, value_of: ValueOf) -> Attribute:
    plain = ELEMENTS.get(tensor.type, TfliteType(tensor.type))
    given = tensor.quantization
    if given is None or tensor.type not in RANGES:
        return plain
    storage = tensor.type.replace("UINT", "u").replace("INT", "i")
    if given.details is not None:
        raise ValueError(f"its quantization is a {given.details[0]}, which is not supported")
    if given.blocks is not None:
        return _blockwise(tensor, given, storage, value_of)
    if not len(given.scales):
        return plain
    scales = given.scales.astype(float).tolist()
    zeros = given.zero_points.tolist() or [0]
    zeros = zeros * len(scales) if len(zeros) == 1 else zeros
    if len(scales) == 1:
        return UniformType.per_tensor(storage, scales[0], zeros[0])
    return UniformType.per_axis(storage, given.axis, scales, zeros)


def _blockwise(tensor: Tensor, given: Quantization, storage: str, value_of: ValueOf) -> UniformType:
    assert given.blocks is not None
    scales = value_of(given.blocks.scales)
    if scales is None or scales.dtype.kind != "f" or scales.ndim != len(tensor.shape):
        raise ValueError("the scales of its blocks are no constant floats of its rank")
    blocks: list[tuple[int, int]] = []
    for axis, (extent, count) in enumerate(zip(tensor.shape, scales.shape, strict=True)):
        size = 1 if extent == count else given.blocks.size
        if size * count != extent:
            raise ValueError(f"{count} blocks of {size}, length {extent} along axis {axis}")
        blocks.append((axis, size))
    if not ((scales > 0) & (scales < float("inf"))).all():
        raise ValueError("a scale of its blocks is not finite and greater than zero")
    zeros = None
    if given.blocks.zero_points >= 0:
        found = value_of(given.blocks.zero_points)
        if found is None or found.dtype.kind not in "iu" or found.size != scales.size:
            raise ValueError("the zero points of its blocks are no constant integers")
        zeros = found.reshape(-1).tolist()
    numbers = scales.reshape(-1).astype(float).tolist()
    return UniformType.blockwise(storage, blocks, scales.shape, numbers, zeros)


def tensor_of(type: Attribute, name: str) -> Tensor:
    """A tensor of a type, without what the scales of blocks need; ValueError where TFLite has no
    such type."""
    import numpy as np

    if not isinstance(type, TensorType):
        raise ValueError(f"a value of type {type}")
    kind = cast("TensorType[Attribute]", type)
    extents = [-1 if extent == DYNAMIC_INDEX else extent for extent in kind.get_shape()]
    shape = tuple(1 if extent < 0 else extent for extent in extents)
    tensor = Tensor(name, shape, "", tuple(extents) if -1 in extents else None)
    element = kind.element_type
    if isinstance(element, TfliteType):
        tensor.type = element.data
    elif isinstance(element, UniformType):
        params = element.qparams
        tensor.type = params.storage.spelling.upper().replace("SI", "I").replace("UI", "U")
        tensor.type = tensor.type.replace("I", "INT").replace("U", "UINT")
        if tensor.type not in RANGES or params.expressed != "f32":
            raise ValueError(f"codes of type {params.storage.spelling} for {params.expressed}")
        if params.layout is not Layout.BLOCK:
            scales = np.frombuffer(params.scales, np.float64).astype(np.float32)
            zeros = np.frombuffer(params.zero_points, np.int64)
            axis = params.blocks[0][0] if params.blocks else 0
            tensor.quantization = Quantization(scales, zeros, axis)
    elif element in NAMES:
        tensor.type = NAMES[element]
    else:
        raise ValueError(f"elements of type {element}")
    return tensor
