"""What only movement ops connect to float arguments and results of public functions.

func.func @f(%x: !f) -> !c {
  %0 = nn.reshape %x : (!f) -> !f          connected to the argument
  %1 = quant.qcast %0 : !f to !c
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.functions import is_private
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.context import QContext


class FloatInterface:
    """The values that arguments and results of the public functions among `ops` (in program order)
    are connected to by ops that commute with casts."""

    def __init__(self, session: QContext, ops: Iterable[Operation]) -> None:
        self._session = session
        self._from_arguments: set[SSAValue] = set()
        self._to_results: set[SSAValue] = set()
        every = list(ops)
        for op in every:
            if isinstance(op, FuncOp):
                if is_private(op) or op.is_declaration:
                    continue
                self._from_arguments.update(op.body.blocks[0].args)
            elif any(v in self._from_arguments for v in self._carried(op)):
                self._from_arguments.update(op.results)
        for op in reversed(every):
            if isinstance(op, ReturnOp):
                function = op.parent_op()
                if isinstance(function, FuncOp) and is_private(function):
                    continue
                self._to_results.update(op.operands)
            elif any(v in self._to_results for v in op.results):
                self._to_results.update(self._carried(op))

    def moves_argument(self, op: Operation) -> bool:
        """Whether a commuting op reads what is connected to an argument."""
        return any(v in self._from_arguments for v in self._carried(op))

    def makes_result(self, op: Operation) -> bool:
        """Whether an op makes what is connected to a result."""
        return any(v in self._to_results for v in op.results)

    def _carried(self, op: Operation) -> list[SSAValue]:
        """The operands whose elements a commuting op moves or compares."""
        behavior = self._session.behaviors.get(op)
        if behavior is None or not behavior.commutes:
            return []
        return [op.operands[i] for i in tied_operands(op, behavior)]
