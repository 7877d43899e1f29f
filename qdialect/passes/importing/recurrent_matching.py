"""Find the steps of an LSTM or GRU in a graph.

A form of the layer (`composite_forms`) has as many steps as the graph. Its pieces are compared
with the graph step by step, so that no state, mask or bias of a step can differ. An operand is a
value of which steps take parts, or a constant that is put together of these parts.

    %9 = nn.fully_connected %x1, %w          from_input of the second step
    %10 = nn.fully_connected %h0, %r         from_hidden
    ...
    %y = nn.concat %y0, %y1, %y2 axis 0      the layer
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.analysis.codes import constant_values
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of, tensor_type
from qdialect.ir.context import QContext
from qdialect.ir.ops import (
    AddOp,
    CompareOp,
    ConcatOp,
    ConstantOp,
    FullyConnectedOp,
    GruOp,
    LstmOp,
    MulOp,
    NNOp,
    SelectOp,
    SliceOp,
    SqueezeOp,
    UnsqueezeOp,
    constant_of,
    make_constant,
)
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.components import NoPiecesError, Pieces, built
from qdialect.ir.ops.functions import TanhOp
from qdialect.ir.ops.recurrent import RecurrentOp
from qdialect.ir.quant import element_type
from qdialect.passes.folding.fold_constants import FoldConstants
from qdialect.passes.importing.component_matching import (
    Match,
    Matching,
    Miss,
    as_float,
    numbers_of,
    parts_of,
    rounded,
    unrounded,
)
from qdialect.passes.importing.composite_forms import Form, read, stand_in

Array = NDArray[Any]


class _NoLayerError(Exception):
    """The graph is no layer; the message is the reason."""


def find_layer(root: ConcatOp, session: QContext) -> Match | Miss | None:
    """The layer whose hidden states of all steps `root` puts together, or what is nearly one."""
    try:
        columns = _columns(root)
        kinds: Mapping[type, type[RecurrentOp]] = {MulOp: LstmOp, AddOp: GruOp}
        ways = ("bidirectional",) if len(columns) == 2 else ("forward", "reverse")
        readers = [_Reader(root, columns, way, session) for way in ways]
        kind = kinds[type(unrounded(readers[0].hidden[0][0]).owner)]
    except (_NoLayerError, KeyError):
        return None
    best = Miss()
    for reader, more, states in product(readers, (False, True), (None, *_states(kind))):
        try:
            return reader.layer(kind, more, states)
        except (_NoLayerError, VerifyException, NoPiecesError) as error:
            if reader.miss.matched > best.matched or (str(error) and not best.matched):
                miss = reader.miss
                best = Miss(kind.name, miss.matched, miss.reason or str(error))
    return best if best.reason else None


def _states(kind: type[RecurrentOp]) -> Sequence[Sequence[bool]]:
    """Which states before the first step are operands; the others are zeros."""
    return ((True,),) if kind is GruOp else ((True, True), (False, True))


def _expect(value: SSAValue, *kinds: type[Operation]) -> Operation:
    owner = unrounded(value).owner
    if not isinstance(owner, kinds):
        raise _NoLayerError
    return owner


def _columns(root: ConcatOp) -> list[list[SSAValue]]:
    """The hidden states of each direction, by step."""
    if root.values["axis"] != 0 or len(shape_of(root.results[0])) != 4:
        raise _NoLayerError
    steps: list[list[SSAValue]] = []
    for value in root.operands:
        owner = _expect(value, UnsqueezeOp, ConcatOp)
        both = list(owner.operands) if isinstance(owner, ConcatOp) else [value]
        rows = [_expect(one, UnsqueezeOp) for one in both]
        if any(dict(row.values)["axes"] != (0, 1) for row in rows if isinstance(row, NNOp)):
            raise _NoLayerError
        steps.append([row.operands[0] for row in rows])
    if len(steps) < 2 or {len(row) for row in steps} not in ({1}, {2}):
        raise _NoLayerError
    return [list(column) for column in zip(*steps, strict=True)]


def _sliced(value: SSAValue) -> SSAValue | None:
    """The value of whose first dimension `value` is one index, if it is."""
    owner = unrounded(value).owner
    if not isinstance(owner, SqueezeOp) or owner.values["axes"] != (0,):
        return None
    above = unrounded(owner.operands[0])
    if isinstance(above.owner, SliceOp):
        return above.owner.operands[0]
    return above if shape_of(above)[0] == 1 else None


class _Reader:
    """Reads the operands of a layer from the hidden states of its steps."""

    def __init__(
        self, root: ConcatOp, columns: list[list[SSAValue]], way: str, session: QContext
    ) -> None:
        self.root, self.columns, self.way, self.session = root, columns, way, session
        self.element = element_type(as_float(root.results[0].type))
        self.size = shape_of(root.results[0])[-1]
        self.miss, self.is_folded = Miss(), False
        self.lengths: SSAValue | None = None
        self.masks: dict[int, Array] = {}
        self.hidden = [
            [self._unmasked(value, step) for step, value in enumerate(column)] for column in columns
        ]

    def _constant(self, array: Array) -> SSAValue:
        made = make_constant(np.ascontiguousarray(array), self.element, self.session.blobs)
        return made.results[0]

    # -- steps ----------------------------------------------------------------------------

    def _unmasked(self, value: SSAValue, step: int) -> SSAValue:
        """A hidden state before it is 0 where its sequence has no such step."""
        owner = unrounded(value).owner
        if not isinstance(owner, SelectOp):
            return value
        mask = owner.operands[0]
        if (known := constant_values(mask, self.session)) is not None:
            self.masks[step] = known
            return owner.operands[1]
        compared = _expect(mask, CompareOp).operands[0]
        if (known := constant_values(compared, self.session)) is None:
            self.lengths = _expect(compared, UnsqueezeOp).operands[0]
        elif self.lengths is None:
            element = tensor_type(compared).element_type
            self.lengths = make_constant(known.ravel(), element, self.session.blobs).results[0]
        return owner.operands[1]

    def _input(self) -> SSAValue:
        """The sequence of which the last step of a direction takes a part."""
        last = self.hidden[0][0 if self.way == "reverse" else -1]
        above, seen, x = [last], set[SSAValue](), None
        others = {unrounded(value) for value in self.hidden[0]} - {unrounded(last)}
        while above:
            value = unrounded(above.pop())
            if value in seen or value in others or not isinstance(value.owner, Operation):
                seen.add(value)
                continue
            seen.add(value)
            if isinstance(value.owner, FullyConnectedOp) and (
                found := _sliced(value.owner.operands[0])
            ):
                self.is_folded, x = _sliced(value.owner.operands[1]) is None, found
                continue
            above.extend(value.owner.operands)
        if x is None or not others & seen:
            raise _NoLayerError  # There is no input, or this step is the first.
        return x

    # -- the layer ------------------------------------------------------------------------

    def layer(self, kind: type[RecurrentOp], more: bool, states: Sequence[bool] | None) -> Match:
        """The layer, or _NoLayerError. With `more` an LSTM has peepholes, and a GRU resets after
        the product; `states` says which states before the first step are operands."""
        x, store = self._input(), self.session.blobs
        steps, count = len(self.columns[0]), len(self.columns)
        rows = kind.GATES * self.size
        batch = shape_of(self.root.results[0])[2]
        self.lengths = lengths = self._lengths(x, steps)
        is_given = states is not None or lengths is not None or (more and kind is LstmOp)
        shapes = [shape_of(x), (count, rows, shape_of(x)[-1]), (count, rows, self.size)]
        asked = [bool(states) and states[n] for n in range(len(kind.STATES))] if is_given else []
        shapes += [(count, batch, self.size)] * sum(asked)
        kinds = [ranked(f32, shape) for shape in shapes]
        constants = constant_of(lengths) if lengths is not None else None
        if lengths is not None and constants is None:
            kinds.append(tensor_type(lengths))
        function = FuncOp("pattern", (kinds, []))
        block = function.body.block
        given = iter(block.args[3:])

        def constant(array: Array) -> SSAValue:
            block.add_op(made := make_constant(array, f32, store))
            return made.result

        bias = stand_in((count, 2 * rows), 0)
        if kind is LstmOp:
            bias[:, rows:] = 0  # The pieces have the sum of both.
        operands: list[SSAValue] = [*block.args[:3], constant(bias)]
        zeros = np.zeros((count, 1, self.size), "f4")
        operands += [next(given) if is_asked else constant(zeros) for is_asked in asked]
        if more and kind is LstmOp:
            operands.append(constant(stand_in((count, 3 * self.size), bias.size)))
        if constants is not None:
            block.add_op(constants := constants.clone())
        operands += [next(given) if constants is None else constants.result] if lengths else []
        last = self._last()
        properties: dict[str, Any] = {"direction": self.way, "last_states": len(last)}
        properties |= {"linear_before_reset": more} if kind is GruOp else {}
        probe = kind(*operands, **properties)
        block.add_op(probe)
        components = self.session.components[kind.name]
        plan = Pieces(probe, store, {}, self.session.target.most_pieces)
        made = built(components.build, probe, plan)
        assert made is not None
        named = ReturnOp(*made, *(v for group in plan.values.values() for v in group))
        block.add_op(named)
        if self.is_folded:
            self._fold(function)
        finals, pieces = named.operands[: len(made)], iter(named.operands[len(made) :])
        roles = {role: [next(pieces) for _ in group] for role, group in plan.values.items()}
        form = read(Form(probe, finals[0], components.build, {}, is_exact=True), block, {}, store)
        results = [self.root.results[0], *last]
        found: Matching | None = Matching(self.session, form)
        self.miss = found.miss
        for pattern, value in (*self._pairs(finals[0]), *zip(finals, results, strict=True)):
            found = found and found.run(pattern, value)
        if found is None:
            raise _NoLayerError
        return self._read(form, found, roles, results)

    def _fold(self, function: FuncOp) -> None:
        """Fold the constants of the pieces, as those of the graph are; a product by a state of
        zeros is zeros."""
        for op in function.body.block.ops:
            if isinstance(op, FullyConnectedOp) and isinstance(op.operands[0].owner, ConstantOp):
                zeros = np.zeros(shape_of(op.results[0]), "f4")
                made = make_constant(zeros, f32, self.session.blobs)
                function.body.block.insert_op_before(made, op)
                op.results[0].replace_all_uses_with(made.result)
        FoldConstants(numerics="ties").apply(self.session.clone(), ModuleOp([function]))

    def _pairs(self, final: SSAValue) -> Iterator[tuple[SSAValue, SSAValue]]:
        assert isinstance(final.owner, ConcatOp)
        for index, columns in enumerate(zip(_columns(final.owner), self.columns, strict=True)):
            steps = list(zip(*columns, strict=True))
            yield from reversed(steps) if self.way == "reverse" or index else steps

    def _read(
        self,
        form: Form,
        found: Matching,
        roles: Mapping[str, Sequence[SSAValue]],
        results: list[SSAValue],
    ) -> Match:
        """The layer on the operands that the graph has."""
        assert isinstance(form.probe, RecurrentOp)
        arrays: dict[int, Array] = {}
        for constant, (number, places) in form.arrays.items():
            if constant not in found.bound:
                continue  # It was folded into another.
            array = numbers_of(found.bound[constant], self.session)
            assert array is not None
            shape = shape_of(form.probe.operands[number])
            known = arrays.setdefault(number, np.full(shape, np.nan)).reshape(-1)
            if not ((known[places] == array.ravel()) | np.isnan(known[places])).all():
                raise _NoLayerError("the biases of two steps differ")
            known[places] = array.ravel()
        operands: list[SSAValue] = []
        for number, operand in enumerate(form.probe.operands):
            value = found.bound.get(operand)
            if value is None and not isinstance(operand.owner, Operation):
                if (array := parts_of(operand, found)) is None:
                    raise _NoLayerError
                value = self._constant(array.astype("f4"))
            elif value is None and number in arrays:
                value = self._constant(np.nan_to_num(arrays[number]).astype("f4"))
            elif value is None:
                value = self.lengths
                if value is None or number < len(form.probe.operands) - 1:
                    value = self._constant(np.zeros(shape_of(operand), "f4"))
            operands.append(value)
        zeros = [numbers_of(value, self.session) for value in operands[4:]]
        if len(zeros) == len(form.probe.STATES) and all(
            a is not None and not a.any() for a in zeros
        ):
            del operands[4:]
        return replace(found, moves={}).found(form.probe, operands, roles, results)

    def _lengths(self, x: SSAValue, steps: int) -> SSAValue | None:
        if self.lengths is not None or not self.masks:
            return self.lengths
        batch = shape_of(x)[1]
        if batch == DYNAMIC:
            raise _NoLayerError
        every = np.ones((batch, 1), bool)
        counted = sum(np.broadcast_to(self.masks.get(t, every), (batch, 1)) for t in range(steps))
        lengths = np.asarray(counted, "i4").reshape(batch)
        return make_constant(lengths, i32, self.session.blobs).results[0]

    def _last(self) -> list[SSAValue]:
        """The results that put the last states together, as many as there are."""
        ends = [c[0 if self.way == "reverse" or n else -1] for n, c in enumerate(self.hidden)]
        groups = [ends]
        if isinstance(unrounded(ends[0]).owner, MulOp):
            factors = [[unrounded(v).owner for v in _expect(e, MulOp).operands] for e in ends]
            bent = [next((f for f in both if isinstance(f, TanhOp)), None) for both in factors]
            groups.append([unrounded(op.operands[0]) for op in bent if op is not None])
        found = [next(self._joined(group), None) if group else None for group in groups]
        while found and found[-1] is None:
            found.pop()
        if None in found:
            raise _NoLayerError("a cell state is a result without the hidden one")
        return [value for value in found if value is not None]

    def _joined(self, values: Sequence[SSAValue]) -> Iterator[SSAValue]:
        rows = [self._unsqueezed(value) for value in values]
        if len(rows) == 1:
            # One row is not put together.
            yield from rows[0]
        for row in rows[0]:
            for use in rounded(row).uses:
                op = use.operation
                if not isinstance(op, ConcatOp) or op.values["axis"] != 0 or op is self.root:
                    continue
                operands = [unrounded(v) for v in op.operands]
                if len(operands) == len(values) and all(
                    operand in some for operand, some in zip(operands, rows, strict=True)
                ):
                    yield op.results[0]

    @staticmethod
    def _unsqueezed(value: SSAValue) -> list[SSAValue]:
        """What a state is with a dimension for directions, itself or chosen by a mask."""
        states = [rounded(value)]
        states += [
            rounded(use.operation.results[0])
            for use in rounded(value).uses
            if isinstance(use.operation, SelectOp)
        ]
        return [
            use.operation.results[0]
            for state in states
            for use in state.uses
            if isinstance(use.operation, UnsqueezeOp) and use.operation.values["axes"] == (0,)
        ]
