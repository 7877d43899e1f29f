"""Quantization parameters that the program chooses as it runs."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from qdialect.ir.ops.base import tensor_type


class Scale(NamedTuple):
    """The parameters that a run chooses: tensors of f32 of rank 0, or with extents of 1 along
    what shares a parameter; `zero` is None for zeros."""

    scale: SSAValue
    zero: SSAValue | None

    @property
    def is_one(self) -> bool:
        """Whether all elements share them."""
        return tensor_type(self.scale).get_num_dims() == 0
