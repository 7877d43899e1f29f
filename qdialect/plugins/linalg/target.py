"""linalg, arith and tensor of MLIR: integer loops.

The operators are those of the target `tosa`, in plain integer arithmetic: so codes are any
integers of up to 16 bits, signed or not, with any zero point, and a rescale rounds in any way.
Storage of less than 8 bits is unpacked to 8 where it is lowered. Transposed convolutions may have
three dimensions.
"""

from __future__ import annotations

from qdialect.algebra.rounding import Rounding
from qdialect.plugins.tosa.target import TARGET as TOSA
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import ANY, Kernel

_CODES = tuple(f"{sign}{width}" for width in (2, 4, 8, 16) for sign in "iu")
_NARROW = {"i4", "i8", "u8", "i16", "u16"}


def _widened(pattern: str) -> str:
    """All codes in place of those that TOSA has."""
    storages, *layout = pattern.split()
    if storages == ANY:
        return pattern
    narrow = set(storages.split("|"))
    found = (*(_CODES if narrow & _NARROW else ()), *(("i32",) if "i32" in narrow else ()))
    return " ".join(("|".join(found), *layout))


def _kernel(kernel: Kernel) -> Kernel:
    operands, results = (
        tuple(_widened(pattern) for pattern in side) for side in (kernel.operands, kernel.results)
    )
    return Kernel(operands, results)


_KERNELS = {**TOSA.kernels, "nn.conv_transpose3d": TOSA.kernels["nn.conv_transpose2d"]}

TARGET = Target(
    "linalg",
    "integer loops of MLIR's linalg, arith and tensor",
    storages=frozenset((*_CODES, "i32")),
    per_block=False,
    floats=False,
    kernels={
        name: tuple(dict.fromkeys(map(_kernel, kernels))) for name, kernels in _KERNELS.items()
    },
    runs_others=False,
    roundings=tuple(r for r in Rounding if r is r.in_reals),
    interface=Interface.KEEP,
)
