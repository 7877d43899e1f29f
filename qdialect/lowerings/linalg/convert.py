"""`nn` and `quant` as linalg, arith and tensor, op by op and bit by bit.

For compilers without TOSA. Loops are `linalg.generic`, or the named op where one says the
same; codes are signless integers of at least 8 bits; zero points of constant weights are
folded into the biases; rescales are 64-bit integer arithmetic with the rounding they declare.
Ops of these dialects stay as they are. See `qdialect.lowerings.conversion`.

For example

    %1 = nn.max_pool2d %x ...

becomes

    %1 = linalg.generic {indexing_maps = ..., iterator_types = ...} ins(%x, %window) ...
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.context import session
from qdialect.lowerings.conversion import Dialect, convert_module
from qdialect.lowerings.linalg.emitter import Emitter
from qdialect.lowerings.linalg.table import lowerings

_KEPT = ("arith.", "linalg.", "math.", "tensor.")


@dataclass(frozen=True)
class ConvertNnToLinalg(ModulePass):
    """All functions of a module in linalg; see the module."""

    name = "convert-nn-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_module(session(ctx), op, Dialect("linalg", "linalg", Emitter, lowerings(), _KEPT))
