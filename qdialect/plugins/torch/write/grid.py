"""The quantization parameters of a value, and how its codes and numbers become each other.

    codes -> floats      float(q - z) * s in the expressed type's arithmetic (f32, or f64)
    floats -> codes      clamp(R(x / s) + z), the quotient (or x * (1 / s)) a float
    codes <-> `Exact`    the same in the reals, rounded once

Scales and zero points are buffers, which follow the module to another device; they are no part
of its state.  NaN gives the lowest code, and infinities saturate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from qdialect.algebra.qparams import Layout, QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir.quant import UniformType
from qdialect.plugins.torch.write.exact import Exact, rounded_floats
from qdialect.plugins.torch.write.tensor_types import float_dtype, from_array, inner_dtype

_EXACT_IN_F32 = 16
"""Bits of codes whose differences a float32 has."""


class Grid(torch.nn.Module):
    """The numbers that codes of a value of `rank` dimensions stand for."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, qparams: QParams, rank: int) -> None:
        super().__init__()
        self.qparams = qparams
        self.low, self.high = qparams.storage.min, qparams.storage.max
        self.codes = inner_dtype(UniformType(qparams))
        self.expressed = float_dtype(qparams.expressed)
        self.working = torch.float64 if qparams.expressed == "f64" else torch.float32
        narrow = qparams.storage.width <= _EXACT_IN_F32 and self.working is torch.float32
        #: the type that differences of codes are exact in
        self.steps = torch.float32 if narrow else torch.float64
        for name, values in (
            ("scale", qparams.scale_array()),
            ("zero_point", qparams.zero_point_array()),
        ):
            spread = np.array(_spread(qparams, values, rank))
            self.register_buffer(name, from_array(spread), persistent=False)

    def extra_repr(self) -> str:
        """The storage and, of one, the scale and zero point."""
        q = self.qparams
        one = f", {q.scale_list()[0]}:{int(q.zero_point_array().reshape(-1)[0])}"
        return f"{q.storage}{one if q.is_per_tensor else f', {q.count} scales'}"

    @property
    def is_per_tensor(self) -> bool:
        """Whether one scale and zero point are those of all elements."""
        return self.qparams.layout is Layout.TENSOR

    def scales(self, shape: torch.Size) -> Tensor:
        """The scales, as doubles that broadcast to a shape."""
        return self._cut(self.scale, shape)

    def zero_points(self, shape: torch.Size) -> Tensor:
        """The zero points, broadcasting to a shape."""
        return self._cut(self.zero_point, shape)

    def _cut(self, values: Tensor, shape: torch.Size) -> Tensor:
        """Last blocks may be longer than what is left of the value."""
        if self.qparams.layout is not Layout.BLOCK:
            return values
        for dim, extent in enumerate(shape):
            if values.shape[dim] > 1:
                values = values.narrow(dim, 0, extent)
        return values

    def offsets(self, codes: Tensor) -> Tensor:
        """q - z as doubles, exactly (of fewer than 53 bits)."""
        return codes.to(torch.float64) - self.zero_points(codes.shape)

    def spread(self, values: Any, rank: int) -> Any:
        """One number per cell of the parameters, in row-major order, as an array that
        broadcasts."""
        values = values.reshape(self.qparams.grid if values.size > 1 else (1,) * rank)
        return values if values.size == 1 else np.array(_spread(self.qparams, values, rank))

    def dequantize(self, codes: Tensor) -> Tensor:
        """float(q - z) * s, in the expressed type."""
        steps = codes.to(self.steps) - self.zero_points(codes.shape).to(self.steps)
        product = steps.to(self.working) * self.scales(codes.shape).to(self.working)
        return product.to(self.expressed)

    def quantize(self, values: Tensor, rounding: Rounding = Rounding.HALF_EVEN) -> Tensor:
        """clamp(R(x / s) + z) in the expressed type's arithmetic: the quotient, or with
        `reciprocal` the product."""
        scales = self.scales(values.shape)
        if rounding is Rounding.RECIPROCAL:
            quotient = values.to(self.working) * (1.0 / scales).to(self.working)
        else:
            quotient = values.to(self.working) / scales.to(self.working)
        return self._stored(rounded_floats(quotient, rounding))

    def reals(self, codes: Tensor) -> Exact:
        """(q - z) * s."""
        return Exact.of(self.offsets(codes)) * Exact.of(self.scales(codes.shape))

    def store(self, values: Exact, rounding: Rounding = Rounding.HALF_EVEN) -> Tensor:
        """clamp(R(x / s) + z) in the reals."""
        steps = values / Exact.of(self.scales(values.high.shape))
        return self._stored(steps.rounded(rounding))

    def clamped(self, steps: Tensor) -> Tensor:
        """The codes of so many steps from the zero point."""
        return self._stored(steps)

    def _stored(self, steps: Tensor) -> Tensor:
        kind = self.steps if self.steps is torch.float64 else steps.dtype
        zero = self.zero_points(steps.shape).to(kind)
        wide = torch.where(steps.isnan(), -torch.inf, steps.to(kind))
        return (wide.maximum(self.low - zero).minimum(self.high - zero) + zero).to(self.codes)

    def fake_quantize(self, values: Tensor, rounding: Rounding = Rounding.HALF_EVEN) -> Tensor:
        """The numbers of the codes of `values`; its gradient passes inside of the range."""
        found = self.dequantize(self.quantize(values.detach(), rounding))
        zero = self.zero_points(values.shape)
        scales = self.scales(values.shape)
        low, high = ((end - zero) * scales for end in (self.low, self.high))
        inside = torch.where(values.isnan(), 0.0, values)
        inside = inside.maximum(low.to(values.dtype)).minimum(high.to(values.dtype))
        # The difference is 0: it adds nothing but the gradient.
        return found + (inside - inside.detach()).to(found.dtype)


def _spread(qparams: QParams, values: Any, rank: int) -> Any:
    """One number per cell so that they broadcast against `rank` dimensions."""
    if qparams.layout is Layout.TENSOR:
        return values.reshape((1,) * rank)
    if qparams.layout is Layout.AXIS:
        shape = [1] * rank
        shape[qparams.blocks[0][0]] = values.size
        return values.reshape(shape)
    for axis, block in qparams.blocks:
        if values.shape[axis] > 1:
            values = np.repeat(values, block, axis)
    return values
