"""Cuts a function into parts that run one after the other, each a module of its own.

What one op does to the outputs takes only the parts at and below it: what is above does not change.
A part returns the values that later parts or the function's end read, and takes those of earlier
parts, so that running all of them computes what the function does:

    %a = conv %x          part 0 (x) -> a
    %b = relu %a          part 1 (a) -> b
    %c = conv %b
    return %b, %c         part 2 (b) -> c

Values go by number: arguments first, then results of ops that do not only make constants, in
program order.  Each part has the constants that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import ConstantLike

from qdialect.interpreter import argument_names, output_names
from qdialect.interpreter.values import declared_shape
from qdialect.ir.dialects.attributes import strings
from qdialect.ir.dialects.interface import ARG_NAME, DIMS, RESULT_NAMES
from qdialect.ir.quant import SCastOp, quant_element
from qdialect.ir.quant.elements import is_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Environment = dict[int, NDArray[Any]]
    Run = Callable[[Arrays], Mapping[str, NDArray[Any]]]

_WHOLE = 1 << 60
"""More elements than models have."""


@dataclass(frozen=True)
class Part:
    """Some consecutive ops as a module with one function: `takes` and `gives` are the numbers of
    its arguments and results, `ops` its ops in their order, those that make constants left out."""

    module: ModuleOp
    function: FuncOp
    takes: Sequence[int]
    gives: Sequence[int]
    ops: Sequence[Operation]

    def clone(self) -> Part:
        """A copy to change."""
        mapping: dict[Operation, Operation] = {}
        module = self.module.clone()
        for old, new in zip(self.module.walk(), module.walk(), strict=True):
            mapping[old] = new
        function = mapping[self.function]
        assert isinstance(function, FuncOp)
        return Part(module, function, self.takes, self.gives, [mapping[op] for op in self.ops])

    def run(self, run: Run, known: Mapping[int, NDArray[Any]]) -> Environment:
        """The values it gives, of those it takes, in what `run` opened for its module."""
        results = run({_name(number): known[number] for number in self.takes})
        return dict(zip(self.gives, results.values(), strict=True))


@dataclass(frozen=True)
class Parts:
    """The parts of a function in their order, by value its number, by name what it returns
    (constants left out), and by op its part and which of the ops there it is."""

    parts: Sequence[Part]
    numbers: Mapping[SSAValue, int]
    arguments: Sequence[str]
    returned: Mapping[str, int]
    places: Mapping[Operation, tuple[Part, int]]


def split(function: FuncOp, count: int) -> Parts:
    """A function of one block in at most `count` parts of about the same number of ops, cut where
    few elements cross; linear in ops."""
    block = function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    constants = _constants(block)
    ops = [op for op in block.ops if op not in constants and op is not last]
    values: list[SSAValue] = [*block.args, *(value for op in ops for value in op.results)]
    numbers = {value: number for number, value in enumerate(values)}
    places = {op: place for place, op in enumerate(ops)}
    cuts = [0, *_cuts(_crossing(block, places, last), count), len(ops)]
    ends: dict[SSAValue, int] = {value: len(ops) for value in last.operands}
    for op in ops:
        for value in _reads(op):
            ends[value] = max(ends.get(value, -1), places[op])
    parts: list[Part] = []
    found: dict[Operation, tuple[Part, int]] = {}
    for start, end in pairwise(cuts):
        chosen = ops[start:end]
        gives = [value for op in chosen for value in op.results if ends.get(value, -1) >= end]
        parts.append(_part(function, chosen, gives, numbers, constants))
        found.update((op, (parts[-1], place)) for place, op in enumerate(chosen))
    names = zip(output_names(function), last.operands, strict=True)
    returned = {name: numbers[value] for name, value in names if value in numbers}
    return Parts(parts, numbers, argument_names(function), returned, found)


def _constants(block: Block) -> dict[Operation, int]:
    """The ops that make constants, and those that make others of these alone, numbered in program
    order."""
    found: dict[Operation, int] = {}
    for op in block.ops:
        made = op.operands and not op.regions and all(v.owner in found for v in op.operands)
        if op.has_trait(ConstantLike, value_if_unregistered=False) or (
            made and not isinstance(op, ReturnOp)
        ):
            found[op] = len(found)
    return found


def _needed(ops: Sequence[Operation], constants: Mapping[Operation, int]) -> list[Operation]:
    """The ops that make the constants which some ops read, in program order."""
    found: dict[Operation, int] = {}
    pending = [value.owner for op in ops for value in _reads(op)]
    while pending:
        op = pending.pop()
        if isinstance(op, Operation) and op in constants and op not in found:
            found[op] = constants[op]
            pending += [value.owner for value in op.operands]
    return sorted(found, key=lambda op: found[op])


def _reads(op: Operation) -> Iterable[SSAValue]:
    for each in op.walk():
        yield from each.operands


def _crossing(block: Block, places: Mapping[Operation, int], last: ReturnOp) -> list[int]:
    """How many elements are alive in front of each op, unknown extents being 1."""
    changes = [0] * (len(places) + 2)
    for value in (*block.args, *(value for op in places for value in op.results)):
        users = [_inside(use.operation, block) for use in value.uses]
        ends = [len(places) if user is last else places.get(user, 0) for user in users]
        owner = value.owner
        start = places[owner] + 1 if isinstance(owner, Operation) else 0
        size = _size(value)
        if ends and max(ends) >= start:
            changes[start] += size
            changes[max(ends) + 1] -= size
    alive, total = list[int](), 0
    for change in changes[: len(places)]:
        total += change
        alive.append(total)
    return alive


def _size(value: SSAValue) -> int:
    """How many elements a value has, unknown extents being 1; of what is no tensor, 1. Integers
    that stand for codes are never cut: alone, they have no sign."""
    near = (value.owner, *(use.operation for use in value.uses))
    if quant_element(value.type) is None and any(isinstance(op, SCastOp) for op in near):
        return _WHOLE
    if not is_tensor(value.type):
        return 1
    return math.prod(max(extent, 1) for extent in declared_shape(value.type))


def _inside(op: Operation, block: Block) -> Operation:
    while op.parent is not block:
        above = op.parent_op()
        assert above is not None
        op = above
    return op


def _cuts(alive: Sequence[int], count: int) -> list[int]:
    """Where to cut, once around the end of each share of the ops."""
    size, cuts = len(alive) / max(count, 1), list[int]()
    for number in range(1, count):
        middle, reach = number * size, size / 4
        ends = max(math.ceil(middle - reach), 1), min(int(middle + reach) + 1, len(alive))
        near = [place for place in range(*ends) if alive[place] < _WHOLE]
        if near:
            cuts.append(min(near, key=lambda place: (alive[place], abs(place - middle))))
    return sorted(set(cuts))


def _part(
    function: FuncOp,
    ops: Sequence[Operation],
    gives: Sequence[SSAValue],
    numbers: Mapping[SSAValue, int],
    constants: Mapping[Operation, int],
) -> Part:
    """The ops as a module, with the constants that they read."""
    made = {value for op in ops for value in op.results}
    outside = dict.fromkeys(
        value for op in ops for value in _reads(op) if value in numbers and value not in made
    )
    needed = _needed(ops, constants)
    block = Block(arg_types=[value.type for value in outside])
    mapping: dict[SSAValue, SSAValue] = dict(zip(outside, block.args, strict=True))
    copies: list[Operation] = []
    for op in (*needed, *ops):
        copies.append(op.clone(value_mapper=mapping))
        block.add_op(copies[-1])
    block.add_op(ReturnOp(*(mapping[value] for value in gives)))
    names = [DictionaryAttr({ARG_NAME: StringAttr(_name(numbers[value]))}) for value in outside]
    copied = FuncOp(
        function.sym_name.data,
        FunctionType.from_lists([v.type for v in outside], [v.type for v in gives]),
        Region(block),
        arg_attrs=ArrayAttr(names),
    )
    copied.attributes.update(
        {key: value for key, value in function.attributes.items() if key != DIMS}
    )
    copied.attributes[RESULT_NAMES] = strings([_name(numbers[value]) for value in gives])
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    called = [op.clone() for op in module.body.ops if op is not function]
    whole = ModuleOp(
        [copied, *called], attributes=dict(module.attributes), sym_name=module.sym_name
    )
    return Part(
        whole,
        copied,
        [numbers[value] for value in outside],
        [numbers[value] for value in gives],
        copies[len(needed) :],
    )


def _name(number: int) -> str:
    return f"value {number}"
