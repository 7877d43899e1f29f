"""Affine functions of codes, one after the other.

Each link computes clamp(m x + c) in the reals, with constants m and c that are one
number or one per index of a dimension, and quantizes the result; clamps and rescales
are links with m = 1, c = 0, and codes read on other qparams (a pair of `quant.scast`)
one that does nothing to them. On codes of at most 8 bits a chain is, channel by channel,
a table of at most 256 entries (`affine_tables`): what `fold_affine` compares everything with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, overload

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.behaviors import AffineFunction
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.float_text import FORMATS
from qdialect.numerics.rounding import Rounding
from qdialect.ops import constant_of, shape_of
from qdialect.passes.constant_scalars import vector_of
from qdialect.passes.folding.affine_tables import Channel, Step
from qdialect.qparams import Layout, QParams
from qdialect.quant import RescaleOp, SCastOp

#: links looked at together; what they become is a link again
MOST = 8


class Functions:
    """One function for all, or one per index: made when asked for, as most chains are told
    by a few of them."""

    def __init__(self, count: int, make: Callable[[int], AffineFunction | None]) -> None:
        self.count = count
        self._make = make
        self._made: dict[int, AffineFunction | None] = {}

    def __getitem__(self, index: int) -> AffineFunction | None:
        """None where it is not defined (a division by 0)."""
        n = index % self.count
        if n not in self._made:
            self._made[n] = self._make(n)
        return self._made[n]


class Link(NamedTuple):
    """`op` computes `functions` of its operand `x`, one for all or one per index of
    dimension `axis`."""

    op: Operation
    x: SSAValue
    axis: int | None
    functions: Functions
    on_codes: bool = False

    @property
    def is_read(self) -> bool:
        """Whether it reads codes on other qparams."""
        return type(self.op) is SCastOp

    @property
    def computes(self) -> bool:
        """Whether it is more than a clamp, a rescale or a read."""
        return not self.on_codes and type(self.op) is not RescaleOp


def roots_of_chains(session: QContext) -> Sequence[str]:
    """Names of the ops that a chain may end in."""
    linked = session.behaviors.names_with(lambda b: b.affine is not None or b.clamp is not None)
    return (*linked, RescaleOp.name)


def last_rounding(links: Sequence[Link]) -> Rounding:
    """That of the last link that rounds (`links`: last first)."""
    return rounding_of(next(link.op for link in links if not link.on_codes))


def chain_to(op: Operation, session: QContext) -> list[Link]:
    """The links that end in `op`, last first: each is the only use of the next."""
    links: list[Link] = []
    link = link_of(op, session)
    while link is not None and len(links) < MOST:
        links.append(link)
        owner = link.x.owner
        if not isinstance(owner, Operation) or not link.x.has_one_use():
            break
        link = link_of(owner, session)
    return links


def link_of(op: Operation, session: QContext) -> Link | None:
    """`op` as a link, if it is one."""
    if len(op.results) != 1 or not _is_bytes(op.results[0]):
        return None
    if isinstance(op, RescaleOp):
        if op.fixed_point is not None or op.rounding is Rounding.GEMMLOWP:
            return None
        return _link(
            op, op.input, None, Functions(1, lambda n: AffineFunction(Fraction(1), Fraction(0)))
        )
    if isinstance(op, SCastOp):
        return _read(op)
    behavior = session.behaviors.get(op)
    if behavior is None or rounding_of(op) is Rounding.GEMMLOWP:
        return None
    if behavior.clamp is not None:
        low, high = behavior.clamp(op)
        same = op.operands[0].type == op.results[0].type
        clamp = AffineFunction(Fraction(1), Fraction(0), low, high)
        return (
            _link(op, op.operands[0], None, Functions(1, lambda n: clamp), True) if same else None
        )
    found = function_of(op, session)
    return None if found is None else _link(op, found.x, found.axis, found.functions)


class Function(NamedTuple):
    """What an op with constants does to its one operand `x`: one function, or one for each
    index of the dimension `axis` of the result."""

    x: SSAValue
    axis: int | None
    functions: Functions


def function_of(op: Operation, session: QContext) -> Function | None:
    """The affine function that an op is by its declaration, if it is one."""
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

    functions = Functions(count, function)
    return Function(data[0], axis, functions) if functions[0] else None


def _read(op: SCastOp) -> Link | None:
    """x' = (s' / s) x + (z - z') s', the codes being the same."""
    bits = op.input.owner
    if not isinstance(bits, SCastOp) or not op.input.has_one_use():
        return None
    before, after = qparams_of(bits.input), qparams_of(op.result)
    if before is None or after is None or before.storage != after.storage:
        return None
    cells = exact.paired_parameters(before, after)
    if cells is None:
        return None

    def function(n: int) -> AffineFunction:
        a, b = cells[n]
        scale = Fraction(b.scale)
        return AffineFunction(scale / Fraction(a.scale), (a.zero - b.zero) * scale)

    return _link(
        op,
        bits.input,
        after.axis if before.axis is None else before.axis,
        Functions(len(cells), function),
        on_codes=True,
    )


def _link(
    op: Operation,
    x: SSAValue,
    axis: int | None,
    functions: Functions,
    on_codes: bool = False,
) -> Link | None:
    """None if a constant broadcasts x, or parameters differ along other dimensions, or the
    rank is not known."""
    result = op.results[0]
    if not (isinstance(x.type, TensorType) and isinstance(result.type, TensorType)):
        return None
    if not _is_bytes(x) or shape_of(x) != shape_of(result):
        return None
    link = Link(op, x, axis, functions, on_codes)
    return link if len({*axes_of([link])}) <= 1 else None


def axes_of(links: Sequence[Link]) -> list[int]:
    """The dimensions that functions or parameters differ along."""
    params = [qparams_of(links[-1].x), *(qparams_of(link.op.results[0]) for link in links)]
    found = [link.axis for link in links if link.axis is not None]
    return [*found, *(q.axis for q in params if q is not None and q.axis is not None)]


class Channels(Sequence[Channel]):
    """Channel by channel, or the one of all, what `links` (last first) do, made when asked
    for."""

    def __init__(self, links: Sequence[Link], session: QContext) -> None:
        seen = narrowed_qparams(links[-1].x, session)
        assert seen is not None
        self._start = _Stretched(seen)
        self._links = list(reversed(links))
        results = [qparams_of(link.op.results[0]) for link in self._links]
        self._codes = [_Stretched(params) for params in results if params is not None]
        self._roundings = [rounding_of(link.op) for link in self._links]
        counts = [codes.count for codes in (self._start, *self._codes)]
        self._count = max(*counts, *(link.functions.count for link in links))
        self._at: dict[int, Channel] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Channel: ...
    @overload
    def __getitem__(self, index: slice) -> list[Channel]: ...
    def __getitem__(self, index: int | slice) -> Channel | list[Channel]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        n = range(len(self))[index]
        if n not in self._at:
            self._at[n] = Channel(self._start[n], tuple(self._steps(n)))
        return self._at[n]

    def _steps(self, n: int) -> Iterator[Step]:
        for link, codes, rounding in zip(self._links, self._codes, self._roundings, strict=True):
            function = link.functions[n]
            if function is None:
                raise Undefined(link.op)
            yield Step(function, codes[n], rounding, link.on_codes)


class Undefined(Exception):
    """A function is not defined for the constants of a channel."""


class _Stretched:
    """Parameters as those of every index."""

    def __init__(self, params: QParams) -> None:
        self._bounds = params.storage.min, params.storage.max
        self._scales, self._zeros = params.scale_list(), params.zero_point_list()
        self.count = len(self._scales)

    def __getitem__(self, index: int) -> exact.QuantGrid:
        n = index % self.count
        return exact.QuantGrid(self._scales[n], self._zeros[n], *self._bounds)


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
