"""What to observe in a float module: every float value, and what composites are made of.

The module that is compiled is not touched. Its clone has each composite op replaced by
its pieces (`qdialect.ir.ops.components`), the last of which is the composite's own
result; so one run sees both, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import ConstantLike

from qdialect.algebra.qparams.maps.base import IndexMap
from qdialect.errors import InputError
from qdialect.interpreter import Interpreter, argument_names
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import strings
from qdialect.ir.dialects.interface import DIMS, RESULT_NAMES
from qdialect.ir.ops import ConcatOp, keys_of
from qdialect.ir.ops.component_keys import shared_key
from qdialect.ir.ops.components import NoPiecesError, Pieces, built
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant import element_type, quant_element
from qdialect.ir.quant.elements import is_tensor
from qdialect.quantizer.profile.record import Derived, can_clamp

FLOATS = frozenset({"f64", "f32", "f16", "bf16"})
INPUT_PREFIX = "input:"

Forms = Callable[[ModuleOp, QContext], Sequence[Operation]]
"""Puts composites that ops of a module are the pieces of into it, with their keys."""


@dataclass(frozen=True)
class Observed:
    """A value of the instrumented function and the keys it goes under."""

    keys: tuple[str, ...]
    value: SSAValue
    derived: Derived | None = None
    """How it follows from others, so that nobody has to look at it."""


@dataclass
class Instrumented:
    """The clone, what to observe in it, and its arguments that are observed too."""

    module: ModuleOp
    function: FuncOp
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    observed: list[Observed] = field(default_factory=list[Observed])

    @property
    def measured(self) -> list[Observed]:
        """The values to look at."""
        return [entry for entry in self.observed if entry.derived is None]

    def derived(self) -> dict[str, Derived]:
        """What follows from others, by key."""
        return {
            key: entry.derived
            for entry in self.observed
            if entry.derived is not None
            for key in entry.keys
        }

    def all_keys(self) -> list[str]:
        """All keys, inputs first, then in program order."""
        groups = [*self.arguments.values(), *(entry.keys for entry in self.observed)]
        return [key for group in groups for key in group]

    def return_observed(self) -> list[str]:
        """Make the function return the measured values; the names they get."""
        block = self.function.body.block
        old = block.last_op
        assert isinstance(old, ReturnOp)
        values = [entry.value for entry in self.measured]
        block.insert_op_before(ReturnOp(*values), old)
        old.detach()
        old.erase()
        inputs = self.function.function_type.inputs.data
        self.function.function_type = FunctionType.from_lists(
            list(inputs), [value.type for value in values]
        )
        names = [f"observed value {index}" for index in range(len(values))]
        self.function.attributes[RESULT_NAMES] = strings(names)
        self.function.attributes.pop(DIMS, None)
        self.function.res_attrs = None
        return names


def instrument(
    module: ModuleOp, ctx: QContext, components: bool = True, forms: Forms | None = None
) -> Instrumented:
    """A clone of `module` to observe, composites in pieces if `components`, and in those of `forms`
    that the clone does not name; InputError when a key is there twice or nothing has one."""
    clone = module.clone()
    function = Interpreter(ctx, clone).function()
    block = function.body.block
    others = forms(clone, ctx) if forms is not None and components else ()
    result = Instrumented(clone, function)
    taken: set[str] = set()
    for name, argument in zip(argument_names(function), block.args, strict=True):
        if is_float(argument.type):
            result.arguments[name] = (INPUT_PREFIX + name,)
            taken.add(INPUT_PREFIX + name)
    ops = [
        op
        for op in block.ops
        if not op.has_trait(ConstantLike, value_if_unregistered=False) and op not in others
    ]
    keys_of_ops = [_own_keys(op) for op in ops]
    for op, groups in zip(ops, keys_of_ops, strict=True):
        for key in (key for group in groups.values() for key in group):
            if key in taken:
                raise InputError(
                    f"two values have the key '{key}'", where=op_where(op), code="duplicate-key"
                )
            taken.add(key)
    for op, groups in zip(ops, keys_of_ops, strict=True):
        if not groups:
            continue
        entries = _decomposed(op, ctx, taken) if components else []
        result.observed += entries or [Observed(keys, op.results[i]) for i, keys in groups.items()]
    for op in others:
        result.observed += _decomposed(op, ctx, taken, other=True)
    result.observed = _joined(result.observed, block, ctx)
    computed = any(is_float(value.type) for op in ops for value in op.results)
    if not result.observed and (computed or not result.arguments):
        called = next((op for op in ops if isinstance(op, CallOp)), None)
        what = "the model has no float values with a key (nn.key) to observe"
        if called is not None:
            what = (
                f"values inside '{called.callee.string_value()}' are not observed: inline the call"
            )
        where = op_where(called or function)
        raise InputError(what, where=where, code="nothing-to-observe")
    return result


def _joined(observed: Sequence[Observed], block: Block, ctx: QContext) -> list[Observed]:
    """What is repeated in a model that was lowered before, as one entry over all its values, of
    which some may be folded."""
    values: dict[str, dict[SSAValue, None]] = {}
    for entry in observed:
        for key in entry.keys:
            name = shared_key(key, ctx.components)
            if name != key and (first := next(iter(values.get(name, ())), None)) is not None:
                name = name if shape_of(first)[1:] == shape_of(entry.value)[1:] else key
            values.setdefault(name, {})[entry.value] = None
    for op in block.ops:
        if op.has_trait(ConstantLike, value_if_unregistered=False):
            for key in {shared_key(key, ctx.components) for key in keys_of(op)} & values.keys():
                values[key][op.results[0]] = None
    keys: dict[tuple[SSAValue, ...], list[str]] = {}
    for name, found in values.items():
        keys.setdefault(tuple(found), []).append(name)
    joined: list[Observed] = []
    for found, names in keys.items():
        value = found[0]
        if len(found) > 1:
            together = ConcatOp(*found, axis=0)
            block.insert_op_before(together, cast("Operation", block.last_op))
            value = together.results[0]
        joined.append(Observed(tuple(names), value))
    return joined


def leave_derived(plan: Instrumented, ctx: QContext, channels: bool) -> None:
    """Find out which observed values follow from others and need not be looked at, for
    statistics by channel if `channels`."""
    arguments = zip(plan.function.body.block.args, argument_names(plan.function), strict=True)
    known: dict[SSAValue, str] = {
        value: plan.arguments[name][0] for value, name in arguments if name in plan.arguments
    }
    for index, entry in enumerate(plan.observed):
        rule = _rule(entry.value, known, ctx, channels)
        if rule is not None:
            plan.observed[index] = Observed(entry.keys, entry.value, rule)
        known[entry.value] = entry.keys[0]
    if not plan.measured:
        plan.observed = [Observed(entry.keys, entry.value) for entry in plan.observed]


def _rule(
    value: SSAValue, known: Mapping[SSAValue, str], ctx: QContext, channels: bool
) -> Derived | None:
    """How a value follows from known ones, by the declaration of the op that computes it:
    a clamp of one, or, where channels do not matter, all elements of several."""
    op = value.owner
    if not isinstance(op, Operation) or len(op.results) != 1:
        return None
    behavior = ctx.behaviors.get(op)
    keys = [known.get(operand) for operand in op.operands]
    of = tuple(key for key in keys if key is not None)
    if behavior is None or not of or len(of) != len(keys):
        return None
    if behavior.clamp is not None and len(of) == 1:
        low, high = behavior.clamp(op)
        return Derived(of, low, high) if can_clamp(low, high) else None
    if behavior.movement is None or channels:
        return None
    moves = behavior.movement(op)
    return Derived(of) if isinstance(moves, IndexMap) and moves.permutes else None


def is_float(type: Attribute) -> bool:
    """Whether values of a type are observed."""
    return is_tensor(type) and str(element_type(type)) in FLOATS


def _own_keys(op: Operation) -> dict[int, tuple[str, ...]]:
    """The keys of the float results of an op, by result."""
    keys = keys_of(op)
    return {
        index: tuple(f"{key}#{index}" if index else key for key in keys)
        for index, result in enumerate(op.results)
        if keys and is_float(result.type)
    }


def _decomposed(
    op: Operation, ctx: QContext, taken: set[str], *, other: bool = False
) -> list[Observed]:
    """The op replaced by its pieces, and those to observe; nothing for another op.

    A composite with a piece whose key names something else in the model stays whole, but for an
    `other` form of ops in it: of that, pieces that the model does not name are observed.
    """
    components = ctx.components.get(op.name)
    if components is None or not is_float(op.operands[0].type):
        return []
    if any(quant_element(operand.type) is not None for operand in op.operands):
        return []
    keys = components.keys_of(op)
    parts = [key for group in list(keys.values())[:-1] for key in group]
    known = {role for role in list(keys)[:-1] if taken.intersection(keys[role])}
    if not parts or (known and (not other or len(known) == len(keys) - 1)):
        return []
    known.update(components.result_roles(op) if other else ())
    pieces = Pieces(op, ctx.blobs, keys, ctx.target.most_pieces)
    try:
        finals = built(components.build, op, pieces)
    except NoPiecesError:
        return []
    if finals is None:
        return []
    taken.update(parts)
    entries: list[Observed] = []
    # The op itself knows its other results by their number.
    results = components.result_roles(op)
    numbered = {role: _own_keys(op).get(n, ()) for n, role in enumerate(results) if n}
    for role, values in pieces.values.items():
        if role in known:
            continue
        # What is repeated is one entry, over all its values.
        value = values[0] if len(values) == 1 else pieces.emit(ConcatOp(*values, axis=0))
        piece = None if value in finals else value.owner
        inner = _decomposed(piece, ctx, taken) if isinstance(piece, Operation) else []
        entries += inner or [Observed((*keys[role], *numbered.get(role, ())), value)]
    for result, final in zip(op.results, finals, strict=True):
        result.replace_all_uses_with(final)
    op.detach()
    op.erase()
    return entries
