"""Make composite ops of their pieces, which `lower-composites` or an exporter has written.

    x * sigmoid(x)           ->  swish
    exp(x - max) / sum       ->  softmax
    matmul(x, w) + b, w a constant matrix  ->  fully_connected(x, w transposed, b)

The patterns are the declarations of the ops (`composite_forms`). The new op has the key of the
result. Its pieces keep their keys (`nn.piece_keys`). It has component qparams if every piece has
its own. Pieces stay as they are if another op uses them, or if the target does not run the
composite whole.

A bias is exact in the reals. On codes it is exact if the product is the 32-bit accumulator. A
function is `ties` if a constant of the file is not exactly the one of the declaration. It is
`relaxed` if its pieces are codes, or are quantized and dequantized: the op drops these roundings
and keeps their qparams as component qparams. If only one condition of a composite fails, a remark
names it.

For example

    %0 = nn.fully_connected %x, %w {nn.key = "fc/matmul"} : (!x, !w) -> !y
    %1 = nn.add %0, %b {nn.key = "fc"} : (!y, !b) -> !y

becomes

    %1 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import Storage
from qdialect.analysis.codes import constant_values, qparams_of, rounding_of
from qdialect.ir.behaviors import PortKind
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
    MatMulOp,
    MulOp,
    NNOp,
    ReshapeOp,
    SelectOp,
    SliceOp,
    SqueezeOp,
    UnsqueezeOp,
    constant_of,
    keys_of,
    make_constant,
)
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.component_keys import (
    OTHERS,
    Keys,
    all_keys,
    given_keys,
    hold_keys,
    role_keys,
    shared_key,
)
from qdialect.ir.ops.component_qparams import RESULT, component_types, hold_types, result_role
from qdialect.ir.ops.components import NoPiecesError, Pieces, built
from qdialect.ir.ops.functions import TanhOp
from qdialect.ir.ops.keys import KEY, QPARAMS
from qdialect.ir.ops.recurrent import RecurrentOp
from qdialect.ir.quant import UniformType, element_type, quant_element
from qdialect.passes.folding.fold_constants import FoldConstants
from qdialect.passes.importing.component_matching import (
    Match,
    Matching,
    Miss,
    Move,
    as_float,
    find,
    is_new,
    numbers_of,
    parts_of,
    rounded,
    unrounded,
)
from qdialect.passes.importing.composite_forms import Form, forms_of, rank_of, read, stand_in
from qdialect.passes.lowering.lower_composites import is_accumulator
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_types
from qdialect.rewrite import Refusal, Rewriter, Rule

_RANKS = range(1, 6)
"""The ranks of results that roots are read from."""


@dataclass(frozen=True)
class _BiasedMatMul:
    product: MatMulOp
    add: AddOp
    bias: SSAValue


class MatMulToFullyConnected(Rule[_BiasedMatMul]):
    """matmul(x, w) + b = reshape(matmul(reshape(x), w) + b), for an x of more than two dimensions.

    The reshapes count the rows of x through and back. Both take one unknown extent, in front of
    the last. The matrix w and the bias b are constants. Exact in the reals. `RaiseFunction` then
    makes the product and the sum a fully connected op.
    """

    name = "matmul-to-fully-connected"

    def roots(self) -> Iterable[str]:
        return (MatMulOp.name,)

    def match(self, op: Operation) -> _BiasedMatMul | None:
        use = op.results[0].first_use
        if use is None or not op.results[0].has_one_use() or not isinstance(op, MatMulOp):
            return None
        add, is_rows = use.operation, len(shape_of(op.operands[0])) > 2
        if not isinstance(add, AddOp) or not is_rows or len(shape_of(op.operands[1])) != 2:
            return None
        return _BiasedMatMul(op, add, add.operands[1 - use.index])

    def check(self, match: _BiasedMatMul) -> Contract | Refusal:
        lhs, rhs = match.product.operands
        result = match.product.results[0]
        if any(qparams_of(v) for v in (lhs, rhs, result)):
            return Refusal("quantized", "only float products have their weight transposed")
        bias = shape_of(match.bias)
        if prod(bias) != shape_of(rhs)[1] or bias[-1:] != shape_of(rhs)[1:]:
            return Refusal("shape", "the bias is not one number for each output channel")
        if any(constant_values(v, self.session) is None for v in (rhs, match.bias)):
            return Refusal("weight", "the weight or the bias is not constant")
        if shape_of(match.add.results[0]) != shape_of(result):
            return Refusal("shape", "the sum has another shape than the product")
        if shape_of(lhs)[:-1].count(DYNAMIC) > 1 or 0 in shape_of(lhs):
            return Refusal("dynamic-shape", "a reshape cannot count the rows through and back")
        return in_reals(match.add)

    def rewrite(self, match: _BiasedMatMul, rewriter: Rewriter) -> None:
        product, add = match.product, match.add
        lhs, weight = product.operands
        rows = ReshapeOp(lhs, (-1, shape_of(lhs)[-1]))
        rewriter.insert(rows, product)
        new = MatMulOp(rows, weight)
        rewriter.insert(new, product, keep=product)
        bias = match.bias
        if len(shape_of(bias)) > 1:
            vector = Move(shape_of(bias)[-1:]).written(bias, self.session)
            rewriter.insert(vector, add, keep=constant_of(bias))
            bias = vector.results[0]
        total = AddOp(new, bias)
        # The sum keeps its key, and then has its shape.
        for old, op in ((product, new), (add, total)):
            op.attributes.update({n: old.attributes[n] for n in _NAMES if n in old.attributes})
            op.location = old.location
        rewriter.insert(total, add)
        back = ReshapeOp(total, [-1 if n == DYNAMIC else n for n in shape_of(add.results[0])])
        rewriter.insert(back, add)
        rewriter.check_inserted()
        for name in _NAMES:
            add.attributes.pop(name, None)
        rewriter.replace(add, back.results)


_NAMES = (KEY, QPARAMS)


class _RaisePieces(Rule[Match | Miss]):
    """Pieces become the op that declares them. A miss becomes a remark."""

    def check(self, match: Match | Miss) -> Contract | Refusal:
        if isinstance(match, Miss):
            return Refusal("nearly", f"nearly '{match.name}', but {match.reason}")
        *_, op = new = self._built(match)
        is_exact = not match.is_rounded or _sums_exactly(op, match, self.session)
        is_mixed = len({quant_element(v.type) is None for v in (op.operands[0], *op.results)}) > 1
        refusal, contract = _refuse_new(op, self.session), in_reals(op)
        erase_new(new)
        if not match.is_closed:
            return Refusal("multi-use", f"a piece of '{op.name}' is also used elsewhere")
        if is_mixed:
            return Refusal("mixed", f"'{op.name}' would take codes and give floats, or the reverse")
        if not is_exact:
            contract = Contract(Numerics.RELAXED, inf, "the roundings of its pieces are dropped")
        elif match.inexact:
            contract = Contract(Numerics.TIES, note="constants are not exactly the function's")
        return refusal or contract

    def _built(self, match: Match) -> list[Operation]:
        """The op, and before it its new constants and those that it takes as floats."""
        op = match.kind.create(
            operands=match.operands,
            result_types=[value.type for value in match.results],
            properties=dict(match.properties),
        )
        behavior, new = self.session.behaviors.get(op), list[Operation]()
        for number, operand in enumerate(match.operands):
            port = None if behavior is None else behavior.operand_port(number)
            is_plain = port is not None and port.kind is PortKind.PLAIN
            if (move := match.moves.get(number)) is not None:
                new.append(move.written(operand, self.session))
            elif is_new(operand) or (is_plain and quant_element(operand.type) is not None):
                array = numbers_of(operand, self.session)
                if array is None:
                    continue
                element = element_type(as_float(operand.type))
                new.append(make_constant(array, element, self.session.blobs))
            else:
                continue
            op.operands[number] = new[-1].results[0]
        if "rounding" in op.properties:
            pieces = (piece for group in match.pieces.values() for piece, _ in group)
            rounds = (piece for piece in (match.root, *pieces) if "rounding" in piece.properties)
            op.properties["rounding"] = StringAttr(rounding_of(next(rounds, match.root)).value)
        return [*new, op]

    def rewrite(self, match: Match | Miss, rewriter: Rewriter) -> None:
        assert isinstance(match, Match)
        *constants, new = self._built(match)
        owners = {value.owner for value in match.results}
        block = match.root.parent
        assert block is not None
        first = next(op for op in block.ops if op in owners) if len(owners) > 1 else match.root
        for constant in constants:
            rewriter.insert(constant, first)
        _keep_types(new, match, self.session)
        rewriter.insert(new, first, keep=match.root)
        _keep_keys(new, match, self.session)
        if len(owners) == 1:
            rewriter.replace(match.root, new.results)
            return
        for old, result in zip(match.results, new.results, strict=True):
            rewriter.replace_value(old, result)
            assert isinstance(old.owner, Operation)
            rewriter.erase(old.owner)


class RaiseFunction(_RaisePieces):
    """The pieces of a composite, found by its forms, become the composite."""

    name = "raise-function"

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._forms: dict[int, dict[str, list[Form]]] = {}

    def roots(self) -> Iterable[str]:
        return dict.fromkeys(root for rank in _RANKS for root in self._of_rank(rank))

    def _of_rank(self, rank: int) -> dict[str, list[Form]]:
        """The forms of results of a rank, by the op that may be the last of their pieces."""
        if rank not in self._forms:
            found = self._forms.setdefault(rank, {})
            for name, components in self.session.components.items():
                kind = self.session.get_optional_op(name)
                if kind is not None and issubclass(kind, NNOp):
                    for form in forms_of(kind, components, rank):
                        for root in form.roots:
                            found.setdefault(root, []).append(form)
        return self._forms[rank]

    def match(self, op: Operation) -> Match | Miss | None:
        found, value = self._found(op), rounded(op.results[0])
        if isinstance(found, Match) and value.has_one_use() and (use := value.first_use):
            # The sum with a bias is a piece of the same op.
            larger = self._found(use.operation)
            return None if isinstance(larger, Match) and larger.kind is found.kind else found
        return found

    def _found(self, op: Operation) -> Match | Miss | None:
        """The composite that `op` is the last piece of; else what it nearly is."""
        near, owners = Miss(), [unrounded(value).owner for value in op.operands]
        names = {owner.name for owner in owners if isinstance(owner, Operation)}
        for form in self._of_rank(rank_of(op)).get(op.name, ()) if isinstance(op, NNOp) else ():
            if any(names.isdisjoint(choice) for choice in form.above):
                continue
            found = find(form, op.results[0], self.session)
            if isinstance(found, Match):
                return found
            near = max(near, found, key=lambda miss: miss.matched)
        return near if near.matched else None


class RaiseRecurrent(_RaisePieces):
    """The steps of an LSTM or GRU become the layer (`recurrent_matching`).

    Its component qparams are those that all steps share.
    """

    name = "raise-recurrent"

    def roots(self) -> Iterable[str]:
        return (ConcatOp.name,)

    def match(self, op: Operation) -> Match | Miss | None:
        assert isinstance(op, ConcatOp)
        return find_layer(op, self.session)


# -- keys and component qparams -----------------------------------------------------------


def _result_type(op: Operation, session: QContext) -> UniformType | None:
    """The qparams of its own result that an op has as component qparams, or else in its type; a
    sum has none in its type."""
    role = result_role(op, session.components.get(op.name))
    element = quant_element(op.results[0].type)
    is_sum = element is not None and element.qparams.storage == Storage.of("i32")
    return component_types(op).get(role) or (None if is_sum else element)


def _keep_types(op: Operation, match: Match, session: QContext) -> None:
    """Give `op` the qparams of its pieces and of theirs, if those of all its pieces are known."""
    components = session.components[op.name]
    found: dict[str, UniformType] = {}
    for role, group in match.pieces.items():
        kinds = {
            _result_type(piece, session) if inner is None else component_types(piece).get(inner)
            for piece, inner in group
        }
        is_inner = any(inner for _, inner in group)
        kind = kinds.pop() if len(kinds) == 1 else None
        kind = kind or (None if is_inner else match.types.get(role))
        # A piece of a piece, as hard-swish's `scaled` is of the hard-sigmoid in it.
        others = (component_types(p).get(role) for each in match.pieces.values() for p, _ in each)
        if (kind := kind or (None if group else next(filter(None, others), None))) is not None:
            found[role] = kind
    last, *more = components.result_roles(op) or (RESULT,)
    found.pop(last, None)
    if found and not found.keys() >= set(components.roles_of(op)) - {last, *more}:
        return
    for role in components.inner.keys() & found.keys():
        for piece, _ in match.pieces[role]:
            result = result_role(piece, session.components.get(piece.name))
            inner = component_types(piece).items()
            found |= {f"{role}/{name}": kind for name, kind in inner if name != result}
    given = component_types(match.root)
    role = result_role(match.root, session.components.get(match.root.name))
    hold_types(op, {**found, last: given[role]} if role in given else found)


def _keep_keys(op: Operation, match: Match, session: QContext) -> None:
    """Give `op` the keys of the ops that its pieces were."""
    table, keys = session.components, dict[str, Keys]()

    def also(role: str, names: Keys) -> None:
        keys[role] = tuple(dict.fromkeys((*keys.get(role, ()), *names)))

    parted = {piece for group in match.pieces.values() for piece, inner in group if inner}
    for role, group in match.pieces.items():
        if role in table[op.name].result_roles(op)[:1]:
            continue
        for piece, part in group:
            names = keys_of(piece) if part is None else role_keys(piece, part)
            also(role, names if len(group) == 1 else _shared(names, session))
        for piece in (piece for piece, _ in group if piece not in parted):
            for part, names in all_keys(piece, table).items():
                if role in table[op.name].inner and part != OTHERS:
                    also(f"{role}/{part}", names)
                else:
                    # A piece that is a composite may have pieces of this op: hard-swish's
                    # `scaled` is that of the hard-sigmoid in it.
                    also(part if not match.pieces.get(part, OTHERS) else OTHERS, names)
    also(OTHERS, given_keys(match.root).get(OTHERS, ()))
    for other in match.others:
        for names in (keys_of(other), *all_keys(other, table).values()):
            also(OTHERS, names)
    hold_keys(op, keys)


def _shared(names: Keys, session: QContext) -> Keys:
    return tuple(shared_key(name, session.components) for name in names)


def _sums_exactly(op: Operation, match: Match, session: QContext) -> bool:
    """Whether all pieces on codes but the result are sums that are not rounded."""
    components = session.components[op.name]
    return not match.is_cast and all(
        role in components.sums and is_accumulator(piece, session)
        for role in components.roles_of(op)[:-1]
        for piece, _ in match.pieces[role] or [(match.root, None)]
    )


def _refuse_new(op: Operation, session: QContext) -> Refusal | None:
    """Why a new op cannot be: its own rules, or those of the target, which may lower it again."""
    if not session.target.should_raise(op):
        return Refusal("whole", f"{session.target.name} does not run '{op.name}' whole")
    try:
        op.verify_()
    except VerifyException as error:
        return Refusal("types", str(error))
    behavior = session.behaviors.get(op)
    if behavior is None or not any(map(quant_element, (*op.operand_types, *op.result_types))):
        return None  # on floats, the rewriter compares it with what it takes the place of
    return refuse_types(session, behavior, op, op.operand_types, op.result_types)


@dataclass(frozen=True)
class RaiseComposites(RulePass):
    """Composites of their pieces; see the module."""

    name = "raise-composites"
    of = (MatMulToFullyConnected, RaiseFunction, RaiseRecurrent)


# Find the steps of an LSTM or GRU in a graph.
#
# A form of the layer (`composite_forms`) has as many steps as the graph. Its pieces are compared
# with the graph step by step, so that no state, mask or bias of a step can differ. An operand is a
# value of which steps take parts, or a constant that is put together of these parts.
#
#     %9 = nn.fully_connected %x1, %w          from_input of the second step
#     %10 = nn.fully_connected %h0, %r         from_hidden
#     ...
#     %y = nn.concat %y0, %y1, %y2 axis 0      the layer

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
