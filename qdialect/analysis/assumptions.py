"""Ranges a profile or a person states for values, on the IR.

`nn.assumed_range = array<f64: low, high>` on an op, or on an argument of a function: the
real numbers its results are. Passes believe it only when asked to (`assume=profile`), and
say so wherever it decided something.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.ranges import Interval, quantized
from qdialect.algebra.requantize import quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.intervals import union
from qdialect.ir.ops import keys_of

ASSUMED = "nn.assumed_range"


def assumption(value: SSAValue) -> Interval | None:
    """The real range stated for `value`, marked with the name of what it is stated of."""
    owner = value.owner
    if isinstance(owner, Operation):
        attribute, name = owner.attributes.get(ASSUMED), ",".join(keys_of(owner)) or owner.name
    else:
        function, index = owner.parent_op(), getattr(value, "index", 0)
        if not isinstance(function, FuncOp) or function.arg_attrs is None:
            return None
        attribute = function.arg_attrs.data[index].data.get(ASSUMED)
        name = f"argument {index}"
    if not isinstance(attribute, DenseArrayBase):
        return None
    ends = [float(end) for end in cast("DenseArrayBase[Any]", attribute).get_values()]
    if len(ends) != 2 or not all(map(isfinite, ends)) or ends[0] > ends[1]:
        return None
    return Interval(Fraction(ends[0]), Fraction(ends[1]), f"the range of {name}")


def cut_to_assumption(value: SSAValue, found: Interval | None) -> Interval | None:
    """`found`, the codes of `value`, cut to those of the real range stated for it."""
    stated, params = assumption(value), qparams_of(value)
    if stated is None or found is None or params is None or not is_integer(params):
        return found
    return found.cut(union(quantized(stated, b, Rounding.HALF_EVEN) for b in quant_grids(params)))
