"""Whether a float that a model computes may be NaN though its inputs are numbers.

Quantize stores NaN as a code that an op behind it takes for a number, so an op that compares
(relu, clip, a maximum) does not commute with quantize there.  A function is tried on numbers of
both signs; quotients by what may be zero, and ops that nobody knows, may give anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.lazy_numpy import np
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.ir.context import QContext
from qdialect.ir.quant import DCastOp, element_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGE = 2.0**100
"""Sums and products of a few smaller floats do not overflow."""
_TRIED = (-1e4, -1.5, -1e-4, -0.0, 0.0, 1e-4, 1.5, 1e4)


class NotANumber:
    """What is known of the floats of a module; rewrites that keep what it computes keep that.

    With `finite`, infinities count as NaN does, and the inputs of the model may hold them.
    """

    def __init__(self, session: QContext, *, finite: bool = False) -> None:
        self._session, self._finite = session, finite
        self._known: dict[SSAValue, bool] = {}

    def may_be(self, value: SSAValue) -> bool:
        """Whether an op above `value`, up to what is dequantized or given, makes NaN of
        numbers."""
        pending = [value]
        while pending:
            current = pending[-1]
            missing = [v for v in self._above(current) if v not in self._known]
            if missing and current not in self._known:
                pending += missing
                continue
            pending.pop()
            if current not in self._known:
                self._known[current] = self._found(current)
        return self._known[value]

    def _above(self, value: SSAValue) -> Sequence[SSAValue]:
        owner = value.owner
        return owner.operands if isinstance(owner, Operation) and type(owner) is not DCastOp else ()

    def _found(self, value: SSAValue) -> bool:
        owner = value.owner
        if not isinstance(owner, Operation):
            return self._finite  # an argument
        if isinstance(owner, DCastOp):
            return _is_large(owner)
        if any(self._known[v] for v in owner.operands):
            return True
        if self._finite and owner.operands and element_type(value.type) != f32:
            return True  # small floats overflow soon
        return _makes_nan(owner, self._session, np.isfinite if self._finite else _is_number)


def _is_number(values: NDArray[Any]) -> NDArray[np.bool_]:
    return ~np.isnan(values)


def _is_large(cast: DCastOp) -> bool:
    params = qparams_of(cast.input)
    if params is None:
        return True
    furthest = 2.0**params.storage.width
    return max(params.scale_list()) * furthest > _LARGE


def _makes_nan(op: Operation, session: QContext, is_right: Callable[..., Any]) -> bool:
    if not op.operands:
        values = constant_values(op.results[0], session) if op.results else None
        if values is None or values.dtype.kind != "f":
            return values is None
        limit = min(_LARGE, float(np.finfo(values.dtype).max))  # f16 has no number so large
        return not bool((np.abs(values) < limit).all())
    behavior = session.behaviors.get(op)
    if behavior is None:
        return True
    if any(_may_be_zero(op.operands[index], session) for index in behavior.nonzero):
        return True
    if behavior.pointwise is None:
        return False
    with np.errstate(all="ignore"):
        return not bool(is_right(behavior.pointwise(op, np.array(_TRIED))).all())


def _may_be_zero(value: SSAValue, session: QContext) -> bool:
    values = constant_values(value, session)
    return values is None or values.dtype.kind != "f" or not bool(values.all())
