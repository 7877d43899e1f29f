"""What chains of affine functions of codes compute: for each channel, a table of its codes.

An op of a chain computes clamp(m x + c) in the reals, where m and c are constants (one number,
or one for each index of a dimension), and quantizes the result. Clamps and rescales are ops
with m = 1 and c = 0; a pair of `quant.scast` that reinterprets codes on other qparams belongs to
a chain too, as it changes no code:

    %0 = nn.mul %x, %two : (!x, !one) -> !twice
    %1 = nn.add %0, %three : (!twice, !one) -> !y

On codes of at most 8 bits such a chain is, channel by channel, a table of at most 256 entries.
`fold_affine` and `form_depthwise` compare the op that takes the place of a chain with it, entry
by entry; `codes_contract` says what the difference means. Tables hold exact results: floats find
them, and fractions decide wherever floats are close to a tie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, isfinite
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.float_path import near_tie, tie_width
from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.linear import Line, at, column, linear_tables, values
from qdialect.algebra.qparams import Layout, QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.behaviors import AffineFunction
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of, shape_of
from qdialect.ir.quant import RescaleOp, SCastOp
from qdialect.passes.constant_scalars import PerChannel, vector_of
from qdialect.rewrite import Rule

MAX_OPS = 8
"""Ops of a chain that are considered together. What they become is an op of a chain again."""

_IDENTITY = AffineFunction(Fraction(1), Fraction(0))


# -- ops and chains -------------------------------------------------------------------


class OperandFunction(NamedTuple):
    """What an op with constants computes of its one operand `x`: one function, or one for each
    index of dimension `axis` of the result (None where a constant divides by 0)."""

    x: SSAValue
    axis: int | None
    functions: PerChannel[AffineFunction | None]


class ChainOp(NamedTuple):
    """`op` computes `functions` of its operand `x`, one for all or one for each index of
    dimension `axis`. With `on_codes` it rounds nothing: it clamps codes, or reinterprets them."""

    op: Operation
    x: SSAValue
    axis: int | None
    functions: PerChannel[AffineFunction | None]
    on_codes: bool = False

    @property
    def reinterprets(self) -> bool:
        """Whether it takes the same codes on other qparams."""
        return type(self.op) is SCastOp

    @property
    def computes(self) -> bool:
        """Whether it does more than clamp, rescale or reinterpret codes."""
        return not self.on_codes and type(self.op) is not RescaleOp


def chain_to(op: Operation, session: QContext) -> list[ChainOp]:
    """The chain that ends in `op`, last op first: each is the only user of the next."""
    chain: list[ChainOp] = []
    link = chain_op(op, session)
    while link is not None and len(chain) < MAX_OPS:
        chain.append(link)
        owner = link.x.owner
        if not isinstance(owner, Operation) or not link.x.has_one_use():
            break
        link = chain_op(owner, session)
    return chain


def chain_op(op: Operation, session: QContext) -> ChainOp | None:
    """`op` as one of a chain, or None."""
    if len(op.results) != 1 or not _is_bytes(op.results[0]):
        return None
    if isinstance(op, RescaleOp):
        if op.fixed_point is not None or op.rounding.two_stage:
            return None
        return _checked(ChainOp(op, op.input, None, PerChannel(1, lambda n: _IDENTITY)))
    if isinstance(op, SCastOp):
        return _reinterpretation(op)
    behavior = session.behaviors.get(op)
    if behavior is None or rounding_of(op).two_stage:
        return None
    if behavior.clamp is not None:
        if op.operands[0].type != op.results[0].type:
            return None
        clamp = _IDENTITY._replace(low=behavior.clamp(op)[0], high=behavior.clamp(op)[1])
        return _checked(ChainOp(op, op.operands[0], None, PerChannel(1, lambda n: clamp), True))
    function = function_of(op, session)
    return None if function is None else _checked(ChainOp(op, *function))


def function_of(op: Operation, session: QContext) -> OperandFunction | None:
    """The affine function that `op` is by its declaration, all operands but one constant; None if
    it is none, or the constants differ along several dimensions."""
    behavior = session.behaviors.get(op)
    if behavior is None or behavior.affine is None:
        return None
    if sum(constant_of(v) is None for v in op.operands) > 1:
        return None
    vectors = [vector_of(v, session) for v in op.operands]
    data = [v for v, vector in zip(op.operands, vectors, strict=True) if vector is None]
    if len(data) != 1:
        return None
    axis, count = None, 1
    rank = len(shape_of(op.results[0]))
    for value, vector in zip(op.operands, vectors, strict=True):
        if vector is None or vector[0] is None:
            continue
        along = vector[0] + rank - len(shape_of(value))
        if behavior.affine_along is not None:
            along = behavior.affine_along
        if axis not in (None, along):
            return None
        axis, count = along, len(vector[1])
    rows, affine = [v and v[1] for v in vectors], behavior.affine

    def function(n: int) -> AffineFunction | None:
        return affine(op, [None if row is None else row[n % len(row)] for row in rows])

    functions = PerChannel(count, function)
    return OperandFunction(data[0], axis, functions) if functions[0] else None


def _reinterpretation(op: SCastOp) -> ChainOp | None:
    """x' = (s' / s) x + (z - z') s', the codes being the same."""
    bits = op.input.owner
    if not isinstance(bits, SCastOp) or not op.input.has_one_use():
        return None
    before, after = qparams_of(bits.input), qparams_of(op.result)
    if before is None or after is None or before.storage != after.storage:
        return None
    pairs = exact.paired_parameters(before, after)
    if pairs is None:
        return None

    def function(n: int) -> AffineFunction:
        a, b = pairs[n]
        scale = Fraction(b.scale)
        return AffineFunction(scale / Fraction(a.scale), (a.zero - b.zero) * scale)

    axis = after.axis if before.axis is None else before.axis
    return _checked(ChainOp(op, bits.input, axis, PerChannel(len(pairs), function), on_codes=True))


def _checked(link: ChainOp) -> ChainOp | None:
    """None if a constant broadcasts x, parameters differ along several dimensions, or the rank is
    not known."""
    x, result = link.x, link.op.results[0]
    if not (isinstance(x.type, TensorType) and isinstance(result.type, TensorType)):
        return None
    if not _is_bytes(x) or shape_of(x) != shape_of(result):
        return None
    return link if len({*axes_of([link])}) <= 1 else None


def _is_bytes(value: SSAValue) -> bool:
    params = qparams_of(value)
    return (
        params is not None
        and params.layout in (Layout.TENSOR, Layout.AXIS)
        and params.storage.width <= 8
        and not params.storage.is_float
        and params.storage.quantile is None
        and params.expressed in FORMATS
    )


def axes_of(chain: Sequence[ChainOp]) -> list[int]:
    """The dimensions that functions or parameters of a chain differ along."""
    params = [qparams_of(chain[-1].x), *(qparams_of(link.op.results[0]) for link in chain)]
    axes = [link.axis for link in chain if link.axis is not None]
    return [*axes, *(q.axis for q in params if q is not None and q.axis is not None)]


@dataclass(eq=False)
class Chain:
    """`ops`, last first: what a rule on chains matches."""

    ops: Sequence[ChainOp]

    @property
    def root(self) -> Operation:
        """The last op."""
        return self.ops[0].op

    @property
    def x(self) -> SSAValue:
        """The operand of the first op."""
        return self.ops[-1].x

    @property
    def rounding(self) -> Rounding:
        """That of the last op that rounds."""
        return rounding_of(next(link.op for link in self.ops if not link.on_codes))


C = TypeVar("C", bound=Chain)


class ChainRule(Rule[C]):
    """A rule on chains of affine functions of codes."""

    def __init__(self, session: QContext, level: Numerics) -> None:
        super().__init__(session)
        #: beyond this level nobody needs to know by how much the codes differ
        self._level = level

    def roots(self) -> Iterable[str]:
        names = self.session.behaviors.names_with(
            lambda b: b.affine is not None or b.clamp is not None
        )
        return (*names, RescaleOp.name)


# -- channels ---------------------------------------------------------------------------


class ChannelOp(NamedTuple):
    """One op of a chain on one channel: `function`, then codes of `grid`. With `on_codes` it
    leaves codes alone that it does not clamp."""

    function: AffineFunction
    grid: exact.QuantGrid
    rounding: Rounding
    on_codes: bool


@dataclass(frozen=True)
class Channel:
    """What a chain does to one channel, first op first; the bounds of `source` are those of the
    codes that occur."""

    source: exact.QuantGrid
    ops: tuple[ChannelOp, ...]

    @cached_property
    def whole(self) -> AffineFunction:
        """All ops as one function, in the reals and without their clamps."""
        slope, offset = Fraction(1), Fraction(0)
        for op in self.ops:
            offset = offset * op.function.slope + op.function.offset
            slope *= op.function.slope
        return AffineFunction(slope, offset)

    @cached_property
    def tables(self) -> Tables:
        """Those of this channel alone."""
        return _tables([self])

    @property
    def result(self) -> exact.QuantGrid:
        """The grid of the last op."""
        return self.ops[-1].grid

    def line(self, n: int) -> Line:
        """Op `n` without its clamp, on the codes of the one before it."""
        op, before = self.ops[n], self.ops[n - 1].grid if n else self.source
        return Line(before, op.function.slope, op.function.offset, op.grid)

    @property
    def whole_line(self) -> Line:
        """All ops as one, without their clamps."""
        return Line(self.source, self.whole.slope, self.whole.offset, self.result)


class Undefined(Exception):
    """A function is not defined for the constants of a channel."""


def channels_of(chain: Sequence[ChainOp], session: QContext) -> PerChannel[Channel]:
    """What `chain` (last op first) does, channel by channel, or the one channel if all are alike.

    Reading a channel raises Undefined where a constant divides by 0.
    """
    known = narrowed_qparams(chain[-1].x, session)
    assert known is not None
    source, links = _grids(known), list(reversed(chain))
    results = [qparams_of(link.op.results[0]) for link in links]
    grids = [_grids(params) for params in results if params is not None]
    roundings = [rounding_of(link.op) for link in links]

    def channel(n: int) -> Channel:
        ops: list[ChannelOp] = []
        for link, grid, rounding in zip(links, grids, roundings, strict=True):
            function = link.functions[n]
            if function is None:
                raise Undefined(link.op)
            ops.append(ChannelOp(function, grid[n], rounding, link.on_codes))
        return Channel(source[n], tuple(ops))

    counts = [len(each) for each in (source, *grids)]
    return PerChannel(max(*counts, *(len(link.functions) for link in chain)), channel)


def _grids(params: QParams) -> PerChannel[exact.QuantGrid]:
    scales, zeros = params.scale_list(), params.zero_point_list()
    low, high = params.storage.min, params.storage.max
    return PerChannel(len(scales), lambda n: exact.QuantGrid(scales[n], zeros[n], low, high))


# -- tables -----------------------------------------------------------------------------


class Tables(NamedTuple):
    """A row for each channel, a column for each code that occurs: the result of the chain, and
    whether the storage of a value in the middle clips it on the way (1), or a clamp that no
    storage stands for (2). `before` has the codes that each op takes."""

    codes: exact.Codes
    clipped: exact.Codes
    before: tuple[exact.Codes, ...]


def tables_of(channels: Sequence[Channel]) -> Tables:
    """What the ops of `channels`, alike but for their numbers, do."""
    return channels[0].tables if len(channels) == 1 else _tables(channels)


def _tables(channels: Sequence[Channel]) -> Tables:
    before: list[exact.Codes] = []
    codes = np.repeat(exact.codes_of(channels[0].source)[None, :], len(channels), axis=0)
    clipped = np.zeros(codes.shape, np.int64)
    last = len(channels[0].ops) - 1
    for n, (_, _, rounding, on_codes) in enumerate(channels[0].ops):
        before.append(codes)
        ops = [channel.ops[n] for channel in channels]
        low, high = _clamp_codes(ops)
        if on_codes:
            clipped |= 2 * ((codes < low) | (codes > high))
            codes = np.clip(codes, low, high)
            continue
        lows = column([op.grid.low for op in ops])
        highs = column([op.grid.high for op in ops])
        free = linear_tables(codes, [_widened(channel.line(n)) for channel in channels], rounding)
        if n < last:
            clipped |= (free < lows) | (free > highs)
        acts = ((free < low) & (low > lows)) | ((free > high) & (high < highs))
        clipped |= 2 * acts
        codes = np.clip(np.clip(free, lows, highs), low, high)
    return Tables(codes, clipped, tuple(before))


def _widened(line: Line) -> Line:
    """With one more code at each end of the result, which tells what would be clipped."""
    return line._replace(b=line.b._replace(low=line.b.low - 1, high=line.b.high + 1))


def _clamp_codes(ops: Sequence[ChannelOp]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The codes that the clamps of one op end at, as columns."""
    known: dict[tuple[float, float, exact.QuantGrid], tuple[int, int]] = {}
    ends: list[tuple[int, int]] = []
    for op in ops:
        key = (op.function.low, op.function.high, op.grid)
        if key not in known:
            known[key] = _clamp_ends(op)
        ends.append(known[key])
    return column([low for low, _ in ends]), column([high for _, high in ends])


_FAR = 1 << 40
"""Beyond every code."""


def _clamp_ends(op: ChannelOp) -> tuple[int, int]:
    function, grid = op.function, op.grid
    rounding = Rounding.HALF_EVEN if op.on_codes else op.rounding
    low = exact.quantize_real(function.low, grid, rounding)
    high = exact.quantize_real(function.high, grid, rounding)
    if not op.on_codes:
        return low, high
    # No bound lets codes outside narrowed bounds through.
    return -_FAR if function.low == -inf else low, _FAR if function.high == inf else high


# -- contracts --------------------------------------------------------------------------


def reinterpretation_contract(channels: Sequence[Channel], expressed: str) -> Contract | None:
    """The contract of reinterpreting codes in place of a chain; None if it changes some code."""
    codes = exact.codes_of(channels[0].source)
    # The first channel mostly decides.
    samples = (channels[:1], channels) if len(channels) > 1 else (channels,)
    if not all((tables_of(sample).codes == codes).all() for sample in samples):
        return None
    return _ties_contract(channels, expressed)


def codes_contract(
    channels: Sequence[Channel], expected: Tables, actual: exact.Codes, expressed: str
) -> Contract | None:
    """The contract of codes `actual` in place of the tables of a chain; None if a clamp would be
    lost."""
    apart = np.abs(expected.codes - actual)
    if (apart[expected.clipped >= 2] != 0).any():
        return None
    if not apart.any():
        return _ties_contract(channels, expressed)
    steps, clipped = int(apart.max()), int(np.count_nonzero(apart * expected.clipped))
    if clipped:
        note = f"{clipped} codes were clipped on the way"
        return Contract(Numerics.SATURATION, steps, note)
    return Contract(Numerics.BOUNDED, steps, f"{np.count_nonzero(apart)} codes change")


def _ties_contract(channels: Sequence[Channel], expressed: str) -> Contract:
    """Of an op that gives the same codes: `ties` where runtimes that compute in floats may round
    either way, in an op of the chain or in the one function that it becomes."""
    distinct = list(dict.fromkeys(channels))
    before, count = tables_of(distinct).before, 0
    for n, first in enumerate(distinct[0].ops):
        if not first.on_codes:
            functions = [channel.ops[n].function for channel in distinct]
            lines = [channel.line(n) for channel in distinct]
            count += _count_ties(before[n], lines, functions, expressed, first.rounding)
    if len(distinct[0].ops) > 1:
        whole = [channel.whole for channel in distinct]
        lines = [channel.whole_line for channel in distinct]
        last = [op.rounding for op in distinct[0].ops if not op.on_codes][-1]
        count += _count_ties(before[0], lines, whole, expressed, last)
    if count:
        return Contract(Numerics.TIES, note=f"{count} results are ties in floats")
    return Contract(Numerics.EXACT)


def _count_ties(
    codes: exact.Codes,
    lines: Sequence[Line],
    functions: Sequence[AffineFunction],
    expressed: str,
    rounding: Rounding,
) -> int:
    """How many codes are so close to a tie that floats of the expressed type may round them
    either way."""
    results, count = values(codes, lines), 0
    for line, f in dict.fromkeys(zip(lines, functions, strict=True)):
        limits = [Fraction(v) / Fraction(line.b.scale) for v in (f.low, f.high) if isfinite(v)]
        count += sum(near_tie([v], line.b, expressed) for v in limits)
    # Fractions decide only where doubles do not.
    reach = results.sizes * (tie_width(expressed) * 1.001) + 2 * results.errors
    close = ~(results.distance() > reach)
    for row, code in dict.fromkeys((row, code) for row, _, code in at(close, codes)):
        line, f = lines[row], functions[row]
        unit = Fraction(line.b.scale)
        x = (code - line.a.zero) * Fraction(line.a.scale)
        scaled = line.slope * x
        value = scaled + line.offset
        if f.low <= value <= f.high:
            steps = [value / unit, scaled / unit, line.offset / unit]
            # A reciprocal is rounded, whatever is multiplied by it.
            exactly = rounding is not Rounding.RECIPROCAL
            computed = (x, scaled, value, value / unit) if exactly else ()
            count += near_tie(steps, line.b, expressed, computed)
    return count
