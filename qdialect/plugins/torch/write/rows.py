"""How one op is written: a row has its function on floats, and what differs on codes.

A function takes the op's `Properties` and the operands.  Rows stand in the files of their
families; `table` has them by the name of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.grid import Grid

Results = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True)
class Properties:
    """What an op says besides its operands: properties by name, the number and the extents
    of its results (None where unknown), the torch types of its results."""

    values: Mapping[str, Any]
    shapes: tuple[tuple[int | None, ...], ...] = ()
    kinds: tuple[torch.dtype, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str) -> Any:
        """A property, or None."""
        return self.values.get(name)


@dataclass(frozen=True)
class Number:
    """An operand as real numbers: `steps` times `scale`, doubles that broadcast."""

    steps: Tensor
    scale: Tensor
    grid: Grid | None = None

    @property
    def exact(self) -> Exact:
        """The numbers; never of a float's steps a product."""
        return Exact.of(self.steps) * Exact.of(self.scale)

    @property
    def approximate(self) -> Tensor:
        """The numbers as doubles."""
        return self.steps * self.scale

    def scaled_along(self, dims: Sequence[int]) -> Number:
        """The same with a scale that is one number along `dims`, over which is summed."""
        if all(self.scale.shape[d] == 1 for d in dims):
            return self
        return Number(self.approximate, torch.ones_like(self.scale[(slice(0, 1),) * self.rank]))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.steps.dim()


OnFloats = Callable[..., Results]
"""Of `Properties` and a tensor an operand."""
OnNumbers = Callable[..., Exact | Tensor]
"""Of `Properties` and a `Number` an operand; a tensor if the op is defined in floats."""
OnCodes = Callable[..., Results]
"""Of `Properties`, the grids of the operands and then of the results, and the codes."""


@dataclass(frozen=True)
class Row:
    """`codes`: on stored integers, where the op moves them or tells their order; `moves`: the
    function on floats takes any type, codes too.  `numbers`: in the reals, for one result;
    without it the function on floats is evaluated in doubles.  `wide`: f16 and bf16 are computed
    in f32.  `sums`: of what is dequantized, in doubles."""

    floats: OnFloats
    codes: OnCodes | None = None
    numbers: OnNumbers | None = None
    moves: bool = False
    wide: bool = True
    sums: bool = False


def movement(function: OnFloats) -> Row:
    """An op that copies elements, whatever they are."""

    def codes(p: Properties, grids: Sequence[Grid | None], *values: Tensor) -> Results:
        return function(p, *values)

    return Row(function, codes=codes, moves=True, wide=False)
