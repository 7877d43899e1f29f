"""Kernels of TOSA 1.0 and 1.1: what its specification says, in numpy.

They are written from the specification and share nothing with the lowerings to TOSA, which they
judge.  Integers are exact; floats are computed in doubles and rounded once.  What an op's class
does not check (its attributes may be of any extent) is one error when it is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.reference.tosa import conversion, elementwise, movement, windows
from qdialect.reference.values import Array, Evaluation, Kernel, op_name


def _guarded(kernel: Kernel) -> Kernel:
    """The kernel, with InputError (`bad-tosa`) where operands and attributes do not fit."""

    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> Sequence[Array]:
        try:
            return kernel(op, operands, evaluation)
        except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"the operands and attributes of '{op_name(op)}' do not fit: {reason}",
                code="bad-tosa",
            ) from None

    return run


_ALL: Mapping[str, Kernel] = {
    **conversion.KERNELS,
    **elementwise.KERNELS,
    **movement.KERNELS,
    **windows.KERNELS,
}
KERNELS: Mapping[str, Kernel] = {name: _guarded(kernel) for name, kernel in _ALL.items()}
