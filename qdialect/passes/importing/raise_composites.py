"""Make composite ops of their pieces: what `lower-composites` writes, and what exporters do.

    x * sigmoid(x)           ->  swish
    exp(x - max) / sum       ->  softmax
    matmul(x, w) + b, w a constant matrix  ->  fully_connected(x, w transposed, b)

The declaration of a composite says which ops it is made of, so this inverts `lower-composites`.
The new op has the key of the result, its pieces keep their keys (`nn.piece_keys`), and it has
component qparams if every piece had its own. Pieces that something else uses too stay as
they are, and so do those of a composite that the target does not run whole, if it says so.

A bias is exact in the reals, and on codes where the product is the 32-bit accumulator. The
functions are `ties` where a constant of the file is not exactly the one of the function, and
`relaxed` where the pieces are rounded on the way, quantized and dequantized as quantizers write
them, or ops on codes: the op drops those roundings, and keeps their qparams as component qparams.
What nearly is a composite leaves a remark that says what is not so.

For example

    %0 = nn.fully_connected %x, %w {nn.key = "fc/matmul"} : (!x, !w) -> !y
    %1 = nn.add %0, %b {nn.key = "fc"} : (!y, !b) -> !y

becomes

    %1 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.analysis.codes import constant_values, qparams_of, rounding_of
from qdialect.behaviors import PortKind
from qdialect.behaviors.shapes import DYNAMIC, shape_of
from qdialect.context import QContext
from qdialect.numerics.contract import Contract, Numerics
from qdialect.ops import (
    AddOp,
    ConcatOp,
    MatMulOp,
    NNOp,
    ReshapeOp,
    constant_of,
    keys_of,
    make_constant,
)
from qdialect.ops.component_keys import (
    OTHERS,
    Keys,
    all_keys,
    given_keys,
    hold_keys,
    role_keys,
    shared_key,
)
from qdialect.ops.component_qparams import component_types, hold_types, result_role
from qdialect.ops.keys import KEY, QPARAMS
from qdialect.passes.importing.component_matching import (
    Match,
    Miss,
    Move,
    as_float,
    find,
    numbers_of,
    rounded,
)
from qdialect.passes.importing.composite_forms import Form, forms_of, rank_of
from qdialect.passes.importing.recurrent_matching import Layer, NearLayer, find_layer
from qdialect.passes.lowering.lower_composites import is_accumulator
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_types
from qdialect.qparams import Storage
from qdialect.quant import RescaleOp, UniformType, element_type, quant_element
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


def _rescaled(op: Operation) -> Operation:
    """What gives the result of `op` the qparams that it is to have, and so has its key."""
    use = op.results[0].first_use
    if use is None or not op.results[0].has_one_use() or KEY in op.attributes:
        return op
    return use.operation if isinstance(use.operation, RescaleOp) else op


@dataclass(frozen=True)
class _Raised:
    root: Operation
    probe: NNOp
    found: Match | Miss


class RaiseFunction(Rule[_Raised]):
    """The pieces of a composite, found by its declaration, are the composite."""

    name = "raise-function"

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._forms: dict[int, list[Form]] = {}

    def roots(self) -> Iterable[str]:
        forms = (form for rank in _RANKS for form in self._of_rank(rank))
        return dict.fromkeys(root for form in forms for root in form.roots)

    def _of_rank(self, rank: int) -> list[Form]:
        if rank not in self._forms:
            table = self.session.components
            kinds = {name: self.session.get_optional_op(name) for name in table}
            self._forms[rank] = [
                form
                for name, kind in kinds.items()
                if kind is not None and issubclass(kind, NNOp)
                for form in forms_of(kind, table[name], rank)
            ]
        return self._forms[rank]

    def match(self, op: Operation) -> _Raised | None:
        found = self._found(op)
        if found is None or isinstance(found.found, Miss):
            return found
        value = rounded(op.results[0])
        if value.has_one_use() and (use := value.first_use) is not None:
            # The sum with a bias is a piece of the same op.
            larger = self._found(use.operation)
            if larger is not None and larger.probe.name == found.probe.name:
                return None if isinstance(larger.found, Match) else found
        return found

    def _found(self, op: Operation) -> _Raised | None:
        """The composite that `op` is the last piece of; else what it nearly is."""
        near, most = None, 0
        for form in self._of_rank(rank_of(op)) if isinstance(op, NNOp) else ():
            if op.name not in form.roots:
                continue
            probe, found = find(form, op.results[0], self.session)
            if isinstance(found, Match):
                return _Raised(_rescaled(op), probe, found)
            if found.matched > most:
                near, most = _Raised(op, probe, found), found.matched
        return near

    def check(self, match: _Raised) -> Contract | Refusal:
        if isinstance(match.found, Miss):
            reason = f"nearly '{match.probe.name}', but {match.found.reason}"
            return Refusal("nearly", reason)
        return _verdict(self._build(match), match.found, self.session)

    def _build(self, match: _Raised) -> list[Operation]:
        """The op, and before it its constants: those of the probe, and floats that it takes."""
        probe, found, result = match.probe, match.found, match.root.results[0]
        assert isinstance(found, Match)
        behavior, operands = self.session.behaviors.get(probe), list[SSAValue]()
        constants: list[Operation] = []
        for number, operand in enumerate(found.operands):
            port = None if behavior is None else behavior.operand_port(number)
            is_plain = port is not None and port.kind is PortKind.PLAIN
            is_new = isinstance(operand.owner, Operation) and operand.owner.parent is probe.parent
            if (move := found.moves[number]) is not None:
                constants.append(move.written(operand, self.session))
                operand = constants[-1].results[0]
            elif is_new or (is_plain and quant_element(operand.type) is not None):
                array = numbers_of(operand, self.session)
                if array is not None:
                    element = element_type(as_float(operand.type))
                    constants.append(make_constant(array, element, self.session.blobs))
                    operand = constants[-1].results[0]
            operands.append(operand)
        new = type(probe).create(
            operands=operands, result_types=[result.type], properties=dict(probe.properties)
        )
        if "rounding" in new.properties:
            new.properties["rounding"] = StringAttr(rounding_of(match.root).value)
        return [*constants, new]

    def rewrite(self, match: _Raised, rewriter: Rewriter) -> None:
        probe, found, result = match.probe, match.found, match.root.results[0]
        assert isinstance(found, Match)
        *constants, new = self._build(match)
        for constant in constants:
            rewriter.insert(constant, match.root)
        roles = self.session.components[probe.name].roles_of(probe)[:-1]
        pieces = {role: _owner_of(found.piece(role)) for role in roles}
        _keep_types(new, self.session, pieces, match.root)
        if roles and found.types.keys() >= set(roles) and quant_element(result.type) is None:
            hold_types(new, {role: found.types[role] for role in roles})
        rewriter.insert(new, match.root, keep=match.root)
        _keep_keys(new, self.session, match.root, pieces, found.others())
        rewriter.replace(match.root, new.results)


class RaiseRecurrent(Rule[Layer | NearLayer]):
    """The steps of an LSTM or GRU are the layer (`recurrent_matching`).

    Its component qparams are those that all steps share. Exact in the reals; `relaxed` where the
    pieces are rounded on the way.
    """

    name = "raise-recurrent"

    def roots(self) -> Iterable[str]:
        return (ConcatOp.name,)

    def match(self, op: Operation) -> Layer | NearLayer | None:
        assert isinstance(op, ConcatOp)
        return find_layer(op, self.session)

    def check(self, match: Layer | NearLayer) -> Contract | Refusal:
        if isinstance(match, NearLayer):
            return Refusal("nearly", f"nearly '{match.kind.name}', but {match.miss.reason}")
        return _verdict([self._build(match)], match.match, self.session)

    def _build(self, match: Layer) -> Operation:
        types = [value.type for value in match.results]
        new = match.kind.create(
            operands=match.operands, result_types=types, properties=dict(match.properties)
        )
        if "rounding" in new.properties:
            pieces = (op for group in match.pieces.values() for op, _ in group)
            rounds = next(op for op in pieces if "rounding" in op.properties)
            new.properties["rounding"] = StringAttr(rounding_of(rounds).value)
        return new

    def rewrite(self, match: Layer | NearLayer, rewriter: Rewriter) -> None:
        assert isinstance(match, Layer)
        new, session = self._build(match), self.session
        root = match.first_op
        for constant in match.constants:
            rewriter.insert(constant, root)
        components = session.components[new.name]
        roles, results = components.roles_of(new), components.result_roles(new)
        types: dict[str, UniformType | None] = {}
        keys: dict[str, Keys] = {
            OTHERS: tuple(k for op in match.match.others() for k in keys_of(op))
        }
        for role in roles[:-1]:
            pieces = match.pieces[role]
            elements = {
                _result_type(op, session) if inner is None else component_types(op).get(inner)
                for op, inner in pieces
            }
            kind = elements.pop() if len(elements) == 1 else None
            is_inner = any(inner for _, inner in pieces)
            types[role] = kind or (None if is_inner else match.match.types.get(role))
            every = (keys_of(op) if inner is None else role_keys(op, inner) for op, inner in pieces)
            names = (shared_key(key, session.components) for names in every for key in names)
            keys[role] = tuple(dict.fromkeys(names))
        found = {role: kind for role, kind in types.items() if kind is not None}
        if found.keys() >= set(roles[:-1]) - set(results):
            element = _result_type(match.root, session)
            hold_types(new, found if element is None else {**found, roles[-1]: element})
        rewriter.insert(new, root, keep=match.root)
        hold_keys(new, keys)
        for old, result in zip(match.results, new.results, strict=True):
            owner = old.owner
            assert isinstance(owner, Operation)
            rewriter.replace_value(old, result)
            rewriter.erase(owner)


# -- keys and component qparams -----------------------------------------------------------


def _result_type(op: Operation, session: QContext) -> UniformType | None:
    """The qparams of its own result that an op has as component qparams."""
    role = result_role(op, session.components.get(op.name))
    return component_types(op).get(role)


def _keep_types(
    op: Operation, session: QContext, pieces: Mapping[str, Operation | None], result: Operation
) -> None:
    """Give `op`, which takes the place of `result`, the qparams of its pieces and of theirs, if
    those of all its pieces are known."""
    types = _piece_types(pieces, session)
    found = {role: kind for role, kind in types.items() if kind is not None}
    if 0 < len(found) < len(types):
        return
    if found:
        for role in session.components[op.name].inner.keys() & pieces.keys():
            found |= _inner_types(role, pieces[role], session)
    if (element := _result_type(result, session)) is not None:
        found[result_role(op, session.components.get(op.name))] = element
    hold_types(op, found)


def _inner_types(role: str, piece: Operation | None, session: QContext) -> dict[str, UniformType]:
    """What a piece says of its own pieces, as its op does."""
    if piece is None:
        return {}
    result = result_role(piece, session.components.get(piece.name))
    inner = component_types(piece).items()
    return {f"{role}/{name}": kind for name, kind in inner if name != result}


def _owner_of(value: SSAValue | None) -> Operation | None:
    """The op that computes a value, if it has one."""
    return value.owner if value is not None and isinstance(value.owner, Operation) else None


def _keep_keys(
    op: Operation,
    session: QContext,
    root: Operation,
    pieces: Mapping[str, Operation | None],
    others: Iterable[Operation] = (),
) -> None:
    """Give `op`, which takes the place of `root`, the keys of the ops that its pieces were."""
    inner = session.components[op.name].inner
    keys = {role: keys_of(piece) for role, piece in pieces.items() if piece is not None}

    def also(role: str, names: Keys) -> None:
        keys[role] = (*keys.get(role, ()), *names)

    for role, piece in pieces.items():
        for part, names in () if piece is None else all_keys(piece, session.components).items():
            if role in inner and part != OTHERS:
                also(f"{role}/{part}", names)
            else:
                # A piece that is a composite may have pieces of this op: hard-swish's
                # `scaled` is that of the hard-sigmoid in it.
                also(part if part in pieces and pieces[part] is None else OTHERS, names)
    also(OTHERS, given_keys(root).get(OTHERS, ()))
    for other in others:
        also(OTHERS, keys_of(other))
        for names in all_keys(other, session.components).values():
            also(OTHERS, names)
    hold_keys(op, keys)


def _verdict(new: Sequence[Operation], found: Match, session: QContext) -> Contract | Refusal:
    """What becomes of values where the last of `new` takes the place of pieces that were found, and
    why it may not; `new` are erased."""
    op, contract = new[-1], in_reals(new[-1])
    is_exact = not found.is_rounded or _sums_exactly(op, found, session)
    is_mixed = len({quant_element(v.type) is None for v in (op.operands[0], *op.results)}) > 1
    refusal = _refuse_new(op, session)
    erase_new(new)
    if not found.is_closed:
        return Refusal("multi-use", f"a piece of '{op.name}' is also used elsewhere")
    if is_mixed:
        return Refusal("mixed", f"'{op.name}' would take codes and give floats, or the reverse")
    if refusal is None and not is_exact:
        note = "what the pieces were rounded to on the way is not applied"
        contract = Contract(Numerics.RELAXED, inf, note)
    elif found.inexact:
        contract = Contract(Numerics.TIES, note="constants are not exactly the function's")
    return refusal or contract


def _sums_exactly(op: Operation, found: Match, session: QContext) -> bool:
    """Whether all pieces on codes but the result are sums that are not rounded."""
    components = session.components[op.name]
    for role in components.roles_of(op)[:-1]:
        piece = _owner_of(found.piece(role))
        if role not in components.sums or piece is None or not is_accumulator(piece, session):
            return False
    return not found.is_cast


def _refuse_new(op: Operation, session: QContext) -> Refusal | None:
    """Why a new op cannot be: its own rules, or those of the target, which may lower it again."""
    if not session.target.should_raise(op):
        return Refusal("whole", f"{session.target.name} does not run '{op.name}' whole")
    try:
        op.verify_()
    except VerifyException as error:
        return Refusal("types", str(error))
    behavior = session.behaviors.get(op)
    if behavior is None:
        return None
    return refuse_types(session, behavior, op, op.operand_types, op.result_types)


def _stored_type(op: Operation) -> UniformType | None:
    """What the result of an op on codes is rounded to; a sum is not."""
    element = quant_element(op.results[0].type)
    return None if element and element.qparams.storage == Storage.of("i32") else element


def _piece_types(
    pieces: Mapping[str, Operation | None], session: QContext
) -> dict[str, UniformType | None]:
    """The qparams of the results of pieces, by role. A role may be a piece of a piece, as
    hard-swish's `scaled` is of the hard-sigmoid in it: then those which that one has."""
    types = {
        role: op and (_result_type(op, session) or _stored_type(op)) for role, op in pieces.items()
    }
    for piece in pieces.values():
        for role, kind in ({} if piece is None else component_types(piece)).items():
            if role in pieces and pieces[role] is None:
                types[role] = kind
    return types


@dataclass(frozen=True)
class RaiseComposites(RulePass):
    """Composites of their pieces; see the module."""

    name = "raise-composites"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (
            MatMulToFullyConnected(session),
            RaiseFunction(session),
            RaiseRecurrent(session),
        )
