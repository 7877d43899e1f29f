"""Channel-first (NCHW) rearrangements between channels and space (law 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.qparams.legality import Code, Illegal
from qdialect.algebra.qparams.maps.base import IndexMap
from qdialect.algebra.qparams.maps.composite import Composite
from qdialect.algebra.qparams.maps.dims import Transpose
from qdialect.algebra.qparams.maps.gather import Gather, GatherDynamic
from qdialect.algebra.qparams.maps.pad import Pad
from qdialect.algebra.qparams.maps.reshape import Reshape
from qdialect.algebra.qparams.parameter_array import DYNAMIC, Shape
from qdialect.algebra.qparams.parameter_field import ParameterField

PhaseOrder = Literal["DCR", "CRD"]
"""Channel order: DCR has the phase outside the channel (k = phase * C' + c), CRD inside."""


@dataclass(frozen=True)
class DepthToSpace(Composite):
    """(N, C' r r, H, W) -> (N, C', H r, W r), r = `block`.

    A quantized channel axis stays one iff its vector has period C' (DCR) or is constant
    on aligned groups of r * r (CRD); otherwise phases of different parameters
    interleave in space, which is per axis only if they differ in one direction only.
    """

    permutes: ClassVar[bool] = True

    block: int
    order: PhaseOrder
    code: ClassVar[Code] = "phase-mix"

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """A reshape, a transpose, a reshape."""
        n, c, h, w = _nchw(shape)
        r = self.block
        inner = _divided(c, r * r)
        if self.order == "DCR":
            cut, perm = (n, r, r, inner, h, w), (0, 3, 4, 1, 5, 2)
        else:
            cut, perm = (n, inner, r, r, h, w), (0, 1, 4, 2, 5, 3)
        return (
            Reshape(cut, ((1, 1), (1, 3), (1, 1), (1, 1))),
            Transpose(perm),
            Reshape((n, inner, _times(h, r), _times(w, r)), ((1, 1), (1, 1), (2, 1), (2, 1))),
        )


@dataclass(frozen=True)
class SpaceToDepth(Composite):
    """(N, C, H r, W r) -> (N, C r r, H, W), r = `block`; ONNX has the order DCR.

    A quantized channel axis is tiled (DCR) or repeated (CRD); a spatial one survives
    iff its vector is constant on aligned groups of r.
    """

    permutes: ClassVar[bool] = True

    block: int
    order: PhaseOrder = "DCR"
    code: ClassVar[Code] = "phase-mix"

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """A reshape, a transpose, a reshape."""
        n, c, h, w = _nchw(shape)
        r = self.block
        high, wide = _divided(h, r), _divided(w, r)
        perm = (0, 3, 5, 1, 2, 4) if self.order == "DCR" else (0, 1, 3, 5, 2, 4)
        return (
            Reshape((n, c, high, r, wide, r), ((1, 1), (1, 1), (1, 2), (1, 2))),
            Transpose(perm),
            Reshape((n, _times(c, r * r), high, wide), ((1, 1), (3, 1), (1, 1), (1, 1))),
        )


@dataclass(frozen=True)
class Im2col(Composite):
    """(N, C, spatial..) -> (N, C * taps, places): the patches a convolution multiplies.

    Per spatial dimension: `kernel`, `strides`, `dilations`, and the padding `low` and
    `high` filled with real `value`.  Rows are C-major (torch unfold), so a quantized
    channel axis repeats per tap.  The row is the contraction axis of a convolution
    (law 2.6): parameters that vary along it cannot be factored out there.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]
    value: float = 0.0
    code: ClassVar[Code] = "phase-mix"

    @cached_property
    def border(self) -> Pad:
        """The padding step; `apply` fills it, `border.fill_integers` says with what."""
        return Pad((0, 0, *self.low), (0, 0, *self.high), value=self.value)

    @property
    def has_border(self) -> bool:
        """Whether anything is padded."""
        return self.border.has_border

    @property
    def border_value(self) -> float:
        """Padding is real 0."""
        return self.value

    def border_integers(self, fields: Sequence[ParameterField]) -> NDArray[np.int64] | Illegal:
        """Those of the padding."""
        return self.border.border_integers(fields)

    def checked(self, out: ParameterField) -> ParameterField | Illegal:
        """What the padding allows."""
        return self.border.checked(out)

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """A pad, windows along each dimension, a transpose and a reshape."""
        dims = len(self.kernel)
        padded = self.border.output_shape([shape])
        taken = [self._patches(k, padded[k + 2]) for k in range(dims)]
        places = [step.index_shape[1] for step in taken]
        taps = range(2, 2 + 2 * dims, 2)
        columns = DYNAMIC if DYNAMIC in places else prod(places)
        rows = _times(shape[1], prod(self.kernel))
        return (
            self.border,
            *taken,
            Transpose((0, 1, *taps, *(tap + 1 for tap in taps))),
            Reshape((shape[0], rows, columns), ((1, 1), (1 + dims, 1), (dims, 1))),
        )

    def _patches(self, k: int, size: int) -> Gather | GatherDynamic:
        """Spatial dimension k becomes (taps, places); k earlier ones already have."""
        axis = 2 + 2 * k
        if size == DYNAMIC:
            return GatherDynamic(axis, (self.kernel[k], DYNAMIC))
        reach = (self.kernel[k] - 1) * self.dilations[k]
        places = range(0, size - reach, self.strides[k])
        taps = range(0, reach + 1, self.dilations[k])
        return Gather(
            axis,
            tuple(place + tap for tap in taps for place in places),
            (self.kernel[k], len(places)),
        )


def _nchw(shape: Shape) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise ValueError(f"an NCHW tensor expected, got {shape}")
    return shape[0], shape[1], shape[2], shape[3]


def _times(size: int, factor: int) -> int:
    return DYNAMIC if size == DYNAMIC else size * factor


def _divided(size: int, factor: int) -> int:
    if size != DYNAMIC and size % factor:
        raise ValueError(f"size {size} is not a multiple of {factor}")
    return DYNAMIC if size == DYNAMIC else size // factor
