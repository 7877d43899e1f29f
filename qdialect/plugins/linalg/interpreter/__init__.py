"""Kernels of linalg, arith, math and tensor: what our exports write, in numpy.

They are written from the definitions of the ops and share nothing with the lowerings, whose
results they run.
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.interpreter.values import Kernel, guarded
from qdialect.plugins.linalg.interpreter import affine_casts, scalars, structured, tensors

_ERRORS = (ValueError, IndexError, KeyError, TypeError, AttributeError)
_ALL: Mapping[str, Kernel] = {
    **scalars.KERNELS,
    **structured.KERNELS,
    **tensors.KERNELS,
    **affine_casts.KERNELS,
}
KERNELS: Mapping[str, Kernel] = guarded(_ALL, "bad-linalg", _ERRORS)
