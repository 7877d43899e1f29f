"""What an op's definition says of it, checked without xDSL's generic walk.

`Quick.verify` is `op.verify_()`: it raises the same errors. For most definitions it first
looks at the op in a way that is prepared once for each class, and remembers which
attributes satisfy which constraint; only where something is wrong, or unusual, does
xDSL's own verifier run, to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    OptAttributeDef,
    OptionalDef,
    OptPropertyDef,
    RangeOf,
    VariadicDef,
)
from xdsl.irdl.constraints import VerificationContext
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

_MOST = 1 << 16
"""So many attributes that satisfy a constraint are remembered."""

#: whether the verifier of `IRDLOperation` is still made as `_own_verifier` takes it apart
_MADE = ("custom_verify", "op_def")


class _Arguments(NamedTuple):
    """What operands or results must be; at most one definition is variadic."""

    constraints: tuple[Any, ...]
    variadic: int
    """Its index; -1 if there is none."""
    optional: bool


class _Plan(NamedTuple):
    operands: _Arguments
    results: _Arguments
    properties: tuple[tuple[str, Any, bool], ...]
    """Name, constraint, whether it may be absent."""
    names: frozenset[str]
    attributes: tuple[tuple[str, Any, bool], ...]
    traits: tuple[OpTrait, ...]
    own: Callable[[Any], None] | None
    """What the class verifies beside its definition."""


class Quick:
    """The verifiers of ops, and what they have seen."""

    def __init__(self) -> None:
        self._plans: dict[type[Operation], _Plan | None] = {}
        self._right: dict[tuple[int, int], Attribute] = {}

    def verify(self, op: Operation) -> None:
        """Raise VerifyException like `op.verify_()`."""
        kind = type(op)
        if kind in self._plans:
            plan = self._plans[kind]
        else:
            plan = self._plans[kind] = _plan(kind)
        if plan is None or op.regions or not self._fits(op, plan):
            op.verify_()
        elif plan.own is not None:
            plan.own(op)

    def _fits(self, op: Operation, plan: _Plan) -> bool:
        """Whether `op` certainly is as its definition says."""
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        properties, attributes = op.properties, op.attributes
        if op.successors or not properties.keys() <= plan.names:
            return False
        try:
            if not self._agree(operands, plan.operands):
                return False
            if not self._agree(op.results, plan.results):
                return False
            for held, entries in ((properties, plan.properties), (attributes, plan.attributes)):
                for name, constraint, absent in entries:
                    attribute = held.get(name)
                    if attribute is not None:
                        self._satisfied(constraint, attribute)
                    elif not absent:
                        return False
            for trait in plan.traits:
                trait.verify(op)
        except VerifyException:
            return False
        return True

    def _agree(self, values: Sequence[SSAValue], wanted: _Arguments) -> bool:
        constraints, variadic, optional = wanted
        more = len(values) - len(constraints)
        if variadic < 0:
            if more:
                return False
            for value, constraint in zip(values, constraints, strict=True):
                self._all_satisfied(constraint, value)
            return True
        # The variadic definition takes what the others leave.
        if more < -1 or (optional and more > 0):
            return False
        for index, constraint in enumerate(constraints):
            if index < variadic:
                self._all_satisfied(constraint, values[index])
            elif index > variadic:
                self._all_satisfied(constraint, values[index + more])
            else:
                several = values[index : index + more + 1]
                if len(several) == 1:
                    self._all_satisfied(constraint, several[0])
                elif type(constraint) is RangeOf:
                    inner: Any = constraint.constr
                    for value in several:
                        self._satisfied(inner, value.type)
                else:
                    constraint.verify(tuple(v.type for v in several), VerificationContext())
        return True

    def _all_satisfied(self, constraint: Any, value: SSAValue) -> None:
        """VerifyException unless a range of this one value satisfies `constraint`."""
        kind = value.type
        if (id(constraint), id(kind)) not in self._right:
            constraint.verify((kind,), VerificationContext())
            self._keep(constraint, kind)

    def _satisfied(self, constraint: Any, attribute: Attribute) -> None:
        if (id(constraint), id(attribute)) not in self._right:
            constraint.verify(attribute, VerificationContext())
            if type(attribute) is not DenseIntOrFPElementsAttr:
                self._keep(constraint, attribute)

    def _keep(self, constraint: Any, attribute: Attribute) -> None:
        # Keeps the attribute, so that no other gets its identity.
        if len(self._right) >= _MOST:
            self._right.clear()
        self._right[id(constraint), id(attribute)] = attribute


def _plan(kind: type[Operation]) -> _Plan | None:
    """What is to be checked for ops of this class; None leaves it to xDSL."""
    made = _own_verifier(kind)
    if made is None or not issubclass(kind, IRDLOperation):
        return None
    own, definition = made
    if definition is not kind.get_irdl_definition():
        return None
    if definition.options or definition.regions or definition.successors:
        return None
    operands, results = _arguments(definition.operands), _arguments(definition.results)
    named = [*definition.properties.values(), *definition.attributes.values()]
    if operands is None or results is None or any(d.constr.variables() for d in named):
        return None
    return _Plan(
        operands,
        results,
        tuple(
            (name, d.constr, isinstance(d, OptPropertyDef))
            for name, d in definition.properties.items()
        ),
        frozenset(definition.properties),
        tuple(
            (name, d.constr, isinstance(d, OptAttributeDef))
            for name, d in definition.attributes.items()
        ),
        tuple(t for t in definition.traits if cast("Any", type(t)).verify is not OpTrait.verify),
        own,
    )


def _arguments(definitions: Sequence[tuple[str, Any]]) -> _Arguments | None:
    variadic = [i for i, (_, d) in enumerate(definitions) if isinstance(d, VariadicDef)]
    constraints = tuple(d.constr for _, d in definitions)
    if len(variadic) > 1 or any(c.variables() or c.variables_from_length() for c in constraints):
        return None
    index = variadic[0] if variadic else -1
    return _Arguments(
        constraints, index, bool(variadic) and isinstance(definitions[index][1], OptionalDef)
    )


def _own_verifier(kind: Any) -> tuple[Callable[[Any], None] | None, Any] | None:
    """What `verify_` of a class runs beside the check of its definition, and that; None if
    it is not as xDSL's decorator makes it."""
    function: Any = kind.verify_
    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__module__", "") != "xdsl.irdl.operations":
        return None
    cells = function.__closure__ or ()
    held = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    if not held.keys() <= set(_MADE) or "op_def" not in held:
        return None
    return cast("Callable[[Any], None] | None", held.get("custom_verify")), held["op_def"]
