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

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, prod

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import Storage
from qdialect.analysis.codes import constant_values, qparams_of, rounding_of
from qdialect.ir.behaviors import PortKind
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import (
    AddOp,
    ConcatOp,
    MatMulOp,
    NNOp,
    ReshapeOp,
    constant_of,
    keys_of,
    make_constant,
)
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
from qdialect.ir.ops.keys import KEY, QPARAMS
from qdialect.ir.quant import UniformType, element_type, quant_element
from qdialect.passes.importing.component_matching import (
    Match,
    Miss,
    Move,
    as_float,
    find,
    is_new,
    numbers_of,
    rounded,
    unrounded,
)
from qdialect.passes.importing.composite_forms import Form, forms_of, rank_of
from qdialect.passes.importing.recurrent_matching import find_layer
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
