"""How often ops run, and what crosses calls: conversions may if all calls agree.

    %0 = quant.dcast %x : !q to !f              %0 = func.call @f(%x) : (!q) -> !q
    %1 = func.call @f(%0) : (!f) -> !f
                                         ->
    func.func private @f(%a: !f) -> !f {        func.func private @f(%a: !q) -> !q {
      %2 = nn.relu %a : (!f) -> !f                %2 = nn.relu %a : (!q) -> !q

The operand of each call and the argument of the body have one encoding, and so have the operand of
the return and the result of each call.  The interface of a function that others may call stays,
and so does that of one that is called an unknown number of times: by itself, or in a loop whose
count is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.analysis.functions import is_private, module_of
from qdialect.passes.rescale.place.conversions import encoding_of


@dataclass(frozen=True, eq=False)
class FunctionPort:
    """An argument or a result of a called function.

    `uses` are the operands of its calls, or of its return; `values` the argument of its body, or
    the results of its calls: all of one encoding.
    """

    function: FuncOp
    uses: tuple[tuple[Operation, int], ...]
    values: tuple[SSAValue, ...]


#: a block that runs more often than this counts as running so often
_MOST = 1 << 30


class Runs:
    """How often the blocks of a module run for one run of each function that others may call, or
    that nobody calls.

    A loop of constant bounds (`scf.for`) counts its iterations, a branch (`scf.if`) as if it ran.
    What cannot be counted counts as often as what is around it. (The bodies of ONNX's `Loop`,
    `Scan` and `If` are models of their own.)
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self._blocks: dict[Block | None, int] = {}
        functions = [op for op in ops if op.name == FuncOp.name and isinstance(op, FuncOp)]
        named = {(module_of(f), f.sym_name.data): f for f in functions}
        #: by function, its calls
        self.calls: dict[FuncOp, list[CallOp]] = {f: [] for f in functions}
        #: by function, how often it runs, where that is known
        self.known: dict[FuncOp, int] = {}
        callees: dict[FuncOp, list[FuncOp]] = {f: [] for f in functions}
        around = None
        for op in ops:
            around = op if isinstance(op, FuncOp) else around
            if op.name == CallOp.name and isinstance(op, CallOp) and around is not None:
                callee = named.get((module_of(op), op.callee.string_value()))
                if callee is not None:
                    self.calls[callee].append(op)
                    callees[around].append(callee)
        called = any(self.calls.values())
        pinned = set(_referenced(op for op in ops if op.name != CallOp.name) if called else ())
        waiting = {f: len(calls) for f, calls in self.calls.items()}
        ready = [f for f in functions if not waiting[f]]
        while ready:
            function = ready.pop()
            calls = self.calls[function]
            count = (not calls or not is_private(function)) + sum(self.of(c.parent) for c in calls)
            if (
                count > _MOST
                or function.sym_name.data in pinned
                or any(is_uncounted(call.parent, None) for call in calls)
            ):
                continue
            self.known[function] = count
            for callee in callees[function]:
                waiting[callee] -= 1
                ready += [] if waiting[callee] else [callee]

    def of(self, block: Block | None) -> int:
        """How often a block runs."""
        op = None if block is None else block.parent_op()
        if op is None or isinstance(op, ModuleOp):
            return 1
        if block not in self._blocks:
            around = self.known.get(op, 1) if isinstance(op, FuncOp) else self.of(op.parent)
            count = _iterations(op)
            self._blocks[block] = min(around * (1 if count is None else count), _MOST)
        return self._blocks[block]


def _iterations(op: Operation) -> int | None:
    """How often the regions of an op run for each run of it; None where that is not known."""
    if isinstance(op, FuncOp | ModuleOp) or op.name == "scf.if":
        return 1
    bounds = [_constant(value) for value in op.operands[:3]] if op.name == "scf.for" else []
    if len(bounds) < 3 or None in bounds:
        return None
    first, end, step = (bound or 0 for bound in bounds)
    return max(-(-(end - first) // step), 0) if step > 0 else None


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    found = owner.properties.get("value") if isinstance(owner, Operation) else None
    return found.value.data if isinstance(found, IntegerAttr) else None


def is_uncounted(block: Block | None, home: Block | None) -> bool:
    """Whether `block` runs an unknown number of times for a run of `home` around it, or of its
    function."""
    while block is not None and block is not home:
        op = block.parent_op()
        if op is None or isinstance(op, FuncOp):
            return home is not None
        if _iterations(op) is None:
            return True
        block = op.parent
    return False


def block_of(value: SSAValue) -> Block | None:
    """The block in which a value is made."""
    return value.owner if isinstance(value.owner, Block) else value.owner.parent


def function_ports(runs: Runs, *, public: bool) -> list[FunctionPort]:
    """The ports of the called functions, in program order, whose interface may change: private
    ones, or all with `public`."""
    ports: list[FunctionPort] = []
    for function, calls in runs.calls.items():
        if calls and function in runs.known and (public or is_private(function)):
            ports += _ports_of(function, calls)
    return ports


def _ports_of(function: FuncOp, calls: Sequence[CallOp]) -> Iterator[FunctionPort]:
    if len(function.body.blocks) != 1 or not isinstance(function.parent_op(), ModuleOp):
        return
    last = function.body.block.last_op
    for index, argument in enumerate(function.body.block.args):
        if encoding_of(argument) is not None:
            yield FunctionPort(function, tuple((call, index) for call in calls), (argument,))
    if not isinstance(last, ReturnOp):
        return
    for index, value in enumerate(last.operands):
        if encoding_of(value) is not None:
            results = tuple(call.results[index] for call in calls)
            yield FunctionPort(function, ((last, index),), results)


def _referenced(ops: Iterable[Operation]) -> Iterator[str]:
    """The names of functions that attributes of `ops` refer to."""
    pending: list[Attribute] = []
    for op in ops:
        pending += [*op.attributes.values(), *op.properties.values()]
    while pending:
        attribute = pending.pop()
        if isinstance(attribute, SymbolRefAttr):
            yield attribute.string_value()
        elif isinstance(attribute, ArrayAttr):
            pending += cast("ArrayAttr[Attribute]", attribute).data
        elif isinstance(attribute, DictionaryAttr):
            pending += attribute.data.values()
