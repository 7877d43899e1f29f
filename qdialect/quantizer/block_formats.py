"""What weights in blocks may be stored as, by the name that `--weights` takes.

| name | a code | zero points | scales |
|---|---|---|---|
| `i8`, `i4`, `i3`, `i2` | an integer with a sign | 0 | of the type asked for |
| `u8`, `u4`, `u3`, `u2` | one without | one of each block, of least error | of the type asked for |
| `nf4` | one of 16 levels (`algebra.qparams.levels`) | | of the type asked for |
| `mxint8` | an integer of 8 bits | 0 | powers of two, for each 32 numbers |
| `mxfp4` | a float of 4 bits (`f4E2M1FN`) | | powers of two, for each 32 numbers |

Those called `mx` are of the OCP Microscaling specification, 1.0. `i16` is for values, and is taken
as it is. Integers of 3 bits are those of 4 with bounds, `i4<-4:3>` and `u4<0:7>`: no runtime packs
three. How scales and codes are found is in `algebra.weight_blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.algebra.qparams import Storage
from qdialect.algebra.qparams.levels import NF4, NORMAL_LEVELS
from qdialect.algebra.weight_blocks import BlockCodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONLY_IN_BLOCKS = ("u2", "i2", "nf4", "mxfp4", "mxint8")
"""Formats of weights of which the products stay float."""
THREE_BITS = {"i3": Storage.of("i4", -4, 3), "u3": Storage.of("u4", 0, 7)}
"""Integers that are stored in wider ones."""
MICROSCALED, MICROSCALED_BLOCK = ("mxfp4", "mxint8"), 32
_POWERS = "f8E8M0FNU"

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The numbers of f4E2M1FN that are not negative, by their bits."""


@dataclass(frozen=True)
class BlockFormat:
    """The storage of codes, how they are chosen, and the bits of each level where a code is no
    number of a level."""

    storage: Storage
    codes: BlockCodes
    bits: tuple[int, ...] = ()

    @property
    def has_zero_points(self) -> bool:
        """Whether zero points are chosen."""
        return self.codes.zero is None and not self.codes.levels

    def stored(self, codes: NDArray[np.int64]) -> NDArray[Any]:
        """Codes as a constant of the storage has them."""
        found = np.array(self.bits)[codes] if self.bits else codes
        kind = "i" if self.storage.signed and not self.storage.is_float else "u"
        return found.astype(np.dtype(f"{kind}{max(8, self.storage.width) // 8}"))

    def symmetric(self) -> BlockFormat:
        """The same with the zero point in the middle, for targets that have no others."""
        if not self.has_zero_points:
            return self
        middle = (self.storage.min + self.storage.max + 1) // 2
        return replace(self, codes=replace(self.codes, zero=middle))


def integer_storage(name: str) -> Storage:
    """What codes of the integers that `--weights` names are stored as."""
    return THREE_BITS.get(name) or Storage.of(name)


@lru_cache(maxsize=64)
def block_format(name: str, scales: str = "f32") -> BlockFormat:
    """The format that a name of the table has, with scales of a type of `SCALE_TYPES`."""
    if name == "mxfp4":
        levels = (*(-v for v in reversed(_E2M1[1:])), *_E2M1)
        bits = (*range(15, 8, -1), *range(8))
        codes = BlockCodes(0, len(levels) - 1, levels=levels, steps=_POWERS)
        return BlockFormat(Storage.of("f4E2M1FN"), codes, bits)
    if name == "mxint8":
        return BlockFormat(Storage.of("i8"), BlockCodes(-128, 127, 0, steps=_POWERS))
    if name == "nf4":
        return BlockFormat(NORMAL_LEVELS, BlockCodes(0, 15, levels=NF4, steps=scales))
    storage = integer_storage(name)
    zero = 0 if storage.signed else None
    return BlockFormat(storage, BlockCodes(storage.min, storage.max, zero, steps=scales))
