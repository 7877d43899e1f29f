"""The types on which a target runs an op, as data.

A `Kernel` is one row of a table: types of operands and results that go together.  A type is
written as a domain (`algebra.qparams.domains`): the storages it may have, and what qparams:

    Kernel(("i8", "i8|i4 per-axis zero=0", "i32 per-axis"), ("i8|i16",))

takes i8 codes per tensor, i8 or i4 weights per tensor or per channel, and a bias.  The
last type repeats for further operands or results; `*` is any type the target has at all.
A kernel restricts quantized tensors only, no indices or conditions.

What else restricts it:

    Kernel(("i8", "i8 per-axis"), ("i8 as=0",), sums="i24 saturating",
           limits={"rank": "1..4", "strides": "1..3|8", "window(0)": "1..64", "channels": "x8"})
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, cast

from qdialect.algebra.qparams.domains import Domain, shown
from qdialect.algebra.sums import SUMS, SumType

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation

    from qdialect.algebra.qparams import QParams

ANY = "*"
_RANGE = re.compile(r"(-?\d+)(?:\.\.(-?\d+))?|x(\d+)")
_ENTRY = re.compile(r"(.+)\((\d+)\)")


@dataclass(frozen=True)
class Limit:
    """Numbers that are allowed: ranges (both ends inside) and multiples."""

    ranges: tuple[tuple[int, int], ...] = ()
    multiples: tuple[int, ...] = ()

    @staticmethod
    def parse(text: str) -> Limit:
        """`1..3`, `4` or `x8` (multiples of 8), or some of them: `1..3|8`; ValueError."""
        ranges: list[tuple[int, int]] = []
        multiples: list[int] = []
        for part in text.split("|"):
            found = _RANGE.fullmatch(part)
            if found is None or found[3] == "0":
                raise ValueError(f"not a limit: '{text}' (1..3, 4, x8 or 1..3|8)")
            if found[3]:
                multiples.append(int(found[3]))
            else:
                ranges.append((int(found[1]), int(found[2] or found[1])))
        return Limit(tuple(ranges), tuple(multiples))

    def holds(self, number: float) -> bool:
        """Whether a number is allowed."""
        return any(low <= number <= high for low, high in self.ranges) or any(
            number % unit == 0 for unit in self.multiples
        )


@dataclass(frozen=True)
class Kernel:
    """Types that go together: one per operand and one per result (the last repeats).

    `sums` is what products are added up in (`SumType`). `limits` restrict numbers by name, all
    of them or entry number `i` (`strides(0)`):

    | name | the numbers |
    |---|---|
    | `rank`, `extent`, `dynamic` | dimensions, extents, and extents not known, of every tensor |
    | `operands`, `results` | how many there are |
    | `batch`, `channels` | dimensions 0 and 1 of the first operand |
    | `window` | the attribute `kernel`, extents along `axes`, or those behind the channels of the |
    | | weights, or of the only operand |
    | `window-size` | their product |
    | `factor` | extents of the result by those of the first operand, behind the channels |
    | any other | those of the attribute, none if the op has none |

    ValueError for a text that says nothing.
    """

    operands: tuple[str, ...] = (ANY,)
    results: tuple[str, ...] = (ANY,)
    sums: str = "i32"
    limits: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        _ = self.operand_domains, self.result_domains, self.sum_type, self._limits

    def __hash__(self) -> int:
        return hash((self.operands, self.results, self.sums, *self.limits.items()))

    @cached_property
    def operand_domains(self) -> tuple[Domain, ...]:
        """What the operands may be."""
        return tuple(map(Domain.parse, self.operands))

    @cached_property
    def result_domains(self) -> tuple[Domain, ...]:
        """What the results may be."""
        return tuple(map(Domain.parse, self.results))

    @cached_property
    def sum_type(self) -> SumType:
        """What products are added up in."""
        return SumType.parse(self.sums)

    @cached_property
    def _limits(self) -> dict[str, Limit]:
        return {name: Limit.parse(text) for name, text in self.limits.items()}

    def operand(self, index: int) -> Domain:
        """What operand number `index` may be."""
        return self.operand_domains[min(index, len(self.operands) - 1)]

    def result(self, index: int) -> Domain:
        """What result number `index` may be."""
        return self.result_domains[min(index, len(self.results) - 1)]

    def refuses(
        self, operands: Sequence[QParams | None], results: Sequence[QParams | None]
    ) -> str | None:
        """Which of these types does not fit, or None (None: not quantized)."""
        sides = (
            ("operand", self.operands, self.operand, operands),
            ("result", self.results, self.result, results),
        )
        for side, texts, domain_of, found in sides:
            for index, params in enumerate(found):
                if params is None:
                    continue
                domain = domain_of(index)
                if not domain.takes_type(params):
                    text = texts[min(index, len(texts) - 1)]
                    return f"{side} #{index} is {shown(params)}, not {text}"
                if reason := domain.refuses(params):
                    return f"{side} #{index}: {reason}"
                same = domain.same_as
                if same is not None and same < len(operands) and operands[same] != params:
                    return f"{side} #{index} has other qparams than operand #{same}"
        return None

    def refuses_numbers(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> str | None:
        """Which number of an op with these types is beyond a limit, or None. A dynamic extent
        is beyond none."""
        for name, limit in self._limits.items():
            for number in _numbers(name, op, operands, results):
                if not limit.holds(number):
                    return f"{name} {number:g} is not {self.limits[name]}"
        return None

    def __str__(self) -> str:
        types = f"({', '.join(self.operands)}) -> {', '.join(self.results)}"
        sums = "" if self.sum_type == SUMS else f", sums in {self.sums}"
        return types + sums + "".join(f", {n} {text}" for n, text in self.limits.items())


def _numbers(
    name: str, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> Sequence[float]:
    """The known numbers of an op that a limit restricts."""
    if entry := _ENTRY.fullmatch(name):
        numbers = _named(entry[1], op, operands, results)
        numbers = numbers[int(entry[2]) :][:1]
    else:
        numbers = _named(name, op, operands, results)
    return [number for number in numbers if number is not None]


def _named(
    name: str, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> Sequence[float | None]:
    """The numbers that a name stands for, in order; None for one that is not known."""
    shapes = [_shape(kind) for kind in (*operands, *results)]
    known = [shape for shape in shapes if shape is not None]
    first = (shapes[0] if shapes else None) or ()
    if name == "rank":
        return [len(shape) for shape in known]
    if name == "extent":
        return [extent for shape in known for extent in shape]
    if name == "dynamic":
        return [shape.count(None) for shape in known]
    if name in ("operands", "results"):
        return [len(operands if name == "operands" else results)]
    if name in ("batch", "channels"):
        return first[:1] if name == "batch" else first[1:2]
    if name == "window":
        return _window(op, operands, first)
    if name == "window-size":
        window = _window(op, operands, first)
        return [] if None in window else [prod(extent for extent in window if extent is not None)]
    if name == "factor":
        last = (_shape(results[0]) if results else None) or ()
        pairs = list(zip(first, last, strict=False))[2:]
        return [None if None in (a, b) or not a else (b or 0) / a for a, b in pairs]
    return _attribute(op, name) or ()


def _window(
    op: Operation, operands: Sequence[Attribute], first: Sequence[int | None]
) -> Sequence[int | None]:
    """The extents of what an op sums or compares at a time."""
    if (window := _attribute(op, "kernel")) is not None:
        return [int(extent) for extent in window]
    if (axes := _attribute(op, "axes")) is not None:
        rank = len(first)
        return [first[int(axis)] for axis in axes if -rank <= axis < rank]
    weights = _shape(operands[1]) if len(operands) > 1 else first
    return () if weights is None else weights[2:]


def _shape(kind: Attribute) -> tuple[int | None, ...] | None:
    from xdsl.dialects.builtin import TensorType

    if not isinstance(kind, TensorType):
        return None
    return tuple(None if extent < 0 else extent for extent in kind.get_shape())


def _attribute(op: Operation, name: str) -> tuple[float, ...] | None:
    """The numbers of an attribute, or None if the op does not have it."""
    from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr

    found = op.properties.get(name, op.attributes.get(name))
    if isinstance(found, DenseArrayBase):
        return tuple(found.get_values())
    if isinstance(found, IntegerAttr | FloatAttr):
        return (found.value.data,)
    if isinstance(found, ArrayAttr):
        each_of = cast("ArrayAttr[Attribute]", found)
        return tuple(each.value.data for each in each_of if isinstance(each, IntegerAttr))
    return None
