"""A function of one code of what a table gave goes into the table, past ops that move elements.

    g(f(table[x]))  ->  f((g . table)[x])      for a movement f, and a rescale or a table g

Exact: an op that copies elements commutes with every function of one of them. `form-tables`
finds no such chain, since the ops between move elements.

For example

    %1 = nn.table %x, %0 : (!x, tensor<256x!b>) -> tensor<2x4x!b>
    %2 = nn.transpose %1 perm [1, 0] : (tensor<2x4x!b>) -> tensor<4x2x!b>
    %3 = quant.rescale %2 : tensor<4x2x!b> to tensor<4x2x!c>

becomes

    %1 = nn.table %x, %0 : (!x, tensor<256x!c>) -> tensor<2x4x!c>
    %3 = nn.transpose %1 perm [1, 0] : (tensor<2x4x!c>) -> tensor<4x2x!c>
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.behaviors.flow import tied_operands
from qdialect.numerics import requantize as exact
from qdialect.numerics.arithmetic import requantized
from qdialect.numerics.contract import EXACT, Contract
from qdialect.numerics.quantize import storage_dtype
from qdialect.numerics.rounding import Rounding
from qdialect.ops import TableOp, constant_array, constant_of, make_constant
from qdialect.passes.rule_pass import refuse_types, with_qparams
from qdialect.qparams import QParams
from qdialect.quant import RescaleOp, UniformType, arithmetic_of
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class _Moved:
    """`lower` reads what `table` gave and `moves`, the lowest first, have moved."""

    lower: RescaleOp | TableOp
    moves: tuple[Operation, ...]
    table: TableOp


class FunctionOfMovedTable(Rule[_Moved]):
    """g(f(table[x])) = f((g . table)[x]) for a movement f; see the module."""

    name = "function-of-moved-table"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name, TableOp.name)

    def match(self, op: Operation) -> _Moved | None:
        assert isinstance(op, RescaleOp | TableOp)
        if self._entries(op, np.zeros(0, np.int64)) is None:
            return None
        value, moves = op.operands[0], list[Operation]()
        while isinstance(value.owner, Operation) and value.has_one_use():
            above = value.owner
            if isinstance(above, TableOp):
                known = constant_of(above.table) is not None
                return _Moved(op, tuple(moves), above) if moves and known else None
            behavior = self.session.behaviors.get(above)
            if behavior is None or behavior.movement is None or len(above.results) != 1:
                return None
            tied = tied_operands(above, behavior)
            if len(tied) != 1 or any(phi.has_border for phi in behavior.maps(above)):
                return None
            moves.append(above)
            value = above.operands[tied[0]]
        return None

    def check(self, match: _Moved) -> Contract | Refusal:
        result = qparams_of(match.lower.results[0])
        assert result is not None
        table = match.table
        kinds: list[Attribute] = [with_qparams(v, result) for v in (table.table, table.result)]
        reason = self.session.target.refuses(table, [table.input.type, kinds[0]], kinds[1:])
        if reason:
            return Refusal("target", f"{self.session.target.name}: {reason}")
        for move in match.moves:
            behavior = self.session.behaviors.get(move)
            assert behavior is not None
            operands = [v.type for v in move.operands]
            for index in tied_operands(move, behavior):
                operands[index] = with_qparams(move.operands[index], result)
            results = [with_qparams(move.results[0], result)]
            refusal = refuse_types(self.session, behavior, move, operands, results)
            if refusal:
                return refusal
        return EXACT

    def rewrite(self, match: _Moved, rewriter: Rewriter) -> None:
        table, result = match.table, qparams_of(match.lower.results[0])
        constant = constant_of(table.table)
        assert constant is not None and result is not None
        codes = constant_array(constant, self.session.blobs)
        entries = self._entries(match.lower, codes)
        assert entries is not None
        new = make_constant(entries, UniformType(result), self.session.blobs)
        rewriter.insert(new, table, keep=constant)
        value: SSAValue = table.result
        made: Operation = TableOp(
            table.input, new.result, result_types=[with_qparams(value, result)]
        )
        rewriter.insert(made, table, keep=table)
        for move in reversed(match.moves):
            behavior = self.session.behaviors.get(move)
            assert behavior is not None
            operands = list(move.operands)
            operands[tied_operands(move, behavior)[0]] = made.results[0]
            made = retyped(move, operands, [with_qparams(move.results[0], result)])
            rewriter.insert(made, move, keep=move)
        rewriter.replace(match.lower, made.results)

    def _entries(self, op: RescaleOp | TableOp, codes: Array) -> Array | None:
        """What `op` makes of codes; None where that is no one function of them."""
        source, result = qparams_of(op.operands[0]), qparams_of(op.results[0])
        if source is None or result is None or not _is_plain(source, result):
            return None
        if isinstance(op, RescaleOp):
            if op.fixed_point is not None or op.rounding is Rounding.GEMMLOWP:
                return None
            (a,), (b,) = exact.quant_grids(source), exact.quant_grids(result)
            floats = arithmetic_of(op).floats(source.expressed)
            return requantized(codes, a, b, op.rounding, floats).astype(storage_dtype(result))
        constant = constant_of(op.table)
        if constant is None:
            return None
        places = codes.astype(np.int64) - source.storage.full_range[0]
        return constant_array(constant, self.session.blobs)[places]


def _is_plain(source: QParams, result: QParams) -> bool:
    return all(q.is_per_tensor and is_integer(q) for q in (source, result))
