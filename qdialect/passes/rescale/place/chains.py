"""The conversion chains of a module: which conversions may stand before or behind each value.

A conversion (rescale, quantize, dequantize) may stand anywhere along the ops around it that
commute with it (movement and order-preserving ops, law 2.2).  The conversions that may pass a
value form its chain.  Positions on the chain are numbered by what has been applied to the value:
position 0 is the value as it stands; -1 is the value before the conversion above it (or above the
commuting ops above it), which then stands below; +1 is the value once the conversion that all its
users apply stands above it.  A commuting op is in state k if its operands and results are at
position k; its encoding there may be codes on some qparams, or floats.

    %0 = quant.dcast %x : !a to !f           %0 has the positions -1 (as !a) and 0 (as floats)
    %1 = nn.slice %0 ... : (!f) -> !f        the slice has the states -1 and 0
    %2 = quant.qcast %1 : !f to !c           ... and +1; so have %0 and %1

One forward sweep finds the positions below 0, one backward sweep those above: linear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.ir import BlockArgument, Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.ranges import Interval
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.intervals import LaidOut, passed_on, within
from qdialect.analysis.not_a_number import NotANumber
from qdialect.analysis.ranges import inside_bounds, narrowed_qparams
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.behaviors.flow import carry_all_down, carry_some_down, carry_up, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of
from qdialect.ir.ops.base import PINNED
from qdialect.ir.quant import arithmetic_of
from qdialect.passes.casts.cast_movement import may_select_nothing, meets_nan, quantized_above
from qdialect.passes.casts.order_rules import keeps_apart
from qdialect.passes.rescale.passing import (
    Counterpart,
    Rescaled,
    constant_operand,
    counterpart,
    is_passable,
    passage,
    rescaled_to,
    same_order,
)
from qdialect.passes.rescale.place.calls import FunctionPort, block_of, is_uncounted
from qdialect.passes.rescale.place.conversions import (
    Conversion,
    Encoding,
    Floats,
    conversion_of,
    encoding_of,
    rounding_of,
    with_encoding,
)
from qdialect.passes.rule_pass import (
    keeps_order,
    names_all,
    refuse_effects,
    refuse_growth,
    refuse_qparams,
    refuse_types,
)
from qdialect.rewrite import Refusal

#: how many conversions may pass one value, each way
DEPTH = 3

#: calls inside calls that conversions may cross
_CALL_DEPTH = 16


class ChainConversion(NamedTuple):
    """A conversion of a chain: the encoding on its far side, seen from position 0, and how it
    rounds.

    `narrowed` is this encoding with the bounds of the known range of the codes there.
    `origin` is the conversion as it stands, which gives a moved one its key and location.
    """

    encoding: Encoding
    rounding: Rounding
    narrowed: Encoding
    origin: Conversion
    #: a number for encoding, rounding and range: conversions that have the same are alike
    key: int

    @property
    def is_inside(self) -> bool:
        """Whether codes on the far side are known to be within the bounds of their storage."""
        return is_inside(self.encoding, self.narrowed)


#: what conversions with the same `ChainConversion.key` have in common
ConversionKey = tuple[Encoding, Rounding, Encoding]


@dataclass
class OpState:
    """The encodings of a commuting op in one state; `legal` unless it cannot have them."""

    operands: list[Encoding]
    results: list[Encoding]
    legal: bool = True
    #: for an op that selects by order: its constant operands, by number
    constants: dict[int, Counterpart] = field(default_factory=dict[int, Counterpart])
    #: what this state changes, compared with state 0
    contract: Contract = EXACT


@dataclass
class CommutingOp:
    """An op that conversions may pass: `states[k]`, state 0 included."""

    op: Operation
    behavior: Behavior
    tied: list[int]
    states: dict[int, OpState] = field(default_factory=dict[int, OpState])
    #: whether one scale for all tied operands is that of all results, whatever it is
    shares_scale: bool = False
    #: the constants it compares with
    levels: Sequence[float] = ()
    #: whether its results hold elements of the tied operands only, and all of them may be there
    only_moves: bool = False

    @property
    def results(self) -> Sequence[SSAValue]:
        """The results that have encodings: all, but none of an op that tells which is larger."""
        return () if self.behavior.compares else self.op.results

    @property
    def lowest(self) -> int:
        """The lowest state."""
        return min(self.states)

    @property
    def highest(self) -> int:
        """The highest state."""
        return max(self.states)


def is_inside(encoding: Encoding, narrowed: Encoding) -> bool:
    """Whether codes within the bounds of `narrowed` are within those of `encoding`; floats are."""
    if isinstance(encoding, Floats) or isinstance(narrowed, Floats):
        return True
    bounds, codes = encoding.storage, narrowed.storage
    return bounds.min <= codes.min and codes.max <= bounds.max


def one_scale(encodings: Sequence[Encoding]) -> bool:
    """Whether all are the same, and per tensor."""
    return all(q.is_per_tensor and (q is encodings[0] or q == encodings[0]) for q in encodings)


def all_codes(encodings: Sequence[Encoding]) -> list[QParams] | None:
    """The encodings, if all are codes."""
    known = [q for q in encodings if not isinstance(q, Floats)]
    return known if len(known) == len(encodings) else None


class Chains:
    """The chains of a module whose ops, in program order, are `ops`; rescales that `keys` does
    not have yet are added to it.

    `above[v]` has the rescales to the positions -1, -2 ... of v; `below[v]` those to +1,
    +2 ...; `commuting[op]` the ops that have several states.  Absent means none.

    At level `relaxed` a requantizing operand may be given what the other users of its value
    rescale that to (`regridded`), which no rescale does: a new choice of qparams.
    """

    def __init__(
        self,
        session: QContext,
        level: Numerics,
        ops: Sequence[Operation],
        keys: dict[ConversionKey, int],
        ports: Sequence[FunctionPort] = (),
    ) -> None:
        self.above: dict[SSAValue, list[ChainConversion]] = {}
        self.below: dict[SSAValue, list[ChainConversion]] = {}
        self.commuting: dict[Operation, CommutingOp] = {}
        self.regridded: set[tuple[Operation, int]] = set()
        self._session = session
        self._level = level
        self._rules = _StateRules(session, level)
        self._keys = keys
        #: by op and operand, the rescales that may stand above that operand
        self._below_operands: dict[Operation, dict[int, list[ChainConversion]]] = {}
        self._sweep(ops, ports)

    def _sweep(self, ops: Sequence[Operation], ports: Sequence[FunctionPort]) -> None:
        """Find all positions: below 0 forward, then above 0 backward.

        What crosses calls is known when both sides are, so the sweeps are repeated until nothing
        is added; where they go on for too long, nothing crosses.
        """
        crossing: dict[SSAValue, list[ChainConversion]] = {}
        for attempt in range(_CALL_DEPTH + 1):
            self.above, self.commuting = dict(crossing), {}
            for op in ops:
                self._sweep_down(op)
            before, crossing = (
                crossing,
                {
                    value: chain
                    for port in ports
                    if (chain := _prefix([self.above.get(o.operands[i], []) for o, i in port.uses]))
                    for value in port.values
                },
            )
            if _keys(crossing) == _keys(before):
                break
            if attempt + 1 == _CALL_DEPTH:
                crossing, ports = {}, ()
        used: dict[tuple[Operation, int], list[ChainConversion]] = {}
        for attempt in range(_CALL_DEPTH + 1):
            self.below, self._below_operands, self.regridded = {}, {}, set()
            for (op, index), chain in used.items():
                self._below_operands.setdefault(op, {})[index] = chain
            for node in self.commuting.values():
                for state in [state for state in node.states if state > 0]:
                    del node.states[state]
            for op in reversed(ops):
                self._sweep_up(op)
            for port in ports:
                for value in port.values:
                    if isinstance(value, BlockArgument) and (chain := self._common(value)):
                        self.below[value] = chain
            before_uses, used = (
                used,
                {
                    use: chain
                    for port in ports
                    if (chain := _prefix([self.below.get(value, []) for value in port.values]))
                    for use in port.uses
                },
            )
            if _keys(used) == _keys(before_uses):
                break
            if attempt + 1 == _CALL_DEPTH:
                used, ports = {}, ()

    def below_use(self, user: Operation, index: int) -> Sequence[ChainConversion]:
        """The rescales that may stand above operand `index` of `user`."""
        operands = self._below_operands.get(user)
        return () if operands is None else operands.get(index, ())

    def _conversion(
        self, encoding: Encoding, rounding: Rounding, narrowed: Encoding, origin: Conversion
    ) -> ChainConversion:
        key = self._keys.setdefault((encoding, rounding, narrowed), len(self._keys))
        return ChainConversion(encoding, rounding, narrowed, origin, key)

    # -- forward: positions below 0 ---------------------------------------------------

    def _sweep_down(self, op: Operation) -> None:
        conversion = conversion_of(op)
        if conversion is not None:
            source = encoding_of(conversion.input)
            assert source is not None
            narrowed = narrowed_qparams(conversion.input, self._session) or source
            first = self._conversion(source, rounding_of(conversion), narrowed, conversion)
            above = self._above(op, 0)
            self.above[conversion.result] = [first, *above][:DEPTH]
            return
        if not any(operand in self.above for operand in op.operands):
            return
        node = self._rules.commuting_op(op)
        if node is None:
            return
        moving = [i for i in node.tied if i not in node.states[0].constants]
        chains = [self._above(op, i) for i in moving]
        unchanged = self._rules.unchanged(node, chains[0]) if len(moving) == 1 else None
        if unchanged is not None:
            node.states.update((-depth, state) for depth, state in enumerate(unchanged, 1))
            self.commuting[op] = node
            self.above.update((result, chains[0]) for result in op.results)
            return
        ends: list[list[ChainConversion]] = [[] for _ in node.results]
        after, skipped = node.states[0], None
        for depth, rescales in enumerate(zip(*chains, strict=False), 1):
            operands = dict(zip(moving, rescales, strict=True))
            state = self._rules.state_before(node, operands, after, skipped)
            if state is not None:
                after, skipped = state, None
            else:
                state, skipped = self._rules.skipped(node, rescales), rescales[0].rounding
                if state is None:
                    break
            node.states[-depth] = state
            rounding, origin = rescales[0].rounding, rescales[0].origin
            for index, end in enumerate(ends):
                narrowed = self._rules.narrowed_result(node, state, operands, index)
                end.append(self._conversion(state.results[index], rounding, narrowed, origin))
        if node.states.keys() > {0}:
            self.commuting[op] = node
            self.above.update(zip(node.results, ends, strict=True))

    def _above(self, op: Operation, index: int) -> list[ChainConversion]:
        """The conversions above an operand that may pass `op`: not into a loop of unknown count."""
        above = self.above.get(op.operands[index], [])
        return [] if above and is_uncounted(op.parent, block_of(op.operands[index])) else above

    # -- backward: positions above 0 --------------------------------------------------

    def _sweep_up(self, op: Operation) -> None:
        for result in op.results:
            chain = self._common(result)
            if chain:
                self.below[result] = chain
        conversion = conversion_of(op)
        if conversion is not None:
            target = encoding_of(conversion.result)
            assert target is not None
            first = self._conversion(target, rounding_of(conversion), target, conversion)
            chain = [first, *self.below.get(conversion.result, ())][:DEPTH]
            self._below_operands[op] = {0: chain}
            return
        if not op.results or not all(r in self.below for r in op.results):
            return
        node = self.commuting.get(op) or self._rules.commuting_op(op)
        if node is None:
            return
        chains = [self.below[result] for result in op.results]
        unchanged = self._rules.unchanged(node, chains[0]) if len(chains) == 1 else None
        if unchanged is not None:
            node.states.update(enumerate(unchanged, 1))
            self.commuting[op] = node
            self._below_operands[op] = dict.fromkeys(node.tied, chains[0])
            return
        ends: list[list[ChainConversion]] = [[] for _ in node.tied]
        before = node.states[0]
        for depth, rescales in enumerate(zip(*chains, strict=False), 1):
            state = self._rules.state_behind(node, rescales, before)
            if state is not None:
                before = state
            else:
                state = self._rules.skipped(node, rescales)
                if state is None:
                    break
            node.states[depth] = state
            rounding, origin = rescales[0].rounding, rescales[0].origin
            for end, encoding in zip(ends, state.operands, strict=True):
                end.append(self._conversion(encoding, rounding, encoding, origin))
        if node.highest > 0:
            self.commuting[op] = node
            self._below_operands[op] = dict(zip(node.tied, ends, strict=True))
        # A state that the op cannot have is no position of its results either.
        for result, chain in zip(op.results, chains, strict=True):
            self.below[result] = chain[: max(node.highest, 0)]

    def _common(self, value: SSAValue) -> list[ChainConversion]:
        """The rescales that may stand above all uses of `value`, in the same order."""
        common: list[ChainConversion] | None = None
        flexible: list[tuple[Operation, int]] = []
        for use in value.uses:
            chain = self.below_use(use.operation, use.index)
            if not chain and self._is_flexible(use.operation, use.index):
                flexible.append((use.operation, use.index))
                continue
            common = list(chain) if common is None else _prefix([common, list(chain)])
            if not common:
                return []
        if not common:
            return []
        if flexible and isinstance(common[0].encoding, Floats):
            return []
        for user, index in flexible:
            self.regridded.add((user, index))
            self._below_operands.setdefault(user, {})[index] = common
        return common

    def _is_flexible(self, user: Operation, index: int) -> bool:
        """Whether operand `index` of `user` may be given other qparams."""
        if self._level is not Numerics.RELAXED or qparams_of(user.operands[index]) is None:
            return False
        behavior = self._session.behaviors.get(user)
        return behavior is not None and behavior.operand_port(index).kind is PortKind.REQUANT


def _prefix(chains: Sequence[list[ChainConversion]]) -> list[ChainConversion]:
    """The conversions that all chains begin with."""
    common = chains[0]
    for chain in chains[1:]:
        same = 0
        for a, b in zip(common, chain, strict=False):
            if a.key != b.key:
                break
            same += 1
        common = common[:same]
    return common


def _keys(chains: Mapping[Any, list[ChainConversion]]) -> dict[Any, list[int]]:
    return {place: [conversion.key for conversion in chain] for place, chain in chains.items()}


_NOT_ROUNDED = Contract(Numerics.RELAXED, note="compares floats in place of codes")


class _StateRules:
    """Decides in which states an op may be, by its declaration, the target and the level.

    The constants that an order-preserving op compares with need a code in every state, or
    all codes must agree.  An op with tied ports that computes (`passage`) has further states
    at the price of what passing it changes.
    """

    def __init__(self, session: QContext, level: Numerics) -> None:
        self._session = session
        self._level = level
        #: by name, number of tied operands, number of results and scale: the state of all such
        #: ops, on a target that decides by no more than that
        self._on_one_scale: dict[tuple[str, int, int, Encoding], OpState] = {}
        self._by_name = not session.target.decides_by_op
        self._not_a_number = NotANumber(session)

    def commuting_op(self, op: Operation) -> CommutingOp | None:
        """The op in its present state, if conversions may pass it at all."""
        behavior = self._session.behaviors.get(op)
        if behavior is None or not op.results or PINNED in op.attributes or refuse_effects(op):
            return None
        compares = behavior.compares and all(
            behavior.result_port(n).kind is PortKind.PLAIN for n in range(len(op.results))
        )
        if not behavior.commutes and not is_passable(behavior) and not compares:
            return None
        tied, results = tied_operands(op, behavior), () if compares else op.results
        encodings = [encoding_of(v) for v in (*(op.operands[i] for i in tied), *results)]
        known = [q for q in encodings if isinstance(q, Floats) or (q and is_integer(q))]
        if not tied or len(known) != len(encodings):
            return None
        now = OpState(known[: len(tied)], known[len(tied) :])
        shares_scale = behavior.movement is None or not any(m.has_border for m in behavior.maps(op))
        codes = all_codes(known)
        if codes is None:
            if not behavior.commutes or not one_scale(known):
                return None
        elif not (compares or (shares_scale and one_scale(known))) and (
            carry_all_down(op, behavior, codes[: len(tied)], codes[len(tied) :]) != now.results
        ):
            return None  # it requantizes its operands
        if behavior.choose is not None and codes is not None:
            constants = [i for i in tied if constant_of(op.operands[i]) is not None]
            if len(constants) < len(tied):
                now.constants = {i: constant_operand(self._session, op, i) for i in constants}
        b = behavior
        levels = b.compared_constants(op) if b.compared_constants else ()
        computes = b.requantizes_inputs or b.choose or b.clamp or levels or not b.commutes
        only_moves = shares_scale and not computes
        return CommutingOp(op, b, tied, {0: now}, shares_scale, levels, only_moves)

    def unchanged(
        self, node: CommutingOp, rescales: Sequence[ChainConversion]
    ) -> list[OpState] | None:
        """The states before or behind each of `rescales`, which pass the op as they are: it only
        moves elements, and each has one scale. None where that has to be decided state by state."""
        if not (node.only_moves and rescales and all(r.encoding.is_per_tensor for r in rescales)):
            return None
        if not self._by_name or len(node.tied) != len(node.op.operands):
            return None
        encodings = [rescale.encoding for rescale in rescales]
        moves = node.behavior.movement is not None
        # What compares (a pool) must not meet NaN: no code stands for that.
        if not moves and all_codes([*node.states[0].operands, *encodings]) is None:
            return None
        return [self._with_scale(node, encoding) for encoding in encodings]

    def skipped(self, node: CommutingOp, conversions: Sequence[ChainConversion]) -> OpState | None:
        """The op on floats, between codes that it may be on: a dequantize and the quantize below it
        pass it as the rescale that they are. It may be there itself under `relaxed`, where that
        drops what the codes round. None of what is not floats."""
        floats = conversions[0].encoding
        alike = len({(conversion.encoding, conversion.rounding) for conversion in conversions}) == 1
        if not isinstance(floats, Floats) or not alike or not node.behavior.commutes:
            return None
        if all_codes(node.states[0].operands) is None or node.states[0].constants:
            return None
        state = OpState([floats] * len(node.tied), [floats] * len(node.op.results), legal=False)
        if self._level is Numerics.RELAXED and len(state.results) == 1:
            state.legal = self._is_legal(node, state.operands, state.results)
            state.contract = _NOT_ROUNDED
        return state

    def state_before(
        self,
        node: CommutingOp,
        rescales: dict[int, ChainConversion],
        after: OpState,
        skipped: Rounding | None = None,
    ) -> OpState | None:
        """The op before `rescales` (by operand), behind which it is in state `after`, or behind
        these and a quantize that rounds as `skipped`; None where the op has no state before these
        or any further ones."""
        chosen = list(rescales.values())
        rounding = skipped or chosen[0].rounding
        if len({rescale.rounding for rescale in chosen}) > 1:
            return None
        far = [rescale.encoding for rescale in chosen]
        above, below = all_codes(far), all_codes(after.operands)
        if above is None:
            return self._floats(node, far)
        if below is None and not node.behavior.commutes:
            return None  # of those that compare, `OrderOfDequantize` is the rule
        if node.behavior.requantizes_inputs and len(set(above)) > 1:
            return None
        carried = self._carried(node, dict(zip(rescales, above, strict=True)))
        if isinstance(carried, Illegal):
            return None
        operands, results = carried
        inside = all(rescale.is_inside for rescale in chosen)
        if below is None:
            if may_select_nothing(node.op, node.behavior):
                return None
            if not keeps_order(node.behavior, node.op, operands, inside=inside):
                return None
        elif node.behavior.compares:
            compared = [_codes(rescale.narrowed) for rescale in chosen]
            if not keeps_apart(node.op, above, compared, below, rounding):
                return None
        elif not self._same_order(
            node, operands, below, _codes(chosen[0].narrowed), rounding, inside=inside
        ):
            return None
        state = self._checked(node, operands, results, operands, results)
        if not state.legal and not one_scale(results):
            return None  # parameters that may not even fit the shape of the results
        if is_passable(node.behavior):
            pairs = zip(chosen, above, below or (), strict=True)
            moves = [(a, _codes(rescale.narrowed), b) for rescale, a, b in pairs]
            contract = self._passage(node, moves, rounding, after.contract)
            if contract is None:
                return None
            state.contract = contract
        for index, constant in after.constants.items():
            found = counterpart(
                node.op,
                node.behavior,
                constant,
                operands[node.tied.index(index)],
                rounding,
                defined=arithmetic_of(node.op),
                inside=inside,
            )
            if isinstance(found, Refusal):
                return None
            state.constants[index] = found
        return state

    def narrowed_result(
        self, node: CommutingOp, state: OpState, rescales: dict[int, ChainConversion], index: int
    ) -> Encoding:
        """The encoding of result `index` in `state`, before `rescales` (by operand), with the
        bounds of the known range that its codes will have there."""
        params = state.results[index]
        if isinstance(params, Floats) or not node.behavior.commutes or not is_integer(params):
            return params
        if node.only_moves:
            bounds = [_codes(rescale.narrowed).storage for rescale in rescales.values()]
            low, high = min(b.min for b in bounds), max(b.max for b in bounds)
            return within(params, Interval(low, high))
        operands: list[LaidOut] = []
        for operand in node.tied:
            if operand in rescales:
                rescale = rescales[operand]
                storage = _codes(rescale.narrowed).storage
                operands.append((_codes(rescale.encoding), Interval(storage.min, storage.max)))
            else:
                constant = state.constants[operand]
                if not constant.codes.size:
                    return within(params, None)
                operands.append((constant.params, Interval.exactly(constant.codes)))
        moves = node.behavior.movement is not None
        index_map = node.behavior.maps(node.op)[index] if moves else None
        return within(params, passed_on(node.op, node.behavior, operands, params, index_map))

    def state_behind(
        self, node: CommutingOp, rescales: Sequence[ChainConversion], before: OpState
    ) -> OpState | None:
        """The op behind `rescales` (by result), before which it is in state `before`; None where
        the op has no state behind these or any further ones."""
        rounding = rescales[0].rounding
        if len({rescale.rounding for rescale in rescales}) > 1:
            return None
        far = [rescale.encoding for rescale in rescales]
        results, above = all_codes(far), all_codes(before.operands)
        if results is None:
            return self._floats(node, far)
        if above is None:
            return self._quantized(node, results, rounding)
        joins = len(results) == 1 or node.behavior.inverse_map is not None
        if node.shares_scale and joins and one_scale(results):
            operands = results[:1] * len(node.tied)
        else:
            operands = carry_up(node.op, node.behavior, results)
            if isinstance(operands, Illegal):
                return None
        values = [node.op.operands[i] for i in node.tied]
        # Behind a rescale codes are inside their bounds.
        narrowed, inside = above[0], True
        if before is node.states[0]:
            inside = all(inside_bounds(value, self._session) for value in values)
            narrowed = narrowed_qparams(values[0], self._session) or narrowed
        if not self._same_order(node, above, operands, narrowed, rounding, inside=inside):
            return None
        state = self._checked(node, operands, results, results, operands)
        if not node.behavior.commutes:
            pairs = zip(values, operands, strict=True)
            moves = [rescaled_to(value, params, self._session) for value, params in pairs]
            contract = self._passage(node, moves, rounding, EXACT)
            if contract is None or 1 in node.states:
                return None  # the ranges of values further above are not known
            state.contract = contract
        return state

    def _floats(self, node: CommutingOp, encodings: Sequence[Encoding]) -> OpState | None:
        """The op on floats, where it is on codes now: it only moves elements. A border that it
        adds is a number that a code stands for, so quantizing it gives that code again."""
        if node.behavior.movement is None or not one_scale(encodings):
            return None
        if not isinstance(encodings[0], Floats):
            return None
        return self._with_scale(node, encodings[0])

    def _quantized(
        self, node: CommutingOp, results: list[QParams], rounding: Rounding
    ) -> OpState | None:
        """The op, which is on floats, with results that are codes."""
        op, behavior = node.op, node.behavior
        compares = behavior.movement is None
        if compares and meets_nan(op, behavior, self._not_a_number):
            return None
        operands = quantized_above(self._session, op, behavior, results, rounding)
        if isinstance(operands, Refusal):
            return None
        contract = Contract(Numerics.EXACT, note="NaN aside") if compares else EXACT
        return OpState([*operands], [*results], contract=contract)

    def _carried(
        self, node: CommutingOp, known: dict[int, QParams]
    ) -> tuple[list[QParams], list[QParams]] | Illegal:
        """Qparams of the tied operands and of the results, from those of some operands."""
        if len(known) == len(node.tied):
            operands = list(known.values())
            if node.shares_scale and one_scale(operands):
                return operands, operands[:1] * len(node.results)
            like = all_codes(node.states[0].results) or ()
            results = carry_all_down(node.op, node.behavior, operands, like)
            if isinstance(results, Illegal):
                return results
            return operands, results[: len(node.results)]
        carried = carry_some_down(node.op, node.behavior, known)
        return carried if isinstance(carried, Illegal) else (carried[:-1], carried[-1:])

    def _same_order(
        self,
        node: CommutingOp,
        above: Sequence[QParams],
        below: Sequence[QParams],
        narrowed: QParams,
        rounding: Rounding,
        *,
        inside: bool,
    ) -> bool:
        """Whether the op compares with the same constants before and after the rescale
        above -> below of its operands; `narrowed` has the known range of the first one."""
        if node.behavior.clamp is None:
            return names_all([*above, *below], node.levels)
        return same_order(node.behavior, node.op, above, below, narrowed, rounding, inside=inside)

    def _passage(
        self, node: CommutingOp, moves: Sequence[Rescaled], rounding: Rounding, further: Contract
    ) -> Contract | None:
        """What it changes that rescales of operands pass an op that does not commute, and
        then what `further` says; None if the level does not allow it."""
        found = passage(self._session, node.op, node.behavior, moves, rounding)
        if isinstance(found, Refusal) or found.level > self._level:
            return None
        level = max(found.level, further.level)
        return Contract(level, found.steps + further.steps, found.note)

    def _checked(
        self,
        node: CommutingOp,
        operands: list[QParams],
        results: list[QParams],
        known: Sequence[QParams],
        carried: Sequence[QParams],
    ) -> OpState:
        """The op with these; those of one side are `known`, and the others `carried` from them."""
        op = node.op
        same = one_scale([*operands, *results])
        if same and len(operands) == len(op.operands) and self._by_name:
            legal = self._with_scale(node, operands[0]).legal
            return OpState([*operands], [*results], legal)
        legal = self._is_legal(node, operands, results)
        if not same:
            legal = legal and refuse_growth(known, carried) is None
        return OpState([*operands], [*results], legal)

    def _with_scale(self, node: CommutingOp, encoding: Encoding) -> OpState:
        """The op with `encoding` everywhere."""
        tied, results = len(node.tied), len(node.results)
        key = (node.op.name, tied, results, encoding)
        by_name = self._by_name and tied == len(node.op.operands)
        found = self._on_one_scale.get(key) if by_name else None
        if found is None:
            found = OpState([encoding] * tied, [encoding] * results)
            found.legal = self._is_legal(node, found.operands, found.results)
            if by_name:
                self._on_one_scale[key] = found
        return found

    def _is_legal(
        self, node: CommutingOp, operands: Sequence[Encoding], results: Sequence[Encoding]
    ) -> bool:
        """Whether declaration and target let the op have these."""
        op = node.op
        codes, result_codes = all_codes(operands), all_codes(results)
        if codes is None or result_codes is None or all_codes(node.states[0].operands) is None:
            kinds = [v.type for v in op.operands]
            for index, encoding in zip(node.tied, operands, strict=True):
                kinds[index] = with_encoding(op.operands[index], encoding)
            result_kinds = [with_encoding(v, e) for v, e in zip(op.results, results, strict=True)]
            return refuse_types(self._session, node.behavior, op, kinds, result_kinds) is None
        params: list[QParams | None] = [qparams_of(v) for v in op.operands]
        for index, qparams in zip(node.tied, codes, strict=True):
            params[index] = qparams
        made = result_codes or [None] * len(op.results)
        return refuse_qparams(self._session, node.behavior, op, params, made) is None


def _codes(encoding: Encoding) -> QParams:
    assert not isinstance(encoding, Floats)
    return encoding
