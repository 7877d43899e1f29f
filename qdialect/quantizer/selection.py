"""Which ops of a float module are quantized, and why the others stay float.

An op is quantized if its declaration says what it means on codes, the profile knows its
values, and none of these holds:

| code | meaning |
|---|---|
| `kept` | `Recipe.keep_float` names it |
| `unknown-op` | nothing is declared of the op |
| `unsuitable` | it works on something else than float tensors, or declares a fixed port |
| `no-entry` | the profile has no range for an operand or result |
| `open-range` | an operand or result is a sum over an extent that is not known: it has no range |
| `masked` | an operand or result has masks, as attention adds them: no code is as far away |
| `amplifies` | one step of an operand may be more than `max_steps` steps of the result |
| `float-operand` | an operand comes from a float op, and no contraction needs it in integers |
| `float-result` | users are float ops: one amplifies what it makes, or all save no conversion |
| `returned` | it is a function (softmax, sigmoid) of which the model returns floats |
| `mixed` | it joins parts of too different ranges (by `max_steps`) for floats that are returned |
| `moves-floats` | it moves, picks or compares elements, between float ops only |
| `weights-only` | only its weights are codes (`Recipe.weights_only`) |
| `dynamic` | it quantizes its input as it runs (`Recipe.dynamic`) |
| `table` | it picks rows of a table, which becomes codes with a scale for each row (`tables`) |
| `grid` | no qparams fit: the reason tells |
| `target` | the target does not run it on such types |
| `faster-float` | it is faster so, with all the casts around it (`precision`) |

Contractions (ops with an accumulator, and recurrent layers, which have products inside) are what
quantization is for: the other ops are quantized along with them, where integers are at hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from math import inf, isfinite

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import ConstantLike

from qdialect.analysis.caches import find_caches, readers
from qdialect.analysis.cost import elements
from qdialect.ir.behaviors import Behavior, PortKind, Size
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import DYNAMIC as UNKNOWN
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import AddOp, MulOp, ReduceSumOp, SubOp
from qdialect.ir.ops.component_keys import all_keys
from qdialect.ir.quant import DCastOp, QCastOp
from qdialect.quantizer.blocks import WEIGHTS_ONLY, weights_refusal
from qdialect.quantizer.coverage import kind_of
from qdialect.quantizer.dynamic import DYNAMIC, dynamic_refusal
from qdialect.quantizer.profile.ranges import Range, max_of_channels
from qdialect.quantizer.recipe import Precision
from qdialect.quantizer.values import (
    Values,
    float_value,
    is_constant,
    only_user,
    op_keys,
    real_array,
    users,
)
from qdialect.rewrite import Refusal
from qdialect.targets.base import Interface

FASTER_FLOAT = "faster-float"
_STEEP = ("amplifies", "float-result")
_POINTS = 4097
"""At so many points the slope of a function is looked at."""


class _Below(Flag):
    """The users of a value, past ops that move or pick elements."""

    NOTHING = 0
    #: an op in integers
    INTEGER = auto()
    #: the end of the function
    RETURNED = auto()
    #: a contraction in integers
    CONTRACTED = auto()
    #: a float op that is one for the sake of accuracy
    STEEP = auto()


_NOTHING, _INTEGER = _Below.NOTHING, _Below.INTEGER
_CONTRACTED, _STEEP_USER = _Below.CONTRACTED, _Below.STEEP


@dataclass
class Selection:
    """The ops to quantize, in program order, and the reasons of the others; why ops that a
    recipe names for another state are not in it."""

    values: Values
    ops: dict[Operation, Behavior] = field(default_factory=dict[Operation, Behavior])
    left: dict[Operation, Refusal] = field(default_factory=dict[Operation, Refusal])
    not_so: dict[Operation, Refusal] = field(default_factory=dict[Operation, Refusal])
    #: ops that stay on codes whether it pays or not, and the arguments that they are of
    forced: set[Operation] = field(default_factory=set[Operation])
    caches: set[SSAValue] = field(default_factory=set[SSAValue])
    _below: dict[SSAValue, _Below] = field(default_factory=dict[SSAValue, "_Below"])

    def drop(self, op: Operation, refusal: Refusal) -> None:
        """Leave an op float after all; `settle` when all are dropped."""
        del self.ops[op]
        self.left[op] = refusal

    def settle(self) -> None:
        """Drop the ops for which it does not pay, given the others.

        Whatever follows from a dropped op is above or below it, so a sweep in the right
        direction finds a whole chain of consequences.  A plan knows what pays: then only what
        would lose too much is dropped.  Where there are no floats, nothing that can be codes is.
        """
        if not self.values.ctx.target.floats:
            return
        self._spare_amplified()
        if self.values.recipe.plan is not None:
            self._sweep_up(self._lossy)
            return
        before = -1
        while len(self.ops) != before:
            before = len(self.ops)
            self._sweep_up(self._useless)
            self._sweep_down()
        self._drop_regions()

    def float_results(self) -> set[SSAValue]:
        """The results of products that need no codes: only float ops take them, perhaps moved, and
        the target has a kernel that multiplies its sums by the scales and no more. Rounding them
        would only lose: a residual sum in front of a layer norm has a wide range. What the model
        returns is rounded, so that it can end in codes."""
        target = self.values.ctx.target
        found: set[SSAValue] = set()
        if not target.float_results or target.interface is Interface.INTEGER:
            return found
        needed: set[SSAValue] = set()
        for op in reversed(list(self.values.block.ops)):
            for result in op.results:
                if any(self._needs_codes(user, needed) for user in users(result)):
                    needed.add(result)
        for op, behavior in self.ops.items():
            if not needed.isdisjoint(op.results):
                continue
            moved = runtime_tied(op, behavior) if behavior.commutes else []
            if op.name in target.float_results or (moved and found.issuperset(moved)):
                found.update(op.results)
        return found

    def _needs_codes(self, user: Operation, needed: set[SSAValue]) -> bool:
        behavior = self.ops.get(user)
        if behavior is None:
            return isinstance(user, QCastOp | ReturnOp)
        return not behavior.commutes or not needed.isdisjoint(user.results)

    def _spare_amplified(self) -> None:
        """Leave float what hands on a value that an op amplifies: on floats itself, that op would
        amplify the rounding of codes that it reads.

        Up through ops that move, pick or clamp, to those that compute: what a concat joins has
        ranges of its own, finer than that of the whole.
        """
        amplified = {v for op in self.left for v in _amplified(self.values, op, self.left)}
        for op in reversed(list(self.values.block.ops)):
            behavior = self.ops.get(op)
            if behavior is None or op in self.forced or amplified.isdisjoint(op.results):
                continue
            if behavior.commutes or behavior.clamp is not None:
                self.drop(op, Refusal("float-result", "what it feeds amplifies a step of it"))
                amplified.update(runtime_tied(op, behavior))

    def _sweep_up(self, refusal_of: Callable[[Operation, Behavior], Refusal | None]) -> None:
        """Drop ops that are refused, from the last to the first."""
        self._below.clear()
        for op in reversed(list(self.values.block.ops)):
            for result in op.results:
                self._look_below(result)
            behavior = self.ops.get(op)
            if behavior is None or behavior.has_weights or op in self.forced:
                continue
            refusal = refusal_of(op, behavior)
            if refusal is not None:
                self.drop(op, refusal)
        for argument in self.values.block.args:
            self._look_below(argument)

    def _sweep_down(self) -> None:
        for op, behavior in list(self.ops.items()):
            if behavior.has_weights or behavior.commutes:
                continue
            if any(float_value(value) and not self._at_hand(value) for value in op.operands):
                self.drop(op, Refusal("float-operand", "an operand comes from a float op"))

    def _look_below(self, value: SSAValue) -> None:
        found = _NOTHING
        for user in users(value):
            behavior = self.ops.get(user)
            if behavior is not None and behavior.commutes:
                for result in user.results:
                    found |= self._below.get(result, _NOTHING)
            elif behavior is not None:
                found |= _CONTRACTED if behavior.has_weights else _INTEGER
            elif isinstance(user, QCastOp):
                found |= _INTEGER
            elif isinstance(user, ReturnOp):
                found |= _Below.RETURNED
            elif user in self.left and self.left[user].code == "returned":
                found |= _INTEGER
            elif user in self.left and self.left[user].code == "mixed":
                found |= _Below.RETURNED
            elif user in self.left and self.left[user].code in _STEEP:
                found |= _STEEP_USER
        self._below[value] = found

    def _at_hand(self, value: SSAValue) -> bool:
        owner = value.owner
        if not isinstance(owner, Operation) or owner in self.ops or isinstance(owner, DCastOp):
            return True
        return _CONTRACTED in self._below.get(value, _NOTHING)

    def _lossy(self, op: Operation, behavior: Behavior) -> Refusal | None:
        """Why an op whose codes nobody computes with would lose too much."""
        below = self._all_below(op)
        if below & (_INTEGER | _CONTRACTED):
            return None
        if behavior.commutes:
            return self._mixed(op, behavior)
        return self._returned(behavior) if _Below.RETURNED in below else None

    def _all_below(self, op: Operation) -> _Below:
        below = _NOTHING
        for result in op.results:
            below |= self._below[result]
        return below

    def _useless(self, op: Operation, behavior: Behavior) -> Refusal | None:
        """Why nobody wants the codes of an op."""
        if behavior.commutes:
            return self._mixed(op, behavior)
        below = self._all_below(op)
        if below & (_INTEGER | _CONTRACTED):
            return None
        if _Below.RETURNED in below:
            return self._returned(self.ops[op])
        if _STEEP_USER in below:
            return Refusal("float-result", "what it feeds stays float for the sake of accuracy")
        above = [operand for operand in op.operands if float_value(operand)]
        shared = any(user not in self.ops for operand in above for user in users(operand))
        if not shared and _elements(op.results) < _elements(above):
            return None
        return Refusal("float-result", "all users are float ops")

    def _mixed(self, op: Operation, behavior: Behavior) -> Refusal | None:
        """Parts of a concat that are too different for one scale, where nobody computes with it:
        of boxes in pixels and scores below 1 on 256 codes, nothing is left of the scores."""
        below = self._all_below(op)
        parts, most = runtime_tied(op, behavior), self.values.recipe.max_steps
        if below & (_INTEGER | _CONTRACTED) or len(parts) < 2 or not isfinite(most):
            return None
        ranges = [found for part in parts if (found := self.values.range(part)) is not None]
        whole = _width(max_of_channels(ranges))
        for part in parts:
            own = _width(self.values.range(part))
            if own and whole > most * own:
                steps = (
                    f"a step of the whole would be {whole / own:.3g} of {_name(self.values, part)}"
                )
                return Refusal("mixed", f"{steps}, and nothing computes with the whole")
        return None

    def _returned(self, behavior: Behavior) -> Refusal | None:
        """Codes of a function that squeezes its operand are coarse where it is flat, and
        nobody computes with them."""
        computes = behavior.pointwise is not None or behavior.transcendental is not None
        target = self.values.ctx.target
        codes = target.interface is Interface.INTEGER or not target.floats
        if codes or not computes or behavior.affine is not None or behavior.is_tied:
            return None
        return Refusal("returned", "the model returns its floats, and nothing takes codes of it")

    def _drop_regions(self) -> None:
        """Movement and picking that is not beside an op that computes on codes."""
        movers = {op for op, b in self.ops.items() if b.commutes and op not in self.forced}
        reached = deque(op for op in self.ops if op not in movers)
        beside: set[Operation] = set()
        while reached:
            op = reached.popleft()
            near = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
            near += [user for result in op.results for user in users(result)]
            for other in near:
                if other in movers and other not in beside:
                    beside.add(other)
                    reached.append(other)
        for op in movers - beside:
            del self.ops[op]
            self.left[op] = Refusal("moves-floats", "it moves elements between float ops")


def select(values: Values) -> Selection:
    """The selection for a function."""
    selection = Selection(values)
    named = keep_float_ops(values.function, values.ctx, values.recipe.keep_float)
    keep_float = {op for ops in named.values() for op in ops}
    states, plan = _states(values), values.recipe.plan
    unbounded: set[SSAValue] = set()
    if values.recipe.caches:
        _hold_caches(selection)
    for number, op in enumerate(values.block.ops):
        if not concerns(op):
            continue
        behavior = values.ctx.behaviors.get(op)
        if _grows(op, behavior, unbounded):
            unbounded.update(op.results)
        refusal = (
            Refusal("kept", "asked for") if op in keep_float else _refusal(values, op, behavior)
        )
        if refusal is None and not unbounded.isdisjoint((*op.operands, *op.results)):
            refusal = Refusal("open-range", "a sum over an unknown extent has no range")
        if op not in keep_float and op not in selection.forced:
            other = _other_state(values, op, behavior, states, selection)
            if other is not None:
                refusal = other
            elif plan is not None:
                refusal = _planned(plan.get(number, Precision.CODES), refusal)
        if refusal is None:
            assert behavior is not None
            selection.ops[op] = behavior
        else:
            selection.left[op] = refusal
    selection.settle()
    return selection


def _hold_caches(selection: Selection) -> None:
    """Note what moves elements of caches all of whose values have a range, and their products:
    on floats these would dequantize the whole of a cache for each word."""
    values = selection.values
    for cache in find_caches(values.function, values.ctx)[0]:
        argument = values.block.args[cache.argument]
        moved = [argument, *(value for op in cache.ops for value in (*op.operands, *op.results))]
        if all(values.range(value) is not None for value in moved if float_value(value)):
            selection.forced.update(cache.ops, readers(cache, values.function, values.ctx))
            selection.caches.add(argument)


@dataclass(frozen=True)
class _State:
    """A state beside float and codes: which ops the recipe names for it, and whether all."""

    code: str
    reason: str
    refusal: Callable[[Values, Operation, Behavior], Refusal | None]
    named: frozenset[Operation]
    all: bool


def _states(values: Values) -> Sequence[_State]:
    """The states that the recipe asks for, in the order in which they are tried."""
    recipe = values.recipe
    found: list[_State] = []
    for code, reason, refusal, names in (
        (
            DYNAMIC,
            "it quantizes its input as it runs",
            dynamic_refusal,
            recipe.dynamic,
        ),
        (WEIGHTS_ONLY, "only its weights are codes", weights_refusal, recipe.only_weights),
    ):
        named = keep_float_ops(values.function, values.ctx, frozenset(names) - {ALL})
        ops = frozenset(op for each in named.values() for op in each)
        if names:
            found.append(_State(code, reason, refusal, ops, ALL in names))
    return found


def _other_state(
    values: Values,
    op: Operation,
    behavior: Behavior | None,
    states: Sequence[_State],
    selection: Selection,
) -> Refusal | None:
    """The state of an op that is asked for and can be, as a refusal of codes."""
    for state in states:
        if not state.all and op not in state.named:
            continue
        why = Refusal("unknown-op", f"nothing is declared of '{kind_of(op)}'")
        if behavior is not None and (why := state.refusal(values, op, behavior)) is None:
            return Refusal(state.code, state.reason)
        if op in state.named:
            selection.not_so[op] = Refusal(why.code, f"not {state.code}: {why.reason}")
    return None


def _planned(state: Precision, refusal: Refusal | None) -> Refusal | None:
    """Why an op that a plan has in a state is not on codes; `refusal` is why it cannot be."""
    if state is Precision.DYNAMIC:
        return Refusal(DYNAMIC, "it is faster so, quantizing its input as it runs")
    if state is Precision.WEIGHTS:
        return Refusal(WEIGHTS_ONLY, "it is faster so, with its weights alone in codes")
    if state is Precision.FLOAT and refusal is None:
        return Refusal(FASTER_FLOAT, "it is faster on floats, with the casts around it")
    return refusal


def concerns(op: Operation) -> bool:
    """Whether an op computes floats, so that it could be asked for in integers."""
    if op.has_trait(ConstantLike, value_if_unregistered=False) or isinstance(op, QCastOp | DCastOp):
        return False
    return any(float_value(result) for result in op.results)


def _refusal(values: Values, op: Operation, behavior: Behavior | None) -> Refusal | None:
    if behavior is None:
        return Refusal("unknown-op", f"nothing is declared of '{kind_of(op)}'")
    ports = [(behavior.operand_port(i), v) for i, v in enumerate(op.operands)]
    ports += [(behavior.result_port(i), v) for i, v in enumerate(op.results)]
    real = [(port, value) for port, value in ports if port.kind is not PortKind.PLAIN]
    for port, value in real:
        if port.kind is PortKind.FIXED:
            return Refusal("unsuitable", f"the {port.role} has qparams of its own")
        if not float_value(value) and not is_constant(value):
            return Refusal("unsuitable", f"the {port.role} is no float tensor")
    runtime = [value for _, value in real if float_value(value)]
    quantized = {value for _, value in real}
    if not any(float_value(value) and value in quantized for value in op.operands):
        return Refusal("unsuitable", "it takes no float tensors")
    for value in runtime:
        if values.range(value) is None:
            if not values.profile.entries:
                return Refusal("no-entry", "there is no data that its ranges could be of")
            return Refusal("no-entry", f"the profile does not have {_name(values, value)}")
    if not isfinite(values.recipe.max_steps) or behavior.is_tied or behavior.has_weights:
        return None
    return _amplification(values, op, behavior) or _saturated_masks(values, runtime)


def _saturated_masks(values: Values, runtime: Sequence[SSAValue]) -> Refusal | None:
    """Why values cannot be codes that mask something: the last code is that of the least score, of
    which a softmax would make e^-range, and of a mask 0."""
    for value in runtime:
        found = values.range(value)
        if found is not None and found.is_masked:
            reason = f"{_name(values, value)} has masks, and no code is as far away"
            return Refusal("masked", reason)
    return None


def _grows(op: Operation, behavior: Behavior | None, unbounded: set[SSAValue]) -> bool:
    """Whether the results of an op are as large as an extent that is not known makes them: of a
    sum over it, and of what moves, adds or maps such a sum.  What the data shows is the range for
    the extents in it.  A product or quotient may undo it: the mean of the words of a sentence."""
    if isinstance(op, ReduceSumOp):
        axes: Sequence[int] = op.values["axes"]
        if any(shape_of(op.input)[axis] == UNKNOWN for axis in axes):
            return True
    if behavior is None or unbounded.isdisjoint(op.operands):
        return False
    return behavior.is_tied or behavior.pointwise is not None or isinstance(op, AddOp | SubOp)


def _name(values: Values, value: SSAValue) -> str:
    keys = values.keys(value)
    return f"'{keys[0]}'" if keys else "a value without a key"


def _amplification(values: Values, op: Operation, behavior: Behavior) -> Refusal | None:
    """Why an op turns a step of an operand into too many of its result."""
    for index, operand in enumerate(op.operands):
        if not float_value(operand):
            continue
        steps = _steps(values, op, behavior, index)
        role = behavior.operand_port(index).role
        if steps is None:
            return Refusal("amplifies", f"no bound for what a step of the {role} does")
        if steps > values.recipe.max_steps and not _is_mild_gate(values, op, behavior):
            return Refusal("amplifies", f"a step of the {role} may be {steps:.3g} of the result")
    return None


def _steps(values: Values, op: Operation, behavior: Behavior, index: int) -> float | None:
    """How many steps of the result one step of an operand may be: gain * range / range,
    all values having the same number of steps. None: there is no bound."""

    def sizes(number: int) -> Size:
        array = real_array(op.operands[number], values.ctx.blobs)
        if array is None:
            return Size(0.0, _reach(values.range(op.operands[number])))
        sizes = np.abs(array)
        least, most = sizes.min(initial=inf), sizes.max(initial=0.0)
        return Size(float(least), float(most), sizes)

    gain = None if behavior.gain is None else behavior.gain(op, index, sizes)
    if gain is None or not isfinite(gain):
        return None
    result = _width(values.range(op.results[0]))
    return gain * _width(values.range(op.operands[index])) / result if result else 0.0


def _amplified(
    values: Values, op: Operation, left: Mapping[Operation, Refusal]
) -> Sequence[SSAValue]:
    """The operands of an op that is left float of which a step would be too many of its result."""
    behavior = values.ctx.behaviors.get(op)
    if left[op].code != "amplifies" or behavior is None:
        return ()
    return [
        value
        for index, value in enumerate(op.operands)
        if float_value(value)
        and (steps := _steps(values, op, behavior, index)) is not None
        and steps > values.recipe.max_steps
    ]


def _is_mild_gate(values: Values, op: Operation, behavior: Behavior) -> bool:
    """Whether an op is a function f of x that only gates x, in a product x f(x), and a step of x
    does little to that: at most the greatest |x f'(x)| times it. Where a gate (sigmoid, hard
    sigmoid) is steep, x is small."""
    user, x = only_user(op.results[0]), op.operands[0]
    if not isinstance(user, MulOp) or {*user.operands} != {x, op.results[0]}:
        return False
    found, result = values.range(x), _width(values.range(user.results[0]))
    if behavior.pointwise is None or len(op.operands) != 1 or found is None or not result:
        return False
    points = np.linspace(found.low, found.high, _POINTS)
    made = np.abs(np.diff(behavior.pointwise(op, points)) / np.diff(points))
    gain = float((made * np.maximum(np.abs(points[1:]), np.abs(points[:-1]))).max(initial=0.0))
    return gain * _width(found) / result <= values.recipe.max_steps


def _width(found: Range | None) -> float:
    return 0.0 if found is None else found.high - found.low


def _reach(found: Range | None) -> float:
    return 0.0 if found is None else max(-found.low, found.high)


def _elements(values: Sequence[SSAValue]) -> int:
    return sum(map(elements, values))


def runtime_tied(op: Operation, behavior: Behavior) -> list[SSAValue]:
    """The operands that share qparams with the result and are no constants."""
    return [op.operands[i] for i in tied_operands(op, behavior) if float_value(op.operands[i])]


ALL = "all"
ENDS = ("first", "last")


def keep_float_ops(
    function: FuncOp, ctx: QContext, names: frozenset[str]
) -> dict[str, list[Operation]]:
    """The ops that each of `names` (`Recipe.keep_float`) stands for, in program order.

    | name | ops |
    |---|---|
    | a key | the op with that key, or that has it as a component |
    | `nn.gelu`, `gelu` | all of that kind |
    | `first`, `last` | the first and the last product with weights, in program order |

    Keys come first: `last` is the op with the key `last` if there is one. A name may stand for
    no op.
    """
    found: dict[str, list[Operation]] = {name: [] for name in sorted(names)}
    if not found:
        return found
    ops = list(function.body.block.ops)
    for op in ops:
        for key in {*op_keys(op), *_piece_keys(op, ctx)} & found.keys():
            found[key].append(op)
    for name in [name for name, ops_of_name in found.items() if not ops_of_name]:
        found[name] = _of_kind(name, ops) or _end(name, ops, ctx)
    return found


def _piece_keys(op: Operation, ctx: QContext) -> Iterator[str]:
    for keys in all_keys(op, ctx.components).values():
        yield from keys


def _of_kind(name: str, ops: list[Operation]) -> list[Operation]:
    kind = name if "." in name else f"nn.{name}"
    return [op for op in ops if op.name == kind]


def _end(name: str, ops: list[Operation], ctx: QContext) -> list[Operation]:
    if name not in ENDS:
        return []
    weighted = [op for op in ops if _has_weights(op, ctx)]
    return weighted[:1] if name == ENDS[0] else weighted[-1:]


def _has_weights(op: Operation, ctx: QContext) -> bool:
    behavior = ctx.behaviors.get(op)
    acc = None if behavior is None else behavior.accumulator
    return acc is not None and any(is_constant(op.operands[n]) for n in (acc.lhs, acc.rhs))
