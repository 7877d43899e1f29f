"""Arguments and results of called functions: conversions may cross a call if all calls agree.

    %0 = quant.dcast %x : !q to !f              %0 = func.call @f(%x) : (!q) -> !q
    %1 = func.call @f(%0) : (!f) -> !f
                                         ->
    func.func private @f(%a: !f) -> !f {        func.func private @f(%a: !q) -> !q {
      %2 = nn.relu %a : (!f) -> !f                %2 = nn.relu %a : (!q) -> !q

The operand of each call and the argument of the body have one encoding, and so have the operand of
the return and the result of each call.  The interface of a function that others may call stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    SymbolRefAttr,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

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


def function_ports(ops: Sequence[Operation], *, public: bool) -> list[FunctionPort]:
    """The ports of the called functions among `ops`, in program order, whose interface may change:
    private ones, or all with `public`."""
    calls: dict[str, list[CallOp]] = {}
    for op in ops:
        if op.name == CallOp.name and isinstance(op, CallOp):
            calls.setdefault(op.callee.string_value(), []).append(op)
    if not calls:
        return []
    pinned = set(_referenced(op for op in ops if op.name != CallOp.name))
    ports: list[FunctionPort] = []
    for op in ops:
        if op.name == FuncOp.name and isinstance(op, FuncOp):
            name = op.sym_name.data
            if name in calls and name not in pinned and (public or is_private(op)):
                ports += _ports_of(op, calls[name])
    return ports


def _ports_of(function: FuncOp, calls: Sequence[CallOp]) -> Iterator[FunctionPort]:
    if function.is_declaration or len(function.body.blocks) != 1:
        return
    if not isinstance(function.parent_op(), ModuleOp):
        return
    if not all(module_of(call) is function.parent_op() for call in calls):
        return
    if any(function.is_ancestor(call) for call in calls):
        return  # it calls itself
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
        pending += op.attributes.values()
        pending += op.properties.values()
    while pending:
        attribute = pending.pop()
        if isinstance(attribute, SymbolRefAttr):
            yield attribute.string_value()
        elif isinstance(attribute, ArrayAttr):
            pending += cast("ArrayAttr[Attribute]", attribute).data
        elif isinstance(attribute, DictionaryAttr):
            pending += attribute.data.values()
