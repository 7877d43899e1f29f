"""Where integers turn into floats and back, and what to do about it.

The codes of the qparams law, section 2.8, found in one pass over a module:

| code | pattern | fix-it |
|---|---|---|
| B1 | all data operands are codes, the result is float | `type-accumulators`, or quantize |
| B2 | some operands are codes, others float constants | quantize the constant |
| B3 | float ops between dequantize and quantize | `integerize`, unless something blocks |
| B4 | codes read on other qparams without a rescale | insert a rescale, or mean it |
| B5 | qparams that cannot follow a movement, or sit on a summed dimension | |
| B6 | quantize(dequantize(q)), dequantize(quantize(x)) | `fold-rescale`, or why not |
| B7 | a float interface right at a quantize or dequantize | `fold-interface` |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.islands import Islands
from qdialect.behaviors import Behavior
from qdialect.behaviors import Rule as PortRule
from qdialect.behaviors.flow import carry_down, tied_operands
from qdialect.behaviors.shapes import DYNAMIC, shape_of
from qdialect.context import QContext
from qdialect.dialects.nn import ConstantOp, constant_of
from qdialect.dialects.nn.ports import port_refusal
from qdialect.dialects.quant import DCastOp, QCastOp, SCastOp, quant_element
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal


@dataclass(frozen=True)
class Finding:
    """One boundary break, at `op`.

    `flops` are float operations done there, `bytes` what crosses the boundary as
    float (both 0 where unknown or none); `fix` is a pass that mends it, if one
    does; `blocked_by` names the first op of an island that keeps it float.
    """

    code: str
    op: Operation
    message: str
    flops: int = 0
    bytes: int = 0
    fix: str = ""
    blocked_by: str = ""


def find_boundaries(module: Operation, session: QContext) -> list[Finding]:
    """All findings, in program order; linear in ops."""
    return _Search(module, session).run()


class _Search:
    def __init__(self, module: Operation, session: QContext) -> None:
        self.session = session
        self.islands = Islands(module, session.behaviors)
        self.order = {op: n for n, op in enumerate(module.walk())}

    def run(self) -> list[Finding]:
        findings = [finding for op in self.order for finding in self._at(op)]
        findings += self._float_islands()
        return sorted(findings, key=lambda f: (self.order[f.op], f.code))

    def _at(self, op: Operation) -> Iterator[Finding]:
        if isinstance(op, QCastOp | DCastOp):
            yield from self._casts(op)
        elif isinstance(op, SCastOp):
            yield from self._reading(op)
        elif isinstance(op, FuncOp):
            yield from self._interface(op)
        behavior = self.session.behaviors.get(op)
        if behavior is not None and op.results:
            if behavior.is_tied:
                yield from self._movement(op, behavior)
            else:
                yield from self._computation(op, behavior)

    # -- B1, B2, B5 on computing ops ------------------------------------------

    def _computation(self, op: Operation, behavior: Behavior) -> Iterator[Finding]:
        if quant_element(op.results[0].type) is not None:
            return
        ports = [
            v
            for i, v in enumerate(op.operands)
            if behavior.operand_port(i).rule is PortRule.REQUANT
        ]
        codes = [v for v in ports if self._is_codes(v)]
        constants = [v for v in ports if v not in codes and constant_of(v)]
        if not codes:
            return
        reason = self._bad_axis(op, behavior)
        if reason:
            yield Finding("B5", op, reason, flops(op, behavior))
        elif len(codes) == len(ports) and op.results[0] not in self.islands.closes:
            fix = "type-accumulators" if behavior.accumulator else ""
            yield Finding(
                "B1",
                op,
                f"'{op.name}' takes codes only, but its result stays float",
                flops(op, behavior),
                size(op.results[0]),
                fix,
            )
        elif constants and len(codes) + len(constants) == len(ports):
            yield Finding(
                "B2",
                op,
                f"'{op.name}' takes codes, but {len(constants)} of its constants are float",
                flops(op, behavior),
                sum(size(v) for v in constants),
                "integerize" if op.results[0] in self.islands.closes else "",
            )

    def _is_codes(self, value: SSAValue) -> bool:
        return quant_element(value.type) is not None or value in self.islands.derived

    def _bad_axis(self, op: Operation, behavior: Behavior) -> str:
        for index, operand in enumerate(op.operands):
            params = self._params(operand)
            if params is None:
                continue
            reason = port_refusal(op, behavior.operand_port(index), params, shape_of(operand))
            if reason:
                return f"'{op.name}' {reason}"
        return ""

    def _params(self, value: SSAValue) -> QParams | None:
        """Qparams of a value that is quantized, or just dequantized."""
        element = quant_element(value.type)
        if element is None and isinstance(value.owner, DCastOp):
            element = quant_element(value.owner.input.type)
        return None if element is None else element.qparams

    # -- B5 on movements -------------------------------------------------------

    def _movement(self, op: Operation, behavior: Behavior) -> Iterator[Finding]:
        if behavior.movement is None or quant_element(op.results[0].type) is not None:
            return
        tied = [op.operands[i] for i in tied_operands(op, behavior)]
        params = [self._params(v) for v in tied]
        known = [q for q in params if q is not None]
        if not known or len(known) != len(params) or (behavior.mixes and len(set(known)) > 1):
            return
        carried = carry_down(op, behavior, known)
        if isinstance(carried, Illegal):
            yield Finding(
                "B5",
                op,
                f"qparams cannot follow '{op.name}': {carried.reason} [{carried.code}]",
                bytes=size(op.results[0]),
            )

    # -- B3 ---------------------------------------------------------------------

    def _float_islands(self) -> Iterator[Finding]:
        """Connected float ops that every path leaves through a quantize."""
        root: dict[Operation, Operation] = {}

        def find(op: Operation) -> Operation:
            while root[op] is not op:
                root[op] = root[root[op]]
                op = root[op]
            return op

        for op in self.order:
            if not self._in_island(op):
                continue
            root[op] = op
            for operand in op.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner in root:
                    root[find(owner)] = find(op)
        groups: dict[Operation, list[Operation]] = {}
        for op in root:
            groups.setdefault(find(op), []).append(op)
        for group in groups.values():
            yield self._island(group)

    def _in_island(self, op: Operation) -> bool:
        if isinstance(op, DCastOp | QCastOp | ConstantOp) or len(op.results) != 1:
            return False
        result = op.results[0]
        return result in self.islands.closes and quant_element(result.type) is None

    def _island(self, group: list[Operation]) -> Finding:
        blocker = next(filter(None, (self._blocks(op) for op in group)), "")
        names = ", ".join(dict.fromkeys(op.name for op in group))
        total = sum(flops(op, self.session.behaviors.get(op)) for op in group)
        message = f"{len(group)} float op(s) between codes: {names}"
        fix = "integerize"
        if any(self._needs_accumulator(op) for op in group):
            fix = "type-accumulators,integerize"
        if blocker:
            message += f"; kept float by {blocker}"
        return Finding(
            "B3",
            group[0],
            message,
            total,
            sum(size(op.results[0]) for op in group),
            "" if blocker else fix,
            blocker,
        )

    def _blocks(self, op: Operation) -> str:
        """Why `op` has no integer form here, or nothing."""
        behavior = self.session.behaviors.get(op)
        if behavior is None:
            return f"'{op.name}', which has no declared behavior"
        for index, operand in enumerate(op.operands):
            port = behavior.operand_port(index)
            if port.rule is not PortRule.REQUANT or self._is_codes(operand):
                continue
            if constant_of(operand):
                continue
            owner = self._source(operand).owner
            source = self.session.behaviors.get(owner) if isinstance(owner, Operation) else None
            if source is None or source.accumulator is None:
                return f"the {port.role} of '{op.name}', which has no qparams"
        return ""

    def _needs_accumulator(self, op: Operation) -> bool:
        """Whether `op` is a contraction that another op of its island takes as float."""
        behavior = self.session.behaviors.get(op)
        return (
            behavior is not None
            and behavior.accumulator is not None
            and not all(isinstance(use.operation, QCastOp) for use in op.results[0].uses)
        )

    def _source(self, value: SSAValue) -> SSAValue:
        """`value` before the movements and clamps above it."""
        while isinstance(value.owner, Operation):
            behavior = self.session.behaviors.get(value.owner)
            if behavior is None or not behavior.is_tied:
                break
            value = value.owner.operands[tied_operands(value.owner, behavior)[0]]
        return value

    # -- B4, B6, B7 -------------------------------------------------------------

    def _casts(self, op: QCastOp | DCastOp) -> Iterator[Finding]:
        owner = op.input.owner
        if isinstance(op, QCastOp) and isinstance(owner, DCastOp):
            same = owner.input.type == op.result.type
            what = "nothing" if same else "a rescale"
            yield Finding(
                "B6",
                op,
                f"quantize of dequantize: is {what}",
                bytes=size(op.input),
                fix="fold-rescale",
            )
        elif isinstance(op, DCastOp) and isinstance(owner, QCastOp):
            yield Finding(
                "B6",
                op,
                "dequantize of quantize rounds and clips, so it is not folded",
                bytes=size(op.result),
            )

    def _reading(self, op: SCastOp) -> Iterator[Finding]:
        above = op.input.owner
        element = quant_element(op.result.type)
        if element is None or not isinstance(above, SCastOp):
            return
        source = quant_element(above.input.type)
        if source is not None and source != element:
            yield Finding(
                "B4",
                op,
                f"codes of {source} are read as {element} without a rescale",
                bytes=size(op.result),
            )

    def _interface(self, function: FuncOp) -> Iterator[Finding]:
        if function.is_declaration:
            return
        entry = function.body.block
        for argument in entry.args:
            uses = [use.operation for use in argument.uses]
            if uses and all(isinstance(user, QCastOp) for user in uses):
                yield Finding(
                    "B7",
                    function,
                    f"argument #{argument.index} is float and only quantized",
                    bytes=size(argument),
                    fix="fold-interface",
                )
        last = entry.last_op
        if isinstance(last, ReturnOp):
            for number, value in enumerate(last.operands):
                if isinstance(value.owner, DCastOp):
                    yield Finding(
                        "B7",
                        function,
                        f"result #{number} is float, dequantized at the end",
                        bytes=size(value),
                        fix="fold-interface",
                    )


def elements(value: SSAValue) -> int:
    """Number of elements, unknown extents counted as 1."""
    return prod(1 if n == DYNAMIC else n for n in shape_of(value))


def size(value: SSAValue) -> int:
    """Bytes of a value as float32."""
    return 4 * elements(value)


def flops(op: Operation, behavior: Behavior | None) -> int:
    """Float operations of `op`: two per product summed, one per element otherwise."""
    if not op.results:
        return 0
    per_element = 1
    if behavior is not None and behavior.accumulator is not None:
        per_element = 2 * max(behavior.accumulator.depth(op), 1)
    return per_element * elements(op.results[0])
