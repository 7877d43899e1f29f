"""Verifies a module: the rules of each op, then that values are defined before their uses.

It takes linear time and does not recurse. xDSL's `verify` prints the whole module into an
exception and does not check the order of definitions and uses:

    %0 = nn.relu %1 : (tensor<4xf32>) -> tensor<4xf32>   operand #0 is not defined before this use
    %1 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import (
    Float32Type,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import ErasedSSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import InputError, QError
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant.bare import BareVerifyException
from qdialect.ir.verify.cache import VerifiedOps
from qdialect.ir.verify.functions import BRANCHES, IN_PLACE, check_branch
from qdialect.ir.verify.reports import invalid, invalid_place, note
from qdialect.ir.verify.symbols import is_symbol_table, symbol_errors
from qdialect.ir.weights import BlobStore

if TYPE_CHECKING:
    from qdialect.ir.behaviors import BehaviorRegistry
    from qdialect.ir.quant.strict import QuantChecker

#: module attribute that names the weight store beside the text
BLOBS = "nn.blobs"


def verify_module(
    module: ModuleOp,
    store: BlobStore | None = None,
    *,
    behaviors: BehaviorRegistry | None = None,
    strict: bool = True,
    verified: VerifiedOps | None = None,
) -> None:
    """Raise InputError (`invalid-ir`) for the first op that breaks a rule.

    With `store`, the weights of a module that names a weight store must be in it.  With
    `behaviors`, quantized types must be what the declarations of ops from outside allow.
    `strict` adds rules on quantized types that upstream does not have (see
    `ir.quant.strict`).  `verified` has the ops that were
    valid before, with the same `strict`.
    """
    errors = verification_errors(
        module, store, behaviors=behaviors, strict=strict, verified=verified
    )
    error = next(errors, None)
    if error is not None:
        raise error


def verification_errors(
    module: ModuleOp,
    store: BlobStore | None = None,
    *,
    behaviors: BehaviorRegistry | None = None,
    strict: bool = True,
    verified: VerifiedOps | None = None,
) -> Iterator[InputError]:
    """At most one error for each isolated op (module, function), in program order."""
    sound = True
    verified = VerifiedOps() if verified is None else verified
    verified.begin(behaviors)
    for error in _errors_in(module, _Checker(strict), behaviors, verified):
        sound = False
        yield error
    if sound and store is not None and BLOBS in module.attributes:
        yield from _missing_weights(module, store)


_PLAIN: set[type[Attribute]] = {
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    Float32Type,
    TensorType,
}
"""Of these, and of tensors of these, ops are right without a look at quantized types."""


class _Checker:
    """`QuantChecker`, imported at the first op that might need it: a module on plain types
    does not."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._checker: QuantChecker | None = None

    def needed(self, op: Operation) -> QuantChecker | None:
        if self._checker is None and not _is_plain(op):
            from qdialect.ir.quant.strict import QuantChecker

            self._checker = QuantChecker(strict=self._strict)
        return self._checker


def _is_plain(op: Operation) -> bool:
    """Whether nothing that `op` defines or has can be of a quantized type."""
    pending: list[Attribute] = [value.type for value in op.results]
    pending += op.properties.values()
    pending += op.attributes.values()
    for region in op.regions:
        for block in region.blocks:
            pending += [value.type for value in block.args]
    while pending:
        attribute = pending.pop()
        if type(attribute) not in _PLAIN:
            return False
        if isinstance(attribute, TensorType):
            tensor = cast("TensorType[Attribute]", attribute)
            if type(tensor.encoding) is not NoneAttr:
                return False
            pending.append(tensor.element_type)
        elif isinstance(attribute, FunctionType):
            pending += (*attribute.inputs.data, *attribute.outputs.data)
    return not isinstance(op, UnregisteredOp) and not op.name.startswith("quant.")


def _missing_weights(module: ModuleOp, store: BlobStore) -> Iterator[InputError]:
    from qdialect.ir.ops.constants import BlobAttr, ConstantOp

    for op in module.walk():
        if isinstance(op, ConstantOp) and isinstance(op.value, BlobAttr):
            key = op.value.key.data
            if key not in store:
                yield invalid(op, f"refers to weight '{key}', which is in no open weight store")
                return


def op_error(op: Operation) -> str | None:
    """What is wrong with one op that is in no module yet; None if nothing is."""
    try:
        op.verify_()
    except (QError, VerifyException) as error:
        return str(error)
    quant = _Checker(strict=False).needed(op)
    return None if quant is None else quant.structure_error(op)


def _errors_in(
    module: ModuleOp,
    checker: _Checker,
    behaviors: BehaviorRegistry | None,
    verified: VerifiedOps,
) -> Iterator[InputError]:
    """Isolated ops are verified one by one: what each one holds, then the isolated ops in it,
    then, if all of these are right, its symbols and the order of its values."""
    pending: list[_Frame] = [_Frame(module)]
    while pending:
        frame = pending[-1]
        if frame.inner is None:
            found: list[Operation] = []
            error = _first_error_in(frame.op, found, checker, behaviors, verified)
            if error is not None:
                yield error
                pending.pop()
                _spoil(pending)
                continue
            frame.inner = iter(found)
        op = next(frame.inner, None)
        if op is not None:
            pending.append(_Frame(op))
            continue
        pending.pop()
        error = next(_late_errors(frame), None)
        if error is not None:
            yield error
        if error is not None or frame.is_wrong_inside:
            _spoil(pending)


@dataclass
class _Frame:
    """An isolated op that is being verified."""

    op: Operation
    inner: Iterator[Operation] | None = None
    """The isolated ops in it that are still to do; None before it was looked at itself."""
    is_wrong_inside: bool = False


def _spoil(pending: list[_Frame]) -> None:
    if pending:
        pending[-1].is_wrong_inside = True


def _late_errors(frame: _Frame) -> Iterator[InputError]:
    if frame.is_wrong_inside:
        return
    if is_symbol_table(frame.op):
        yield from symbol_errors(frame.op)
    yield from order_errors(frame.op)


def _first_error_in(
    top: Operation,
    isolated: list[Operation],
    checker: _Checker,
    behaviors: BehaviorRegistry | None,
    verified: VerifiedOps,
) -> InputError | None:
    """Check `top` and what it holds, up to isolated ops, which are collected."""
    doubtful: InputError | None = None
    pending: list[Operation | _End] = [top]
    while pending:
        op = pending.pop()
        if isinstance(op, _End):
            error = next(terminator_errors(op.op), None)
            if error is not None:
                return error
            continue
        successors = op.successors
        if successors and (error := successor_error(op)) is not None:
            return error
        key = verified.key(op)
        if key is not None and key in verified and not successors:
            if verified.has_valid_types(op):
                continue
            quant = checker.needed(op)
            if quant is None or quant.are_tensors_right(op):
                verified.add_types(op)
                continue
        if op is not top and is_isolated(type(op)):
            isolated.append(op)
            continue
        try:
            _check_op(op, behaviors)
        except QError as error:
            return invalid(op, error.message)
        except VerifyException as error:
            if not str(error).startswith(_ISOLATION):
                return invalid(op, str(error), bare=isinstance(error, BareVerifyException))
        quant = checker.needed(op)
        message = None if quant is None else quant.structure_error(op)
        if message is not None:
            return invalid(op, message, bare=True)
        message = quant.strict_error(op) if quant is not None and doubtful is None else None
        if message is not None:
            doubtful = invalid(op, message, bare=True)
        elif key is not None and doubtful is None:
            verified.add(key)
            verified.add_types(op)
        if not op.regions:
            continue
        error = next(region_errors(op), None)
        if error is not None:
            return error
        pending.append(_End(op))
        nested = [inner for region in op.regions for block in region.blocks for inner in block.ops]
        pending.extend(reversed(nested))
    return doubtful


_ISOLATION = "Operation using value defined out of its IsolatedFromAbove parent"
"""An error of xDSL's that `order_errors` finds, too, and at the use."""


class _End(NamedTuple):
    """The end of an op with regions, after the ops in it."""

    op: Operation


def _check_op(op: Operation, behaviors: BehaviorRegistry | None) -> None:
    """The rules of the op itself; VerifyException or QError."""
    for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
        if isinstance(operand, ErasedSSAValue):
            raise VerifyException("uses a value that has been erased")
    check = IN_PLACE.get(op.name)
    if check is not None:
        check(op)
    else:
        op.verify_()
        if op.name in BRANCHES:
            check_branch(op)
    behavior = None if behaviors is None or isinstance(op, NNOp) else behaviors.get(op)
    if behavior is not None:
        from qdialect.ir.ops.ports import verify_declared

        verify_declared(op, behavior)


# What must hold of regions and blocks, whatever the ops in them are.
#
# ^bb0:
#   "test.op"()[^bb1] : () -> ()   only the last op of a block may have successors
#   %0 = arith.constant 1 : i32    and it must be a terminator


def region_errors(op: Operation) -> Iterator[InputError]:
    """The errors in the blocks of the regions of `op`, found before the ops in them are looked
    at."""
    for region in op.regions:
        first = region.first_block
        if first is None or _is_one_good_block(op, region, first):
            continue
        if any(_is_branched_to(first, block) for block in region.blocks):
            yield invalid_place(op, "entry block of region may not have predecessors")
            return
        for block in region.blocks:
            last = block.last_op
            if last is None and not _needs_no_terminator(op, region):
                yield invalid_place(op, "empty block: expect at least a terminator")
                return


def successor_error(op: Operation) -> InputError | None:
    """The error of an op with successors that is not the last in its block."""
    if op.parent is None or op.parent.last_op is op:
        return None
    return invalid(op, "has successors, but does not end its block")


def terminator_errors(op: Operation) -> Iterator[InputError]:
    """The errors at the ends of the blocks in `op`, of which the ops are right."""
    for region in op.regions:
        alone = _needs_no_terminator(op, region)
        for block in region.blocks:
            last = block.last_op
            if last is None:
                continue
            if any(successor.parent is not region for successor in last.successors):
                yield invalid(last, "branching to block of a different region")
                return
            if not alone and not _may_terminate(last):
                yield invalid(last, "ends its block, but is no terminator")
                return


def _is_one_good_block(op: Operation, region: Region, first: Block) -> bool:
    """Whether the region is one block that nothing is wrong with, as nearly all are."""
    last = first.last_op
    if first is not region.last_block or (last is not None and last.successors):
        return False
    return last is not None or _needs_no_terminator(op, region)


def _needs_no_terminator(op: Operation, region: Region) -> bool:
    one = region.first_block is region.last_block
    return one and (isinstance(op, UnregisteredOp) or op.has_trait(NoTerminator))


def _may_terminate(op: Operation) -> bool:
    return isinstance(op, UnregisteredOp) or op.has_trait(IsTerminator)


def _is_branched_to(target: Block, block: Block) -> bool:
    last = block.last_op
    return last is not None and target in last.successors


# Values are defined before they are used, and isolated ops use no values from around them.
#
# Dominance is as upstream has it: in a block, program order; between blocks of a region, those
# that every path from the entry goes through. In blocks that are never reached any value may be
# used. In graphs (the regions of modules and of ops nobody knows, where they have one block)
# order means nothing.
#
#     %0 = arith.addi %1, %x : i32      operand #0 does not dominate this use
#     %1 = arith.addi %x, %x : i32      note: operand #0 is defined here


def order_errors(top: Operation) -> Iterator[InputError]:
    """The first use in `top` of a value that is not visible there; isolated ops in `top` were
    looked at before."""
    #: values by identity, as their own hash is slow
    visible: set[int] = set()
    #: ops and blocks still to visit and, after what sees them, the values to forget
    pending: list[_Step] = []
    _enter(top, visible, pending)
    while pending:
        entry = pending.pop()
        if isinstance(entry, list):
            visible.difference_update(entry)
            continue
        if isinstance(entry, _Defined):
            visible.update(entry.results)
            continue
        if isinstance(entry, _Scope):
            entry.enter(visible, pending)
            continue
        for operand in entry._operands:  # pyright: ignore[reportPrivateUsage]
            if id(operand) not in visible:
                yield _misuse(top, entry, operand)
                return
        if entry.regions and not is_isolated(type(entry)):
            # Its own results are not visible inside of it, but in a graph, where they are already.
            pending.append(_Defined([id(result) for result in entry.results]))
            _enter(entry, visible, pending)
            continue
        for result in entry.results:
            visible.add(id(result))


@cache
def is_isolated(kind: type[Operation]) -> bool:
    """Whether ops of a class see no values from around them."""
    return kind.has_trait(IsolatedFromAbove, value_if_unregistered=False)


_GRAPHS = frozenset(("builtin.module", "gpu.module", "ml_program.subgraph"))
"""Ops whose regions are graphs."""


class _Defined(NamedTuple):
    """The results of an op, visible once what is in it was visited."""

    results: Sequence[int]


@dataclass
class _Scope:
    """A block that was not visited yet."""

    block: Block
    tree: Mapping[Block, Sequence[Block]]
    """The blocks that each one dominates."""
    is_graph: bool = False
    """Whether its ops may use results of later ones."""

    def enter(self, visible: set[int], pending: list[_Step]) -> None:
        """Go on with the ops of the block, then with the blocks it dominates."""
        ops = list(self.block.ops)
        arguments = list(map(id, self.block.args))
        results = [id(result) for op in ops for result in op.results]
        visible.update((*arguments, *results) if self.is_graph else arguments)
        pending.append(arguments + results)
        pending.extend(_Scope(inner, self.tree) for inner in reversed(self.tree[self.block]))
        pending.extend(reversed(ops))


_Step = Operation | _Scope | _Defined | list[int]


def _enter(op: Operation, visible: set[int], pending: list[_Step]) -> None:
    for region in reversed(op.regions):
        first = region.first_block
        if first is None:
            continue
        if first is region.last_block:
            pending.append(_Scope(first, {first: ()}, _is_graph(op)))
            continue
        from qdialect.ir.verify.dominance import dominator_tree

        tree = dominator_tree(region)
        pending.append(_Scope(first, tree))
        dead = [block for block in region.blocks if block not in tree]
        if dead:
            _enter_unreachable(region, dead, visible, pending)


def _enter_unreachable(
    region: Region, dead: Sequence[Block], visible: set[int], pending: list[_Step]
) -> None:
    """Visit what is in the ops of blocks that are never reached, which may use any value of
    the region."""
    inner = [op for block in dead for op in block.ops if op.regions]
    inner = [op for op in inner if not is_isolated(type(op))]
    if not inner:
        return
    known = [id(argument) for block in region.blocks for argument in block.args]
    known += [id(r) for block in region.blocks for op in block.ops for r in op.results]
    pending.append(known)
    for op in reversed(inner):
        _enter(op, visible, pending)
    pending.append(_Defined(known))


def _is_graph(op: Operation) -> bool:
    return isinstance(op, UnregisteredOp) or op.name in _GRAPHS


def _misuse(top: Operation, op: Operation, operand: SSAValue) -> InputError:
    block = operand.block if isinstance(operand, BlockArgument) else _definer(operand).parent
    index = list(map(id, op.operands)).index(id(operand))
    if block is None or not _is_inside(block, top):
        notes = (note(top, "no value from outside of this op may be used in it"),)
        return invalid(op, f"operand #{index} is defined outside the region", notes=notes)
    definer = block.parent_op() if isinstance(operand, BlockArgument) else _definer(operand)
    assert definer is not None
    notes = (note(definer, f"operand #{index} is defined here"),)
    return invalid(op, f"operand #{index} does not dominate this use", notes=notes)


def _definer(value: SSAValue) -> Operation:
    assert isinstance(value, OpResult)
    return value.op


def _is_inside(block: Block, top: Operation) -> bool:
    parent = block.parent_op()
    while parent is not None and parent is not top:
        parent = parent.parent_op()
    return parent is top
