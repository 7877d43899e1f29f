"""Values of a file beyond those that `Raised` has: constants with their names, flattened images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.plugins.common.raising.raised import Raised

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Constant(Raised):
    """A constant as the file has it: codes with their quantized type (along its dimensions), or
    plain numbers."""

    #: the op that had it, with its names
    source: Operation | None = None
    #: whether the codes are taken as the floats that they stand for
    is_dequantized: bool = False


@dataclass(frozen=True)
class Flattened(Raised):
    """Rows [n, k] of a value as it lies: column j of the file is column `columns[j]`. Only weights
    read it, whose columns are turned."""

    columns: NDArray[Any] | None = None
