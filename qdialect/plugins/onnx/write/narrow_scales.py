"""Scales in the smallest type that has them, where a node takes them as floats of four bytes.

    s = Cast(e : float16)                     scales that are numbers of f16
    s = Cast(e : float8e8m0)                  powers of two
    s = Mul(Cast(e : float8e4m3fn), 2^n)      numbers of four bits of precision, within 14 octaves

Nothing is rounded: what no such type has stays as it is. A runtime computes them when it loads the
model. Scales of blocks of 32 numbers of four bits are a fifth of what is stored, else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect.ir.quant import FLOAT_TYPES
from qdialect.plugins.onnx.dialect import DATA_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.write.graph import GraphWriter

_FLOAT, _FLOAT16, _E4M3, _E8M0 = 1, 10, 17, 24
_OPSETS = {_FLOAT16: 13, _E4M3: 19, _E8M0: 24}
_TOP, _OCTAVES = 8, 14
"""The exponent of the largest numbers of f8E4M3FN, and how many smaller ones are normal."""


def write_scales(
    graph: GraphWriter, name: str, scales: NDArray[Any], expressed: str, opset: int
) -> str:
    """The name of a tensor with these scales of an expressed type."""
    import numpy as np

    if expressed != "f32":
        kinds = {"f16": "<f2", "f64": "<f8"}
        code = DATA_TYPES[FLOAT_TYPES[expressed]]
        raw = scales.astype(kinds[expressed]).tobytes()
        return graph.initializer(name, code, scales.shape, raw)
    found = narrowest(scales, opset)
    if found is None:
        return graph.initializer(name, _FLOAT, scales.shape, scales.astype("<f4").tobytes())
    code, raw, shift = found
    stored = graph.initializer(f"{name}_stored", code, scales.shape, raw)
    real = graph.tensor(name)
    graph.node("Cast", [stored], [real], f"{name}_cast", to=_FLOAT)
    if not shift:
        return real
    moved = graph.tensor(f"{name}_moved")
    unit = graph.array(f"{name}_unit", np.array(np.ldexp(1.0, shift), np.float32))
    graph.node("Mul", [real, unit], [moved], f"{name}_times_unit")
    return moved


def required_opset(scales: NDArray[Any]) -> int:
    """The opset that has the smallest type for scales."""
    found = narrowest(scales, max(_OPSETS.values()))
    return 0 if found is None else _OPSETS[found[0]]


def narrowest(scales: NDArray[Any], opset: int) -> tuple[int, bytes, int] | None:
    """The ONNX type, the bits, and the power of two that scales (above 0) are to be multiplied
    with; None where only f32 has them."""
    import numpy as np

    significands, exponents = np.frexp(scales.astype(np.float64))
    if opset >= _OPSETS[_E8M0] and (significands == 0.5).all():
        powers = exponents - 1
        if powers.min() >= -127 and powers.max() <= 127:
            return _E8M0, (powers + 127).astype(np.uint8).tobytes(), 0
    top = int(exponents.max())
    sixteenths = significands * 16
    precise = (sixteenths == np.rint(sixteenths)).all() and not (significands == 0.9375)[
        exponents == top
    ].any()
    if opset >= _OPSETS[_E4M3] and precise and top - int(exponents.min()) <= _OCTAVES:
        shift = top - 1 - _TOP
        fields = exponents - 1 - shift + 7
        bits = (fields << 3) | (np.rint(sixteenths).astype(np.int64) - 8)
        return _E4M3, bits.astype(np.uint8).tobytes(), shift
    halves = scales.astype(np.float32).astype(np.float16)
    if opset >= _OPSETS[_FLOAT16] and (halves.astype(np.float64) == scales).all():
        return _FLOAT16, halves.astype("<f2").tobytes(), 0
    return None
