"""Verifies a module: the rules of each op, then that values are defined before their uses.

It takes linear time and does not recurse. xDSL's `verify` prints the whole module into an
exception and does not check the order of definitions and uses. Upstream's rules come first, so
that a module that mlir-opt rejects gets mlir-opt's message:

    %0 = nn.relu %1 : (tensor<4xf32>) -> tensor<4xf32>   operand #0 is not defined before this use
    %1 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

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
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import ErasedSSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import InputError, QError
from qdialect.ops.base import NNOp
from qdialect.ops.locations import op_where
from qdialect.quant.bare import BareVerifyException
from qdialect.verify.cache import VerifiedOps
from qdialect.weights import BlobStore

if TYPE_CHECKING:
    from qdialect.behaviors import BehaviorRegistry
    from qdialect.quant.strict import QuantChecker

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
    `quant.strict`).  `verified` has the ops that were
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
    for error in _rule_errors(module, _Checker(strict), behaviors, verified):
        sound = False
        yield error
    if sound:
        yield from _order_errors(module)
        if store is not None and BLOBS in module.attributes:
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
            from qdialect.quant.strict import QuantChecker

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


def invalid(op: Operation, message: str, *, bare: bool = False) -> InputError:
    """An error about `op`, in the manner of mlir-opt: `'dialect.op' op message`, or the
    message alone (`bare`)."""
    first, *rest = message.rstrip().split("\n")
    if not bare and not first.startswith(f"'{op.name}' op"):
        first = f"'{op.name}' op {first}"
    notes = tuple(line.strip() for line in rest if line.strip())
    return InputError(first, where=op_where(op), code="invalid-ir", notes=notes)


def _missing_weights(module: ModuleOp, store: BlobStore) -> Iterator[InputError]:
    from qdialect.ops.constants import BlobAttr, ConstantOp

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


def _rule_errors(
    module: ModuleOp,
    checker: _Checker,
    behaviors: BehaviorRegistry | None,
    verified: VerifiedOps,
) -> Iterator[InputError]:
    pending: list[Operation] = [module]
    while pending:
        top = pending.pop()
        inner: list[Operation] = []
        error = _first_error_in(top, inner, checker, behaviors, verified)
        if error is not None:
            yield error
        pending.extend(reversed(inner))


def _first_error_in(
    top: Operation,
    isolated: list[Operation],
    checker: _Checker,
    behaviors: BehaviorRegistry | None,
    verified: VerifiedOps,
) -> InputError | None:
    """Check `top` and what it holds, up to isolated ops, which are collected.

    Upstream's rules come first, so that an error has upstream's words where it has any.
    """
    doubtful: InputError | None = None
    pending: list[Operation] = [top]
    while pending:
        op = pending.pop()
        key = verified.key(op)
        if key is not None and key in verified and op.next_op is not None:
            if verified.has_valid_types(op):
                continue
            quant = checker.needed(op)
            if quant is None or quant.are_tensors_right(op):
                verified.add_types(op)
                continue
        if op is not top and _is_isolated(type(op)):
            isolated.append(op)
            continue
        try:
            _check_structure(op)
            op.verify_()
            behavior = None if behaviors is None or isinstance(op, NNOp) else behaviors.get(op)
            if behavior is not None:
                from qdialect.ops.ports import verify_declared

                verify_declared(op, behavior)
        except QError as error:
            return invalid(op, error.message)
        except VerifyException as error:
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
        nested = [inner for region in op.regions for block in region.blocks for inner in block.ops]
        pending.extend(reversed(nested))
    return doubtful


@cache
def _is_isolated(kind: type[Operation]) -> bool:
    return kind.has_trait(IsolatedFromAbove, value_if_unregistered=False)


def _check_structure(op: Operation) -> None:
    """What `Operation.verify` and `Block.verify` check beside the op's own rules."""
    for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
        if isinstance(operand, ErasedSSAValue):
            raise VerifyException("uses a value that has been erased")
    block = op.parent
    region = None if block is None else block.parent
    if op.successors:
        if block is None or region is None or block.last_op is not op:
            raise VerifyException("with successors must terminate its parent block")
        if any(successor.parent is not region for successor in op.successors):
            raise VerifyException("branches to a block of a different region")
    if block is not None and region is not None and block.last_op is op:
        _check_terminator(op, region)
    for inner in op.regions:
        blocks = inner.blocks
        if inner.first_block is not inner.last_block or op.has_trait(NoTerminator):
            continue
        if any(candidate.first_op is None for candidate in blocks):
            raise VerifyException("has an empty block where at least a terminator is expected")


def _check_terminator(op: Operation, region: Region) -> None:
    if op.has_trait(IsTerminator):
        return
    if region.first_block is not region.last_block:
        raise VerifyException("ends a block but is not a terminator")
    parent = region.parent
    if parent is not None and not parent.has_trait(NoTerminator):
        raise VerifyException("ends a block but is not a terminator")


def _order_errors(module: ModuleOp) -> Iterator[InputError]:
    """Uses of values that are not defined before them, one per isolated op."""
    pending: list[Operation] = [module]
    while pending:
        top = pending.pop()
        inner: list[Operation] = []
        error = _first_misuse_in(top, inner)
        if error is not None:
            yield error
        pending.extend(reversed(inner))


def _first_misuse_in(top: Operation, isolated: list[Operation]) -> InputError | None:
    """One walk with the set of values visible so far: in program order within a block, and
    from each block to those it dominates, whose values it sees."""
    #: values by identity, as their own hash is slow
    visible: set[int] = set()
    #: ops and blocks still to visit and, after what sees them, the values to forget
    pending: list[Operation | _Scope | list[int]] = []
    _enter(top, visible, pending)
    while pending:
        entry = pending.pop()
        if isinstance(entry, list):
            visible.difference_update(entry)
            continue
        if isinstance(entry, _Scope):
            entry.enter(visible, pending)
            continue
        for operand in entry._operands:  # pyright: ignore[reportPrivateUsage]
            if id(operand) not in visible:
                return _misuse(entry, operand)
        for result in entry.results:
            visible.add(id(result))
        if not entry.regions:
            continue
        if _is_isolated(type(entry)):
            isolated.append(entry)
        else:
            _enter(entry, visible, pending)
    return None


def _misuse(op: Operation, operand: SSAValue) -> InputError:
    index = list(map(id, op.operands)).index(id(operand))
    later = isinstance(operand, OpResult) and operand.op.parent is op.parent
    fault = "is not defined before this use" if later else "does not dominate this use"
    return invalid(op, f"operand #{index} {fault}")


@dataclass
class _Scope:
    """A block that was not visited yet."""

    block: Block
    tree: Mapping[Block, Sequence[Block]]
    """The blocks that each one dominates."""
    is_graph: bool = False
    """Whether its ops may use results of later ones."""

    def enter(self, visible: set[int], pending: list[Operation | _Scope | list[int]]) -> None:
        """Go on with the ops of the block, then with the blocks it dominates."""
        ops = list(self.block.ops)
        arguments = list(map(id, self.block.args))
        results = [id(result) for op in ops for result in op.results]
        visible.update((*arguments, *results) if self.is_graph else arguments)
        pending.append(arguments + results)
        pending.extend(_Scope(inner, self.tree) for inner in reversed(self.tree[self.block]))
        pending.extend(reversed(ops))


def _enter(op: Operation, visible: set[int], pending: list[Operation | _Scope | list[int]]) -> None:
    for region in reversed(op.regions):
        first = region.first_block
        if first is None:
            continue
        if first is not region.last_block:
            # As in mlir-opt, blocks that are never reached may use any value.
            from qdialect.verify.dominance import dominator_tree

            pending.append(_Scope(first, dominator_tree(region)))
        else:
            # Of an op nobody knows it may be a graph, in which order means nothing.
            pending.append(_Scope(first, {first: ()}, isinstance(op, UnregisteredOp)))
