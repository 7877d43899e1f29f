"""Find the steps of an LSTM or GRU in a graph: what `lower-composites` writes, constants folded.

The operands of the layer are read from the graph: weights and biases from the products and sums of
a step, the direction and the states before the first step from the steps themselves. Then the
pieces of the layer on these operands are built aside, folded alike, and compared with the graph op
by op. So nothing that was read is trusted, and no state, mask or bias of the steps can differ.

    %9 = nn.fully_connected %x1, %w          from_input of the second step
    %10 = nn.fully_connected %h0, %r         from_hidden
    ...
    %y = nn.concat %y0, %y1, %y2 axis 0      the layer
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from qdialect.analysis.codes import constant_values
from qdialect.behaviors.shapes import DYNAMIC, shape_of, tensor_type
from qdialect.context import QContext
from qdialect.ops import (
    AddOp,
    CompareOp,
    ConcatOp,
    FullyConnectedOp,
    GruOp,
    LstmOp,
    MulOp,
    NNOp,
    SelectOp,
    SliceOp,
    SqueezeOp,
    UnsqueezeOp,
    make_constant,
)
from qdialect.ops.components import NoPiecesError, Pieces, built
from qdialect.ops.functions import SigmoidOp, TanhOp
from qdialect.passes.folding.fold_constants import FoldConstants
from qdialect.passes.importing.component_matching import (
    Match,
    as_float,
    match_of,
    numbers_of,
    rounded,
    unrounded,
)
from qdialect.quant import element_type

Array = NDArray[Any]


class _NoLayerError(Exception):
    """The graph is no layer."""


@dataclass
class Layer:
    """A layer that was found: the op on its operands, which are in no block if they are new
    constants, the results that it takes the place of, and where its pieces are."""

    kind: type[NNOp]
    operands: list[SSAValue]
    properties: Mapping[str, Any]
    results: list[SSAValue]
    match: Match
    #: the ops of each role, with the role that the value has in the op if that is not its
    #: result: the product in a fully connected op with a bias
    pieces: Mapping[str, list[tuple[Operation, str | None]]]

    @property
    def root(self) -> Operation:
        """The op that puts the hidden states of all steps together."""
        owner = self.results[0].owner
        assert isinstance(owner, Operation)
        return owner

    @property
    def first_op(self) -> Operation:
        """The first of the ops whose results are replaced, above all that use them."""
        owners = {value.owner for value in self.results}
        block = self.root.parent
        assert block is not None
        return next(op for op in block.ops if op in owners)

    @property
    def constants(self) -> list[Operation]:
        """The new constants."""
        owners = dict.fromkeys(value.owner for value in self.operands)
        return [o for o in owners if isinstance(o, Operation) and o.parent is None]


def find_layer(root: ConcatOp, session: QContext) -> Layer | None:
    """The layer whose hidden states of all steps `root` puts together, or None."""
    try:
        columns = _columns(root)
        ways = ("bidirectional",) if len(columns) == 2 else ("forward", "reverse")
    except _NoLayerError:
        return None
    for way in ways:
        try:
            return _Reader(root, columns, way, session).layer()
        except (_NoLayerError, VerifyException, NoPiecesError):
            continue
    return None


def _expect(value: SSAValue, *kinds: type[Operation]) -> Operation:
    """The op of one of these kinds that makes a value, before it is rounded."""
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


def _is_all(op: Operation) -> bool:
    """Whether an op of the pieces is its operand, as `canonicalize` finds."""
    if isinstance(op, SliceOp):
        return op.operands[0].type == op.results[0].type
    return isinstance(op, ConcatOp) and len(op.operands) == 1


class _Reader:
    """Reads the operands of a layer from the hidden states of its steps."""

    def __init__(
        self, root: ConcatOp, columns: list[list[SSAValue]], way: str, session: QContext
    ) -> None:
        self.root, self.columns, self.way, self.session = root, columns, way, session
        self.element = element_type(as_float(root.results[0].type))
        self.size = shape_of(root.results[0])[-1]
        self.aside = session
        self.lengths: SSAValue | None = None
        self.masks: dict[int, Array] = {}
        self.hidden = [
            [self._unmasked(value, step) for step, value in enumerate(column)] for column in columns
        ]

    # -- constants ------------------------------------------------------------------------

    def _numbers(self, value: SSAValue) -> Array:
        found = numbers_of(unrounded(value), self.session)
        if found is None:
            raise _NoLayerError
        return found

    def _weights(self, value: SSAValue) -> Array | SSAValue:
        """The weights of a direction: the operand that these are of, or a constant's numbers."""
        rows = value.owner
        whole: SSAValue | None = _sliced(rows.operands[0] if isinstance(rows, SliceOp) else value)
        return self._numbers(value) if whole is None else whole

    def _operand(self, parts: Sequence[Mapping[str, Any]], name: str) -> SSAValue:
        """An operand of the layer, of what it is in each direction."""
        found: list[Any] = [part[name] for part in parts]
        return self._constant(np.stack(found)) if isinstance(found[0], np.ndarray) else found[0]

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

    def _products(self, direction: int) -> list[FullyConnectedOp]:
        """The products of all steps of a direction, each once."""
        found: dict[FullyConnectedOp, None] = {}
        seen: set[SSAValue] = set()
        above = list(reversed(self.hidden[direction]))
        while above:
            value = unrounded(above.pop())
            if value in seen or not isinstance(value.owner, Operation):
                continue
            seen.add(value)
            if isinstance(value.owner, FullyConnectedOp):
                found[value.owner] = None
                continue
            above.extend(value.owner.operands)
        return list(found)

    def _after(self, product: Operation, sums: int) -> Array:
        """The constant that the last of `sums` additions behind a product adds."""
        if len(product.operands) > 2:
            return self._numbers(product.operands[2])
        value = product.results[0]
        for _ in range(sums):
            use = rounded(value).first_use
            if use is None or not isinstance(use.operation, AddOp):
                raise _NoLayerError
            other, value = use.operation.operands[1 - use.index], use.operation.results[0]
        return self._numbers(other)  # pyright: ignore[reportPossiblyUnboundVariable]

    def _lstm(self, h: SSAValue) -> dict[str, SSAValue]:
        """The values of one step of an LSTM."""
        gate_o, tanh = _expect(h, MulOp).operands
        cell = _expect(tanh, TanhOp).operands[0]
        kept, new = _expect(cell, AddOp).operands
        gate_f, before = _expect(kept, MulOp).operands
        gate_i = _expect(new, MulOp).operands[0]
        return {"o": gate_o, "f": gate_f, "i": gate_i, "before": before, "cell": cell}

    def _peephole(self, gate: SSAValue) -> Array | None:
        summed = unrounded(_expect(gate, SigmoidOp).operands[0]).owner
        if not isinstance(summed, AddOp):
            return None
        peep = unrounded(summed.operands[1]).owner
        return self._numbers(peep.operands[1]) if isinstance(peep, MulOp) else None

    # -- the layer ------------------------------------------------------------------------

    def layer(self) -> Layer:
        """The layer, or _NoLayerError."""
        steps = len(self.columns[0])
        parts = [self._direction(index, steps) for index in range(len(self.columns))]
        inputs, kinds = {part["input"] for part in parts}, {part["kind"] for part in parts}
        linear = {part["linear"] for part in parts}
        if len(inputs) != 1 or len(kinds) != 1 or len(linear) != 1:
            raise _NoLayerError
        (x,), (kind,) = inputs, kinds
        operands = [x, *(self._operand(parts, name) for name in ("w", "r", "b"))]
        peepholes = [part["p"] for part in parts if part["p"] is not None]
        more = self._states(parts, x)
        lengths = self._lengths(x, steps)
        if more is None and (peepholes or lengths is not None):
            zeros = self._constant(np.zeros((len(parts), 1, self.size), "f4"))
            more = [zeros] * len(kind.STATES)
        operands += more or []
        if peepholes:
            if len(peepholes) != len(parts):
                raise _NoLayerError
            operands.append(self._constant(np.stack(peepholes)))
        operands += [] if lengths is None else [lengths]
        last = self._last(parts)
        properties: dict[str, Any] = {"direction": self.way, "last_states": len(last)}
        if kind is GruOp:
            properties["linear_before_reset"] = parts[0]["linear"]
        return self._compared(kind, operands, properties, [self.root.results[0], *last])

    def _direction(self, index: int, steps: int) -> dict[str, Any]:
        hidden = self.hidden[index]
        reverse = self.way == "reverse" or index == 1
        products = self._products(index)
        of_input = [p for p in products if _sliced(p.operands[0]) is not None]
        by_weight: dict[SSAValue, list[FullyConnectedOp]] = {}
        for product in of_input:
            by_weight.setdefault(product.operands[1], []).append(product)
        weight = next((w for w, group in by_weight.items() if len(group) == steps), None)
        if weight is None:
            raise _NoLayerError
        rest: dict[SSAValue, FullyConnectedOp] = {
            p.operands[1]: p for p in products if p.operands[1] is not weight
        }
        w, rows, size = self._weights(weight), shape_of(weight)[0], self.size
        x = _sliced(by_weight[weight][0].operands[0])
        first = hidden[-1 if reverse else 0]
        part: dict[str, Any] = {"input": x, "w": w, "p": None, "linear": False}
        if rows == 4 * size:
            (recurrence,) = self._only(rest, 1)
            r = self._weights(recurrence.operands[1])
            bias = self._after(recurrence, 2)
            bias = np.concatenate([bias, np.zeros_like(bias)])
            end = self._lstm(hidden[0 if reverse else -1])
            peeps = [self._peephole(end[gate]) for gate in ("i", "o", "f")]
            if all(p is not None for p in peeps):
                part["p"] = np.concatenate([p for p in peeps if p is not None])
            start = self._lstm(first)
            states = [self._before(recurrence, hidden), start["before"]]
            ends = [hidden[0 if reverse else -1], end["cell"]]
            return part | {"kind": LstmOp, "r": r, "b": bias, "states": states, "ends": ends}
        if rows != 3 * size:
            raise _NoLayerError
        recurrences = self._only(rest, 1 if len(rest) == 1 else 2)
        recurrences.sort(key=lambda p: -shape_of(p.operands[1])[0])
        part["linear"] = len(recurrences) == 1
        found = [self._weights(p.operands[1]) for p in recurrences]
        arrays = [each for each in found if not isinstance(each, SSAValue)]
        r = np.concatenate(arrays) if len(arrays) == len(found) else found[0]
        biases = [self._after(p, 1) for p in (by_weight[weight][0], *recurrences)]
        states = [_expect(_expect(first, AddOp).operands[1], MulOp).operands[1]]
        bias = np.concatenate(biases)
        return part | {
            "kind": GruOp, "r": r, "b": bias, "states": states,
            "ends": [hidden[0 if reverse else -1]],
        }  # fmt: skip

    @staticmethod
    def _only(rest: Mapping[SSAValue, FullyConnectedOp], count: int) -> list[FullyConnectedOp]:
        if len(rest) != count:
            raise _NoLayerError
        return list(rest.values())

    @staticmethod
    def _before(recurrence: FullyConnectedOp, hidden: Sequence[SSAValue]) -> SSAValue | None:
        """The hidden state before the first step of an LSTM; None for zeros, whose product is
        folded."""
        weight = recurrence.operands[1]
        users = {
            use.operation for use in weight.uses if isinstance(use.operation, FullyConnectedOp)
        }
        operands = {unrounded(user.operands[0]) for user in users}
        carried = {unrounded(value) for value in hidden}
        masked = {v for v in operands if isinstance(v.owner, SelectOp)}
        others = operands - carried - masked
        if len(others) > 1:
            raise _NoLayerError
        return next(iter(others), None)

    def _states(self, parts: Sequence[Mapping[str, Any]], x: SSAValue) -> list[SSAValue] | None:
        """The operands of the states before the first step; None where all are 0."""
        found: list[SSAValue] = []
        for values in zip(*(part["states"] for part in parts), strict=True):
            above = {None if value is None else _sliced(value) for value in values}
            if len(above) == 1 and None not in above:
                found.append(next(v for v in above if v is not None))
                continue
            arrays = [
                np.zeros((1, self.size), "f4") if value is None else self._numbers(value)
                for value in values
            ]
            found.append(self._constant(np.stack(np.broadcast_arrays(*arrays))))
        zero = [
            (known := numbers_of(value, self.session)) is not None and not known.any()
            for value in found
        ]
        return None if all(zero) else found

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

    def _last(self, parts: Sequence[Mapping[str, Any]]) -> list[SSAValue]:
        """The results that put the last states together, as many as there are."""
        found: list[SSAValue | None] = []
        for values in zip(*(part["ends"] for part in parts), strict=True):
            found.append(next(self._joined(values), None))
        while found and found[-1] is None:
            found.pop()
        if None in found:
            # A cell state without the hidden one: its result is new.
            raise _NoLayerError
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

    # -- the judge ------------------------------------------------------------------------

    def _compared(
        self,
        kind: type[NNOp],
        operands: list[SSAValue],
        properties: Mapping[str, Any],
        results: list[SSAValue],
    ) -> Layer:
        """The layer, if its pieces are the graph; else _NoLayerError."""
        runtime = [v for v in operands if not isinstance(v.owner, Operation) or v.owner.parent]
        function = FuncOp("pattern", ([as_float(v.type) for v in runtime], []))
        module, block = ModuleOp([function]), function.body.block
        inner: dict[SSAValue, SSAValue] = dict(zip(runtime, block.args, strict=True))
        for value in dict.fromkeys(operands):
            if value not in inner:
                assert isinstance(value.owner, Operation)
                copy = value.owner.clone()
                block.add_op(copy)
                inner[value] = copy.results[0]
        probe = kind(*(inner[value] for value in operands), **properties)
        block.add_op(probe)
        components = self.session.components[kind.name]
        roles = components.roles_of(probe)
        keys = {role: (role,) for role in roles}
        plan = Pieces(probe, self.session.blobs, keys, self.session.target.most_pieces)
        finals = built(components.build, probe, plan)
        assert finals is not None
        by_role = {role: list(values) for role, values in plan.values.items()}
        named = ReturnOp(*finals, *(v for values in by_role.values() for v in values))
        properties = dict(probe.properties)
        probe.detach()
        probe.erase()
        block.add_op(named)
        self.aside = self.session.clone()
        if not {id(v) for v in operands[1:3]} & {id(v) for v in runtime}:
            FoldConstants(numerics="ties").apply(self.aside, module)
        count = len(finals)
        values = iter(list(named.operands)[count:])
        by_role = {role: [next(values) for _ in group] for role, group in by_role.items()}
        bound: dict[SSAValue, SSAValue] = dict(zip(block.args, runtime, strict=True))
        biased = self._bind(list(zip(named.operands[:count], results, strict=True)), bound)
        match = match_of(operands, bound, by_role, results)
        ops: dict[str, list[tuple[Operation, str | None]]] = {role: [] for role in by_role}
        for role, pattern in ((role, v) for role, group in by_role.items() for v in group):
            value = bound.get(pattern)
            if value is not None and isinstance(value.owner, Operation):
                ops[role].append((value.owner, None))
            elif pattern in biased:
                ops[role].append((biased[pattern], "matmul"))
        # Of steps that are the same value in two roles, the others tell what each role is.
        shared = Counter(piece for group in ops.values() for piece in dict.fromkeys(group))
        alone = {role: [p for p in group if shared[p] == 1] for role, group in ops.items()}
        pieces = {role: alone[role] or group for role, group in ops.items()}
        return Layer(kind, operands, properties, results, match, pieces)

    def _bind(
        self, pairs: list[tuple[SSAValue, SSAValue]], bound: dict[SSAValue, SSAValue]
    ) -> dict[SSAValue, Operation]:
        """Bind each value of the pattern to the one of the graph that it is; products that are
        in an op with their bias are returned."""
        biased: dict[SSAValue, Operation] = {}
        while pairs:
            pattern, value = pairs.pop()
            if pattern in bound:
                same = bound[pattern] is value or bound[pattern] is unrounded(value)
                if not same:
                    raise _NoLayerError
                continue
            if isinstance(pattern, BlockArgument):
                raise _NoLayerError
            value = unrounded(value)
            op, other = pattern.owner, value.owner
            assert isinstance(op, Operation)
            if _is_all(op) and not (isinstance(other, type(op)) and _is_all(other)):
                bound[pattern] = value
                pairs.append((op.operands[0], value))
                continue
            if op.has_trait(ConstantLike, value_if_unregistered=False):
                one = numbers_of(pattern, self.aside)
                two = numbers_of(value, self.session)
                if one is None or two is None or not np.array_equal(one.ravel(), two.ravel()):
                    raise _NoLayerError
                continue
            if isinstance(op, AddOp) and isinstance(other, FullyConnectedOp):
                product = op.operands[0].owner
                if not isinstance(product, FullyConnectedOp) or len(other.operands) != 3:
                    raise _NoLayerError
                bound[pattern], biased[op.operands[0]] = value, other
                parts = (*product.operands, op.operands[1])
                pairs.extend(zip(parts, other.operands, strict=True))
                continue
            if not isinstance(other, NNOp) or not isinstance(op, NNOp) or op.name != other.name:
                raise _NoLayerError
            if op.values != other.values or len(op.operands) != len(other.operands):
                raise _NoLayerError
            bound[pattern] = value
            pairs.extend(zip(op.operands, other.operands, strict=True))
        return biased
