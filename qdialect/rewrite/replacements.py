"""What a rewrite does to error bounds: the one place where a change passes to another value.

Whoever puts a value in place of another says so to `Replacements.replaced`, which follows the old
value up to what the new one reads and adds up the changes it meets there, as `summary` does. No
change is lost, whatever else uses the values in between. For

    %0 = quant.rescale %x : !a to !b       a change of one step of !b, from a rewrite before
    %1 = nn.add %0, %y                     used twice, as %0 is
    %2 = nn.sub %0, %y

a rule that puts an add of %x and %y in place of %1 leaves the change of %0 on the new add, and on
%0 for the sub.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from xdsl.ir import Block, Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.analysis.gain import moved
from qdialect.analysis.index import captured_values, every_op
from qdialect.ir.context import QContext
from qdialect.rewrite.error_bounds import Change, real_bound, sum_up, total
from qdialect.rewrite.kernel_marks import Replaced

MOST_OPS = 1024
"""How many ops above a value that is replaced are searched for changes (and four for each op that
the rewrite inserted). Few rewrites replace more; where one does, nothing is known of the value."""


class Replacements:
    """The replacements of one rewrite, or of one pass that rewrites a whole module at once."""

    def __init__(self, session: QContext, *, keeps_kernels: bool = False) -> None:
        self._session = session
        self._bounds = session.error_bounds
        #: whether there are ops that name whose kernel they are, which no rewrite may change
        self.keeps_kernels = keeps_kernels
        self.begin(EXACT)

    def begin(self, contract: Contract) -> None:
        """A rule fires under `contract`; its remark is the last one."""
        self._contract = contract
        self._inserted: set[Operation] = set()
        #: whether a contraction is among them
        self._sums = False
        #: by replaced value, what is used in its place
        self._replaced: dict[SSAValue, SSAValue] = {}

    def inserted(self, op: Operation) -> None:
        """The rewrite made `op`."""
        self._inserted.add(op)
        if not self._sums and self._contract.level is Numerics.EXACT:
            behavior = self._session.behaviors.get(op)
            self._sums = behavior is not None and behavior.accumulator is not None

    def check(self, old: SSAValue, new: SSAValue) -> None:
        """KernelChangeError where `new` in place of `old` changes what marked ops compute, or in
        which order products are summed, and the contract does not say so."""
        contract = self._contract
        if contract.by_kernels or contract.level > Numerics.BOUNDED:
            return
        if not (self.keeps_kernels or self._sums) or self._replaced.get(old) is new:
            return
        reads = self._read_by(new)
        above = dict.fromkeys(
            owner
            for value in reads
            if isinstance(owner := value.owner, Operation)
            and (owner in self._inserted or value is new)
        )
        inside = set[SSAValue](v for op in above for v in op.results)
        outer = reads - inside
        apart = old in outer or old is new

        def cut(value: SSAValue) -> bool:
            return apart or self._cut(value, outer)

        both = Replaced(old, new, cut, above, MOST_OPS + 4 * len(self._inserted))
        if self.keeps_kernels:
            both.check_kernels()
        if self._sums:
            both.check_sums(self._session)

    def replaced(self, old: SSAValue, new: SSAValue) -> None:
        """Uses of `old`, which is still there, will use `new`; KernelChangeError (see `check`)."""
        self.check(old, new)
        if not self._bounds.changes and self._contract.level is Numerics.EXACT:
            return
        if self._replaced.get(old) is new:
            return
        found = self._inherited(old, new) if self._bounds.changes else ()
        if self._contract.level is not Numerics.EXACT:
            number = len(self._session.remarks.remarks) - 1
            found = (*found, Change(real_bound(new, self._contract), number))
        self._replaced[old] = new
        if new.owner not in self._inserted or new not in self._bounds.changes:
            self._bounds.add(new, found)
            return
        # A new op that replaces several values is as far from each as it says; not the sum.
        known = self._bounds.changes[new]
        parts = [*known, *found]
        self._bounds.changes[new] = sum_up(parts, max(total(known), total(found)))

    def erased(self, op: Operation) -> None:
        """`op` is about to be erased: its results are replaced, or dead."""
        self._bounds.forget(op)

    def _inherited(self, old: SSAValue, new: SSAValue) -> tuple[Change, ...]:
        """How far `old` is from what it stands for if what `new` reads is not off."""
        changes, reads = self._bounds.changes, self._read_by(new)
        limit = MOST_OPS + 4 * len(self._inserted)
        order: list[Operation] = []
        arguments: list[SSAValue] = []
        opened = set[Operation]()
        pending: list[tuple[SSAValue, bool]] = [(old, False)]
        while pending:
            value, done = pending.pop()
            owner = value.owner
            if isinstance(owner, Block):
                arguments += [] if self._cut(value, reads) else [value]
            elif done:
                order.append(owner)
            elif owner not in opened and not self._cut(value, reads):
                opened.add(owner)
                if len(opened) > limit:
                    every = [change for each in changes.values() for change in each]
                    return sum_up(every, inf)
                pending.append((value, True))
                pending += [(operand, False) for operand in _operands(owner)]
        met = [v for v in dict.fromkeys(arguments) if v in changes]
        met += [v for op in order for v in op.results if v in changes and not self._cut(v, reads)]
        if met == [old]:
            return changes[old]
        if not met:
            return ()
        off = {value: self._bounds.of(value) for value in arguments}
        for op in order:
            by = propagated(self._session, op, lambda value: off.get(value, 0.0))
            for result in op.results:
                if not self._cut(result, reads):
                    off[result] = by + self._bounds.of(result)
        return sum_up([change for value in met for change in changes[value]], off.get(old, 0.0))

    def _cut(self, value: SSAValue, reads: set[SSAValue]) -> bool:
        """Whether what is computed from `value` is still computed from what stands for it."""
        return value in reads or self._replaced.get(value) in reads

    def _read_by(self, new: SSAValue) -> set[SSAValue]:
        """What `new` is computed from: the operands of its op, and of inserted ops above it."""
        found: set[SSAValue] = {new}
        pending = [new.owner]
        while pending:
            owner = pending.pop()
            if isinstance(owner, Operation):
                for value in _operands(owner):
                    if value not in found:
                        found.add(value)
                        if value.owner in self._inserted:
                            pending.append(value.owner)
        return found


def propagated(session: QContext, op: Operation, off: Callable[[SSAValue], float]) -> float:
    """How far results of `op` are off when what it reads is off by `off`, in real units. Nothing is
    known of an op with regions if anything in them, or that they use, is off."""
    if not op.regions:
        return moved(session, op, off) if any(map(off, op.operands)) else 0.0
    changes = session.error_bounds.changes
    inner = (v for each in every_op(op) if each is not op for v in each.results)
    some = any(map(off, _operands(op))) or any(v in changes for v in inner)
    return inf if some else 0.0


def _operands(op: Operation) -> Sequence[SSAValue]:
    return [*op.operands, *captured_values(op)] if op.regions else op.operands
