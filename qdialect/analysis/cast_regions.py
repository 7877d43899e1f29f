"""Which float values lie inside float regions that a quantize closes.

One forward and one backward sweep over a module, linear in ops and uses.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from qdialect.ir.behaviors import Behavior, BehaviorRegistry, PortKind
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.ops.constants import ConstantOp, constant_of
from qdialect.ir.quant import DCastOp, QCastOp


class CastRegions:
    """`derived`: dequantized codes, possibly moved.  `lands`: pushing a quantize up
    from here ends at codes.  `closes`: every path down ends in a quantize, or
    in an op that tells how dequantized codes compare."""

    def __init__(self, module: Operation, behaviors: BehaviorRegistry) -> None:
        self.derived: set[SSAValue] = set()
        self.lands: set[SSAValue] = set()
        self.closes: set[SSAValue] = set()
        self._behaviors = behaviors
        ops = list(module.walk())
        for op in ops:
            self._forward(op, behaviors.get(op))
        for op in reversed(ops):
            self._backward(op)

    def _forward(self, op: Operation, behavior: Behavior | None) -> None:
        # `isinstance` is slow for what it is not, as most ops are.
        if type(op) is DCastOp:
            self.derived.add(op.result)
            self.lands.add(op.result)
            return
        if type(op) is ConstantOp:
            self.lands.add(op.result)
            return
        if behavior is None:
            return
        operands = op.operands
        if behavior.compares:
            if all(operands[i] in self.derived for i in tied_operands(op, behavior)):
                rules = [behavior.result_port(i).kind for i in range(len(op.results))]
                codes = [
                    r for r, rule in zip(op.results, rules, strict=True) if rule is PortKind.TIED
                ]
                self.derived.update(codes)
                self.lands.update(codes)
        elif behavior.commutes:
            tied = [operands[i] for i in tied_operands(op, behavior)]
            if all(v in self.derived for v in tied):
                self.derived.update(op.results)
            if all(
                v in self.lands and (v in self.derived or v.has_one_use()) for v in tied
            ) and not all(constant_of(v) for v in tied):
                self.lands.update(op.results)
        elif all(
            operand in self.derived or constant_of(operand)
            for i, operand in enumerate(operands)
            if behavior.operand_port(i).kind in (PortKind.REQUANT, PortKind.TIED)
        ):
            self.lands.update(op.results)

    def _backward(self, op: Operation) -> None:
        for result in op.results:
            if result.first_use is not None and all(
                self._ends(use.operation) for use in result.uses
            ):
                self.closes.add(result)

    def is_closed(self, op: Operation) -> bool:
        """Whether every result of `op` that could be codes ends in a quantize, or nowhere if
        others tell what its operands are asked for."""
        behavior = self._behaviors.get(op)
        if behavior is None or not behavior.compares:
            return all(result in self.closes for result in op.results)
        return all(
            behavior.result_port(index).kind is PortKind.PLAIN
            or result.first_use is None
            or result in self.closes
            for index, result in enumerate(op.results)
        )

    def _ends(self, user: Operation) -> bool:
        """Whether a path through `user` ends in a quantize."""
        if type(user) is QCastOp:
            return True
        behavior = self._behaviors.get(user)
        if behavior is not None and behavior.compares:
            tied = [user.operands[i] for i in tied_operands(user, behavior)]
            return all(v in self.derived for v in tied) and self.is_closed(user)
        used = [result for result in user.results if result.first_use is not None]
        return behavior is not None and bool(used) and all(v in self.closes for v in used)
