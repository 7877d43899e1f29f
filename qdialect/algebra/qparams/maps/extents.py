"""Sizes of a reshape's dimensions where some are unknown: monomials c * D1 * D2 ..

A reshape preserves the number of elements, so one unknown size on either side makes
both multiples of one unknown; divisibility between such monomials is then decided for
all values of the unknowns at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from qdialect.algebra.qparams.parameter_array import DYNAMIC, Shape


class Extent(NamedTuple):
    """`factor` times the unknowns in the bit set `unknowns` (each a positive integer)."""

    factor: int
    unknowns: int = 0

    def times(self, other: Extent) -> Extent:
        """The product; the two have no unknown in common."""
        return Extent(self.factor * other.factor, self.unknowns | other.unknowns)

    def divides(self, other: Extent) -> bool:
        """Is `other` a multiple of this whatever the unknowns are?"""
        return other.factor % self.factor == 0 and not self.unknowns & ~other.unknowns


def resolved(source: Shape, target: Shape) -> tuple[Shape, Shape]:
    """Both shapes of a reshape, with the unknown size filled in where the other side tells.

    Raises ValueError when the element counts cannot agree.
    """
    unknown_in, unknown_out = source.count(DYNAMIC), target.count(DYNAMIC)
    if unknown_in == 0 and unknown_out <= 1:
        return source, _completed(target, prod(source))
    if unknown_in == 1 and unknown_out == 0:
        return _completed(source, prod(target)), target
    return source, target


def extents(source: Shape, target: Shape) -> tuple[list[Extent], list[Extent]]:
    """Sizes of the two (resolved, non-empty) sides in common unknowns."""
    if source.count(DYNAMIC) == 1 and target.count(DYNAMIC) == 1:
        in_factor, out_factor = _known(source), _known(target)
        common = gcd(in_factor, out_factor)
        shared_in = Extent(out_factor // common, 1)
        shared_out = Extent(in_factor // common, 1)
        return _extents(source, [shared_in]), _extents(target, [shared_out])
    ins = source.count(DYNAMIC)
    symbols = [Extent(1, 1 << n) for n in range(ins + target.count(DYNAMIC))]
    return _extents(source, symbols[:ins]), _extents(target, symbols[ins:])


def strides(sizes: Sequence[Extent]) -> list[Extent]:
    """Row-major strides: the product of all sizes further in."""
    result: list[Extent] = []
    stride = Extent(1)
    for size in reversed(sizes):
        result.append(stride)
        stride = stride.times(size)
    return result[::-1]


def _extents(shape: Shape, unknowns: list[Extent]) -> list[Extent]:
    names = iter(unknowns)
    return [next(names) if size == DYNAMIC else Extent(size) for size in shape]


def _known(shape: Shape) -> int:
    return prod(size for size in shape if size != DYNAMIC)


def _completed(shape: Shape, elements: int) -> Shape:
    """`shape` with its only unknown size, if any, such that it has `elements`."""
    known = _known(shape)
    if DYNAMIC not in shape:
        if known != elements:
            raise ValueError(f"a shape {shape} does not have {elements} elements")
        return shape
    if known == 0 or elements % known:
        raise ValueError(f"no shape {shape} has {elements} elements")
    return tuple(elements // known if size == DYNAMIC else size for size in shape)
