"""What an op declares, once, about its behavior under quantization.

Every pass (integerize, sink, hoist, combine, place, verify, report) reads these
declarations and nothing else about an op; a backend registers its own from
outside (`BehaviorRegistry.register`).  The words are those of
docs/design/001-architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.algebra.qparams import QParams
    from qdialect.algebra.qparams.maps import IndexMap


class PortKind(Enum):
    """What a port does with the qparams of the value on it."""

    #: the op takes qparams as they come; its meaning is dequantize, op, quantize
    REQUANT = "requantizing"
    #: all tied ports of an op have the same qparams (through the op's index map)
    TIED = "tied"
    #: the op or the target dictates the qparams
    FIXED = "fixed"
    #: i32 storage, zero point 0, scale = product of the accumulator's scales
    BIAS = "bias"
    #: never quantized: indices, conditions, statistics
    PLAIN = "plain"


_TIED = PortKind.TIED
AxesOf = Callable[[Operation], frozenset[int]]


def no_axes(op: Operation) -> frozenset[int]:
    """Per tensor only."""
    return frozenset()


def axes(*allowed: int) -> AxesOf:
    """Per axis allowed on these dimensions."""
    result = frozenset(allowed)
    return lambda op: result


@dataclass(frozen=True)
class Port:
    """One operand or result as the declaration sees it.

    `axes` gives the dimensions on which the port takes per-axis qparams, or None
    for any; `storages` the storage spellings allowed, or None for any. `channels` is the
    dimension of the output channels where the port takes weights and the op has no
    accumulator that says so (a recurrent layer sums products inside).
    """

    role: str
    kind: PortKind = PortKind.REQUANT
    axes: AxesOf | None = no_axes
    storages: tuple[str, ...] | None = None
    channels: int | None = None


@dataclass(frozen=True)
class Accumulator:
    """A contraction: integer products of two operands summed exactly.

    `lhs` and `rhs` are operand numbers, `bias` that of the optional bias.  The
    accumulator is i32 with scale `scale_lhs * scale_rhs` and zero point 0; a
    per-axis vector on dimension `rhs_axis(op)` of rhs lands on `result_axis(op)`
    of the result, `repeats(op)` times over (groups that share it).  `depth(op)` is the
    number of products summed per element.
    """

    lhs: int
    rhs: int
    bias: int | None
    rhs_axis: Callable[[Operation], int]
    result_axis: Callable[[Operation], int]
    depth: Callable[[Operation], int]
    repeats: Callable[[Operation], int] = lambda op: 1
    #: whether fewer products may meet: others are of padding, which is real 0
    pads: Callable[[Operation], bool] | None = None
    #: the dimension of the channels of lhs
    lhs_axis: Callable[[Operation], int] = lambda op: 1
    channels: Callable[[Operation], tuple[NDArray[np.int64], NDArray[np.int64]]] | None = None
    #: lhs and rhs are stacks of matrices that broadcast, as numpy's @ takes them
    matrices: bool = False


class AffineFunction(NamedTuple):
    """x -> min(max(slope * x + offset, low), high) in exact real units."""

    slope: Fraction
    offset: Fraction
    low: float = -inf
    high: float = inf


class Size(NamedTuple):
    """What |x| is known to be for every element x of a tensor, in real units: bounds, and
    of a constant each element's."""

    low: float = 0.0
    high: float = inf
    elements: NDArray[np.float64] | None = None


Sizes = Callable[[int], Size]
"""The size of an operand, by number; of the one that changes, before and after."""

Gain = Callable[[Operation, int, Sizes], "float | None"]

RealFunction = Callable[[Operation, "NDArray[np.float64]"], "NDArray[np.float64]"]
Expression = Callable[[Operation, Sequence[Any]], Any]
"""An op on the values of its operands, in one number system or another."""
Arrays = Callable[[Operation, "Sequence[NDArray[Any]]"], "NDArray[Any]"]
AffineOf = Callable[[Operation, "Sequence[Fraction | None]"], "AffineFunction | None"]
"""The affine function of one operand that an op is, given the real constants on the others
(None for that operand); None if it is not."""
MapOf = Callable[[Operation], "IndexMap"]
MapsOf = Callable[[Operation], "IndexMap | Sequence[IndexMap]"]
Bounds = tuple[Fraction | None, Fraction | None]
"""Low and high; None where there is no bound."""


def _unanswered() -> Any:
    """A question that a kind of op has no answer to: None, and no argument sets it."""
    return field(default=None, init=False, repr=False)


def _answer(default: Any = None) -> Any:
    return field(default=default, kw_only=True)


def _required() -> Any:
    return field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Behavior:
    """The declaration of one op: its ports, one per operand and one per result.

    The last operand port repeats when `variadic`, the last result port always. This class
    alone declares an op whose meaning stands in no formula here (a composite that is
    declared by its pieces, an op that stays float). Its subclasses are the kinds of ops
    that passes know:

        Movement         copies elements: index maps
        OrderPreserving  commutes with monotone maps: Clamp, Choice, Selection
        Comparison       plain results say how elements compare
        Computation      computes: Elementwise, Contraction, or any other formula
        Lookup           is defined on stored integers, not on the reals they name

    A pass matches on these classes, or asks any declaration one of the questions below,
    which are None where a kind of op has no answer. QError (`bad-behavior`) where ports
    and kind contradict each other. Two declarations are equal if they are the same object:
    classes without methods for more are made in half the time, which each start pays.
    """

    op: str
    operands: tuple[Port, ...]
    results: tuple[Port, ...] = (Port("result"),)
    variadic: bool = False

    # -- movement
    #: the index map of an op that copies elements, or one per result
    movement: MapsOf | None = _unanswered()
    #: the same, given the values of the plain operands (indices, conditions), for a
    #: movement that depends on them; `movement` is then what holds whatever they are
    movement_of_values: Callable[[Operation, Sequence[NDArray[Any]]], IndexMap] | None = (
        _unanswered()
    )
    #: for a movement with several results: the map from them back to its operand
    inverse_map: MapOf | None = _unanswered()
    #: whether a movement copies its one operand unchanged
    is_identity: Callable[[Operation], bool] | None = _unanswered()
    # -- order
    #: the real constants an order-preserving op compares with (relu: 0)
    compared_constants: Callable[[Operation], Sequence[float]] | None = _unanswered()
    #: for min(max(x, low), high): its bounds in real units (infinite where absent)
    clamp: Callable[[Operation], tuple[float, float]] | None = _unanswered()
    #: for an op that is a clamp of one operand where the others are real constants: its
    #: bounds in real units, given the constants (None for x), or None if it is none
    as_clamp: Callable[[Operation, Sequence[Fraction | None]], Bounds | None] | None = _unanswered()
    #: for an op that picks one of its tied operands by order, element by element with
    #: broadcasting: the same on numbers in any representation that keeps the order
    choose: Arrays | None = _unanswered()
    #: for an op that picks elements of one operand by order: its result on numbers in any
    #: representation that keeps the order (codes, floats), given the lowest one
    select: Callable[[Operation, NDArray[Any], Any], NDArray[Any]] | None = _unanswered()
    # -- along the result
    #: where the parameters of each tied operand are along the result of an op that
    #: broadcasts or reduces: one index map per tied operand, from which elements it need
    #: not say
    operand_maps: Callable[[Operation], Sequence[IndexMap]] | None = _unanswered()
    # -- computation
    #: the op on its operands, written with + - * / @, clip(low, high), reshape, swapaxes
    #: and indexing only: on exact rationals what it means on quantized tensors, on numpy
    #: floats what it computes; ValueError where it means nothing
    arithmetic: Expression | None = _unanswered()
    #: the op written with `elementary_functions` besides, where `arithmetic` cannot
    #: say it: on real numbers (`algebra.reals`) it decides which code is nearest
    analytic: Expression | None = _unanswered()
    #: f(x) elementwise on one operand, in real units, evaluated in float64
    pointwise: RealFunction | None = _unanswered()
    #: the op on one operand in real units, evaluated in float64, where no formula above can
    #: say it and elements of the result depend on several of the operand
    transcendental: RealFunction | None = _unanswered()
    #: the same as `arithmetic` or `analytic` on floats, each step rounded, where runtimes
    #: take other steps; ValueError where they do not round each step
    in_floats: Expression | None = _unanswered()
    #: how many numbers `arithmetic` multiplies or sums where that is several for one
    #: element of the result (on floats it then rounds several times)
    work: Callable[[Operation], int] | None = _unanswered()
    #: for f(x) = clamp(slope * x + offset) on one operand, the others being real
    #: constants: what f is, given the constants (None for x), or None if it is not;
    #: constants that differ along a dimension are given index by index
    affine: AffineOf | None = _unanswered()
    #: the dimension of x that constant vectors lie along, if not as numpy broadcasts them
    affine_along: int | None = _unanswered()
    #: the dimension along which the result is exp(x) over the sum of it: elements far below the
    #: largest are as good as not there, which is how scores are masked
    shares: Callable[[Operation], int] | None = _unanswered()
    #: integer products of two operands, summed exactly
    accumulator: Accumulator | None = _unanswered()
    #: what a contraction limits its sums to before they are stored, in real units: an
    #: activation that is part of the op (relu: 0 and infinity)
    activation: Callable[[Operation], tuple[float, float]] | None = _unanswered()
    #: largest output change in real units per unit of input change, operand by operand,
    #: given the sizes of all (None or infinite: no bound); used for `bounded(k)`
    gain: Gain | None = _unanswered()
    #: bounds of the result in real units, given those of the operands, for an op whose
    #: `arithmetic` cannot be run on intervals or gives wide ones (`algebra.ranges`);
    #: ValueError where there is no bound
    interval: Expression | None = _unanswered()
    #: the step of which every result is a multiple, exactly, if the operands have these
    #: qparams (a sum of one scale, a product of scales); None if there is none
    grid: Callable[[Operation, Sequence[QParams]], Fraction | None] | None = _unanswered()
    # -- stored integers
    #: the stored result, given the stored operands
    on_stored: Arrays | None = _unanswered()

    #: operands that must not be zero for the real function to be defined
    nonzero: tuple[int, ...] = field(default=(), init=False, repr=False)
    #: whether the result is a linear function of the first operand that keeps apart, and treats
    #: alike, the indices of the dimensions in `axes` of that operand's port
    linear: bool = field(default=False, init=False, repr=False)
    #: whether `arithmetic` also takes square roots, in which it is monotone
    roots: bool = field(default=False, init=False, repr=False)
    #: each element of the result depends on the elements of the operands at its place
    #: alone (which broadcast as in numpy)
    elementwise: bool = field(default=False, init=False, repr=False)
    #: commutes with every monotone map of values (max pool, relu, clip ...)
    order_preserving: bool = field(default=False, init=False, repr=False)
    #: plain results say only how the elements of the tied operands, which have one parameter
    #: field, compare: a strictly monotone map of values leaves them
    compares: bool = field(default=False, init=False, repr=False)
    #: a movement whose meaning is also defined on operands of unequal qparams: each is
    #: requantized to the result's
    requantizes_inputs: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            from qdialect.errors import QError

            raise QError(f"behavior of '{self.op}': {problem}", code="bad-behavior")

    def _problem(self) -> str | None:
        """How the ports contradict each other, or None; the kinds ask for more."""
        roles = [port.role for port in self.operands]
        if not self.results:
            return "there is no result port"
        if len(set(roles)) != len(roles):
            return "two operands have the same role"
        if self.variadic and not self.operands:
            return "variadic without an operand port"
        if not self.compares and self._has(self.operands, _TIED) != self._has(self.results, _TIED):
            return "tied ports need an operand and a result"
        return None

    @staticmethod
    def _has(ports: Sequence[Port], kind: PortKind) -> bool:
        return any(port.kind is kind for port in ports)

    def operand_port(self, index: int) -> Port:
        """The port of operand `index`; IndexError if the op has no such operand."""
        if self.variadic and index >= len(self.operands):
            return self.operands[-1]
        return self.operands[index]

    def result_port(self, index: int) -> Port:
        """The port of result `index` (the last repeats for variadic results)."""
        return self.results[min(index, len(self.results) - 1)]

    def maps(self, op: Operation) -> tuple[IndexMap, ...]:
        """The index maps of a movement op, one per result."""
        assert self.movement is not None
        maps = self.movement(op)
        return tuple(maps) if isinstance(maps, Sequence) else (maps,)

    @property
    def has_weights(self) -> bool:
        """Products with weights are summed: in an accumulator, or inside a composite."""
        return self.accumulator is not None or any(p.channels is not None for p in self.operands)

    @property
    def is_tied(self) -> bool:
        """The result carries the qparams of the tied operands."""
        return self.results[0].kind is PortKind.TIED

    @property
    def commutes(self) -> bool:
        """Quantizing, dequantizing and rescaling may pass the op: it copies elements, or
        commutes with monotone maps.  Tied ports alone (an average pool that wants one
        scale on both sides) do not say so."""
        return self.is_tied and (self.movement is not None or self.order_preserving)


@dataclass(frozen=True, eq=False, repr=False)
class Movement(Behavior):
    """An op that copies elements: reshape, transpose, slice, pad, concat, gather.

    Casts and rescales pass it; parameters follow its index maps (law 2.2).
    """

    movement: MapsOf = _required()
    movement_of_values: Callable[[Operation, Sequence[NDArray[Any]]], IndexMap] | None = _answer()
    inverse_map: MapOf | None = _answer()
    is_identity: Callable[[Operation], bool] | None = _answer()
    requantizes_inputs: bool = _answer(False)

    def _problem(self) -> str | None:
        if not (self._has(self.operands, _TIED) and self._has(self.results, _TIED)):
            return "a movement op needs a tied operand and a tied result"
        if self._has((*self.operands, *self.results), PortKind.REQUANT):
            return "a movement op cannot have a requantizing port"
        return super()._problem()


@dataclass(frozen=True, eq=False, repr=False)
class OrderPreserving(Behavior):
    """An op that commutes with every monotone map of values."""

    compared_constants: Callable[[Operation], Sequence[float]] | None = _answer()
    operand_maps: Callable[[Operation], Sequence[IndexMap]] | None = _answer()
    order_preserving: bool = field(default=True, init=False, repr=False)

    def _problem(self) -> str | None:
        if not self._has(self.operands, _TIED):
            return "an order-preserving op needs tied ports"
        if self._has((*self.operands, *self.results), PortKind.REQUANT):
            return "an order-preserving op cannot have a requantizing port"
        return super()._problem()


@dataclass(frozen=True, eq=False, repr=False)
class Clamp(OrderPreserving):
    """min(max(x, low), high), element by element: relu, clip."""

    clamp: Callable[[Operation], tuple[float, float]] = _required()
    elementwise: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.compared_constants is None:
            object.__setattr__(self, "compared_constants", _finite_bounds(self.clamp))
        super().__post_init__()


def _finite_bounds(
    clamp: Callable[[Operation], tuple[float, float]],
) -> Callable[[Operation], Sequence[float]]:
    return lambda op: [bound for bound in clamp(op) if isfinite(bound)]


@dataclass(frozen=True, eq=False, repr=False)
class Choice(OrderPreserving):
    """One of the tied operands, element by element, by order: maximum, minimum."""

    choose: Arrays = _required()
    as_clamp: Callable[[Operation, Sequence[Fraction | None]], Bounds | None] | None = _answer()
    elementwise: bool = field(default=True, init=False, repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Selection(OrderPreserving):
    """Elements of the operand by order: a maximum over windows or dimensions."""

    select: Callable[[Operation, NDArray[Any], Any], NDArray[Any]] = _required()
    work: Callable[[Operation], int] | None = _answer()


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Behavior):
    """An op whose plain results say how elements compare: compare, arg_max, top_k."""

    operand_maps: Callable[[Operation], Sequence[IndexMap]] | None = _answer()
    compares: bool = field(default=True, init=False, repr=False)

    def _problem(self) -> str | None:
        if not self._has(self.operands, _TIED):
            return "an op that compares has tied operands"
        if not self._has(self.results, PortKind.PLAIN):
            return "an op that compares has a plain result"
        return super()._problem()


@dataclass(frozen=True, eq=False, repr=False)
class Computation(Behavior):
    """An op with a formula on real numbers: a mean, a normalization, a resize."""

    arithmetic: Expression | None = _answer()
    analytic: Expression | None = _answer()
    transcendental: RealFunction | None = _answer()
    in_floats: Expression | None = _answer()
    work: Callable[[Operation], int] | None = _answer()
    affine: AffineOf | None = _answer()
    affine_along: int | None = _answer()
    operand_maps: Callable[[Operation], Sequence[IndexMap]] | None = _answer()
    gain: Gain | None = _answer()
    interval: Expression | None = _answer()
    shares: Callable[[Operation], int] | None = _answer()
    grid: Callable[[Operation, Sequence[QParams]], Fraction | None] | None = _answer()
    linear: bool = _answer(False)
    roots: bool = _answer(False)
    nonzero: tuple[int, ...] = _answer(())

    def _problem(self) -> str | None:
        if any(not 0 <= n < len(self.operands) for n in self.nonzero):
            return "nonzero names operands the op does not have"
        if self.operand_maps and not self._has(self.operands, _TIED):
            return "operand_maps is for tied ports"
        return super()._problem()


@dataclass(frozen=True, eq=False, repr=False)
class Elementwise(Computation):
    """A formula of the elements at one place: sums, products, functions of one operand."""

    pointwise: RealFunction | None = _answer()
    elementwise: bool = field(default=True, init=False, repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Contraction(Computation):
    """Products of two operands, summed: convolutions, matrix products.

    The sums, and the bias, may be limited by an `activation` before they are stored.
    """

    accumulator: Accumulator = _required()
    activation: Callable[[Operation], tuple[float, float]] | None = _answer()

    def _problem(self) -> str | None:
        sums = self.accumulator
        used = [n for n in (sums.lhs, sums.rhs, sums.bias) if n is not None]
        if len(set(used)) != len(used) or max(used) >= len(self.operands):
            return "the accumulator names operands the op does not have"
        if sums.bias is not None and self.operands[sums.bias].kind is not PortKind.BIAS:
            return "the accumulator's bias is not a bias port"
        return super()._problem()


@dataclass(frozen=True, eq=False, repr=False)
class Lookup(Behavior):
    """An op that is defined on stored integers and not on the reals they name: a table."""

    on_stored: Arrays = _required()
    elementwise: bool = field(default=True, init=False, repr=False)
