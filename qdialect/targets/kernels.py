"""The types on which a target runs an op, as data.

A `Kernel` is one row of a table: types of operands and results that go together.  A type is
written as a domain (`qparams.domains`): the storages it may have, and what qparams:

    Kernel(("i8", "i8|i4 per-axis zero=0", "i32 per-axis"), ("i8|i16",))

takes i8 codes per tensor, i8 or i4 weights per tensor or per channel, and a bias.  The
last type repeats for further operands or results; `*` is any type the target has at all.
A kernel restricts quantized tensors only, no indices or conditions.

What else restricts it:

    Kernel(("i8", "i8 per-axis"), ("i8 as=0",), sums="i24 saturating",
           limits={"rank": "1..4", "strides": "1..3", "channels": "x8"})
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from qdialect.numerics.sums import SUMS, SumType
from qdialect.qparams.domains import Domain, shown

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation

    from qdialect.qparams import QParams

ANY = "*"
_LIMIT = re.compile(r"(\d+)\.\.(\d+)|x(\d+)")


@dataclass(frozen=True)
class Limit:
    """Numbers that are allowed: from `least` to `most`, multiples of `multiple`."""

    least: int = 0
    most: int | None = None
    multiple: int = 1

    @staticmethod
    def parse(text: str) -> Limit:
        """`1..3`, or `x8`: multiples of 8; ValueError."""
        found = _LIMIT.fullmatch(text)
        if found is None or found[3] == "0":
            raise ValueError(f"not a limit: '{text}' (1..3 or x8)")
        if found[3]:
            return Limit(multiple=int(found[3]))
        return Limit(int(found[1]), int(found[2]))

    def holds(self, number: int) -> bool:
        """Whether a number is allowed."""
        return (
            self.least <= number
            and (self.most is None or number <= self.most)
            and number % self.multiple == 0
        )


@dataclass(frozen=True)
class Kernel:
    """Types that go together: one per operand and one per result (the last repeats).

    `sums` is what products are added up in (`SumType`). `limits` restrict numbers by name:
    `rank` and `extent` (any dimension) of all tensors, `channels` (dimension 1 of the first
    operand), `window` (spatial extents of the weights, or the attribute), `window-size` (their
    product), and every other name the numbers of that attribute (`strides`). ValueError for a
    text that says nothing.
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
                    return f"{name} {number} is not {self.limits[name]}"
        return None

    def __str__(self) -> str:
        types = f"({', '.join(self.operands)}) -> {', '.join(self.results)}"
        sums = "" if self.sum_type == SUMS else f", sums in {self.sums}"
        return types + sums + "".join(f", {n} {text}" for n, text in self.limits.items())


def _numbers(
    name: str, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> Iterable[int]:
    """The known numbers of an op that a limit restricts."""
    shapes = [_shape(kind) for kind in (*operands, *results)]
    known = [shape for shape in shapes if shape is not None]
    if name == "rank":
        return [len(shape) for shape in known]
    if name == "extent":
        return [extent for shape in known for extent in shape if extent >= 0]
    if name == "channels":
        first = shapes[0] if shapes else None
        return [] if first is None or len(first) < 2 or first[1] < 0 else [first[1]]
    if name in ("window", "window-size"):
        window = _integers(op, "kernel")
        if window is None:
            weights = _shape(operands[1]) if len(operands) > 1 else None
            window = () if weights is None else weights[2:]
        if name == "window" or any(extent < 0 for extent in window):
            return window
        size = 1
        for extent in window:
            size *= extent
        return [size]
    return _integers(op, name) or ()


def _shape(kind: Attribute) -> tuple[int, ...] | None:
    from xdsl.dialects.builtin import TensorType

    return kind.get_shape() if isinstance(kind, TensorType) else None


def _integers(op: Operation, name: str) -> tuple[int, ...] | None:
    """The numbers of an attribute, or None if the op does not have it."""
    from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr

    found = op.properties.get(name, op.attributes.get(name))
    if isinstance(found, DenseArrayBase):
        return tuple(int(number) for number in found.get_values())
    if isinstance(found, IntegerAttr):
        return (found.value.data,)
    if isinstance(found, ArrayAttr):
        each_of = cast("ArrayAttr[Attribute]", found)
        return tuple(each.value.data for each in each_of if isinstance(each, IntegerAttr))
    return None
