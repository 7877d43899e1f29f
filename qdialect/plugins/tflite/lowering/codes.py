"""Codes as the kernels of LiteRT take them: signed, of 8 bits, with the bounds of their storage.

    u8 code q, zero point z   ->   i8 code q - 128, zero point z - 128

are the same real numbers. A constant is re-encoded as it is written, for another value there is a
`QUANTIZE`, which is exact between equal scales.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import rounding_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import kernels_of
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order
from qdialect.plugins.tflite.lowering.emitter import Emitter, full_range, options_of
from qdialect.plugins.tflite.numerics.scales import ENGINES, activation_bounds

ACTIVATION = "fused_activation_function"


def signed_qparams(params: QParams) -> QParams:
    """Those of the same numbers in i8 (or wider, where they are wider), without bounds."""
    storage = params.storage
    if storage.is_float or storage.quantile is not None:
        raise Unlowerable("storage", f"it is stored as {storage}")
    if not storage.signed:
        params = params.with_signedness(True)
    if storage.width < 8:
        return params.with_storage(Storage.of("i8"))
    return full_range(params)


def signed(e: Emitter, x: LaidOut) -> LaidOut:
    """`x` with signed storage of at least 8 bits; plain values as they are."""
    if x.params is None:
        return x
    params = signed_qparams(x.params)
    if x.array is not None:
        codes = x.array.astype(np.int64)
        if not x.params.storage.signed:
            codes = codes - (1 << (x.params.storage.width - 1))
        kind = f"i{params.storage.width // 8}"
        return LaidOut(x.shape, x.order, params, None, codes.astype(kind))
    assert x.value is not None
    if x.params.storage.signed and x.params.storage.width >= 8:
        return LaidOut(x.shape, x.order, params, x.value)
    if x.params.storage.spelling != "u8":
        raise Unlowerable("storage", f"no kernel takes {x.params.storage}", "8-bit storage")
    return LaidOut(x.shape, x.order, params, recoded(e, x.value, params, x.order))


def activation(
    e: Emitter, x: LaidOut, role: str, *, wide: bool = False, unsigned: bool = False
) -> tuple[LaidOut, QParams]:
    """An operand of an integer kernel: i8 codes (or i16, if `wide`, or u8, if `unsigned`) on one
    scale; Unlowerable."""
    if x.params is None:
        raise Unlowerable("float", f"its {role} is float", "quantize it (qopt quantize)")
    if not x.params.is_per_tensor:
        raise Unlowerable("axis", f"its {role} has parameters along a dimension")
    if unsigned and x.params.storage.spelling == "u8":
        return x, x.params
    x = signed(e, x)
    assert x.params is not None
    if x.params.storage.spelling not in _taken(wide):
        raise Unlowerable("storage", f"its {role} is stored as {x.params.storage}", "8-bit storage")
    return x, x.params


def _taken(wide: bool) -> tuple[str, ...]:
    return ("i8", "i16") if wide else ("i8",)


def recoded(e: Emitter, value: SSAValue, params: QParams, order: Order) -> SSAValue:
    """`value` as codes with `params`, which mean the same numbers: u8 or i8."""
    key = "recoded", value, params
    known = e.made.get(key)
    if known is None:
        known = e.node("QUANTIZE", [value], shape_of(value), e.element(params, order))
        e.made[key] = known
    return known


def result_qparams(
    params: QParams | None, *, wide: bool = False, unsigned: bool = False
) -> QParams:
    """The codes that an integer kernel gives for a result with `params`: i8, or i16 if `wide`, or
    u8 if `unsigned`; Unlowerable."""
    if params is None:
        raise Unlowerable("float", "its result is float", "quantize it (qopt quantize)")
    if not params.is_per_tensor:
        raise Unlowerable("axis", "its result has parameters along a dimension")
    if params.storage.width == 32:
        raise Unlowerable("sums", "its result is sums in 32 bits, which no kernel gives")
    if unsigned and params.storage.spelling == "u8":
        return full_range(params)
    made = signed_qparams(params)
    if made.storage.spelling not in _taken(wide):
        raise Unlowerable("storage", f"its result is stored as {params.storage}", "8-bit storage")
    return made


def finished(
    e: Emitter, value: SSAValue, order: Order, params: QParams, shape: Sequence[int]
) -> LaidOut:
    """The result of an integer kernel, which gave i8 codes over their whole range, with `params`:
    within its bounds, and unsigned where it is."""
    storage = params.storage
    element = quant_element(value.type)
    if element is not None and not element.qparams.storage.signed:
        return e.result(value, order, params, shape)
    if not storage.is_full_range:
        shift = 0 if storage.signed else -(1 << (storage.width - 1))
        bounds = storage.min + shift, storage.max + shift
        value = clamped(e, value, bounds, fuse=True)
    if not storage.signed and storage.spelling == "u8":
        value = recoded(e, value, full_range(params), order)
    return e.result(value, order, params, shape)


_ENGINES = ("litert-xnn", "litert-opt")
"""Whose kernels run what is written, with XNNPACK and where that does not take an op."""


def is_builtin(op: Operation) -> bool:
    """Whether the kernel that runs the builtin of `op` defines it, whatever it rounds."""
    return kernels_of(op) in _ENGINES


def half_even(op: Operation) -> None:
    """Refuse an op that rounds in another way than to the nearest, halves to even."""
    if not is_builtin(op) and rounding_of(op) is not Rounding.HALF_EVEN:
        raise Unlowerable("rounding", f"it rounds {rounding_of(op).value}", "rounding half_even")


# -- clamps ----------------------------------------------------------------------------

_WITH_ACTIVATION = frozenset(
    {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "CONV_3D"),
        *("ADD", "SUB", "MUL", "DIV", "MAX_POOL_2D", "AVERAGE_POOL_2D"),
    }
)
"""Ops with an activation of their own. (That of a concatenation is read by few.)"""


def activation_codes(name: str, params: QParams) -> tuple[int, int] | None:
    """The smallest and largest i8 code after the activation `name`; None where the engines of
    LiteRT do not agree."""
    scale, zero = float(params.scale_list()[0]), params.zero_point_list()[0]
    low, high = params.storage.full_range
    found = {activation_bounds(engine, name, scale, zero, low, high) for engine in ENGINES}
    return found.pop() if len(found) == 1 else None


def fused(value: SSAValue, bounds: tuple[float, float]) -> bool:
    """Whether the node that makes `value` now keeps its result between `bounds`, which are codes,
    or floats: by an activation."""
    made = options_of(value)
    if made is None or made[0].op.data not in _WITH_ACTIVATION:
        return False
    node, options = made
    if options.get(ACTIVATION) != StringAttr("NONE"):
        return False
    element = quant_element(value.type)
    if element is not None and element.qparams.storage.width != 8:
        # Not all kernels of 16 bits read it.
        return False
    name = _activation_named(value, bounds)
    if name is None:
        return False
    node.properties["options"] = DictionaryAttr({**options, ACTIVATION: StringAttr(name)})
    return True


_FLOAT_BOUNDS = {
    (0.0, float("inf")): "RELU",
    (0.0, 6.0): "RELU6",
    (-1.0, 1.0): "RELU_N1_TO_1",
}


def _activation_named(value: SSAValue, bounds: tuple[float, float]) -> str | None:
    element = quant_element(value.type)
    if element is None:
        return _FLOAT_BOUNDS.get(bounds)
    for name in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
        if activation_codes(name, element.qparams) == bounds:
            return name
    return None


_BROADCASTS = 4
"""Dimensions up to which MAXIMUM takes a single code."""


def clamped(e: Emitter, value: SSAValue, bounds: tuple[int, int], *, fuse: bool) -> SSAValue:
    """`value`, of codes on one scale, between two codes: by the activation of the node that makes
    it if that is to change (`fuse`), else by ops of its own."""
    element = quant_element(value.type)
    if element is None:
        return value  # stands for the result of an op that is refused
    params, shape = element.qparams, shape_of(value)
    low, high = params.storage.full_range
    if bounds == (low, high) or (fuse and fused(value, bounds)):
        return value
    # RELU of codes takes 250 times as long as MAXIMUM (measured, 200 704 codes: 1623 and 6.5 us).
    if bounds == activation_codes("RELU", params) and len(shape) > _BROADCASTS:
        return e.node("RELU", [value], shape, element)
    if bounds[0] > low:
        value = e.node("MAXIMUM", [value, e.code(bounds[0], params)], shape, element)
    if bounds[1] < high:
        value = e.node("MINIMUM", [value, e.code(bounds[1], params)], shape, element)
    return value
