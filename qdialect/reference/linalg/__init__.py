"""Kernels of linalg, arith, math and tensor: what our exports write, in numpy.

They are written from the definitions of the ops and share nothing with the lowerings, whose
results they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.reference.linalg import affine_casts, scalars, structured, tensors
from qdialect.reference.values import Array, Evaluation, Kernel, op_name


def _guarded(kernel: Kernel) -> Kernel:
    """The kernel, with InputError (`bad-linalg`) where operands and attributes do not fit."""

    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> Sequence[Array]:
        try:
            return kernel(op, operands, evaluation)
        except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"the operands and attributes of '{op_name(op)}' do not fit: {reason}",
                code="bad-linalg",
            ) from None

    return run


_ALL: Mapping[str, Kernel] = {
    **scalars.KERNELS,
    **structured.KERNELS,
    **tensors.KERNELS,
    **affine_casts.KERNELS,
}
KERNELS: Mapping[str, Kernel] = {name: _guarded(kernel) for name, kernel in _ALL.items()}
