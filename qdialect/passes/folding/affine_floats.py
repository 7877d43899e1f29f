"""Chains of affine functions of codes in float32, op by op: what `fold_affine` compares with
in a module whose quantized ops are defined in floats.

Row by row, channels: every op of a chain dequantizes, computes with constants that are floats
(one each, or one per channel) and quantizes; each step is rounded once, so that one table is
what every runtime computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from qdialect.analysis.codes import constant_values, qparams_of, rounding_of
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.float_path import codes_by
from qdialect.numerics.float_spans import FLOATS, FloatSpan, InexactError
from qdialect.numerics.rounding import Rounding
from qdialect.ops import shape_of
from qdialect.ops.base import is_kernel
from qdialect.passes.folding.affine_chains import Link
from qdialect.qparams import QParams
from qdialect.quant import RescaleOp, element_type

_BESIDE = 4
"""Floats on each side of a scale that are tried."""


class Rows(NamedTuple):
    """Parameters row by row, channels: those of each of them, or the one row of all."""

    scales: NDArray[np.float32]
    zeros: NDArray[np.int64]
    bounds: tuple[int, int]

    @staticmethod
    def of(params: QParams, count: int | None = None) -> Rows:
        """Those of the first `count` channels, or of all."""
        scales = np.array(params.scale_list()[:count], np.float32).reshape(-1, 1)
        zeros = np.array(params.zero_point_list()[:count], np.int64).reshape(-1, 1)
        return Rows(scales, zeros, (params.storage.min, params.storage.max))

    def with_scales(self, scales: Sequence[float]) -> Rows:
        """The same with other scales."""
        return self._replace(scales=np.array(scales, np.float32).reshape(-1, 1))

    def dequantized(self, codes: exact.Codes) -> NDArray[np.float32]:
        with np.errstate(all="ignore"):
            return (codes.astype(np.int64) - self.zeros).astype(np.float32) * self.scales

    def quantized(self, values: NDArray[np.float32], rounding: Rounding) -> exact.Codes:
        return codes_by(values, self.scales, self.zeros, self.bounds, rounding)


def chain_codes(links: Sequence[Link], seen: QParams, session: QContext) -> exact.Codes | None:
    """What `links` (last first) make of each code that is `seen`, one row per channel (or one
    row); None if floats do not say."""
    codes = exact.codes_of(exact.quant_grids(seen)[0])[None, :]
    params = qparams_of(links[-1].x)
    if any(is_kernel(link.op) for link in links):
        return None
    for link in reversed(links):
        result = qparams_of(link.op.results[0])
        if params is None or result is None or {params.expressed, result.expressed} != {FLOATS}:
            return None
        if not link.is_read:
            try:
                values = _computed(link, Rows.of(params).dequantized(codes), session)
            except (InexactError, ValueError):
                return None
            if values is None or np.isnan(values).any():
                return None
            codes = Rows.of(result).quantized(values, rounding_of(link.op))
        params = result
    return codes


def fitted(
    scales: Sequence[float], wanted: exact.Codes, made: Callable[[Sequence[float]], exact.Codes]
) -> tuple[Sequence[float], exact.Codes]:
    """Scales beside these, one per row, with which `made` gives as many of the rows of `wanted`
    as can be, and what it gives: a float a few units away may fall on the right side of every
    tie."""
    best = np.array(scales, np.float32)
    got = made(best.tolist())
    open_ = _differing(got, wanted)
    ends = [best.copy(), best.copy()]
    for _ in range(_BESIDE):
        for end, towards in zip(ends, (np.float32(np.inf), np.float32(0)), strict=True):
            if not open_.any():
                return best.tolist(), got
            end[:] = np.nextafter(end, towards)
            if not (end > 0).all() or np.isinf(end).any():
                continue
            tried = np.where(open_, end, best)
            found = made(tried.tolist())
            hit = open_ & ~_differing(found, wanted)
            best, got = np.where(hit, tried, best), np.where(hit[:, None], found, got)
            open_ &= ~hit
    return best.tolist(), got


def _differing(got: exact.Codes, wanted: exact.Codes) -> NDArray[np.bool_]:
    return (got != wanted).any(axis=1)


def floats_contract(
    found: Contract | None, wanted: exact.Codes | None, got: exact.Codes
) -> Contract | None:
    """What `found`, which holds in the reals, is in floats; `wanted` None: not known."""
    if found is None:
        return None
    if wanted is None:
        if found.level > Numerics.TIES:
            return found
        return Contract(Numerics.TIES, 1, "equal in the reals, not known in floats")
    apart = int(np.abs(wanted - got).max(initial=0))
    if not apart:
        return Contract(Numerics.EXACT, note="equal on all codes")
    if found.level <= Numerics.TIES:
        level = Numerics.TIES if apart == 1 else Numerics.BOUNDED
        return Contract(level, apart, "equal in the reals, not in floats")
    return Contract(found.level, max(found.steps, apart), found.note)


def _computed(link: Link, x: Any, session: QContext) -> Any:
    """The floats that the op of a link gives."""
    op = link.op
    if isinstance(op, RescaleOp):
        return x
    behavior = session.behaviors.get(op)
    assert behavior is not None
    with np.errstate(all="ignore"):
        if behavior.clamp is not None:
            low, high = behavior.clamp(op)
            return FloatSpan.exactly(x).clip(low, high).likely
        words = behavior.in_floats or behavior.arithmetic
        # Several roundings in an order of a runtime's own.
        if words is None or behavior.work is not None or not behavior.elementwise:
            return None
        values: list[FloatSpan] = []
        for operand in op.operands:
            if operand is link.x:
                values.append(FloatSpan.exactly(x))
                continue
            held = _row(operand, session)
            if held is None:
                return None
            values.append(FloatSpan.exactly(held))
        return words(op, values).likely


def _row(value: SSAValue, session: QContext) -> Any:
    """A constant as floats, one or a column of one for each channel."""
    array, params = constant_values(value, session), qparams_of(value)
    if array is None:
        return None
    if params is None:
        if str(element_type(value.type)) != FLOATS:
            return None
        floats = array
    else:
        if params.expressed != FLOATS or params.storage.is_float or params.storage.quantile:
            return None
        axis = params.axis
        if axis is not None:
            array = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
        elif not params.is_per_tensor:
            return None
        floats = Rows.of(params).dequantized(array)
        if axis is not None:
            return floats[:, :1] if (floats == floats[:, :1]).all() else None
    varying = [d for d, n in enumerate(shape_of(value)) if n > 1]
    if (floats == floats.reshape(-1)[0]).all():
        return floats.reshape(-1)[:1]
    return floats.reshape(-1, 1) if len(varying) == 1 else None
