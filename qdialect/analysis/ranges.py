"""What integers a quantized value can hold, whatever the inputs are.

One interval of codes per value (of real numbers, for floats that only casts, movements
and clamps made): from storage bounds, constants, saturation, clamps, and what the ops
in between declare. Nothing is assumed of arguments, plain integers read as codes, and
ops nobody declared: these hold anything their storage can.

Computed on demand, each value once, without recursion. A value keeps its interval as
long as nothing above it is replaced; then `forget` drops what depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import cast

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Block, Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.fixed_point import FixedPoint, requantize_fixed
from qdialect.algebra.qparams import QParams
from qdialect.algebra.ranges import Interval, quantized
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.assumptions import cut_to_assumption
from qdialect.analysis.codes import constant_values, is_integer, qparams_of, rounding_of
from qdialect.analysis.contractions import passes, result_range
from qdialect.analysis.intervals import (
    anything,
    as_floats,
    bounds_of,
    constant_range,
    in_floats,
    is_decidable,
    off_by,
    passed_on,
    reals_of,
    rescaled_codes,
    same_codes,
    union,
    within,
)
from qdialect.ir.behaviors import Accumulator, Behavior, PortKind
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, constant_of
from qdialect.ir.quant import (
    ConversionOp,
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    arithmetic_of,
    cast_rounding,
    element_type,
)

_WIDEST_IN_FLOATS = 16
"""Bits of codes that a float gives; sums of 32 bits are integers whatever a module says."""


class CodeRanges:
    """The intervals of one module while its rewrites go on (`ranges`)."""

    def __init__(self, session: QContext) -> None:
        self._session = session
        self._known: dict[SSAValue, Interval | None] = {}
        #: whether ranges stated on the IR (`assumptions`) are believed
        self.trusts = False
        #: what the intervals asked for since somebody emptied it assume
        self.assumed: set[str] = set()

    # -- asking ---------------------------------------------------------------

    def of(self, value: SSAValue) -> Interval | None:
        """The numbers in which `value` is stored (reals for a float), if there is a bound."""
        if value in self._known:
            return self._noted(self._known[value])
        pending: list[SSAValue] = [value]
        opened: set[Operation] = set()
        while pending:
            current = pending[-1]
            if current in self._known:
                pending.pop()
                continue
            # `isinstance` is slow where the answer is no.
            if type(current.owner) is Block:
                self._known[pending.pop()] = self._assumed(current, anything(current))
                continue
            owner = cast("Operation", current.owner)
            above = [v for v in self._reads(owner) if v not in self._known]
            if above and owner not in opened:
                opened.add(owner)
                pending += above
                continue
            pending.pop()
            for result, interval in zip(owner.results, self._results(owner), strict=True):
                self._known[result] = self._drifted(result, self._assumed(result, interval))
        return self._noted(self._known[value])

    def real(self, value: SSAValue) -> Interval | None:
        """The same in real units."""
        interval, params = self.of(value), qparams_of(value)
        return interval if params is None or interval is None else reals_of(interval, params)

    def before_rounding(self, value: SSAValue) -> list[Interval] | None:
        """The real numbers that a requantizing op rounds and saturates to make `value`:
        for all of it, or one interval per index of its quantized axis."""
        owner = value.owner
        if not isinstance(owner, Operation) or qparams_of(value) is None:
            return None
        for operand in self._reads(owner):
            self.of(operand)
            self._noted(self._known[operand])
        if isinstance(owner, QCastOp | RescaleOp):
            found = self._real(owner.input)
            return None if found is None else self._in_floats([found], value)
        behavior = self._session.behaviors.get(owner)
        if behavior is None or behavior.is_tied or len(owner.results) != 1:
            return None
        computed = self._computed(owner, behavior)
        return None if computed is None else self._in_floats(computed, value)

    def forget(self, op: Operation) -> list[Operation]:
        """Drop what was found for the results of `op` and everything computed from
        them; returns the ops that used one of them."""
        affected: dict[Operation, None] = {}
        pending = [op]
        while pending:
            changed = pending.pop()
            for result in changed.results:
                # What a constant holds is looked up without being asked for.
                unknown = self._known.pop(result, self) is self
                if unknown and not isinstance(changed, ConstantOp):
                    continue
                for use in result.uses:
                    if use.operation not in affected:
                        affected[use.operation] = None
                        pending.append(use.operation)
        return list(affected)

    def are_same(self, old: SSAValue, new: SSAValue) -> bool:
        """Whether both are known, and known to hold the same codes of one type: then what
        reads one may read the other, unless it looks at what stands above."""
        if self.trusts or old not in self._known or new not in self._known:
            return False
        looked_through = (ConstantOp, SCastOp)
        if (
            type(old.owner) in looked_through
            or type(new.owner) in looked_through
            or old.type != new.type
        ):
            return False
        return self._known[old] == self._known[new]

    def renumber(self, value: SSAValue, by: int) -> None:
        """All codes of `value` are `by` more from now on, and mean what they did."""
        interval = self._known.get(value)
        if interval is not None:
            low, high = interval.low + by, interval.high + by
            self._known[value] = Interval(low, high, interval.assuming)

    def known(self) -> dict[SSAValue, Interval | None]:
        """All intervals found so far, as they are now."""
        return dict(self._known)

    def prune(self) -> None:
        """Drop what was found for values that are gone."""
        for value in [v for v in self._known if _is_gone(v)]:
            del self._known[value]

    def _noted(self, found: Interval | None) -> Interval | None:
        if found is not None and found.assuming:
            self.assumed.add(found.assuming)
        return found

    def _drifted(self, value: SSAValue, found: Interval | None) -> Interval | None:
        """With what `value` was before rewrites that were not exact: a proof holds for the
        program as it was as well, so that bounds add up."""
        moved = self._session.error_bounds.of(value)
        if not moved or found is None:
            return found
        return off_by(value, found, moved)

    def _assumed(self, value: SSAValue, found: Interval | None) -> Interval | None:
        """`found` cut to the real range that the IR states for `value`, if that is trusted."""
        return cut_to_assumption(value, found) if self.trusts else found

    # -- one op ---------------------------------------------------------------

    def _reads(self, op: Operation) -> Sequence[SSAValue]:
        if self._session.behaviors.get(op) or isinstance(op, ConversionOp):
            if isinstance(op, SCastOp):
                source = same_codes(op)
                return [] if source is None else [source]
            return [v for v in op.operands if constant_of(v) is None]
        return []

    def _known_or_anything(self, value: SSAValue) -> Interval | None:
        if value in self._known:
            return self._known[value]
        return anything(value) if constant_of(value) is None else self.of(value)

    def _real(self, value: SSAValue) -> Interval | None:
        interval, params = self._known_or_anything(value), qparams_of(value)
        if params is None or interval is None:
            return interval
        return reals_of(interval, params) if is_integer(params) else None

    def _results(self, op: Operation) -> list[Interval | None]:
        if len(op.results) == 1:
            result = op.results[0]
            if type(op) is ConstantOp:
                return [constant_range(op, self._session)]
            if isinstance(op, ConversionOp):
                return [self._converted(op, result)]
        behavior = self._session.behaviors.get(op)
        if behavior is None:
            return [anything(result) for result in op.results]
        if behavior.commutes:
            return self._tied(op, behavior)
        if behavior.compares:
            return [self._element(op, behavior, index) for index in range(len(op.results))]
        if len(op.results) > 1 or qparams_of(op.results[0]) is None:
            return [bounds_of(result) for result in op.results]
        if behavior.on_stored is not None:
            return [self._looked_up(op, behavior)]
        if behavior.accumulator is not None:
            return [self._contracted(op, behavior, behavior.accumulator)]
        found = self._computed(op, behavior)
        return [self._stored(found, op.results[0], rounding_of(op))]

    def _converted(self, op: ConversionOp, result: SSAValue) -> Interval | None:
        if isinstance(op, SCastOp):
            source = same_codes(op)
            return self._known_or_anything(source) if source else anything(result)
        if isinstance(op, RescaleOp):
            return self._rescaled(op)
        if isinstance(op, QCastOp):
            values = self._real(op.input)
            return self._stored([values] if values else None, result, cast_rounding(op))
        return self._dequantized(op) if isinstance(op, DCastOp) else anything(result)

    def _looked_up(self, op: Operation, behavior: Behavior) -> Interval | None:
        """What an op that is defined on codes gives for those that can occur."""
        codes = self._known_or_anything(op.operands[0])
        others = [constant_values(v, self._session) for v in op.operands[1:]]
        known = [array for array in others if array is not None]
        if codes is None or len(known) < len(others):
            return bounds_of(op.results[0])
        if codes.high - codes.low >= 1 << exact.TABLE_WIDTH:
            return bounds_of(op.results[0])
        import numpy as np

        assert behavior.on_stored is not None
        every = np.arange(int(codes.low), int(codes.high) + 1)
        results = behavior.on_stored(op, [every, *known])
        return Interval(int(results.min()), int(results.max()), codes.assuming)

    def _stored(
        self, values: list[Interval] | None, result: SSAValue, rounding: Rounding
    ) -> Interval | None:
        """Codes of `result` for real numbers (all of it, or one interval per cell)."""
        params = qparams_of(result)
        if values is None or params is None or not is_decidable(params, rounding):
            return bounds_of(result)
        values = self._in_floats(values, result)
        if len(values) == 1:
            return union(quantized(values[0], b, rounding) for b in exact.quant_grids(params))
        cells = zip(values, exact.paired_parameters(params, params) or (), strict=True)
        return union(quantized(each, b, rounding) for each, (b, _) in cells)

    def _in_floats(self, values: list[Interval], result: SSAValue) -> list[Interval]:
        """What may be rounded to `result` where its op computes `values` in the reals."""
        params, owner = qparams_of(result), result.owner
        if params is None or not isinstance(owner, Operation):
            return values
        if params.storage.width > _WIDEST_IN_FLOATS:
            return values
        floats = arithmetic_of(owner).floats(params.expressed)
        if floats is None:
            return values
        behavior = self._session.behaviors.get(owner)
        sums = behavior is not None and behavior.accumulator is not None
        return [as_floats(each, floats, sums=sums) for each in values]

    def _rescaled(self, op: RescaleOp) -> Interval | None:
        codes = self._known_or_anything(op.input)
        a, b, pairs = op.input_qparams, op.result_qparams, op.fixed_point
        cells = exact.paired_parameters(a, b)
        if codes is None or cells is None or not (is_integer(a) and is_integer(b)):
            return bounds_of(op.result)
        floats = arithmetic_of(op).floats(a.expressed)
        if pairs is None:
            if op.rounding.two_stage:
                return bounds_of(op.result)
            if len(cells) == 1:
                return rescaled_codes(codes, *cells[0], op.rounding, floats)
            distinct = dict.fromkeys(cells)
            return union(rescaled_codes(codes, x, y, op.rounding, floats) for x, y in distinct)
        if len(pairs) not in (1, len(cells)):
            return bounds_of(op.result)
        import numpy as np

        ends = np.array([codes.low, codes.high], np.int64)
        stretched = pairs * len(cells) if len(pairs) == 1 else pairs
        found: list[Interval] = []
        for (x, y), pair in dict.fromkeys(zip(cells, stretched, strict=True)):
            low, high = requantize_fixed(ends, x, y, FixedPoint(*pair), op.rounding).tolist()
            found.append(Interval(low, high, codes.assuming))
        return union(found)

    def _dequantized(self, op: DCastOp) -> Interval | None:
        if not isinstance(element_type(op.result.type), Float32Type | Float64Type):
            return None
        values = self._real(op.input)
        return None if values is None else in_floats(values)

    def _element(self, op: Operation, behavior: Behavior, result: int) -> Interval | None:
        """Of an op that tells order: an element of the operands, or what tells it."""
        if behavior.result_port(result).kind is not PortKind.TIED:
            return bounds_of(op.results[result])
        found = [self._known_or_anything(op.operands[i]) for i in tied_operands(op, behavior)]
        known = [interval for interval in found if interval is not None]
        return union(known) if known and len(known) == len(found) else anything(op.results[result])

    def _tied(self, op: Operation, behavior: Behavior) -> list[Interval | None]:
        operands = [op.operands[i] for i in tied_operands(op, behavior)]
        found = [self._known_or_anything(v) for v in operands]
        known = [interval for interval in found if interval is not None]
        if len(known) != len(found) or not known:
            return [anything(result) for result in op.results]
        laid_out = [(qparams_of(v), k) for v, k in zip(operands, known, strict=True)]
        maps = behavior.maps(op) if behavior.movement is not None else None
        return [
            passed_on(op, behavior, laid_out, qparams_of(result), maps[index] if maps else None)
            for index, result in enumerate(op.results)
        ]

    def _computed(self, op: Operation, behavior: Behavior) -> list[Interval] | None:
        """The real numbers a declared op gives, before they are stored."""
        result, acc = op.results[0], behavior.accumulator
        if acc is not None:
            port = behavior.operand_port(acc.rhs)
            sums = result_range(self._session, op, acc, port, self._known_or_anything)
            params = qparams_of(result)
            if sums is None or params is None:
                return None
            alike = params.axis == acc.result_axis(op) and sums.count == params.count
            found = sums.each() if alike else [sums.joined()]
            bounds = behavior.activation(op) if behavior.activation else (-inf, inf)
            return [interval.clip(*bounds) for interval in found]
        operands = [self._real(v) for v in op.operands]
        if behavior.elementwise and len(operands) == 1:
            found = self._by_table(op, behavior)
            if found is not None:
                return [found]
        known = [interval for interval in operands if interval is not None]
        function = behavior.interval or behavior.arithmetic
        if function is None or len(known) != len(operands) or 0 in shape_of(result):
            return None
        try:
            return [Interval.exactly(function(op, known))]
        except ValueError:
            return None

    def _contracted(self, op: Operation, behavior: Behavior, acc: Accumulator) -> Interval | None:
        """What a contraction stores; most reach past both ends of their storage."""
        result, rounding = op.results[0], rounding_of(op)
        params = qparams_of(result)
        if params is None or not is_decidable(params, rounding):
            return bounds_of(result)
        a, *others = exact.quant_grids(params)
        ends = (a.low - 1 - a.zero) * a.scale, (a.high + 1 - a.zero) * a.scale
        port, known = behavior.operand_port(acc.rhs), self._known_or_anything
        if not others and passes(self._session, op, acc, port, known, *ends):
            return bounds_of(result)
        return self._stored(self._computed(op, behavior), result, rounding)

    def _by_table(self, op: Operation, behavior: Behavior) -> Interval | None:
        """f(x) on every code that can occur, every step rounded outwards."""
        function = behavior.arithmetic or behavior.analytic
        codes, params = self._known_or_anything(op.operands[0]), qparams_of(op.operands[0])
        if function is None or codes is None or params is None or not is_integer(params):
            return None
        if codes.high - codes.low >= 1 << exact.TABLE_WIDTH:
            return None
        import numpy as np

        from qdialect.algebra.float_spans import DoubleSpans

        found: list[Interval] = []
        every = np.arange(int(codes.low), int(codes.high) + 1)
        for a in exact.quant_grids(params):
            try:
                with np.errstate(all="ignore"):
                    x = DoubleSpans.of(np.float64(a.scale) * (every - a.zero))
                    values: DoubleSpans = function(op, [x])
                ends = Interval.exactly(np.stack([values.low, values.high]))
            except ValueError:
                return None
            found.append(Interval(ends.low, ends.high, codes.assuming))
        return union(found)


def _is_gone(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is None


def ranges(session: QContext) -> CodeRanges:
    """The ranges of the module that is being rewritten in `session`."""
    found = session.analyses.get(CodeRanges)
    if not isinstance(found, CodeRanges):
        found = session.analyses[CodeRanges] = CodeRanges(session)
    return found


def ranges_anew(session: QContext, *, trusts: bool = False) -> CodeRanges:
    """The same at the beginning of a pass: what passes before it found out holds only if
    somebody has seen to that (`QContext.keeps_analyses`)."""
    if not session.keeps_analyses or ranges(session).trusts != trusts:
        session.analyses.clear()
    found = ranges(session)
    found.trusts = trusts
    found.assumed.clear()
    return found


def inside_bounds(value: SSAValue, session: QContext) -> bool:
    """Whether every code of `value` is provably within its storage bounds: the
    bounds are the storage's own, or no code it can hold is outside."""
    params = qparams_of(value)
    if params is None or params.storage.is_full_range:
        return True
    codes = ranges(session).of(value)
    bounds = Interval(params.storage.min, params.storage.max)
    return codes is not None and codes.inside(bounds)


def narrowed_qparams(value: SSAValue, session: QContext) -> QParams | None:
    """The qparams of `value` with the smallest and largest code it can hold as bounds:
    what a decision over all codes must look at."""
    params = qparams_of(value)
    if params is None or not is_integer(params):
        return params
    return within(params, ranges(session).of(value))
