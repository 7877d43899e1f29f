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
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.analysis.codes import constant_values, qparams_of, rounding_of
from qdialect.behaviors import Accumulator, PortKind
from qdialect.behaviors.shapes import DYNAMIC, shape_of, tensor_type
from qdialect.context import QContext
from qdialect.numerics.contract import Contract, Numerics
from qdialect.ops import (
    AddOp,
    ConcatOp,
    ConstantOp,
    FullyConnectedOp,
    MatMulOp,
    NNOp,
    ReshapeOp,
    constant_array,
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
from qdialect.ops.keys import KEY, PIECE_KEYS, QPARAMS
from qdialect.ops.movement import UnsqueezeOp
from qdialect.passes.importing.component_matching import Match, Miss, as_float, find, numbers_of
from qdialect.passes.importing.composite_probes import PROBES
from qdialect.passes.importing.recurrent_matching import Layer, find_layer
from qdialect.passes.lowering.lower_composites import is_accumulator
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_types
from qdialect.qparams import Storage
from qdialect.quant import DCastOp, RescaleOp, UniformType, element_type, quant_element
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


@dataclass(frozen=True)
class _BiasedMatMul:
    product: Operation
    add: Operation
    bias: SSAValue


class MatMulToFullyConnected(Rule[_BiasedMatMul]):
    """matmul(x, w) + b = fully_connected(x, w transposed) + b, for a constant matrix w.

    The rows of an x of more dimensions are counted through first:

        matmul(x, w) + b  =  reshape(fully_connected(reshape(x), w transposed) + b)

    which takes one unknown extent in front of the last at most: a reshape back has to say all
    others. Exact in the reals. `RaiseBias` then moves the bias into the op.
    """

    name = "matmul-to-fully-connected"

    def roots(self) -> Iterable[str]:
        return (MatMulOp.name,)

    def match(self, op: Operation) -> _BiasedMatMul | None:
        use = op.results[0].first_use
        if use is None or not op.results[0].has_one_use():
            return None
        add = use.operation
        return (
            _BiasedMatMul(op, add, add.operands[1 - use.index]) if isinstance(add, AddOp) else None
        )

    def check(self, match: _BiasedMatMul) -> Contract | Refusal:
        lhs, rhs = match.product.operands
        result = match.product.results[0]
        if any(qparams_of(v) for v in (lhs, rhs, result)):
            return Refusal("quantized", "only float products have their weight transposed")
        if len(shape_of(lhs)) < 2 or len(shape_of(rhs)) != 2:
            return Refusal("rank", "a fully connected op takes rows and a matrix")
        bias = shape_of(match.bias)
        if prod(bias) != shape_of(rhs)[1] or bias[-1:] != shape_of(rhs)[1:]:
            return Refusal("shape", "what is added is not one number per output channel")
        if any(constant_values(v, self.session) is None for v in (rhs, match.bias)):
            return Refusal("weight", "the weight or the bias is no constant")
        if len(shape_of(lhs)) > 2:
            if shape_of(match.add.results[0]) != shape_of(result):
                return Refusal("shape", "the sum has another shape than the product")
            if shape_of(lhs)[:-1].count(DYNAMIC) > 1 or 0 in shape_of(lhs):
                return Refusal("dynamic-shape", "the rows cannot be counted through and back")
        return in_reals(match.add)

    def rewrite(self, match: _BiasedMatMul, rewriter: Rewriter) -> None:
        product, lhs = match.product, match.product.operands[0]
        constant = constant_of(product.operands[1])
        assert constant is not None
        array = constant_array(constant, self.session.blobs).T
        element = tensor_type(product.operands[1]).element_type
        weight = make_constant(array.copy(), element, self.session.blobs)
        rewriter.insert(weight, product, keep=constant)
        rows = lhs
        if len(shape_of(lhs)) > 2:
            shaped = ReshapeOp(lhs, (-1, shape_of(lhs)[-1]))
            rewriter.insert(shaped, product)
            rows = shaped.results[0]
        new = FullyConnectedOp(rows, weight)
        if (qparams := product.attributes.get(QPARAMS)) is not None:
            new.attributes[QPARAMS] = qparams
        rewriter.insert(new, product, keep=product)
        if rows is lhs:
            rewriter.replace(product, new.results)
        else:
            self._shape_back(match, new, rewriter)

    def _shape_back(self, match: _BiasedMatMul, new: Operation, rewriter: Rewriter) -> None:
        """The bias is added to the rows; the sum keeps its key, and then has its shape."""
        add, bias = match.add, match.bias
        if len(shape_of(bias)) > 1:
            constant = constant_of(bias)
            assert constant is not None
            array = constant_array(constant, self.session.blobs).reshape(-1)
            vector = make_constant(array, tensor_type(bias).element_type, self.session.blobs)
            rewriter.insert(vector, add, keep=constant)
            bias = vector.result
        total = AddOp(new, bias)
        for name in (KEY, QPARAMS):
            if (attribute := add.attributes.get(name)) is not None:
                total.attributes[name] = attribute
        total.location = add.location
        rewriter.insert(total, add)
        shape = [-1 if extent == DYNAMIC else extent for extent in shape_of(add.results[0])]
        back = ReshapeOp(total, shape)
        rewriter.insert(back, add)
        rewriter.check_inserted()
        for name in (KEY, QPARAMS):
            add.attributes.pop(name, None)
        rewriter.replace(add, back.results)


@dataclass(frozen=True)
class _Biased:
    add: Operation
    product: Operation
    acc: Accumulator
    bias: SSAValue

    @property
    def root(self) -> Operation:
        """The op that gives the result: the sum, or what rescales it."""
        return _rescaled(self.add)


def _rescaled(op: Operation) -> Operation:
    """What gives the result of `op` the qparams that it is to have, and so has its key."""
    use = op.results[0].first_use
    if use is None or not op.results[0].has_one_use() or KEY in op.attributes:
        return op
    return use.operation if isinstance(use.operation, RescaleOp) else op


class RaiseBias(Rule[_Biased]):
    """op(x, w) + b = op(x, w, b), for a contraction op that takes a bias."""

    name = "raise-bias"

    def roots(self) -> Iterable[str]:
        return (AddOp.name,)

    def match(self, op: Operation) -> _Biased | None:
        for one, other in ((0, 1), (1, 0)):
            product = op.operands[one].owner
            behavior = None
            if isinstance(product, NNOp):
                behavior = self.session.behaviors.get(product)
            acc = None if behavior is None else behavior.accumulator
            if acc is None or acc.bias is None or not isinstance(product, NNOp):
                continue
            if len(product.operands) == acc.bias:
                return _Biased(op, product, acc, op.operands[other])
        return None

    def check(self, match: _Biased) -> Contract | Refusal:
        product, bias = match.product, match.bias
        if not product.results[0].has_one_use():
            return Refusal("multi-use", "the product is also used without the bias")
        if shape_of(match.add.results[0]) != shape_of(product.results[0]):
            return Refusal("shape", "the sum has another shape than the product")
        quantized = qparams_of(product.results[0]) is not None
        if quantized != (qparams_of(match.add.results[0]) is not None):
            return Refusal("mixed", "floats and codes meet in the sum")
        if quantized and not is_accumulator(product, self.session):
            return Refusal("rounded", "the product is rounded before the bias is added")
        if not quantized and qparams_of(bias) is not None:
            return Refusal("mixed", "a bias of codes on floats")
        new = self._build(match)
        if new is None:
            return Refusal("shape", "what is added is not one number per output channel")
        refusal = _refuse_new(new[-1], self.session)
        erase_new(new)
        return refusal or in_reals(match.add)

    def _build(self, match: _Biased) -> list[Operation] | None:
        """The op with a bias, and before it the vector if that has to be new."""
        product, bias = match.product, match.bias
        result = product.results[0]
        axis = match.acc.result_axis(product)
        channels = shape_of(result)[axis]
        column = (channels, *(1,) * (len(shape_of(result)) - axis - 1))
        shape = shape_of(bias)
        if channels == DYNAMIC or shape[-len(column) :] != column or prod(shape) != channels:
            return None
        new: list[Operation] = []
        if len(shape) > 1:
            vector = self._vector(bias, channels)
            if vector is None:
                return None
            if isinstance(vector, Operation):
                new.append(vector)
                vector = vector.results[0]
            bias = vector
        operands = [*product.operands, bias]
        new.append(retyped(product, operands, [match.root.results[0].type]))
        new[-1].attributes.pop(KEY, None)
        new[-1].attributes.pop(QPARAMS, None)
        if "rounding" in new[-1].properties:
            new[-1].properties["rounding"] = StringAttr(rounding_of(match.root).value)
        roles = self.session.components[product.name].roles_of(new[-1])
        _keep_types(new[-1], self.session, {roles[0]: product}, match.root)
        new[-1].attributes.pop(PIECE_KEYS, None)
        return new

    def _vector(self, bias: SSAValue, channels: int) -> SSAValue | Operation | None:
        """A column as a vector: a value, or the op that makes it."""
        owner = bias.owner
        if isinstance(owner, DCastOp) and constant_of(owner.input) is not None:
            return ReshapeOp(bias, (channels,))
        if isinstance(owner, UnsqueezeOp) and shape_of(owner.operands[0]) == (channels,):
            return owner.operands[0]
        constant, params = constant_of(bias), qparams_of(bias)
        if constant is None or (params is not None and not params.is_per_tensor):
            return None
        array = constant_array(constant, self.session.blobs).reshape(channels)
        return make_constant(array, tensor_type(bias).element_type, self.session.blobs)

    def rewrite(self, match: _Biased, rewriter: Rewriter) -> None:
        new = self._build(match)
        assert new is not None
        for op in new[:-1]:
            rewriter.insert(op, match.root, keep=constant_of(match.bias))
        rewriter.insert(new[-1], match.root, keep=match.root)
        roles = self.session.components[match.product.name].roles_of(new[-1])
        _keep_keys(new[-1], self.session, match.root, {roles[0]: match.product})
        rewriter.replace(match.root, new[-1].results)


@dataclass(frozen=True)
class _Raised:
    root: Operation
    probe: NNOp
    found: Match | Miss


class RaiseFunction(Rule[_Raised]):
    """The pieces of a composite, found by its declaration, are the composite."""

    name = "raise-function"

    def roots(self) -> Iterable[str]:
        return tuple(PROBES)

    def match(self, op: Operation) -> _Raised | None:
        result, near, most = op.results[0], None, 0
        for kind, operands, properties in PROBES[op.name](op, self.session):
            constants = [each for each in operands if isinstance(each, ConstantOp)]
            types = [as_float(each) for each in operands if isinstance(each, Attribute)]
            block = Block(constants, arg_types=types)
            arguments = iter(block.args)
            values = [o.result if isinstance(o, ConstantOp) else next(arguments) for o in operands]
            try:
                probe = kind(*values, **properties)
            except VerifyException:
                continue  # the pieces broadcast, or have shapes that the op does not take
            block.add_op(probe)
            found = find(probe, block, result, self.session)
            if isinstance(found, Match) and probe.results[0].type == as_float(result.type):
                return _Raised(_rescaled(op), probe, found)
            if isinstance(found, Miss) and found.matched > most:
                near, most = _Raised(op, probe, found), found.matched
        return near

    def check(self, match: _Raised) -> Contract | Refusal:
        if isinstance(match.found, Miss):
            reason = f"no '{match.probe.name}', though nearly: {match.found.reason}"
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
            is_codes = quant_element(operand.type) is not None
            is_new = isinstance(operand.owner, Operation) and operand.owner.parent is probe.parent
            if is_new or (is_codes and port is not None and port.kind is PortKind.PLAIN):
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


class RaiseRecurrent(Rule[Layer]):
    """The steps of an LSTM or GRU are the layer (`recurrent_matching`).

    Its component qparams are those that all steps share. Exact in the reals; `relaxed` where the
    pieces are rounded on the way.
    """

    name = "raise-recurrent"

    def roots(self) -> Iterable[str]:
        return (ConcatOp.name,)

    def match(self, op: Operation) -> Layer | None:
        assert isinstance(op, ConcatOp)
        return find_layer(op, self.session)

    def check(self, match: Layer) -> Contract | Refusal:
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

    def rewrite(self, match: Layer, rewriter: Rewriter) -> None:
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
            types[role] = kind or match.match.types.get(role)
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
    refusal = _refuse_new(op, session)
    erase_new(new)
    if not found.is_closed:
        return Refusal("multi-use", f"a piece of '{op.name}' is also used elsewhere")
    if refusal is None and found.is_rounded:
        note = "what the pieces were rounded to on the way is not applied"
        contract = Contract(Numerics.RELAXED, inf, note)
    elif found.inexact:
        contract = Contract(Numerics.TIES, note="constants are not exactly the function's")
    return refusal or contract


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
            RaiseBias(session),
            RaiseFunction(session),
            RaiseRecurrent(session),
        )
