"""Values of types that numpy lacks, for ONNX Runtime: arrays of `ml_dtypes` in and out."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from qdialect.dialects.onnx import package

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: what the runtime calls such types, and what `TensorProto.DataType` does
NARROW = {
    "tensor(bfloat16)": "BFLOAT16",
    "tensor(float8e4m3fn)": "FLOAT8E4M3FN",
    "tensor(float8e4m3fnuz)": "FLOAT8E4M3FNUZ",
    "tensor(float8e5m2)": "FLOAT8E5M2",
    "tensor(float8e5m2fnuz)": "FLOAT8E5M2FNUZ",
    "tensor(float4e2m1)": "FLOAT4E2M1",
    "tensor(int4)": "INT4",
    "tensor(uint4)": "UINT4",
}
_TWO_IN_A_BYTE = ("int4", "uint4", "float4_e2m1fn")


def run_narrow(session: Any, names: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
    """What a session gives, where numpy lacks the type of something it takes or gives."""
    ort: Any = package("onnxruntime")
    code = package("onnx.helper").np_dtype_to_tensor_dtype
    make: Any = ort.OrtValue.ortvalue_from_numpy_with_onnx_type
    # The runtime reads the memory of these.
    packed = {name: _packed(array) for name, array in feeds.items()}
    given = {name: make(packed[name], code(array.dtype)) for name, array in feeds.items()}
    return [_array(value) for value in session.run_with_ort_values(names, given)]


def _packed(array: Array) -> Array:
    """An array of the same shape whose memory begins with the elements as ONNX packs them."""
    import numpy as np

    if array.dtype.isbuiltin != 2:
        return array.copy(order="C")
    bits: Array = array.copy(order="C").view(f"u{array.dtype.itemsize}")
    if array.dtype.name not in _TWO_IN_A_BYTE:
        return bits
    flat = np.append(bits.reshape(-1) & 15, np.zeros(bits.size % 2, np.uint8))
    made = np.zeros(array.shape, np.uint8)
    made.reshape(-1)[: flat.size // 2] = flat[::2] | flat[1::2] << 4
    return made


def _array(value: Any) -> Array:
    import numpy as np

    kind = NARROW.get(value.data_type())
    if kind is None:
        return value.numpy().copy()  # one that is an input is in its memory
    onnx = package("onnx")
    dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))
    shape, size = tuple(value.shape()), value.tensor_size_in_bytes()
    data = np.frombuffer(ctypes.string_at(value.data_ptr(), size), np.uint8)
    if dtype.name in _TWO_IN_A_BYTE:
        count = int(np.prod(shape, dtype=np.int64))
        codes = np.stack((data & 15, data >> 4), -1).reshape(-1)[:count]
        if dtype.name == "int4":
            codes = (codes ^ 8).astype(np.int8) - 8
        made = codes.view(dtype) if dtype.name[0] == "f" else codes.astype(dtype)
        return made.reshape(shape)
    return data.view(dtype).reshape(shape)
