"""Kernels of TOSA 1.0 and 1.1: what its specification says, in numpy.

They are written from the specification and share nothing with the lowerings to TOSA, which they
judge.  Integers are exact; floats are computed in doubles and rounded once.  What an op's class
does not check (its attributes may be of any extent) is one error when it is run.
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.interpreter.values import Kernel, guarded
from qdialect.plugins.tosa.interpreter import conversion, elementwise, movement, windows

_ERRORS = (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError)
_ALL: Mapping[str, Kernel] = {
    **conversion.KERNELS,
    **elementwise.KERNELS,
    **movement.KERNELS,
    **windows.KERNELS,
}
KERNELS: Mapping[str, Kernel] = guarded(_ALL, "bad-tosa", _ERRORS)
