"""`nn` and `quant` as TOSA, op by op and bit by bit.

What rounds is a `quant.rescale` in fixed-point form already (`split-rescale`,
`convert-rescale`); see `qdialect.lowerings.conversion`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.passes import ModulePass

from qdialect.context import session
from qdialect.lowerings.conversion import Dialect, convert_module
from qdialect.lowerings.tosa.emitter import Emitter
from qdialect.lowerings.tosa.movement import move
from qdialect.lowerings.tosa.table import lowerings


@dataclass(frozen=True)
class ConvertNnToTosa(ModulePass):
    """All functions of a module in TOSA; see the module."""

    name = "convert-nn-to-tosa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        to = Dialect("TOSA", "tosa", Emitter, lowerings(), movement=move, index=i32)
        convert_module(session(ctx), op, to)
