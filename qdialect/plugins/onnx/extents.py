"""Choose numbers for the unknown extents of a model's inputs.

    func.func @f(%x: tensor<?x?x?x?xf32> {onnx.dims = ["N", "C", "H", "W"]})
    %y = nn.conv2d %x, %w : (.., tensor<8x3x3x3xf32>)     // C is 3; H and W are at least 3

Weights, constants and reshapes tell most extents.  Shape inference runs on numbers, and the first
op that refuses its operands tells what to change: trials tell how an operand follows one symbol,
and so at which number it is what the op takes.  No tensor is made for this, only integers of a few
elements, of which shapes are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.errors import QError
from qdialect.interpreter.machine import evaluate_op
from qdialect.interpreter.values import runtime_dtype
from qdialect.ir.behaviors.shapes import DYNAMIC, Shape, shape_of
from qdialect.ir.ops import ConstantOp, NNOp, constant_array
from qdialect.ir.ops.base import to_python
from qdialect.ir.ops.priced_shapes import SAME_SHAPE, argument_dims
from qdialect.ir.ops.shapes import ShapeError
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import integer_width
from qdialect.plugins.onnx.dialect import NodeOp, ProtoAttr
from qdialect.plugins.onnx.write import engine

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.func import FuncOp

    from qdialect.ir.context import QContext

    Array = NDArray[Any]

USUAL = (1, 2, 4, 16, 32, 64, 128, 224)
"""What extents that nothing tells are tried as, in this order."""
_BATCH = 2
"""The largest of these for a first dimension."""
RANKS = (2, 4, 3, 1, 5, 0)
"""What ranks that nothing tells are tried as, in this order."""
MOST_DRAWN = 1 << 23
"""Elements of all inputs together where extents are chosen."""
_MOST_MADE = 1 << 26
"""Elements of a value that chosen extents lead to."""
_MOST_EVALUATED = 1 << 12
_MOST_FOLLOWED = 64
_MOST_TARGETS = 48
_MOST_CHANGES = 64
_MOST_PAIRS = 24
_MOST_VARIANTS = 16
_MOST_VISITS = 1 << 20
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Known:
    """What is known of a value: its shape, and its elements if they are a few integers."""

    shape: Shape | None = None
    array: Array | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return self.shape, None if self.array is None else self.array.tobytes()


@dataclass(frozen=True)
class Refused:
    """The first op that refuses the shapes of its operands: its place among the ops, and why."""

    place: int
    why: str
    operands: Sequence[Known]


class Extents:
    """The unknown extents of the arguments of a function; those of one name are one symbol."""

    def __init__(self, ctx: QContext, function: FuncOp, rank: int = 0) -> None:
        """`rank` is that of arguments of which none is known."""
        self._ctx = ctx
        self._block = function.body.blocks[0]  # what has several is refused where it runs
        #: of each argument numbers, and texts for symbols
        self._arguments = [
            [f"#{index} {d}" if n == DYNAMIC else n for d, n in enumerate(dims)]
            for index, dims in enumerate(
                [DYNAMIC] * rank if isinstance(value.type, UnrankedTensorType) else dims
                for value, dims in zip(self._block.args, argument_dims(self._block), strict=True)
            )
        ]
        listed = chain.from_iterable(self._arguments)
        self.symbols = [n for n in dict.fromkeys(listed) if isinstance(n, str)]
        self._reach: dict[SSAValue, frozenset[str]] = {}
        self._ops = list(self._reached())
        self._constants: dict[SSAValue, Known] = {}
        self._memory: dict[tuple[Any, ...], list[Known] | str] = {}
        #: places of ops that refuse whatever the numbers are
        self._ignored = set[int]()
        self._visits = 0
        #: how many ops refuse the first solution
        self.doubts = 0

    def _reached(self) -> Iterator[Operation]:
        for value, dims in zip(self._block.args, self._arguments, strict=True):
            self._reach[value] = frozenset(n for n in dims if isinstance(n, str))
        for op in self._block.ops:
            reach = self._reach_of(op)
            if reach:
                self._reach.update((v, reach) for v in op.results if not _is_settled(v))
                yield op

    def _reach_of(self, op: Operation) -> frozenset[str]:
        return frozenset[str]().union(*(self._reach.get(v, ()) for v in op.operands))

    def shapes(self, numbers: Sequence[int]) -> list[Shape]:
        """The shapes of the arguments where the symbols are these numbers."""
        known = dict(zip(self.symbols, numbers, strict=True))
        return [
            tuple(known[n] if isinstance(n, str) else n for n in dims) for dims in self._arguments
        ]

    # -- choosing numbers -------------------------------------------------------------------

    def solutions(self) -> Iterator[list[Shape]]:
        """Shapes of the arguments that shape inference accepts: first those where the fewest
        symbols differ from the rest, then small ones; after them variants of the first in one
        symbol."""
        found: dict[tuple[int, ...], tuple[int, int, int]] = {}
        before = set[tuple[int, int]]()
        batches = {dims[0] for dims in self._arguments if dims}
        batches -= {n for dims in self._arguments for n in dims[1:]}
        for usual in USUAL:
            self._ignored.clear()
            start = [min(usual, _BATCH) if s in batches else usual for s in self.symbols]
            numbers = self._solved(start)
            pairs = enumerate(zip(numbers, start, strict=True))
            changed = {(k, n) for k, (n, m) in pairs if n != m}
            if self._elements(numbers) <= MOST_DRAWN:
                rank = (len(self._ignored), len(changed), self._elements(numbers))
                found.setdefault(tuple(numbers), rank)
            if changed <= before and not self._ignored:
                break  # they are what they must be
            before = changed
        order = sorted(found, key=found.__getitem__) or [(1,) * len(self.symbols)]
        self.doubts = found.get(order[0], (0, 0, 0))[0]
        constants = (v for op in self._block.ops if isinstance(op, ConstantOp) for v in op.results)
        others = dict.fromkeys(chain(USUAL, *map(shape_of, constants)))
        for k in range(len(self.symbols)):
            variants = islice(others, _MOST_VARIANTS)
            order += [(*order[0][:k], n, *order[0][k + 1 :]) for n in variants if n > 0]
        for numbers in dict.fromkeys(order):
            if self._elements(numbers) <= MOST_DRAWN or numbers == order[0]:
                yield self.shapes(numbers)

    def _elements(self, numbers: Sequence[int]) -> int:
        return sum(map(prod, self.shapes(numbers)))

    def _solved(self, numbers: list[int]) -> list[int]:
        """The numbers, changed for one symbol after the other until no op refuses them but those
        that refuse whatever is tried."""
        for _ in range(_MOST_CHANGES):
            refused = self._run(numbers)
            if refused is None:
                break
            changed = self._changed(refused, numbers)
            if changed is None:
                self._ignored.add(refused.place)
            else:
                numbers = changed
        return numbers

    def _changed(self, refused: Refused, numbers: list[int]) -> list[int] | None:
        """The numbers with another one for one symbol, such that the op takes more of its operands
        than before and no op before it refuses them."""
        place, op = refused.place, self._ops[refused.place]
        reach = [s for s in self.symbols if s in self._reach_of(op)]
        before = _sizes(refused.operands)
        follows: dict[str, list[tuple[int, int]]] = {}
        for s in reach:
            now = numbers[self.symbols.index(s)]
            doubled = _sizes(self._operands(self._with(numbers, s, 2 * now), place))
            steps = enumerate(zip(before, doubled, strict=False))
            follows[s] = [(d, two - one) for d, (one, two) in steps if one != two]
        follows = {s: steps for s, steps in follows.items() if steps}

        def takes(operands: Sequence[Known], view: Sequence[str]) -> bool:
            """Whether the op takes the operands where only these symbols are seen, others being
            unknown extents."""
            hidden = {d for s in follows if s not in view for d, _ in follows[s]}
            return not isinstance(self._inferred(op, _without(operands, hidden)), str)

        views = [(s,) for s in follows] + list(combinations(follows, 2))[:_MOST_PAIRS]
        for k, view in enumerate((*views, tuple(follows))):
            if takes(refused.operands, view):
                continue
            targets = _targets(op, refused.operands)
            found: list[tuple[int, int, list[int]]] = []
            for s in view:
                now = numbers[self.symbols.index(s)]
                values = set(USUAL)
                for d, step in follows[s]:
                    values |= {now + -(-(t - before[d]) * now // step) for t in targets}
                for n in sorted(values, key=lambda n: (n == 1, n)):  # 1 is broadcast
                    if not 0 < n <= _LARGEST or n == now:
                        continue
                    trial = self._with(numbers, s, n)
                    if self._elements(trial) > MOST_DRAWN:
                        break
                    operands = self._operands(trial, place)
                    if operands and all(takes(operands, v) for v in (*views[:k], view) if s in v):
                        after = self._run(trial)
                        reached = len(self._ops) if after is None else after.place
                        found.append((-reached, self._elements(trial), trial))
                        break
            return min(found)[2] if found else None
        return None

    def _with(self, numbers: Sequence[int], symbol: str, number: int) -> list[int]:
        return [number if s == symbol else n for s, n in zip(self.symbols, numbers, strict=True)]

    # -- shape inference on numbers -----------------------------------------------------------

    def _run(self, numbers: Sequence[int]) -> Refused | None:
        """The first op that refuses these numbers."""
        values = self._given(numbers)
        for place in range(len(self._ops)):
            operands, results = self._step(place, values)
            if isinstance(results, str):
                return Refused(place, results, operands)
        return None

    def _operands(self, numbers: Sequence[int], place: int) -> list[Known]:
        """The operands of an op; none where an op before it refuses."""
        values = self._given(numbers)
        if any(isinstance(self._step(before, values)[1], str) for before in range(place)):
            return []
        return [values.get(v) or self._settled(v) for v in self._ops[place].operands]

    def _given(self, numbers: Sequence[int]) -> dict[SSAValue, Known]:
        return {
            value: Known(shape)
            if isinstance(value.type, TensorType | UnrankedTensorType)
            else Known()
            for value, shape in zip(self._block.args, self.shapes(numbers), strict=True)
        }

    def _step(
        self, place: int, values: dict[SSAValue, Known]
    ) -> tuple[list[Known], list[Known] | str]:
        """The operands of an op, and what is known of its results, which `values` gets; or why it
        refuses them."""
        op = self._ops[place]
        operands = [values.get(v) or self._settled(v) for v in op.operands]
        key = (place, *(known.key for known in operands))
        results = self._memory.get(key)
        self._visits += 1
        if results is None:
            results = self._memory[key] = self._inferred(op, operands)
        if self._visits > _MOST_VISITS or (isinstance(results, str) and place in self._ignored):
            results = [Known(_shape(v)) for v in op.results]
        if not isinstance(results, str):
            values.update(zip(op.results, results, strict=True))
        return operands, results

    def _settled(self, value: SSAValue) -> Known:
        if value not in self._constants:
            op, array, shape = value.owner, None, _shape(value)
            if isinstance(op, ConstantOp) and _is_followed(value, shape):
                array = constant_array(op, self._ctx.blobs)
            self._constants[value] = Known(shape, array)
        return self._constants[value]

    def _inferred(self, op: Operation, operands: Sequence[Known]) -> list[Known] | str:
        """What is known of the results; why the op refuses, if it does."""
        try:
            results = self._results(op, operands)
            shapes = [_met(_shape(v), k.shape) for v, k in zip(op.results, results, strict=True)]
        except (ShapeError, QError) as error:
            return str(error)
        return [Known(s, k.array) for s, k in zip(shapes, results, strict=True)]

    def _results(self, op: Operation, operands: Sequence[Known]) -> Sequence[Known]:
        shapes = [known.shape for known in operands if known.shape is not None]
        if isinstance(op, SAME_SHAPE) and shapes:
            return [Known(shapes[0])]
        if not isinstance(op, NNOp | NodeOp) or len(shapes) < len(operands):
            return [Known()] * len(op.results)
        complete = all(DYNAMIC not in shape for shape in shapes)
        if isinstance(op, NodeOp) and op.reads_shape and complete:
            attributes = op.node_attributes.data
            first, last = (_integers(attributes.get(name)) for name in ("start", "end"))
            shape = shapes[0][slice(*(first or [0]), *(last or [None]))]
            array = np.array(prod(shapes[0]) if op.op_type.data == "Size" else shape, np.int64)
            return [Known(array.shape, array)]
        found: Sequence[Shape | None] = (
            op.infer_from(shapes)
            if isinstance(op, NNOp)
            else engine.node_shapes(op, shapes, [k.array for k in operands], self._ctx.blobs)
        )
        is_open = isinstance(op, NNOp) and any(s is None or DYNAMIC in s for s in found)
        is_open &= sum(map(prod, shapes)) <= _MOST_MADE
        known = all(map(_is_followed, op.results, found)) and all(
            k.array is not None for k in operands
        )
        if complete and (known or is_open or _is_cheap(op, operands, found)):
            # Elements tell the shape, and evaluation refuses what inference does not check.  Those
            # that are not known are zeros that take no memory.
            arrays = _arrays(op, operands)
            made = (
                evaluate_op(op, arrays, self._ctx)
                if isinstance(op, NNOp)
                else engine.evaluate_by_reference(op, arrays, self._ctx.blobs)
            )
            if known or is_open:
                return [Known(y.shape, y if known else None) for y in made]
        return [Known(shape) for shape in found]


def _is_cheap(op: Operation, operands: Sequence[Known], found: Sequence[Shape | None]) -> bool:
    """Whether evaluation takes few elements and no loop."""
    shapes = (s for s in (*(k.shape for k in operands), *found) if s is not None)
    numbers = chain.from_iterable(k.array.flat for k in operands if k.array is not None)
    given = op.node_attributes.data.values() if isinstance(op, NodeOp) else ()
    has_body = bool(op.regions) or any(isinstance(a, ProtoAttr) for a in given)
    return not has_body and max(sum(map(prod, shapes)), *numbers, 0) <= _MOST_EVALUATED


def _shape(value: SSAValue) -> Shape | None:
    return shape_of(value) if isinstance(value.type, TensorType) else None


def _is_followed(value: SSAValue, shape: Shape | None) -> bool:
    """Whether it is a few integers, of which shapes may be computed."""
    if shape is None or DYNAMIC in shape or prod(shape) > _MOST_FOLLOWED:
        return False
    return (integer_width(element_type(value.type)) or 0) >= 32


def _is_settled(value: SSAValue) -> bool:
    shape = _shape(value)
    return shape is not None and DYNAMIC not in shape and not _is_followed(value, shape)


def _met(declared: Shape | None, found: Shape | None) -> Shape | None:
    """The extents that either knows; ShapeError where they are others, or too many."""
    if declared is None or found is None:
        return declared if found is None else found
    if len(declared) != len(found) or any(
        a != b and DYNAMIC not in (a, b) for a, b in zip(declared, found, strict=True)
    ):
        raise ShapeError(f"gives {list(found)} for {list(declared)}")
    shape = tuple(b if a == DYNAMIC else a for a, b in zip(declared, found, strict=True))
    if DYNAMIC in declared and prod(shape) > _MOST_MADE:
        raise ShapeError(f"gives {prod(shape)} elements")
    return shape


def _arrays(op: Operation, operands: Sequence[Known]) -> list[Array]:
    """The operands: zeros that take no memory where elements are not known."""
    return [
        np.broadcast_to(np.zeros((), runtime_dtype(value.type)), known.shape or ())
        if known.array is None
        else known.array.astype(runtime_dtype(value.type))
        for value, known in zip(op.operands, operands, strict=True)
    ]


def _sizes(operands: Sequence[Known]) -> list[int]:
    shapes = [known.shape for known in operands if known.shape is not None]
    return [n for shape in shapes for n in (*shape, prod(shape))]


def _without(operands: Sequence[Known], hidden: set[int]) -> list[Known]:
    """The operands with some of `_sizes` unknown."""
    places, result = iter(range(1 << 30)), list[Known]()
    for known in operands:
        if known.shape is None:
            result.append(known)
            continue
        shape = tuple(
            DYNAMIC if d in hidden else n for n, d in zip(known.shape, places, strict=False)
        )
        next(places)
        result.append(replace(known, shape=shape))
    return result


def _targets(op: Operation, operands: Sequence[Known]) -> list[int]:
    """What an extent of an operand may have to be: extents of operands and results, integers of
    the op, and products of both."""
    results = [Known(_shape(value)) for value in op.results]
    extents = {*_sizes(operands), *_sizes(results)}
    given = op.node_attributes.data if isinstance(op, NodeOp) else op.properties
    stated = {len(op.results), *chain.from_iterable(map(_integers, given.values()))}
    for known in operands:
        if known.array is not None:
            stated |= {*known.array.reshape(-1).tolist(), abs(int(known.array.prod()))}
    both = extents | stated
    found = both | {a * b for a in both for b in stated if 1 < b < 1 << 10}
    return sorted(n for n in map(abs, found) if 0 < n <= _LARGEST)[:_MOST_TARGETS]


def _integers(attribute: Attribute | None) -> list[int]:
    if not isinstance(attribute, DenseArrayBase | IntegerAttr):
        return []
    value: Any = to_python(cast("Attribute", attribute))
    return [n for n in np.atleast_1d(value).tolist() if isinstance(n, int)]
