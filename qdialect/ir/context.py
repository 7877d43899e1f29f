"""The session: dialects, weights, behaviors, target and remarks of one compilation.

Everything a pass needs that is not in the IR hangs here, so two sessions in one
process never see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredAttr, UnregisteredOp

from qdialect.errors import QError
from qdialect.ir.weights import BlobStore

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.ir import Attribute, Operation, TypeAttribute

    from qdialect.interpreter.values import Kernel
    from qdialect.ir.behaviors import BehaviorRegistry
    from qdialect.ir.ops.components import Components
    from qdialect.rewrite.error_bounds import ErrorBounds
    from qdialect.rewrite.remarks import RemarkLog
    from qdialect.targets.base import Target


_T = TypeVar("_T")


class _Late(Generic[_T]):
    """A field whose default is made when somebody first asks for it: making it imports
    what a run without passes does not need."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> _Late[_T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...
    def __get__(self, instance: object | None, owner: type) -> _T | _Late[_T]:
        if instance is None:
            return self
        attributes = instance.__dict__
        if self._name not in attributes:
            attributes[self._name] = self._make()
        return attributes[self._name]

    def __set__(self, instance: object, value: _T | _Late[_T]) -> None:
        if value is not self:
            instance.__dict__[self._name] = value


def _default_behaviors() -> BehaviorRegistry:
    from qdialect.ir.ops import default_behaviors

    return default_behaviors()


def _default_components() -> dict[str, Components]:
    from qdialect.ir.ops import default_components

    return default_components()


def _default_target() -> Target:
    from qdialect.targets.generic import TARGET

    return TARGET


def _new_log() -> RemarkLog:
    from qdialect.rewrite.remarks import RemarkLog

    return RemarkLog()


def _no_error() -> ErrorBounds:
    from qdialect.rewrite.error_bounds import ErrorBounds

    return ErrorBounds()


@dataclass(eq=False, repr=False)
class QContext(Context):
    """An xDSL context plus what belongs to one qdialect session."""

    blobs: BlobStore = field(default_factory=BlobStore)
    behaviors: _Late[BehaviorRegistry] = _Late(_default_behaviors)
    components: _Late[dict[str, Components]] = _Late(_default_components)
    #: how the interpreter runs ops that are not ours, by name
    kernels: dict[str, Kernel] = field(default_factory=dict[str, "Kernel"])
    #: how ops that are not ours are lowered: for each dialect ("tosa"), by name
    lowerings: dict[str, dict[str, Callable[[Any, Operation, Sequence[Any]], Any]]] = field(
        default_factory=dict[str, "dict[str, Callable[[Any, Operation, Sequence[Any]], Any]]"]
    )
    #: of dialects that are not loaded, by name: what finds one op of theirs
    finders: dict[str, Callable[[str], type[Operation] | None]] = field(
        default_factory=dict[str, "Callable[[str], type[Operation] | None]"]
    )
    #: the dialects of upstream
    upstream: frozenset[str] = frozenset()
    remarks: _Late[RemarkLog] = _Late(_new_log)
    error_bounds: _Late[ErrorBounds] = _Late(_no_error)
    #: what analyses found out about the module that is being rewritten, by their class
    analyses: dict[type, object] = field(default_factory=dict[type, object])
    #: what passes of a pipeline found out about the module before the first one, by their class
    at_start: dict[type, object] = field(default_factory=dict[type, object])
    #: whether a pass manager sees to it that they are dropped when something changes
    keeps_analyses: bool = False
    #: what texts that were read hold for other tools, by group
    external_resources: dict[str, dict[str, str | bool]] = field(
        default_factory=dict[str, "dict[str, str | bool]"]
    )
    #: inputs as the model gets them, by name, for passes that look at what values are
    samples: Sequence[Mapping[str, NDArray[Any]]] = ()
    #: what of a file was read otherwise than it is written, since no runtime takes it so
    corrections: list[str] = field(default_factory=list[str])
    #: how many changes passes made that count them (see `passes.manager`)
    changes: int = 0
    #: how many more rewrites rules may do (None: all), to find the one that is wrong
    rewrites_left: int | None = None
    #: rules that must not fire: by name, the places (see `rewrite.remarks.place_of`) or ANYWHERE
    barred: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    #: the rule and the place at which a rule last raised an exception
    crashed: tuple[str, str] | None = None
    _target: _Late[Target] = _Late(_default_target)

    @override
    def get_optional_op(
        self, name: str, *, dialect_stack: Sequence[str] = ()
    ) -> type[Operation] | None:
        """As the base class, but of a dialect with a finder not all ops are imported, and ops
        of upstream's dialects that xDSL lacks are made from their rows."""
        dialect = name.partition(".")[0]
        if dialect == "test" and self.allow_unregistered:
            # Unknown to mlir-opt; xDSL's dialect of this name has other ops.
            return UnregisteredOp.with_name(name)
        if dialect in self.finders and dialect not in self._loaded_dialects:
            found = self.finders[dialect](name)
            if found is not None:
                return found
        if dialect in self.upstream:
            found = self._upstream_op(name)
            if found is not None:
                return found
        if dialect == name:
            # Without its dialect: that of an op around it.
            for around in reversed(dialect_stack):
                found = self._upstream_op(f"{around}.{name}") if around in self.upstream else None
                if found is not None:
                    return found
        return super().get_optional_op(name, dialect_stack=dialect_stack)

    def _upstream_op(self, name: str) -> type[Operation] | None:
        from qdialect.plugins.mlir.upstream import op_class

        return op_class(name, self._get_known_op(name))

    @override
    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        """As the base class, but attributes of upstream that xDSL lacks are kept as text."""
        found = super().get_optional_attr(name)
        if found is None and name.partition(".")[0] in self.upstream:
            found = UnregisteredAttr.with_name_and_type(name, False)
            self._loaded_attrs[name] = found
        return found

    @override
    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        """As the base class, but types of upstream that xDSL lacks are kept as text."""
        found = super().get_optional_type(name)
        if found is None and name.partition(".")[0] in self.upstream:
            found = cast("type[TypeAttribute]", UnregisteredAttr.with_name_and_type(name, True))
            self._loaded_types[name] = found
        return found

    @property
    def declared(self) -> BehaviorRegistry | None:
        """The declarations, if somebody asked for them: else there are only ours, on `nn`."""
        return self.__dict__.get("behaviors")

    @property
    def target(self) -> Target:
        """What the session compiles for."""
        return self._target

    @target.setter
    def target(self, target: Target) -> None:
        """Compile for `target`; QError when what it declares cannot be.

        What it declares holds in place of ours, and of what a target before it declared.
        """
        for name in sorted((*target.kernels, *target.keep_whole, *target.in_pieces)):
            if self._is_missing(name):
                dialect = name.partition(".")[0]
                raise QError(
                    f"target '{target.name}' names '{name}', but dialect '{dialect}' "
                    "has no such op",
                    code="unknown-op",
                )
        before = self.behaviors
        self.behaviors = before.with_overrides(target.behaviors)
        try:
            self.check_behaviors()
        except QError as error:
            self.behaviors = before
            raise QError(f"target '{target.name}': {error.message}", code=error.code) from error
        self._target = target

    def check_behaviors(self) -> None:
        """Hold declarations from outside against the ops of the dialects that are known;
        QError (`bad-behavior`).  Those of other ops are checked at the first op."""
        if self.declared is None:
            return
        for name in self.behaviors.unchecked():
            if self._is_missing(name):
                dialect = name.partition(".")[0]
                raise QError(
                    f"behavior of '{name}': dialect '{dialect}' has no such op",
                    code="bad-behavior",
                )
            definition = self._definition(name)
            if definition is not None:
                self.behaviors.check(definition)

    def _definition(self, name: str) -> type[Operation] | None:
        if name.partition(".")[0] not in self.registered_dialect_names:
            return None
        found = self.get_optional_op(name)
        return None if found is None or issubclass(found, UnregisteredOp) else found

    def _is_missing(self, name: str) -> bool:
        """Whether the dialect of op `name` is known and has no such op."""
        known = name.partition(".")[0] in self.registered_dialect_names
        return known and self._definition(name) is None

    def clone(self) -> QContext:
        """Same registrations, weights, behaviors, components, target and barred rules, and
        samples; a fresh remark log."""
        return QContext(
            **vars(super().clone()),
            blobs=self.blobs,
            behaviors=self.behaviors,
            components=self.components,
            kernels=self.kernels,
            lowerings=self.lowerings,
            finders=self.finders,
            upstream=self.upstream,
            barred=self.barred,
            samples=self.samples,
            external_resources=self.external_resources,
            _target=self._target,
        )


def session(ctx: Context) -> QContext:
    """`ctx` itself when it is ours, else a new session over the same dialects
    (a pass run by stock `xdsl-opt` gets no weights, the default behaviors and
    the generic target)."""
    return ctx if isinstance(ctx, QContext) else QContext(**vars(ctx.clone()))


def new_context(*, allow_unregistered: bool = False) -> QContext:
    """A session with our dialects and every dialect of xDSL registered (lazily)."""
    from xdsl.dialects import get_all_dialects

    from qdialect.ir.dialects import DIALECTS, load
    from qdialect.ir.ops import find_op as find_nn_op
    from qdialect.plugins.mlir.upstream import DIALECTS_WITH_ROWS, OTHER_DIALECTS

    ctx = QContext(allow_unregistered, upstream=DIALECTS_WITH_ROWS | OTHER_DIALECTS)
    for name, factory in get_all_dialects().items():
        if name not in DIALECTS:
            ctx.register_dialect(name, factory)
    for name in DIALECTS:
        ctx.register_dialect(name, load(name))
    ctx.finders["nn"] = find_nn_op
    return ctx
