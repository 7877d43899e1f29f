"""Constants that a maximum or minimum compares with, when a rescale passes it.

    max(rescale_{a->b}(x), c) = rescale_{a->b}(max(x, c'))    on all codes x

per element of the constant, decided on tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.behaviors import Behavior
from qdialect.behaviors.shapes import shape_of
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.arithmetic import Arithmetic, table
from qdialect.numerics.rounding import Rounding
from qdialect.ops import constant_array, constant_of
from qdialect.passes.pair_contract import NO_GEMMLOWP
from qdialect.qparams import QParams
from qdialect.rewrite import Refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Counterpart:
    """Operand `index` with other codes on other qparams."""

    index: int
    codes: NDArray[Any]
    params: QParams


def constant_operand(session: QContext, op: Operation, index: int) -> Counterpart:
    """Constant operand `index` of `op` as it is."""
    value = op.operands[index]
    constant, params = constant_of(value), qparams_of(value)
    assert constant is not None and params is not None
    return Counterpart(index, constant_array(constant, session.blobs), params)


def counterpart(
    op: Operation,
    behavior: Behavior,
    held: Counterpart,
    params: QParams,
    rounding: Rounding,
    *,
    defined: Arithmetic,
    inside: bool,
) -> Counterpart | Refusal:
    """What the constant operand `held` of `op` becomes on `params` once the rescales on
    all of its other tied operands stand below it; `inside`: their codes keep the bounds."""
    before = held.params
    if rounding is Rounding.GEMMLOWP:
        return NO_GEMMLOWP
    if not all(exact.tabulated(q) and is_integer(q) for q in (before, params)):
        return Refusal("table", "too many codes to decide on a constant")
    seen = params
    if not inside:
        low, high = params.storage.full_range
        seen = params.with_storage(replace(params.storage, min=low, max=high))
    shape = shape_of(op.operands[held.index])
    found = _per_cell(op, behavior, held.codes, shape, (params, seen, before), rounding, defined)
    if found is None:
        return Refusal("levels", "no code stands for a constant it compares with")
    from qdialect.numerics.quantize import storage_dtype

    return Counterpart(held.index, found.astype(storage_dtype(params)), params)


def _per_cell(
    op: Operation,
    behavior: Behavior,
    codes: NDArray[Any],
    shape: tuple[int, ...],
    params: tuple[QParams, QParams, QParams],
    rounding: Rounding,
    defined: Arithmetic,
) -> NDArray[np.int64] | None:
    """The codes, decided once per distinct one and pair of parameters that meet there."""
    import numpy as np

    from qdialect.numerics.quantize import spread

    choose = behavior.choose
    assert choose is not None
    a, seen, b = params
    fields = [
        np.broadcast_to(spread(values, q, shape), shape)
        for q in (a, b)
        for values in (q.scale_array(), q.zero_point_array())
    ]
    cells = np.stack([np.asarray(f, np.float64).reshape(-1) for f in fields])
    kinds, which = np.unique(cells, axis=1, return_inverse=True)
    flat, result = codes.reshape(-1).astype(np.int64), np.empty(codes.size, np.int64)
    for number, (scale, zero, to_scale, to_zero) in enumerate(kinds.T.tolist()):
        here = which.reshape(-1) == number
        wanted, back = np.unique(flat[here], return_inverse=True)
        source = exact.QuantGrid(scale, int(zero), a.storage.min, a.storage.max)
        wide = source._replace(low=seen.storage.min, high=seen.storage.max)
        target = exact.QuantGrid(to_scale, int(to_zero), b.storage.min, b.storage.max)
        values = table(wide, target, rounding, defined.floats(a.expressed))
        found = exact.counterparts(wanted, source, wide, values, lambda x, c: choose(op, (x, c)))
        if found is None:
            return None
        result[here] = found[back.reshape(-1)]
    return result.reshape(codes.shape)
