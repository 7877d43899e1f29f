"""Whether an op that computes integers on its own step, and the rescale behind them, round once.

A convolution into i32 on the product of its scales rounds nothing, so the rescale is the only
rounding, as it is in the op that gives the rescaled result at once. But the product of two scales
is rounded to a double in the type of the sums, so the two may decide otherwise next to where the
result steps from one code to the next:

    t = (n - 1/2) * s_out / s_sums        from n-1 to n, in sums

They are the same if each t is further from a whole number than the two scales are apart there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.ir.behaviors import Behavior
from qdialect.ir.context import QContext
from qdialect.passes.rescale.split_rescale import operand_qparams
from qdialect.rewrite import Refusal

_APART = 2.0**-50
"""Bound of the relative error of a product of scales, and of a threshold in doubles."""
_CLOSE = Fraction(1, 1 << 50)
_MOST = 1 << 22


def rounds_once(
    session: QContext, op: Operation, behavior: Behavior, sums: QParams, target: QParams
) -> bool:
    """Whether `op` gives whole numbers on the scales of `sums`, its result, and rescaling them
    to `target` is as rounding once, provided that no sum leaves 32 bits."""
    if sums.storage.spelling != "i32" or any(sums.zero_point_list()) or not target.is_per_tensor:
        return False
    steps = _steps(op, behavior, sums)
    if steps is None:
        return False
    scales = sums.scale_list()
    if any(abs(Fraction(s) - step) > step * _CLOSE for s, step in zip(scales, steps, strict=True)):
        return False
    if all(Fraction(s) == step for s, step in zip(scales, steps, strict=True)):
        return True
    low, high = (bound - target.zero_point for bound in (target.storage.min, target.storage.max))
    if (high - low) * len(scales) > _MOST:
        return False
    halves = np.arange(low + 1, high + 1) - 0.5
    thresholds = halves * target.scale / np.array(scales)[:, None]
    away = np.abs(thresholds - np.rint(thresholds))
    return bool((away > (np.abs(thresholds) + _largest_bias(session, op, behavior)) * _APART).all())


def _steps(op: Operation, behavior: Behavior, sums: QParams) -> Sequence[Fraction] | None:
    """The step of the result for each scale of `sums`, exactly."""
    acc = behavior.accumulator
    if acc is not None:
        lhs, rhs = (qparams_of(op.operands[n]) for n in (acc.lhs, acc.rhs))
        if lhs is None or rhs is None or not lhs.is_per_tensor:
            return None
        steps = [Fraction(lhs.scale) * Fraction(scale) for scale in rhs.scale_list()]
        if len(steps) > 1:
            steps *= acc.repeats(op)
        if len(set(steps)) == 1:
            steps = steps[:1] * sums.count
        return steps if len(steps) == sums.count else None
    params = operand_qparams(op, behavior)
    if behavior.grid is None or isinstance(params, Refusal):
        return None
    step = behavior.grid(op, params)
    if step is None and behavior.grid(op, [params[0]] * len(params)) is not None:
        # A sum of terms that are whole numbers of the result's steps.
        whole = all((Fraction(q.scale) / Fraction(sums.scale)).denominator == 1 for q in params)
        step = Fraction(sums.scale) if sums.is_per_tensor and whole else None
    return None if step is None else [step] * sums.count


def _largest_bias(session: QContext, op: Operation, behavior: Behavior) -> float:
    acc = behavior.accumulator
    if acc is None or acc.bias is None or acc.bias >= len(op.operands):
        return 0.0
    values = constant_values(op.operands[acc.bias], session)
    return 2.0**31 if values is None else float(np.abs(values.astype(np.float64)).max(initial=0))
