"""The declarations of one session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation

from qdialect.errors import QError
from qdialect.ir.behaviors.arity import arity_problem
from qdialect.ir.behaviors.declaration import Behavior
from qdialect.ir.behaviors.shield import with_shields


class BehaviorRegistry:
    """Behaviors by op name; one per session, extended by plug-ins and targets.

    Our own are made when somebody asks for one: `names` are those of our ops, `declared` gives
    the behavior of one.  One that comes from outside is checked against the definition of its op
    when that is known, and its functions are shielded.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        declared: Callable[[str], Behavior | None] = lambda name: None,
    ) -> None:
        self._names, self._declared = names, declared
        self._table: dict[str, Behavior | None] = {}
        self._overrides: dict[str, Behavior] = {}
        #: registered from outside, and not yet seen together with the definition of the op
        self._unchecked: set[str] = set()

    def get(self, op: Operation) -> Behavior | None:
        """The declaration for `op`, or None: passes then leave it alone.

        QError (`bad-behavior`) at the first op whose definition contradicts it.
        """
        if op.name in self._unchecked:
            self.check(type(op))
        return self.named(op.name)

    def named(self, name: str) -> Behavior | None:
        """The declaration of the op with this name, or None."""
        override = self._overrides.get(name)
        return self._registered(name) if override is None else override

    def _registered(self, name: str) -> Behavior | None:
        if name not in self._table:
            self._table[name] = self._declared(name)
        return self._table[name]

    def register(self, behavior: Behavior) -> None:
        """Add a declaration, or override ours for this session."""
        self._table[behavior.op] = with_shields(behavior)
        self._unchecked.add(behavior.op)

    def unchecked(self) -> list[str]:
        """The ops whose declaration has not met their definition, sorted."""
        return sorted(self._unchecked)

    def check(self, definition: type[Operation]) -> None:
        """Hold the declaration against the definition of its op; QError (`bad-behavior`)."""
        name = definition.name
        for behavior in (self._registered(name), self._overrides.get(name)):
            if behavior is not None and issubclass(definition, IRDLOperation):
                problem = arity_problem(behavior, definition.get_irdl_definition())
                if problem is not None:
                    raise QError(f"behavior of '{name}': {problem}", code="bad-behavior")
        self._unchecked.discard(name)

    def names(self) -> list[str]:
        """The names of all declared ops, sorted."""
        known = (name for name, behavior in self._table.items() if behavior is not None)
        return sorted({*self._names, *known, *self._overrides})

    def names_with(self, predicate: Callable[[Behavior], bool]) -> list[str]:
        """Names of the ops whose declaration satisfies `predicate`, sorted."""
        found = ((name, self.named(name)) for name in self.names())
        return [name for name, behavior in found if behavior is not None and predicate(behavior)]

    def with_overrides(self, behaviors: Sequence[Behavior]) -> BehaviorRegistry:
        """The same declarations with `behaviors` in front of them, in place of those that
        were in front so far."""
        registry = BehaviorRegistry(self._names, self._declared)
        registry._table = self._table
        registry._overrides = {b.op: with_shields(b) for b in behaviors}
        registry._unchecked = {*self._unchecked, *registry._overrides}
        return registry
