"""The parts of a model's outputs: what is judged by itself.

An output that is a concat of different things is several things: of a detector's
`concat(boxes, scores)` the boxes, in pixels, drown the error of the scores in one figure. So each
float output is cut into what its movement ops (concat, transpose, reshape, slice ...) bring
together. Labels follow the index maps of these ops as qparams do, so that no shape has to be
known that the maps do not need.

    %boxes = nn.mul ... : tensor<1x4x1344xf32>        part "[:, 0:4]", channels along 1
    %scores = nn.sigmoid ... : tensor<1x80x1344xf32>  part "[:, 4:84]", channels along 1
    %0 = nn.concat %boxes, %scores {axis = 1}         the output

The *channel* of a part is the dimension in which the nearest contraction above it has its output
channels, followed down again through ops that keep it; of a softmax the dimension it sums along;
else dimension 1. A part with one channel has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import ConstantLike

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.parameter_field import ParameterField
from qdialect.algebra.qparams.parameters import Layout, Storage
from qdialect.interpreter import Interpreter, output_names
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.ops import HardSigmoidOp, SigmoidOp, SoftmaxOp, keys_of, shape_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.quantizer.profile.instrument import is_float

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.ir.context import QContext

    Array = NDArray[Any]

_LABELS = Storage.of("i32")
_FAR = 512
"""So many ops above a part are looked at for one that says what its channels are."""


@dataclass(frozen=True)
class Part:
    """One thing in the output `output`.

    `slices` says where it is, one for each dimension (None: all of it); where it is no box,
    `cells` are marks over blocks of `blocks` elements, and it is judged as a flat array.
    `channel` is the dimension of its channels, None where it has none. `scores` says that the
    largest channel is an answer. `key` is that of the op that makes it, empty where it has none.
    `shares` says that each number is one from 0 to 1 by itself, as a sigmoid gives it.
    """

    output: str
    slices: tuple[slice, ...] | None = None
    channel: int | None = None
    scores: bool = False
    key: str = ""
    cells: Array | None = field(default=None, compare=False)
    blocks: tuple[int, ...] = ()
    shares: bool = False

    @property
    def place(self) -> str:
        """Where in the output it is: `[:, 0:4]`; empty for all of it."""
        if self.cells is not None:
            return "[...]"
        shown = [_text(one) for one in self.slices or ()]
        while shown and shown[-1] == ":":
            shown.pop()
        return f"[{', '.join(shown)}]" if shown else ""

    def __str__(self) -> str:
        return f"{self.output}{self.place}"

    def of(self, array: Array) -> Array:
        """The part of an output's `array`."""
        if self.cells is not None:
            return array[self._mask(array.shape)]
        return array if self.slices is None else array[self.slices]

    def _mask(self, shape: Sequence[int]) -> Array:
        assert self.cells is not None
        mask = self.cells
        for dim, (size, block) in enumerate(zip(shape, self.blocks, strict=True)):
            if mask.shape[dim] > 1:
                mask = np.take(mask, np.arange(size) // block, dim)
        return np.broadcast_to(mask, tuple(shape))


Parts = Sequence[Part]
"""The parts of all outputs, in order."""


def _text(one: slice) -> str:
    return ":" if one == slice(None) else f"{one.start}:{one.stop}"


def whole_outputs(outputs: Mapping[str, Array]) -> Parts:
    """Each output as one part: for a model of which there is no IR."""
    return [Part(n, None, *_usual(a.ndim, a.dtype.kind == "f")) for n, a in outputs.items()]


def _usual(rank: int, is_real: bool) -> tuple[int | None, bool]:
    """The dimension of channels where nothing says it, and whether they are scores."""
    return (1 if rank >= 2 and is_real else None), rank == 2 and is_real


def parts_of(module: ModuleOp, ctx: QContext) -> Parts:
    """The parts of the outputs of the float model `module`."""
    function = Interpreter(ctx, module).function()
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    found: list[Part] = []
    for name, value in zip(output_names(function), last.operands, strict=True):
        found += _Tracer(ctx).parts(name, value)
    return found


def channel_dimension(value: SSAValue, ctx: QContext) -> int | None:
    """The dimension along which a float value has its channels; None where it has none."""
    return _Tracer(ctx).channels(value) if _is_real(value) else None


class _Tracer:
    """Labels what one output is made of: number n stands for `sources[n]`."""

    def __init__(self, ctx: QContext) -> None:
        self.ctx = ctx
        self.sources: list[SSAValue] = []

    def parts(self, name: str, value: SSAValue) -> list[Part]:
        over = self._labelled(value)
        labels = np.reshape(np.frombuffer(over.zero_points, np.int64), over.grid)
        found: list[Part] = []
        for number in dict.fromkeys(labels.ravel().tolist()):
            source = self.sources[number]
            key = _key(source)
            shares = isinstance(source.owner, SigmoidOp | HardSigmoidOp)
            cells = labels == number
            slices = _box(cells, over)
            if slices is None:
                found.append(Part(name, None, None, False, key, cells, over.blocks, shares))
                continue
            whole = all(one == slice(None) for one in slices)
            channel, scores = self._channel(value, source)
            at = None if whole else slices
            found.append(Part(name, at, channel, scores, key, shares=shares))
        return found

    def _labelled(self, value: SSAValue) -> ParameterField:
        """A field over `value` that says of each element which source it is of."""
        fields: dict[SSAValue, ParameterField] = {}
        pending = [value]
        while pending:
            one = pending[-1]
            operands = self._moved(one)
            missing = [v for v in operands if v not in fields]
            if missing:
                pending += missing
                continue
            pending.pop()
            if one not in fields:
                fields[one] = self._pulled(one, [fields[v] for v in operands])
        return fields[value]

    def _pulled(self, value: SSAValue, fields: Sequence[ParameterField]) -> ParameterField:
        if fields:
            assert isinstance(value, OpResult)
            pulled = self._map(value).pull(fields, layout=Layout.BLOCK)
            if not isinstance(pulled, Illegal):
                return pulled
        self.sources.append(value)
        shape = shape_of(value) if _is_real(value) else ()
        return _field(shape, shape, np.array([len(self.sources) - 1]))

    def _moved(self, value: SSAValue) -> list[SSAValue]:
        """What the movement op that makes `value` copies; nothing if none makes it."""
        owner = value.owner
        behavior = self.ctx.behaviors.get(owner) if isinstance(owner, Operation) else None
        if behavior is None or behavior.movement is None or not _is_real(value):
            return []
        assert isinstance(owner, Operation)
        return [owner.operands[i] for i in tied_operands(owner, behavior)]

    def _map(self, value: OpResult) -> Any:
        behavior = self.ctx.behaviors.get(value.op)
        assert behavior is not None
        return behavior.maps(value.op)[value.index]

    # -- channels

    def _channel(self, output: SSAValue, source: SSAValue) -> tuple[int | None, bool]:
        """The dimension of `output` along which `source`, a part of it, has its channels, and
        whether these are scores."""
        shape = shape_of(output) if _is_real(output) else ()
        dim, are_scores = self._own(source)
        if dim is None:
            return None, False
        for value, operand in self._way(output, source):
            dim = self._carried(value, operand, dim)
            if dim is None:
                return _usual(len(shape), _is_real(output))
        beside = [size for k, size in enumerate(shape) if k not in (0, dim)]
        return dim, are_scores or all(size == 1 for size in beside)

    def channels(self, source: SSAValue) -> int | None:
        """The dimension of the channels of `source`."""
        return self._own(source)[0]

    def _own(self, source: SSAValue) -> tuple[int | None, bool]:
        """The dimension of the channels of `source`, and whether they are scores; None where it
        has one channel only, or none."""
        if not _is_real(source):
            return None, False
        shape = shape_of(source)
        if (found := self._above(source)) is not None:
            path, carried, last = found
            for value, operand in path:
                carried = None if carried is None else self._carried(value, operand, carried)
            if carried is not None and shape[carried] != 1:
                return carried, last
        dim, _ = _usual(len(shape), is_real=True)
        return (None if dim is None or shape[dim] == 1 else dim), False

    def _above(self, source: SSAValue) -> tuple[list[tuple[SSAValue, int]], int, bool] | None:
        """The nearest op above that says what its channels are: the way down from it, as results
        and numbers of operands, their dimension there, and whether the part is its answer."""
        ways: deque[tuple[SSAValue, list[tuple[SSAValue, int]]]] = deque([(source, [])])
        visited: set[SSAValue] = {source}
        while ways and len(visited) < _FAR:
            value, way = ways.popleft()
            owner = value.owner
            behavior = self.ctx.behaviors.get(owner) if isinstance(owner, Operation) else None
            if behavior is None or not isinstance(owner, Operation):
                continue
            if isinstance(owner, SoftmaxOp) and not way:
                return way, owner.values["axis"] % len(shape_of(value)), True
            sums = behavior.accumulator
            if sums is not None:
                dim = sums.result_axis(owner)
                return way, dim, not way and dim == len(shape_of(value)) - 1
            for number, operand in enumerate(owner.operands):
                if operand not in visited and _is_computed(operand):
                    visited.add(operand)
                    ways.append((operand, [(value, number), *way]))
        return None

    def _way(self, output: SSAValue, source: SSAValue) -> list[tuple[SSAValue, int]]:
        """A way down from `source` to `output` through movement ops."""
        ways: list[tuple[SSAValue, list[tuple[SSAValue, int]]]] = [(output, [])]
        visited = {output}
        while ways:
            value, way = ways.pop()
            if value == source:
                return way
            for operand in self._moved(value):
                if operand not in visited:
                    visited.add(operand)
                    assert isinstance(value, OpResult)
                    number = list(value.op.operands).index(operand)
                    ways.append((operand, [(value, number), *way]))
        raise AssertionError("a source is above its output")

    def _carried(self, value: SSAValue, operand: int, dim: int) -> int | None:
        """Where dimension `dim` of an operand is in the result `value`; None where it is not one
        dimension, or nobody knows."""
        assert isinstance(value, OpResult)
        op = value.op
        shape = shape_of(op.operands[operand])
        if not self._moved(value):
            made = shape_of(value)
            return dim if len(made) == len(shape) and made[dim] == shape[dim] else None
        behavior = self.ctx.behaviors.get(op)
        assert behavior is not None
        tied = tied_operands(op, behavior)
        if operand not in tied:
            return None
        counted = [_counted(shape_of(op.operands[i]), dim, len(shape)) for i in tied]
        if counted[tied.index(operand)].is_per_tensor:
            return None
        pulled = self._map(value).pull(counted, layout=Layout.BLOCK)
        # A dimension that is cut counts on in its last piece: [A * C] -> [A, C].
        return None if isinstance(pulled, Illegal) else max(pulled.blocked, default=None)


def _is_real(value: SSAValue) -> bool:
    return is_float(value.type)


def _is_computed(value: SSAValue) -> bool:
    owner = value.owner
    is_constant = isinstance(owner, Operation) and owner.has_trait(ConstantLike)
    return _is_real(value) and not is_constant


def _key(value: SSAValue) -> str:
    keys = keys_of(value.owner) if isinstance(value.owner, Operation) else ()
    return keys[-1] if keys else ""


def _field(shape: tuple[int, ...], blocks: tuple[int, ...], labels: Array) -> ParameterField:
    ones = np.ones(len(labels)).tobytes()
    return ParameterField(_LABELS, "f32", shape, blocks, ones, labels.astype(np.int64).tobytes())


def _counted(shape: tuple[int, ...], dim: int, rank: int) -> ParameterField:
    """A field that counts along one dimension, if that is as long as anybody knows; one of
    another rank, which stands beside, does not count."""
    if len(shape) != rank or shape[dim] in (DYNAMIC, 0, 1):
        return _field(shape, shape, np.zeros(1))
    blocks = (*shape[:dim], 1, *shape[dim + 1 :])
    return _field(shape, blocks, np.arange(shape[dim]))


def _box(cells: Array, over: ParameterField) -> tuple[slice, ...] | None:
    """The marked cells as slices; None where they are no box."""
    slices: list[slice] = []
    marked = cells
    for dim, (size, block) in enumerate(zip(over.shape, over.blocks, strict=True)):
        other = tuple(k for k in range(cells.ndim) if k != dim)
        hit = np.flatnonzero(np.any(cells, other))
        low, high = int(hit[0]), int(hit[-1]) + 1
        marked = marked.take(np.arange(low, high), dim)
        whole = high - low == cells.shape[dim]
        slices.append(slice(None) if whole else slice(low * block, min(high * block, size)))
    return tuple(slices) if bool(marked.all()) else None
