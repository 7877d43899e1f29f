"""What a rule does to the IR: `Rewriter`, and the edits that passes make themselves.

A rewriter keeps the driver's worklist, the locations and stable keys of ops, and the error bounds
of values (`Replacements`) right, so that a rule need not. A rule first inserts all its ops, then
replaces values: in between the rewriter asks whether the target runs the new ops, and where it
does not, takes them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import AnyFloat, TensorType, UnknownLoc
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import get_effects

from qdialect.errors import QError
from qdialect.ir.ops.base import PINNED
from qdialect.ir.ops.component_keys import join_keys
from qdialect.ir.ops.keys import KEY
from qdialect.rewrite.effects import is_effect_free
from qdialect.rewrite.kernel_marks import KernelChangeError
from qdialect.rewrite.refused import TargetRefusalError
from qdialect.rewrite.replacements import Replacements

if TYPE_CHECKING:
    from qdialect.ir.behaviors import BehaviorRegistry
    from qdialect.ir.context import QContext

_USES = 16
"""Ops that use a value are visited again when so many uses, or fewer, are left."""


def _are_same_floats(old: SSAValue, new: SSAValue) -> bool:
    kind = old.type
    if not isinstance(kind, TensorType) or kind != new.type:
        return False
    return isinstance(cast("TensorType[Attribute]", kind).element_type, AnyFloat)


class Rewriter:
    """Inserts, replaces and erases ops for a rule.

    New ops inherit the location of the root they replace, and the key of the op whose value they
    now compute (`keep`).
    """

    def __init__(
        self,
        push: Any,
        behaviors: BehaviorRegistry,
        changed: Callable[[Operation], None],
        replacements: Replacements,
        is_same: Callable[[SSAValue, SSAValue], bool] = lambda old, new: False,
        refuses: Callable[[Operation, Operation | None], str | None] | None = None,
    ) -> None:
        self._push = push
        self._behaviors = behaviors
        self._changed = changed
        self._is_same = is_same
        #: why the target does not run a new op, in place of another
        self._refuses = refuses
        #: ops of this rewrite, each in place of another, that were not asked for yet
        self._inserted: list[tuple[Operation, Operation | None]] = []
        self._replaces = False
        #: whether a value is replaced already, so that this rewrite cannot be taken back
        self._changed_values = False
        self.root: Operation | None = None
        #: whether keys of ops are joined, and not listed yet
        self.joined: bool = False
        self._replacements = replacements
        self._origins: dict[Operation, Operation] = {}

    def begin(self, root: Operation) -> None:
        """A rule is about to rewrite `root`."""
        self.root = root
        self._inserted.clear()
        self._replaces = False
        self._changed_values = False

    def check_inserted(self) -> None:
        """TargetRefusalError if the target refuses an op that was inserted in this rewrite: these
        ops are gone then, and nothing else has changed."""
        if self._replaces or self._refuses is None:
            return
        self._replaces = True
        for op, source in self._inserted:
            reason = self._refuses(op, source)
            if reason is not None:
                self._take_back()
                raise TargetRefusalError(f"'{op.name}': {reason}")

    def _take_back(self) -> None:
        for new, _ in reversed(self._inserted):
            self._origins.pop(new, None)
            self._replacements.erased(new)
            new.detach()
            new.erase()

    def check_replaced(self, pairs: Iterable[tuple[SSAValue, SSAValue]]) -> None:
        """To be called by a rule that replaces several values by and by, with all of them, new ones
        second: what must not be is taken back as a whole."""
        self.check_inserted()
        self._check_kernels(pairs)

    def _check_kernels(self, pairs: Iterable[tuple[SSAValue, SSAValue]]) -> None:
        """KernelChangeError if values in place of others change what marked ops compute: what was
        inserted in this rewrite is gone then, and nothing else has changed."""
        try:
            for old, new in pairs:
                self._replacements.check(old, new)
        except KernelChangeError as error:
            if self._changed_values:
                raise QError(f"a rewrite is half done: {error.reason}") from error
            self._take_back()
            raise
        self._changed_values = True

    def insert(self, op: Operation, before: Operation, keep: Operation | None = None) -> None:
        """Insert `op` before `before`, as the successor of `keep` (default: the root)."""
        block = before.parent
        assert block is not None
        block.insert_op_before(op, before)
        self._adopt(op, keep)

    def insert_after(self, op: Operation, after: Operation, keep: Operation | None = None) -> None:
        """Insert `op` right after `after`."""
        block = after.parent
        assert block is not None
        block.insert_op_after(op, after)
        self._adopt(op, keep)

    def _adopt(self, op: Operation, keep: Operation | None) -> None:
        assert not self._replaces, "a rule inserts all its ops before it replaces values"
        self._replacements.inserted(op)
        source = keep or self.root
        if self._refuses is not None:
            self._inserted.append((op, source))
        if source is not None and isinstance(op.location, UnknownLoc):
            op.location = source.location
        if keep is not None and KEY in keep.attributes:
            op.attributes.setdefault(KEY, keep.attributes[KEY])
        if source is not None:
            self._origins[op] = self.origin(source)
        self._push(op)

    def origin(self, op: Operation) -> Operation:
        """The op of the first module that `op` is the successor of."""
        return self._origins.get(op, op) if self._origins else op

    def replace_value(self, old: SSAValue, new: SSAValue) -> None:
        """Send every use of `old` to `new`; the name hint goes along."""
        if old is new:
            return
        self.check_inserted()
        self._check_kernels([(old, new)])
        self._replacements.replaced(old, new)
        changed = self._push if self._is_same(old, new) else self._changed
        if isinstance(new.owner, Operation):
            changed(new.owner)
        if new.name_hint is None:
            new.name_hint = old.name_hint
        users: dict[Operation, list[int]] = {}
        for use in old.uses:
            users.setdefault(use.operation, []).append(use.index)
        for user, indices in users.items():
            if len(indices) == 1:
                user.operands[indices[0]] = new
            else:
                operands = list(user.operands)
                for index in indices:
                    operands[index] = new
                user.operands = operands
            changed(user)

    def replace(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Replace all results of `op` and erase it; a float that is the same value as
        another goes under the keys of both."""
        self.check_inserted()
        self._check_kernels(zip(op.results, values, strict=True))
        if len(op.results) == 1 and KEY in op.attributes:
            owner = values[0].owner
            if isinstance(owner, Operation) and _are_same_floats(op.results[0], values[0]):
                self.joined |= join_keys(owner, op)
        for old, new in zip(op.results, values, strict=True):
            self.replace_value(old, new)
        self.erase(op)

    def replace_by(self, op: Operation, ops: Sequence[Operation]) -> None:
        """Insert `ops` before `op`; the last one takes its place: its uses and its key."""
        for new in ops[:-1]:
            self.insert(new, op)
        self.insert(ops[-1], op, keep=op)
        self.replace(op, ops[-1].results)

    def erase(self, op: Operation) -> None:
        """Erase `op`, and whatever it alone kept alive."""
        self.check_inserted()
        self._erase_all([op])

    def drop(self, value: SSAValue) -> None:
        """Erase the definition of `value` if nothing uses it (and so on upwards)."""
        self.check_inserted()
        owner = value.owner
        if isinstance(owner, Operation) and is_dead(owner, self._behaviors):
            self._erase_all([owner])
        elif isinstance(owner, Operation):
            self._push(owner)
            self._push_users(value)

    def _erase_all(self, pending: list[Operation]) -> None:
        while pending:
            op = pending.pop()
            if op.parent is None:
                continue
            operands = list(dict.fromkeys(op.operands))
            self._replacements.erased(op)
            self._origins.pop(op, None)
            op.detach()
            op.erase()
            for value in operands:
                owner = value.owner
                if not isinstance(owner, Operation):
                    continue
                if is_dead(owner, self._behaviors):
                    pending.append(owner)
                else:
                    self._push(owner)
                    self._push_users(value)

    def _push_users(self, value: SSAValue) -> None:
        # A value that fewer ops use may unblock these.
        few = list(islice(value.uses, _USES + 1))
        for use in few if len(few) <= _USES else ():
            self._push(use.operation)


def is_dead(op: Operation, behaviors: BehaviorRegistry | None = None) -> bool:
    """No result is used and erasing the op changes nothing else.

    An op that is in `behaviors` is a function, unless its traits say that it does more.
    """
    for result in op.results:
        if result.first_use is not None:
            return False
    if not op.results or op.parent is None or PINNED in op.attributes:
        return False
    return is_effect_free(op) or _is_declared(op, behaviors)


def _is_declared(op: Operation, behaviors: BehaviorRegistry | None) -> bool:
    declared = behaviors is not None and behaviors.get(op) is not None
    return declared and not op.regions and get_effects(op) is None


def erase_op(op: Operation, session: QContext) -> None:
    """Erase an op whose results nobody uses any more, outside of a rule."""
    session.error_bounds.forget(op)
    op.detach()
    op.erase()


def set_type(value: SSAValue, type: Attribute) -> None:
    """Give a value another type in place.

    xDSL makes a new value and visits every use, which is quadratic for an op with
    very many operands; users are not told, so retype all that belong together.
    """
    value._type = type  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


def retyped(
    op: Operation, operands: Sequence[SSAValue], result_types: Sequence[Attribute]
) -> Operation:
    """A copy of `op` (attributes, properties, location) on other operands and types."""
    return type(op).create(
        operands=operands,
        result_types=result_types,
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
    )
