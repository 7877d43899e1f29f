"""Caches of a function: arguments that a result gives back with something joined to them.

A decoder takes the keys and values of the words before, joins those of the next word, and returns
the whole, which its caller hands in again:

    func @step(%past: tensor<1x4x?x16xf32>, ...) {
      %new = ...
      %all = nn.concat %past, %new axis 2
      ... = nn.matmul %q, %all
      return ..., %all                                  a cache: argument 0, this result

A cache is found by what moves its elements and nothing else: between the argument and the result
are movements alone (a concat, an insert, a transpose, a slice; casts besides), one of them joins
another value that is computed, and both have the same type but for the extent that grows. Names
say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.dialects.kept import KeptOp
from qdialect.ir.ops import constant_of
from qdialect.ir.quant import DCastOp, QCastOp, element_type


@dataclass(frozen=True)
class Cache:
    """An argument and the result that gives it back, by number, and the ops between them, in
    program order."""

    argument: int
    result: int
    ops: tuple[Operation, ...]


def find_caches(function: FuncOp, ctx: QContext) -> tuple[list[Cache], dict[int, str]]:
    """The caches of a function of one block, and why its other arguments are none, by number."""
    block = function.body.block
    last = block.last_op
    returned: Sequence[SSAValue] = last.operands if isinstance(last, ReturnOp) else ()
    found: list[Cache] = []
    refused: dict[int, str] = {}
    for number, argument in enumerate(block.args):
        cache = _cache(number, argument, returned, ctx)
        if isinstance(cache, str):
            refused[number] = cache
        else:
            found.append(cache)
    return found, refused


def readers(cache: Cache, function: FuncOp, ctx: QContext) -> list[Operation]:
    """The products of a cache with values, and what moves its elements there, in program order."""
    reached: set[SSAValue] = {function.body.block.args[cache.argument]}
    reached.update(result for op in cache.ops for result in op.results)
    moving: list[Operation] = []
    products: list[Operation] = []
    for op in function.body.block.ops:
        behavior = ctx.behaviors.get(op)
        if op in cache.ops or reached.isdisjoint(op.operands):
            continue
        if behavior is not None and behavior.accumulator is not None:
            products.append(op)
        elif any(value in reached for value in _moved(op, ctx)):
            reached.update(op.results)
            moving.append(op)
    needed = {value for op in products for value in op.operands}
    for op in reversed(moving):
        if not needed.isdisjoint(op.results):
            needed.update(op.operands)
            products.append(op)
    places = {op: place for place, op in enumerate(function.body.block.ops)}
    return sorted(products, key=places.__getitem__)


def reads_shape(op: Operation) -> bool:
    """Whether an op reads the extents of a value only, which codes have as well."""
    return isinstance(op, KeptOp) and op.reads_shape


def _cache(
    number: int,
    argument: BlockArgument,
    returned: Sequence[SSAValue],
    ctx: QContext,
) -> Cache | str:
    """The cache that enters as an argument, or why it is none."""
    reached: set[SSAValue] = {argument}
    moving: list[Operation] = []
    for op in argument.block.ops:
        if any(value in reached for value in _moved(op, ctx)):
            reached.update(op.results)
            moving.append(op)
    results = [n for n, value in enumerate(returned) if value in reached and value is not argument]
    if not moving:
        return "nothing is joined to it"
    if not results:
        return "what is made of it by movements is not returned"
    alike = [n for n in results if _grown(argument, returned[n])]
    if len(alike) != 1:
        reason = "several results are" if alike else "no result that is made of it is"
        return f"{reason} of its type"
    above = {returned[alike[0]]}
    between: list[Operation] = []
    for op in reversed(moving):
        if not above.isdisjoint(op.results):
            above.update(value for value in _moved(op, ctx) if value in reached)
            between.insert(0, op)
    if not any(_joins(op, reached, ctx) for op in between):
        return "nothing is joined to what is returned of it"
    return Cache(number, alike[0], tuple(between))


def _moved(op: Operation, ctx: QContext) -> Iterator[SSAValue]:
    """The operands whose elements an op moves or casts, and does nothing else with."""
    if isinstance(op, QCastOp | DCastOp):
        yield op.input
        return
    behavior = ctx.behaviors.get(op)
    if behavior is not None and behavior.movement is not None and behavior.is_tied:
        for index in tied_operands(op, behavior):
            yield op.operands[index]


def _joins(op: Operation, reached: set[SSAValue], ctx: QContext) -> bool:
    return any(value not in reached and constant_of(value) is None for value in _moved(op, ctx))


def _grown(argument: SSAValue, result: SSAValue) -> bool:
    """Whether a result can be handed in as an argument again: elements are of one type, and at most
    one extent is another one."""
    if not isinstance(argument.type, TensorType) or not isinstance(result.type, TensorType):
        return False
    a, b = shape_of(argument), shape_of(result)
    if element_type(argument.type) != element_type(result.type):  # pyright: ignore
        return False
    if len(a) != len(b):
        return False
    return sum(m != n for m, n in zip(a, b, strict=True) if DYNAMIC not in (m, n)) <= 1
