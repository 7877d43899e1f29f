"""Values of types that numpy lacks, for ONNX Runtime: arrays of `ml_dtypes` in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect.engines.model_child import NARROW
from qdialect.packages import package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

_TWO_IN_A_BYTE = ("int4", "uint4", "float4_e2m1fn")


def onnx_code(array: Array) -> int:
    """The ONNX type of an array's elements."""
    return package("onnx.helper").np_dtype_to_tensor_dtype(array.dtype)


def packed(array: Array) -> Array:
    """An array of the same shape whose memory begins with the elements as ONNX packs them."""
    import numpy as np

    if array.dtype.isbuiltin != 2:
        return array
    bits: Array = array.copy(order="C").view(f"u{array.dtype.itemsize}")
    if array.dtype.name not in _TWO_IN_A_BYTE:
        return bits
    flat = np.append(bits.reshape(-1) & 15, np.zeros(bits.size % 2, np.uint8))
    made = np.zeros(array.shape, np.uint8)
    made.reshape(-1)[: flat.size // 2] = flat[::2] | flat[1::2] << 4
    return made


def as_array(kind: str, shape: Sequence[int], data: Array) -> Array:
    """An output of the runtime: its elements, or the bytes of those of a type that numpy lacks."""
    import numpy as np

    if kind not in NARROW:
        return data
    onnx = package("onnx")
    dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind.upper()))
    if dtype.name in _TWO_IN_A_BYTE:
        count = int(np.prod(shape, dtype=np.int64))
        codes = np.stack((data & 15, data >> 4), -1).reshape(-1)[:count]
        if dtype.name == "int4":
            codes = (codes ^ 8).astype(np.int8) - 8
        made = codes.view(dtype) if dtype.name[0] == "f" else codes.astype(dtype)
        return made.reshape(shape)
    return data.view(dtype).reshape(shape)
