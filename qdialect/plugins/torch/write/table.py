"""Which `nn` op becomes which torch function: one row an op."""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.plugins.torch.write import (
    elementwise,
    indexing,
    movement,
    products,
    recurrent,
    reductions,
    windows,
)
from qdialect.plugins.torch.write.rows import Row

ROWS: Mapping[str, Row] = {
    **elementwise.ROWS,
    **indexing.ROWS,
    **movement.ROWS,
    **products.ROWS,
    **recurrent.ROWS,
    **reductions.ROWS,
    **windows.ROWS,
}
