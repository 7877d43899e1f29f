"""Decide which ops that casts may pass are on codes, so that the fewest elements are cast.

Every op that a cast may pass is on codes or on floats: a minimum cut between the two. A tensor
that is computed as codes and read as floats is dequantized, once for all its users; one that is
computed as floats and read as codes is quantized, once for each type. Dequantizes and quantizes
are separate problems, as no op may change its state in both. On a tie nothing moves.

    %d = quant.dcast %x : 64x3              64 x 3 elements
    %t = nn.flip %d axes [0]                64 x 3 elements
    %s = nn.slice %t ...                     1 x 3 elements: the dequantize moves below this
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue, Use

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.cost import elements
from qdialect.analysis.index import every_op
from qdialect.analysis.not_a_number import NotANumber
from qdialect.analysis.ranges import inside_bounds
from qdialect.behaviors import Behavior
from qdialect.behaviors.flow import carry_all_down, tied_operands
from qdialect.context import QContext
from qdialect.numerics.rounding import Rounding
from qdialect.passes.casts.cast_movement import (
    codes_below,
    meets_nan,
    quantized_above,
    refuse_floats,
)
from qdialect.placement import solve
from qdialect.placement.problem import INFINITE, Problem
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, QCastOp, cast_rounding, expressed_type
from qdialect.rewrite import Refusal

FLOATS, CODES = 0, 1
_Request = tuple[QParams, Rounding]


@dataclass
class _Cut:
    """One of the two problems: states of ops, and the elements cast between them.

    An element costs `unit`, more than if all ops change their state.
    """

    unit: int
    problem: Problem = field(default_factory=Problem)
    start: list[int] = field(default_factory=list[int])
    ops: dict[Operation, int] = field(default_factory=dict[Operation, int])
    gains: bool = False

    def op(self, op: Operation, now: int) -> None:
        """Add an op that may be in either state, and is in `now`."""
        self.ops[op] = self.problem.variable([int(now != FLOATS), int(now != CODES)])
        self.start.append(now)

    def fixed(self, state: int) -> int:
        """A new variable that stays in `state`."""
        costs = [INFINITE, INFINITE]
        costs[state] = 0
        self.start.append(state)
        return self.problem.variable(costs)

    def implies(self, above: int, state: int, below: int) -> None:
        """Variable `below` must be in `state` if `above` is."""
        table = [[0, 0], [0, 0]]
        table[state][1 - state] = INFINITE
        self.problem.add(above, below, table)

    def cast(self, producer: int, readers: list[int], state: int, size: int) -> None:
        """Add the cost of a tensor of `size` elements: it is cast once if its producer is not in
        `state`, and any of its readers is."""
        if not readers:
            return
        known = [self.start[variable] for variable in readers]
        any_reads = self.problem.variable([0, 0])
        self.start.append(state if state in known else 1 - state)
        for variable in readers:
            self.implies(variable, state, any_reads)
        table = [[0, 0], [0, 0]]
        table[1 - state][state] = size * self.unit
        self.problem.add(producer, any_reads, table)

    def states(self) -> dict[Operation, int]:
        """The best state of each op."""
        states = solve(self.problem, self.start).states
        self.gains = any(states[v] != self.start[v] for v in self.ops.values())
        return {op: states[v] for op, v in self.ops.items()}


class CastCut:
    """The states in which the ops of a module that casts may pass are best."""

    def __init__(self, session: QContext, module: Operation) -> None:
        self._session = session
        self._ops = list(every_op(module))
        self._inside: dict[SSAValue, bool] = {}
        self._not_a_number = NotANumber(session)
        #: ops that casts may pass, with their declarations
        self._passed = dict(self._passable())
        #: whether any op changes its state
        self.gains = False
        self.dequantize = self._dequantizes()
        self.quantize = self._quantizes()

    def is_fixed(self, op: Operation, states: Mapping[Operation, int]) -> bool:
        """Whether an op of the module has no choice of states."""
        return op in self._passed and op not in states

    def _solved(self, cut: _Cut) -> dict[Operation, int]:
        states = cut.states()
        self.gains = self.gains or cut.gains
        return states

    def _passable(self) -> Iterator[tuple[Operation, Behavior]]:
        for op in self._ops:
            behavior = self._session.behaviors.get(op)
            if behavior is None or not behavior.commutes or not op.results:
                continue
            if tied_operands(op, behavior):
                yield op, behavior

    def _tied(self, op: Operation) -> list[SSAValue]:
        return [op.operands[i] for i in tied_operands(op, self._passed[op])]

    def _has_floats(self, op: Operation) -> bool:
        """Whether an op on codes may be on floats instead."""
        behavior = self._passed[op]
        params = qparams_of(op.results[0])
        if behavior.movement is None or params is None or not is_integer(params):
            return False
        known = [q for v in self._tied(op) if (q := qparams_of(v)) is not None]
        results = [qparams_of(v) for v in op.results]
        if carry_all_down(op, behavior, known, results) != results:
            return False
        return refuse_floats(self._session, behavior, op, expressed_type(params)) is None

    # -- dequantizes ------------------------------------------------------------------

    def _dequantizes(self) -> dict[Operation, int]:
        cut = _Cut(2 * len(self._passed) + 1)
        #: the qparams that a tensor of floats would have as codes
        codes: dict[SSAValue, QParams] = {}
        for op in self._ops:
            if isinstance(op, DCastOp) or op not in self._passed:
                continue
            tied = list(map(_undone, self._tied(op)))
            params = [codes.get(v) or qparams_of(v) for v in tied]
            known = [q for q in params if q is not None and is_integer(q)]
            if len(known) != len(tied):
                continue
            if qparams_of(op.results[0]) is not None:
                if len(op.results) == 1 and self._has_floats(op):
                    cut.op(op, CODES)
                continue
            found = codes_below(
                self._session,
                op,
                self._passed[op],
                known,
                lambda t=tied: all(map(self._is_inside, t)),
            )
            if not isinstance(found, Refusal):
                cut.op(op, FLOATS)
                codes |= dict(zip(op.results, found, strict=True))
        for op in self._ops:
            for value in op.results:
                self._dequantized(cut, value)
        for op in self._ops:
            for region in op.regions:
                for block in region.blocks:
                    for value in block.args:
                        self._dequantized(cut, value)
        return self._solved(cut)

    def _is_inside(self, value: SSAValue) -> bool:
        """Whether codes of a tensor are within the bounds of their storage."""
        if value not in self._inside:
            owner = value.owner
            if qparams_of(value) is not None or not isinstance(owner, Operation):
                self._inside[value] = inside_bounds(value, self._session)
            else:
                self._inside[value] = all(self._is_inside(_undone(v)) for v in self._tied(owner))
        return self._inside[value]

    def _dequantized(self, cut: _Cut, value: SSAValue) -> None:
        """Add the cost of dequantizing `value`, and what has to stay codes."""
        owner = value.owner
        variable = cut.ops.get(owner) if isinstance(owner, Operation) else None
        is_codes = qparams_of(value) is not None
        if isinstance(owner, DCastOp) or (variable is None and not is_codes):
            return
        as_codes = [u for u in value.uses if not isinstance(u.operation, DCastOp)]
        casts = [u.operation for u in value.uses if isinstance(u.operation, DCastOp)]
        as_floats = [use for cast in casts for use in cast.results[0].uses]
        readers = list(dict.fromkeys(v for u in (*as_codes, *as_floats) for v in self._var(cut, u)))
        if variable is None and not readers:
            return
        producer = cut.fixed(CODES) if variable is None else variable
        for reader in readers:
            cut.implies(producer, FLOATS, reader)
        stays = any(not self._var(cut, use) for use in as_codes)
        if stays and is_codes:
            cut.implies(cut.fixed(CODES), CODES, producer)
        if (stays and not is_codes) or any(not self._var(cut, use) for use in as_floats):
            readers.append(cut.fixed(FLOATS))
        cut.cast(producer, readers, FLOATS, elements(value))

    def _var(self, cut: _Cut, use: Use) -> tuple[int, ...]:
        """The variable of an op that uses a value where a cast would pass it, if it has one."""
        op = use.operation
        if op in cut.ops and use.index in tied_operands(op, self._passed[op]):
            return (cut.ops[op],)
        return ()

    # -- quantizes --------------------------------------------------------------------

    def _quantizes(self) -> dict[Operation, int]:
        cut = _Cut(2 * len(self._passed) + 1)
        requests: dict[tuple[Operation, int], _Request] = {}
        for op in reversed(self._ops):
            if op in self._passed and qparams_of(op.results[0]) is None:
                self._hoistable(cut, op, requests)
        #: by value on codes, how floats above are quantized to it
        sources: dict[SSAValue, _Request] = {}
        for op in self._ops:
            params = qparams_of(op.results[0]) if len(op.results) == 1 else None
            if isinstance(op, QCastOp) and params is not None:
                sources[op.result] = params, cast_rounding(op)
            elif params is not None and op in self._passed and self._has_floats(op):
                above = [sources.get(v) for v in self._tied(op)]
                roundings = {request[1] for request in above if request is not None}
                if None not in above and len(roundings) == 1:
                    cut.op(op, CODES)
                    sources[op.results[0]] = params, roundings.pop()
                    for index, q in zip(tied_operands(op, self._passed[op]), above, strict=True):
                        if q is not None:
                            requests[op, index] = q
        for op in self._ops:
            for value in op.results:
                self._quantized(cut, value, requests)
            for region in op.regions:
                for block in region.blocks:
                    for value in block.args:
                        self._quantized(cut, value, requests)
        return self._solved(cut)

    def _hoistable(
        self, cut: _Cut, op: Operation, requests: dict[tuple[Operation, int], _Request]
    ) -> None:
        """Add `op`, and how its operands would be quantized, if all its results are."""
        needed: list[_Request] = []
        for result in op.results:
            found = {_request(use.operation, use.index, requests) for use in result.uses}
            request = found.pop() if len(found) == 1 else None
            if request is None or not is_integer(request[0]):
                return
            needed.append(request)
        if len({rounding for _, rounding in needed}) > 1:
            return
        behavior, rounding = self._passed[op], needed[0][1]
        if behavior.movement is None and meets_nan(op, behavior, self._not_a_number):
            return
        above = quantized_above(self._session, op, behavior, [q for q, _ in needed], rounding)
        if isinstance(above, Refusal):
            return
        cut.op(op, FLOATS)
        for index, params in zip(tied_operands(op, behavior), above, strict=True):
            requests[op, index] = params, rounding

    def _quantized(
        self, cut: _Cut, value: SSAValue, requests: dict[tuple[Operation, int], _Request]
    ) -> None:
        """Add the cost of quantizing `value`."""
        owner = value.owner
        variable = cut.ops.get(owner) if isinstance(owner, Operation) else None
        is_codes = qparams_of(value) is not None
        if isinstance(owner, QCastOp) or (variable is None and is_codes):
            return
        #: by how they are quantized, the ops that read codes; None for one that stays
        groups: dict[_Request | None, list[int | None]] = {}
        for use in value.uses:
            request = None if is_codes else _request(use.operation, use.index, requests)
            if request is None and not is_codes:
                continue
            is_cast = isinstance(use.operation, QCastOp)
            readers = groups.setdefault(request, [])
            for below in use.operation.results[0].uses if is_cast else (use,):
                readers += self._var(cut, below) or (None,)
        if variable is None and all(v is None for readers in groups.values() for v in readers):
            return
        producer = cut.fixed(FLOATS) if variable is None else variable
        for readers in groups.values():
            known = list(dict.fromkeys(v for v in readers if v is not None))
            for reader in known:
                cut.implies(producer, CODES, reader)
            known += [cut.fixed(CODES)] * (None in readers)
            cut.cast(producer, known, CODES, elements(value))


def _undone(value: SSAValue) -> SSAValue:
    """The codes that a dequantize reads; any other value itself."""
    owner = value.owner
    return owner.input if isinstance(owner, DCastOp) else value


def _request(
    user: Operation, index: int, requests: dict[tuple[Operation, int], _Request]
) -> _Request | None:
    """How a use of floats would quantize them."""
    if isinstance(user, QCastOp):
        params = qparams_of(user.result)
        return None if params is None else (params, cast_rounding(user))
    return requests.get((user, index))
