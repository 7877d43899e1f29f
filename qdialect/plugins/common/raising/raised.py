"""Values of another dialect as values of `nn`, and what builds the ops between them.

The other dialect may have dimensions in another order (channels last) and plain integers where
`nn` has quantized types.  A `Raised` value says how its dimensions lie; a transpose is written
only where somebody insists on an order, and reading the same bits with other parameters is a
`quant.scast`, which computes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, FunctionType, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams import QParams
from qdialect.ir.context import QContext
from qdialect.ir.ops import ReshapeOp, TransposeOp, make_constant, shape_of
from qdialect.ir.ops.base import NNOp, ranked
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import SCastOp, UniformType, quant_element, storage_type
from qdialect.ir.verify.verifier import op_error
from qdialect.plugins.common.lowering.debug_attributes import MARKED_KEY
from qdialect.plugins.common.lowering.laid_out import Order, identity_order, permutation, reordered
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.mlir.upstream.shapes import fit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Raised:
    """A tensor of the other dialect: its dimension d is dimension `order[d]` of `value`.

    A constant has `array` instead (as the other dialect has it) and its element type.
    `params`, if any, are along dimensions of `value`.
    """

    order: Order
    value: SSAValue | None = None
    array: NDArray[Any] | None = None
    element: Attribute | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.order)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the other dialect."""
        if self.array is not None:
            return self.array.shape
        assert self.value is not None
        return reordered(shape_of(self.value), self.order)

    @property
    def params(self) -> QParams | None:
        """The qparams of the value; None of plain numbers and constants."""
        element = None if self.value is None else quant_element(self.value.type)
        return None if element is None else element.qparams

    @property
    def kind(self) -> Attribute:
        """The element type."""
        if self.value is not None:
            return cast("TensorType[Any]", self.value.type).element_type
        assert self.element is not None
        return self.element

    @property
    def storage(self) -> Attribute:
        """The element type, of stored integers where it is quantized."""
        params = self.params
        return self.kind if params is None else storage_type(params)


class Builder:
    """Collects the ops of one block."""

    def __init__(self, session: QContext) -> None:
        self.session = session
        self.operations: list[Operation] = []
        self.source: Operation | None = None
        self.known: dict[SSAValue, Raised] = {}
        """What each value of the function is so far."""
        self._cached: dict[object, SSAValue] = {}

    def append(self, op: Operation) -> Operation:
        """Put `op` last, with the location and the keys of the op that is raised."""
        source = self.source
        if source is not None:
            op.location = source.location
            keys = source.attributes.get(MARKED_KEY)
            if isinstance(keys, StringAttr | ArrayAttr) and op.operands:
                op.attributes[KEY] = keys
        self.operations.append(op)
        return op

    def check(self, count: int) -> None:
        """Unraisable where `nn` refuses one of the ops behind `count` others."""
        for op in self.operations[count:]:
            wrong = op_error(op)
            if wrong is not None:
                raise Unraisable("invalid", wrong.partition("\n")[0])

    def are_right(self, count: int) -> bool:
        """Whether `nn` refuses none of them."""
        return all(op_error(op) is None for op in self.operations[count:])

    def forget(self, count: int) -> None:
        """Take back all ops but the first `count`."""
        gone = self.operations[count:]
        del self.operations[count:]
        made = {value for op in gone for value in op.results}
        if made:
            self._cached = {
                key: value
                for key, value in self._cached.items()
                if value not in made and not (isinstance(key, tuple) and made & set(key))  # pyright: ignore
            }
        for op in reversed(gone):
            op.erase(safe_erase=False)

    def op(self, kind: type[NNOp], *operands: SSAValue, **properties: Any) -> SSAValue:
        """The one result of a new `nn` op; `element` is the element type of it."""
        return self.append(kind(*operands, **properties)).results[0]

    def constant(self, array: NDArray[Any], element: Attribute) -> SSAValue:
        """A constant; equal ones are one."""
        key = (array.shape, array.dtype.str, element, array.tobytes())
        if key not in self._cached:
            made = make_constant(array, element, self.session.blobs)
            source, self.source = self.source, None
            self._cached[key] = self.append(made).results[0]
            self.source = source
        return self._cached[key]

    # -- orders ---------------------------------------------------------------------

    def in_order(self, x: Raised, order: Order) -> Raised:
        """`x` as a value whose dimension `order[d]` is dimension d of the other dialect."""
        if x.array is not None or x.order == order:
            return replace(x, order=order)
        assert x.value is not None
        perm = [0] * x.rank
        for own, expected in zip(x.order, order, strict=True):
            perm[expected] = own
        key = ("order", x.value, tuple(perm))
        if key not in self._cached:
            params = x.params
            element = None
            if params is not None and params.axis is not None:
                element = UniformType(params.with_axis(perm.index(params.axis)))
            shape = shape_of(x.value)
            if element is None and _only_ones_move(shape, perm):
                turned = self.append(ReshapeOp(x.value, [shape[p] for p in perm])).results[0]
            else:
                turned = self.op(TransposeOp, x.value, perm=perm, element=element)
            self._cached[key] = turned
            self._cached["order", turned, permutation(tuple(perm), identity_order(x.rank))] = (
                x.value
            )
        return replace(x, value=self._cached[key], order=order)

    # -- types ----------------------------------------------------------------------

    def plain(self, x: Raised, order: Order | None = None) -> SSAValue:
        """`x` as plain numbers, in the order of the other dialect unless another is given."""
        x = self.in_order(x, identity_order(x.rank) if order is None else order)
        if x.array is not None:
            assert x.element is not None
            return self.constant(inverted(x.array, x.order), x.element)
        assert x.value is not None
        return x.value if x.params is None else self._read(x.value, storage_type(x.params))

    def typed(self, x: Raised, params: QParams, order: Order | None = None) -> SSAValue:
        """`x`, stored integers, with `params` (along dimensions of the value)."""
        x = self.in_order(x, x.order if order is None else order)
        if x.array is not None:
            return self.constant(_stored(inverted(x.array, x.order), params), UniformType(params))
        assert x.value is not None
        if x.params == params:
            return x.value
        value = x.value
        if x.params is not None:
            value = self._read(value, storage_type(x.params))
        return self._read(value, UniformType(params))

    def _read(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits with another element type; reading back gives the value itself."""
        key = ("read", value, element)
        if key not in self._cached:
            kind = ranked(element, shape_of(value))
            source = quant_element(value.type)
            made = self.append(SCastOp(value, kind)).results[0]
            self._cached[key] = made
            if source is not None:
                self._cached["read", made, source] = value
        return self._cached[key]


B = TypeVar("B", bound=Builder)


class Conversion(ABC, Generic[B]):
    """One function, raised by the pass `name` beside the one that stands there. An op that cannot
    be raised stays as it is, and a remark says why."""

    misfits: tuple[type[Exception], ...] = (Unraisable, VerifyException)
    """What raising an op that stays ends in; VerifyException: `nn` refuses it."""

    def __init__(self, name: str, function: FuncOp, raiser: B) -> None:
        self.name, self.function, self.raiser = name, function, raiser
        self.session, self.known = raiser.session, raiser.known

    @abstractmethod
    def as_it_was(self, value: SSAValue) -> SSAValue:
        """A value with the type and the order that an op which stays has for it."""

    def label(self, op: Operation) -> str:
        """The name of an op in remarks."""
        return op.name

    def check_type(self, op: Operation, raised: Raised, index: int) -> None:
        """Unraisable where a result is not of the type that the op says."""

    def begin(self, kinds: Sequence[Attribute]) -> Block:
        """The new block, whose arguments have these types."""
        block = Block(arg_types=kinds)
        for before, after in zip(self.function.body.blocks[0].args, block.args, strict=True):
            after.name_hint = before.name_hint
            self.known[before] = natural(after)
        return block

    def end(self, block: Block, results: Sequence[SSAValue]) -> FunctionType:
        """Put the new block, with all ops, in place of the old one; the type of the function."""
        block.add_ops([*self.raiser.operations, ReturnOp(*results)])
        body, old = self.function.body, self.function.body.blocks[0]
        for op in reversed(list(old.ops)):
            op.detach()
            op.erase(safe_erase=False)
        body.erase_block(old, safe_erase=False)
        body.add_block(block)
        kind = FunctionType.from_lists(list(block.arg_types), [value.type for value in results])
        self.function.properties["function_type"] = kind
        return kind

    def attempt(self, op: Operation, raise_it: Callable[[], Sequence[Raised]]) -> bool:
        """Whether `op` became what `raise_it` gives for its results; else it stays."""
        count = len(self.raiser.operations)
        try:
            found = raise_it()
            self._check(op, found, count)
        except self.misfits as error:
            code = error.code if isinstance(error, Unraisable) else "invalid"
            self.raiser.forget(count)
            self.refuse(op, code, str(error).partition("\n")[0])
            self.keep(op)
            return False
        for result, raised in zip(op.results, found, strict=True):
            if raised.value is not None and raised.value.name_hint is None:
                raised.value.name_hint = result.name_hint
            self.known[result] = raised
        return True

    def _check(self, op: Operation, found: Sequence[Raised], count: int) -> None:
        """Unraisable where one of the new ops (behind `count` others) is wrong, or a result is
        not what the op's type says."""
        self.raiser.check(count)
        if len(found) != len(op.results):
            raise Unraisable("results", f"it has {len(op.results)} results")
        for index, (result, raised) in enumerate(zip(op.results, found, strict=True)):
            if not fit(shape := shape_of(result), raised.shape):
                raise Unraisable("shape", f"it would have the shape {raised.shape}, not {shape}")
            self.check_type(op, raised, index)

    def refuse(self, op: Operation, code: str, reason: str) -> None:
        """A remark that `op` stays as it is."""
        self.session.remarks.at(op, "refused", self.name, code, reason, op=self.label(op))

    def keep(self, op: Operation) -> Operation:
        """The op itself, as the other dialect lays out what it takes and gives."""
        captured = [v for inner in op.walk() for v in inner.operands if v in self.known]
        copy = op.clone({value: self.as_it_was(value) for value in dict.fromkeys(captured)})
        self.raiser.append(copy)
        self.known.update(zip(op.results, map(natural, copy.results), strict=True))
        return copy


def natural(value: SSAValue) -> Raised:
    """A value whose dimensions lie as in the other dialect."""
    rank = len(shape_of(value)) if isinstance(value.type, TensorType) else 0
    return Raised(identity_order(rank), value)


def inverted(array: NDArray[Any], order: Order) -> NDArray[Any]:
    """What the value of `order` holds of an array of the other dialect."""
    import numpy as np

    return np.asarray(array.transpose(permutation(order, identity_order(len(order)))), order="C")


def _stored(array: NDArray[Any], params: QParams) -> NDArray[Any]:
    """Signless integers as those of the storage of `params`."""
    if params.storage.signed or array.dtype.kind == "u":
        return array
    return array.view(f"u{array.dtype.itemsize}")


def _only_ones_move(shape: Sequence[int], perm: Sequence[int]) -> bool:
    """Whether a transpose leaves the elements in their row-major order."""
    moved = [p for p in perm if shape[p] != 1]
    return all_known(shape) and moved == sorted(moved)


def all_known(shape: Sequence[int]) -> bool:
    """Whether every extent is known."""
    return all(extent >= 0 for extent in shape)
