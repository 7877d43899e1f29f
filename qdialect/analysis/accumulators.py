"""Which contractions may leave the integers that a target adds up their products in.

A kernel says what it adds up in (`Target.sums`). What the activations of an op can be and the
weights that it has bound every sum of some of its products, in any order (`algebra.sums`): a sum
that fits never wraps or saturates, whatever comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.sums import Span, SumType, runtime_excess, to_signed
from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.analysis.index import every_op
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.shapes import DYNAMIC
from qdialect.ir.context import QContext
from qdialect.ir.ops.ports import bias_matches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.algebra.weights import Sums

    Numbers = NDArray[Any]


@dataclass(frozen=True)
class Products:
    """The products of a contraction on codes, and by which factor their sums are too large.

    `beyond` has one number per channel, or one: at most 1 where sums fit `kind`, infinite where
    nothing is known, for the `reason`. `rows` are the offsets of constant weights from their zero
    points, channels first, and `sums` what is added up of them.
    """

    op: Operation
    acc: Accumulator
    behavior: Behavior
    kind: SumType
    beyond: NDArray[np.float64]
    rows: Numbers | None = None
    sums: Sums | None = None
    reason: str = ""

    @property
    def fits(self) -> bool:
        """Whether no sum ever leaves its integers."""
        return not (self.beyond > 1).any()

    def __str__(self) -> str:
        if self.reason or len(self.beyond) == 1:
            return self.reason or f"sums may leave {self.kind}"
        count = int((self.beyond > 1).sum())
        return f"sums of {count} of {len(self.beyond)} channels may leave {self.kind}"


def products_of(
    session: QContext,
    op: Operation,
    kind: SumType | None = None,
    codes: Sequence[SSAValue] = (),
) -> Products | None:
    """The products of an op on codes, added up in `kind` (None: as the target says); None where
    it has none, or the target does not say.  An op on floats has them if its operands are
    dequantized `codes`."""
    target, behavior = session.target, session.behaviors.get(op)
    if behavior is None or behavior.accumulator is None:
        return None
    if kind is None and op.name not in target.kernels:
        return None
    acc = behavior.accumulator
    values = codes or op.operands
    operands, results = ([qparams_of(v) for v in each] for each in (values, op.results))
    lhs, rhs = operands[acc.lhs], operands[acc.rhs]
    if lhs is None or rhs is None or not (is_integer(lhs) and is_integer(rhs)):
        return None
    if None in results and not codes:
        return None
    kind = kind or target.sums(op, operands, results)
    if kind is None:
        return None
    import numpy as np

    def unknown(reason: str) -> Products:
        text = f"sums may leave {kind}: {reason}"
        return Products(op, acc, behavior, kind, np.array([np.inf]), reason=text)

    if not lhs.is_per_tensor or not (rhs.is_per_tensor or rhs.axis == acc.rhs_axis(op)):
        return unknown("scales differ along a dimension that is summed")
    x = Span.of(lhs, _codes(session, values[acc.lhs], lhs))
    weights = constant_values(values[acc.rhs], session)
    if weights is None or not weights.size:
        depth = acc.depth(op)
        if depth == DYNAMIC:
            return unknown("how many products are summed is not known")
        low, high = _codes(session, values[acc.rhs], rhs)
        zeros, shift = rhs.zero_point_list(), to_signed(rhs.storage)
        w = Span(min(low - max(zeros), 0), max(high - min(zeros), 0), 0)
        beyond = runtime_excess(x, w, (low + shift, high + shift), depth, kind)
        return Products(op, acc, behavior, kind, np.array([beyond]))
    bias = _bias(session, values, acc)
    if isinstance(bias, str):
        return unknown(bias)
    from qdialect.algebra.weights import Sums

    rows = _rows(op, acc, behavior, rhs, weights)
    bias_params = None if bias is None or acc.bias is None else operands[acc.bias]
    on_products = bias_params is not None and bias_matches(lhs, rhs, bias_params, acc.repeats(op))
    sums = Sums(lhs.scale, x, bias, kind, on_products=on_products)
    beyond = sums.excess(rows, rhs.scale_array().reshape(-1), signed_shift(rhs))
    return Products(op, acc, behavior, kind, beyond, rows, sums)


def signed_shift(params: QParams) -> Numbers:
    """What the signed codes that kernels multiply are above the offsets of a matrix of weights."""
    return params.zero_point_array().reshape(-1, 1) + to_signed(params.storage)


def unproven(ops: Iterable[Operation], session: QContext) -> tuple[list[Products], int]:
    """The contractions whose sums may not fit, and how many there are on codes."""
    found = [products_of(session, op) for op in ops]
    known = [products for products in found if products is not None]
    return [products for products in known if not products.fits], len(known)


def risk(module: Operation, session: QContext) -> str:
    """What may saturate or wrap in a module, in short; nothing where all sums fit."""
    if not session.target.restricts_sums:
        return ""
    may, total = unproven(list(every_op(module)), session)
    if not may:
        return ""
    kinds = " or ".join(dict.fromkeys(str(products.kind) for products in may))
    return f"sums of {len(may)} of {total} convolutions and products may leave {kinds}"


def _codes(session: QContext, value: SSAValue, params: QParams) -> tuple[int, int]:
    known = ranges(session).of(value)
    if known is None:
        return params.storage.min, params.storage.max
    return int(known.low), int(known.high)


def _rows(
    op: Operation, acc: Accumulator, behavior: Behavior, rhs: QParams, weights: Numbers
) -> Numbers:
    """The offsets of weights as a matrix; all of a vector is summed."""
    import numpy as np

    axis, allowed = acc.rhs_axis(op), behavior.operand_port(acc.rhs).axes
    if allowed is not None and axis not in allowed(op):
        weights = weights[np.newaxis]
    else:
        weights = np.moveaxis(weights, axis, 0)
    matrix = weights.reshape(len(weights), -1).astype(np.int64)
    return matrix - rhs.zero_point_array().reshape(-1, 1)


def _bias(
    session: QContext, operands: Sequence[SSAValue], acc: Accumulator
) -> Numbers | str | None:
    """The real numbers of the bias by channel, if there is one, or why they are not known."""
    if acc.bias is None or acc.bias >= len(operands):
        return None
    import numpy as np

    value = operands[acc.bias]
    codes, params = constant_values(value, session), qparams_of(value)
    if codes is None or not np.isfinite(codes).all():
        return "the bias is not constant"
    reals = codes.reshape(-1).astype(np.float64)
    if params is None:
        return reals
    offsets = reals - np.resize(params.zero_point_array(), reals.size)
    return offsets * np.resize(params.scale_array(), reals.size)
