"""Where integers turn into floats and back, and what to do about it.

The codes of the qparams law, section 2.8, found in one pass over a module:

| code | pattern | passes that may mend it |
|---|---|---|
| B1 | all data operands are codes, the result is float | `type-accumulators`, `move-casts`, |
|    |                                                  | `lower-float-regions` |
| B2 | some operands are codes, others float | `integerize`, `lower-float-regions` |
| B3 | float ops between dequantize and quantize | `type-accumulators,integerize`, |
|    |                                           | `place-rescales`, `lower-float-regions` |
| B4 | codes read on other qparams without a rescale | none: a person inserts one, or means it |
| B5 | qparams that cannot follow a movement, or sit on a summed dimension | none |
| B6 | quantize(dequantize(q)), dequantize(quantize(x)) | `fold-rescale` |
| B7 | a float interface right at a quantize or dequantize | `fold-interface` |

Every op that computes on codes and has a float result is named by B1, B2, B3 or B5.
Which of the passes does mend a finding, `passes.casts.boundary_fixes` finds out by running them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.analysis.cast_regions import CastRegions
from qdialect.analysis.cost import flops, size
from qdialect.ir.behaviors import Behavior, Port, PortKind
from qdialect.ir.behaviors.flow import carry_all_down, tied_operands
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.dialects.kept import kind_of
from qdialect.ir.ops import ConstantOp, constant_of
from qdialect.ir.ops.ports import port_refusal
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    UniformType,
    cast_rounding,
    quant_element,
)

#: what each code stands for
CODES = {
    "B1": "codes in, float out",
    "B2": "codes and floats in",
    "B3": "float ops between codes",
    "B4": "codes read on other qparams",
    "B5": "qparams on a wrong dimension",
    "B6": "cast of a cast",
    "B7": "float interface at a cast",
}

LEVELS = ("", "{numerics=ties}", "{numerics=bounded}", "{numerics=relaxed}")
"""Options of a pass, from what changes least."""
_MOVE = "move-casts{boundary=maximize-integer}"
_INTEGERIZE = tuple(f"integerize{level}" for level in LEVELS)
_FIXED_POINT = tuple(f"lower-float-regions{level}" for level in LEVELS)
_PLACED = tuple(f"place-rescales{level}" for level in LEVELS)
_REGIONS = (*_INTEGERIZE, *_PLACED, *_FIXED_POINT)
_SUMS = ("type-accumulators", "type-accumulators{numerics=ties}")
_BELOW_SUMS = (*(f"{_SUMS['{' in text]},{text}" for text in _REGIONS), *_FIXED_POINT)
_FOLD_CASTS = tuple(f"fold-rescale{level}" for level in LEVELS)
_MIXED = (*_REGIONS, *_FOLD_CASTS)
_NO_QPARAMS = "nothing says on which qparams: only data can (apply-profile)"


@dataclass(frozen=True)
class Finding:
    """One boundary break, at `op`.

    `flops` are float operations done there, `bytes` what crosses the boundary as
    float (both 0 where unknown or none); `blocked_by` names the first op of a float region
    that keeps it float, `region` are its ops (B3).

    `tries` are pipelines that may mend it, from what changes least. `fix` is the one that
    does; or `why` says why none does.
    """

    code: str
    op: Operation
    message: str
    flops: int = 0
    bytes: int = 0
    tries: tuple[str, ...] = ()
    why: str = ""
    blocked_by: str = ""
    region: tuple[Operation, ...] = ()
    fix: str = ""

    @property
    def advice(self) -> str:
        """What mends it, for people."""
        return advice(self.fix, self.why)


def advice(fix: str, why: str) -> str:
    """That `fix` mends a finding, or why nothing does."""
    return f"fix: {fix}" if fix else f"no pass mends it: {why}"


def find_boundaries(module: Operation, session: QContext) -> list[Finding]:
    """All findings, in program order; linear in ops."""
    return _Search(module, session).run()


def called_functions(module: Operation) -> set[str]:
    """Names of the functions that the module itself calls."""
    callees = [op.callee for op in module.walk() if isinstance(op, CallOp)]
    return {name.data for c in callees for name in (c.root_reference, *c.nested_references.data)}


class _Search:
    def __init__(self, module: Operation, session: QContext) -> None:
        self.session = session
        self.regions = CastRegions(module, session.behaviors)
        self.order = {op: n for n, op in enumerate(module.walk())}
        self.called = called_functions(module)
        self.moved_to_quantize = self._only_moved_and_quantized()
        #: plain integers that are codes: of which qparams
        self.bits: dict[SSAValue, QParams] = {}

    def run(self) -> list[Finding]:
        findings = [finding for op in self.order for finding in self._at(op)]
        findings += self._float_regions()
        return sorted(findings, key=lambda f: (self.order[f.op], f.code))

    def _at(self, op: Operation) -> Iterator[Finding]:
        behavior = self.session.behaviors.get(op)
        if isinstance(op, QCastOp | DCastOp):
            yield from self._casts(op)
        elif isinstance(op, SCastOp):
            yield from self._reading(op)
        elif isinstance(op, FuncOp):
            yield from self._interface(op)
        elif behavior is None:
            yield from self._unknown(op)
        elif op.results:
            if behavior.movement is not None:
                yield from self._movement(op, behavior)
            else:
                yield from self._computation(op, behavior)

    # -- B1, B2, B5 on computing ops ------------------------------------------

    def _computation(self, op: Operation, behavior: Behavior) -> Iterator[Finding]:
        codes = [v for v in op.operands if self._is_codes(v)]
        if not codes:
            return
        ports = [behavior.operand_port(i) for i in range(len(op.operands))]
        floats = [
            (port, v)
            for port, v in zip(ports, op.operands, strict=True)
            if port.kind is not PortKind.PLAIN and v not in codes
        ]
        if quant_element(op.results[0].type) is not None:
            if floats:
                yield self._mixed(op, behavior, floats)
            return
        reason = self._bad_axis(op, behavior)
        closed = op.results[0] in self.regions.closes
        data = [port for port, _ in floats if port.kind is not PortKind.BIAS]
        if reason:
            why = "no accumulator has a scale for each of them"
            yield Finding("B5", op, reason, flops(op, behavior), why=why)
        elif not data and len(codes) > sum(p.kind is PortKind.BIAS for p in ports):
            if not closed:
                yield self._float_result(op, behavior)
        elif not closed or all(constant_of(v) for _, v in floats):
            yield self._mixed(op, behavior, floats)

    def _float_result(self, op: Operation, behavior: Behavior) -> Finding:
        first = _SUMS if behavior.accumulator else (_MOVE,) if behavior.commutes else ()
        return Finding(
            "B1",
            op,
            f"'{op.name}' takes codes only, but its result stays float",
            flops(op, behavior),
            sum(map(size, op.results)),
            (*first, *_FIXED_POINT),
            _NO_QPARAMS,
        )

    def _mixed(
        self,
        op: Operation,
        behavior: Behavior,
        floats: Sequence[tuple[Port, SSAValue]],
    ) -> Finding:
        roles = ", ".join(
            f"{port.role} (a constant)" if constant_of(v) else port.role for port, v in floats
        )
        return Finding(
            "B2",
            op,
            f"'{op.name}' takes codes, but float {roles or 'data'}",
            flops(op, behavior),
            sum(size(v) for _, v in floats),
            _MIXED,
            _NO_QPARAMS,
        )

    def _unknown(self, op: Operation) -> Iterator[Finding]:
        """An op that nobody declared computes on floats."""
        if isinstance(op, RescaleOp) or not any(v in self.regions.derived for v in op.operands):
            return
        if any(quant_element(result.type) is None for result in op.results):
            name = kind_of(op)
            yield Finding(
                "B1",
                op,
                f"'{name}' takes dequantized codes; it has no declared behavior",
                bytes=sum(size(v) for v in op.operands if v in self.regions.derived),
                why="nobody says what it computes",
                blocked_by=f"'{name}'",
            )

    def _is_codes(self, value: SSAValue) -> bool:
        return quant_element(value.type) is not None or value in self.regions.derived

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
        if quant_element(op.results[0].type) is not None:
            return
        self._move_bits(op, behavior)
        tied = [op.operands[i] for i in tied_operands(op, behavior)]
        params = [self._params(v) for v in tied]
        known = [q for q in params if q is not None]
        if (
            not known
            or len(known) != len(params)
            or (behavior.requantizes_inputs and len(set(known)) > 1)
        ):
            return
        carried = carry_all_down(op, behavior, known)
        if isinstance(carried, Illegal):
            why, refusal = carried.reason, carried.code
        else:
            before, after = sum(q.count for q in known), max(q.count for q in carried)
            why = f"{before} parameters would become {after}" if after > before else ""
            refusal = "growth"
        if why:
            yield Finding(
                "B5",
                op,
                f"qparams cannot follow '{op.name}': {why} [{refusal}]",
                bytes=sum(map(size, op.results)),
                why="they would have to be chosen anew",
            )

    # -- B3 ---------------------------------------------------------------------

    def _float_regions(self) -> Iterator[Finding]:
        """Connected float ops that every path leaves through a quantize."""
        root: dict[Operation, Operation] = {}

        def find(op: Operation) -> Operation:
            while root[op] is not op:
                root[op] = root[root[op]]
                op = root[op]
            return op

        for op in self.order:
            if not self._in_region(op):
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
            if any(self._is_codes(v) for op in group for v in op.operands):
                yield self._region(group)

    def _in_region(self, op: Operation) -> bool:
        if isinstance(op, DCastOp | QCastOp | ConstantOp) or not op.results:
            return False
        return all(
            result in self.regions.closes and quant_element(result.type) is None
            for result in op.results
        )

    def _region(self, group: list[Operation]) -> Finding:
        blocker = next(filter(None, (self._blocks(op) for op in group)), "")
        names = ", ".join(dict.fromkeys(op.name for op in group))
        total = sum(flops(op, self.session.behaviors.get(op)) for op in group)
        message = f"{len(group)} float op(s) between codes: {names}"
        sums = any(self._needs_accumulator(op) for op in group)
        tries = _BELOW_SUMS if sums else _REGIONS
        if blocker:
            message += f"; kept float by {blocker}"
        return Finding(
            "B3",
            group[0],
            message,
            total,
            sum(size(result) for op in group for result in op.results),
            tries,
            "what keeps it float has to become codes" if blocker else "",
            blocker,
            tuple(group),
        )

    def _blocks(self, op: Operation) -> str:
        """Why `op` has no integer form here, or nothing."""
        behavior = self.session.behaviors.get(op)
        if behavior is None:
            return f"'{op.name}', which has no declared behavior"
        for index, operand in enumerate(op.operands):
            port = behavior.operand_port(index)
            if port.kind not in (PortKind.REQUANT, PortKind.TIED) or self._is_codes(operand):
                continue
            if constant_of(operand):
                continue
            owner = self._source(operand).owner
            source = self.session.behaviors.get(owner) if isinstance(owner, Operation) else None
            if port.kind is PortKind.TIED and source is not None:
                continue
            if source is None or source.accumulator is None:
                return f"the {port.role} of '{op.name}', which has no qparams"
        return ""

    def _needs_accumulator(self, op: Operation) -> bool:
        """Whether `op` is a contraction that another op of its region takes as float."""
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
                tries=_FOLD_CASTS,
            )
        elif isinstance(op, DCastOp) and isinstance(owner, QCastOp):
            yield Finding(
                "B6",
                op,
                "dequantize of quantize: rounds and clips",
                bytes=size(op.result),
                tries=(_INTEGERIZE[0], *_FOLD_CASTS),
            )

    def _reading(self, op: SCastOp) -> Iterator[Finding]:
        source, result = quant_element(op.input.type), quant_element(op.result.type)
        if source is not None:
            self.bits[op.result] = source.qparams
        read = self.bits.get(op.input)
        if result is not None and read is not None and read != result.qparams:
            yield Finding(
                "B4",
                op,
                f"codes of {UniformType(read)} are read as {result} without a rescale",
                bytes=size(op.result),
                why="what is meant, nobody can tell: insert a quant.rescale, or leave it",
            )

    def _move_bits(self, op: Operation, behavior: Behavior) -> None:
        """Codes stay codes when a movement op sees plain integers."""
        tied = [self.bits.get(op.operands[i]) for i in tied_operands(op, behavior)]
        known = [q for q in tied if q is not None]
        if known and len(known) == len(tied):
            carried = carry_all_down(op, behavior, known)
            if not isinstance(carried, Illegal):
                self.bits.update(zip(op.results, carried, strict=True))

    def _only_moved_and_quantized(self) -> set[SSAValue]:
        found: set[SSAValue] = set()
        for op in reversed(self.order):
            blocks = [block for region in op.regions for block in region.blocks]
            for value in (*op.results, *(a for block in blocks for a in block.args)):
                if value.first_use is not None and all(
                    isinstance(use.operation, QCastOp)
                    or (self._commutes(use.operation) and found.issuperset(use.operation.results))
                    for use in value.uses
                ):
                    found.add(value)
        return found

    def _commutes(self, op: Operation) -> bool:
        behavior = self.session.behaviors.get(op)
        return behavior is not None and behavior.commutes

    def _interface(self, function: FuncOp) -> Iterator[Finding]:
        if function.is_declaration:
            return
        called = function.sym_name.data in self.called
        fold = () if called else ("fold-interface",)
        move = () if called else (f"{_MOVE},fold-interface",)
        kept = "the module calls it" if called else ""
        for argument in function.body.blocks[0].args:
            if argument not in self.moved_to_quantize:
                continue
            casts = [use.operation for use in argument.uses if isinstance(use.operation, QCastOp)]
            kinds = {(c.result.type, cast_rounding(c)) for c in casts}
            message, tries, why = "only quantized", fold, kept
            if len(casts) != sum(1 for _ in argument.uses):
                message, tries = "only moved and quantized", move
            elif len(kinds) > 1:
                message, tries = f"only quantized, in {len(kinds)} ways", ()
                why = "an argument has one type"
            yield Finding(
                "B7",
                function,
                f"argument #{argument.index} is float and {message}",
                bytes=size(argument),
                tries=tries,
                why=why,
            )
        for last in (block.last_op for block in function.body.blocks):
            for number, value in enumerate(last.operands if isinstance(last, ReturnOp) else ()):
                if value not in self.regions.derived:
                    continue
                direct = isinstance(value.owner, DCastOp)
                yield Finding(
                    "B7",
                    function,
                    f"result #{number} is float, dequantized "
                    + ("at the end" if direct else "and moved"),
                    bytes=size(value),
                    tries=fold if direct else move,
                    why=kept,
                )
