"""Layers of the `quant` dialect, and of a module's interface."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from qdialect.algebra.rounding import Rounding
from qdialect.plugins.torch.write.grid import Grid

Extents = tuple[int | None, ...]
"""Extents of a value, None where unknown."""


class Quantize(Module):
    """`quant.qcast`: q = clamp(R(x / s) + z), the quotient a float."""

    def __init__(self, grid: Grid, rounding: Rounding, trainable: bool) -> None:
        super().__init__()
        self.grid, self.rounding, self.trainable = grid, rounding, trainable

    def forward(self, value: Tensor) -> Tensor:
        """Codes; in training, the numbers of them."""
        if self.trainable:
            return self.grid.fake_quantize(value, self.rounding)
        return self.grid.quantize(value, self.rounding)


class Dequantize(Module):
    """`quant.dcast`: x = float(q - z) * s."""

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, codes: Tensor) -> Tensor:
        """The numbers of codes."""
        return self.grid.dequantize(codes)


class Requantize(Module):
    """`quant.rescale` in its real form: in the reals, or `in_floats`."""

    def __init__(self, source: Grid, target: Grid, rounding: Rounding, in_floats: bool) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.rounding, self.in_floats = rounding, in_floats

    def forward(self, codes: Tensor) -> Tensor:
        """The codes of the same numbers on the other grid."""
        if self.in_floats:
            return self.target.quantize(self.source.dequantize(codes), self.rounding)
        return self.target.store(self.source.reals(codes), self.rounding)


class FixedPoint(Module):
    """`quant.rescale` by multiplier and shift: clamp(R((q - z) * m * 2^-n) + z').

    `multiplier` and `shift` broadcast to the codes.
    """

    multiplier: Tensor
    shift: Tensor

    def __init__(
        self, source: Grid, target: Grid, multiplier: Tensor, shift: Tensor, rounding: Rounding
    ) -> None:
        super().__init__()
        self.source, self.target, self.rounding = source, target, rounding
        self.register_buffer("multiplier", multiplier, persistent=False)
        self.register_buffer("shift", shift, persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        """The codes on the other grid, in integers."""
        shift = self.shift
        steps = codes.to(torch.int64) - self.source.zero_points(codes.shape)
        product = steps * self.multiplier
        half = torch.where(shift > 0, torch.ones_like(shift) << (shift - 1).clamp(min=0), 0)
        if self.rounding.two_stage:
            up = (steps >= 0) | (self.rounding is Rounding.RUY)
            nudge = torch.where(up, 1 << 30, -(1 << 30))
            rounded = (product + half + torch.where(shift > 31, nudge, 0)) >> shift
        else:
            whole = product >> shift
            rest = product - (whole << shift)
            tie = (rest == half) & (shift > 0)
            rounded = whole + torch.where(tie, self._tie_up(whole), (rest > half) & (shift > 0))
        return self.target.clamped(rounded.to(torch.float64))

    def _tie_up(self, whole: Tensor) -> Tensor:
        if self.rounding is Rounding.HALF_EVEN:
            return whole % 2 == 1
        return whole >= 0 if self.rounding is Rounding.HALF_AWAY else torch.ones_like(whole) > 0


class SameBits(Module):
    """The same bits under another signedness; in training, of the codes of a value."""

    def __init__(
        self,
        width: int,
        signed: bool,
        target: torch.dtype,
        source_grid: Grid | None = None,
        result_grid: Grid | None = None,
    ) -> None:
        super().__init__()
        self.width, self.signed, self.target = width, signed, target
        self.source_grid, self.result_grid = source_grid, result_grid

    def forward(self, value: Tensor) -> Tensor:
        """The integers of the other type."""
        if self.source_grid is not None:
            value = self.source_grid.quantize(value.detach())
        bits = value.to(torch.int64) & ((1 << self.width) - 1)
        if self.signed:
            bits = (bits ^ (1 << (self.width - 1))) - (1 << (self.width - 1))
        codes = bits.to(self.target)
        return codes if self.result_grid is None else self.result_grid.dequantize(codes)


class Interface(Module):
    """An input or a result, checked and in the type that it has on the other side.

    In training, codes outside are numbers inside: `grid` is that of the value.
    """

    def __init__(
        self, name: str, shape: Extents | None, dtype: torch.dtype, inner: torch.dtype
    ) -> None:
        super().__init__()
        self.input_name, self.shape, self.dtype, self.inner = name, shape, dtype, inner
        self.grid: Grid | None = None

    def extra_repr(self) -> str:
        """The type of the value."""
        extents = (
            ["*"] if self.shape is None else ["?" if n is None else str(n) for n in self.shape]
        )
        return f"{self.input_name}: {self.dtype}[{', '.join(extents)}]"


class Argument(Interface):
    """An input; InputError (`bad-input`) where type or extents do not fit."""

    def forward(self, value: Tensor) -> Tensor:
        """The value as it is inside."""
        check_argument(value, self.input_name, self.shape, self.dtype)
        value = value.to(self.inner)
        return value if self.grid is None else self.grid.dequantize(value)


class Result(Interface):
    """A result."""

    def forward(self, value: Tensor) -> Tensor:
        """The value as it is outside."""
        if self.grid is not None:
            value = self.grid.quantize(value)
        return value.to(self.dtype)


def check_argument(value: Tensor, name: str, shape: Extents | None, dtype: torch.dtype) -> None:
    """InputError (`bad-input`) where type, rank or static extents do not fit."""
    from qdialect.errors import InputError

    if value.dtype != dtype:
        raise InputError(
            f"input '{name}' has dtype {value.dtype}, but takes {dtype}", code="bad-input"
        )
    if shape is None:
        return
    fits = value.dim() == len(shape) and all(
        expected is None or expected == extent
        for expected, extent in zip(shape, value.shape, strict=True)
    )
    if not fits:
        raise InputError(
            f"input '{name}' has shape {list(value.shape)}, but takes [{_shown(shape)}]",
            code="bad-input",
        )


def _shown(shape: Extents) -> str:
    return ", ".join("?" if n is None else str(n) for n in shape)
