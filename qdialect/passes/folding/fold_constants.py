"""Evaluate ops on constants, without knowing any op: all from declarations.

    f(constant, ..)                  -> constant              f moves elements: qparams
                                        tracked by sigma o phi (law 2.2), integers copied
    op(constant, ..)                 -> constant              exact rationals on quantized
                                        tensors, their own type on floats
    f(dequantize(constant), ..)      -> dequantize(constant)  so a weight behind reshape and
                                        transpose ends as a plain quantized constant
    rescale, quantize, storage cast of a constant             -> constant
                                        a float weight of a contraction becomes a constant
                                        at `ties` only: runtimes pack constant weights and
                                        sum them in another order
    dequantize(constant)             -> float constant        only with `dequantize`; where `most`
                                        is no 0 of up to so many elements, not in blocks, and not
                                        weights of products nor biases that are added in integers

A folded constant takes the location and the key of the op whose value it is, so that
profiles match however early or late folding happens. Constants are values: the old one
stays for its other users. No constant grows beyond `max-growth` times its operands (and 1 024
elements).

For example

    %a = nn.constant dense<[1, 2]> : tensor<2xi8> : !half
    %b = nn.constant dense<[3]> : tensor<1xi8> : !quarter
    %0 = nn.add %a, %b {nn.key = "sum"} : (!half, !quarter) -> !sum

becomes

    %0 = nn.constant dense<[10, 15]> : tensor<2xi8> {nn.key = "sum"} : !sum
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.dialects.builtin import AnyFloat, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator

from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.qparams import Layout, QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps import IndexMap
from qdialect.algebra.qparams.parameter_field import ParameterField, within_growth
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.flow import carry_all_down, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import KEY, ConstantOp, constant_of, keys_of, make_constant, shape_of
from qdialect.ir.ops.constants import signless
from qdialect.ir.ops.ports import bias_matches
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import (
    ConversionOp,
    DCastOp,
    SCastOp,
    arithmetic_at,
    arithmetic_of,
    element_type,
    quant_element,
)
from qdialect.passes.casts.cast_rules import QuantizeOfConstant
from qdialect.passes.folding import constant_evaluation as evaluation
from qdialect.passes.folding.constant_evaluation import Array
from qdialect.passes.pair_contract import in_reals, replaced_kernel
from qdialect.passes.rescale.fold_rescale import RescaleOfConstant
from qdialect.passes.rule_pass import RulePass, dequantized, with_qparams
from qdialect.rewrite import Refusal, Rewriter, Rule
from qdialect.rewrite.effects import is_effect_free

FLOOR = 1024
"""A constant of at most this many elements may grow from one of any size."""


@dataclass
class _Fold:
    """An op on constants; `arrays` are its results once `check` has computed them."""

    op: Operation
    behavior: Behavior
    #: per operand the constant behind it, through a dequantize or not
    sources: list[SSAValue]
    arrays: list[Array] = field(default_factory=list[Array])
    params: list[QParams] = field(default_factory=list[QParams])


def result_refusal(op: Operation, sources: Sequence[SSAValue], max_growth: float) -> Refusal | None:
    """Why the results of `op` cannot or should not be constants, or None."""
    for result in op.results:
        if DYNAMIC in shape_of(result):
            return Refusal("dynamic-shape", "the type of the result is not static")
        if not evaluation.can_hold(result.type):
            return Refusal("dtype", f"no constants of type {element_type(result.type)}")
    before = sum(prod(shape_of(source)) for source in sources)
    after = sum(prod(shape_of(result)) for result in op.results)
    limit = max(FLOOR, max_growth * before)
    if after > limit:
        return Refusal("growth", f"{before} elements become {after}, the cap is {limit:g}")
    return None


PACKED = Contract(Numerics.TIES, note="floats sum in another order where a weight is a constant")


def is_packed(value: SSAValue, session: QContext) -> bool:
    """Whether a float is the weight of a contraction, or read by an op that nobody knows, in a
    module of floats: a runtime that packs constant weights sums in another order."""
    if quant_element(value.type) is not None or not isinstance(element_type(value.type), AnyFloat):
        return False
    if value.first_use is None or arithmetic_at(value) is Arithmetic.REAL:
        return False
    return any(_packs(use.operation, use.index, session) for use in value.uses)


def _packs(user: Operation, index: int, session: QContext) -> bool:
    behavior = session.behaviors.get(user)
    if behavior is None:
        return not isinstance(user, ConversionOp) and not user.has_trait(IsTerminator)
    if behavior.accumulator is not None:
        return behavior.accumulator.rhs == index
    return behavior.operand_port(index).channels is not None


class _FoldRule(Rule[_Fold]):
    """Common to the rules that fold an op with a declaration."""

    def __init__(self, session: QContext, max_growth: float) -> None:
        super().__init__(session)
        self.max_growth = max_growth

    def wants(self, behavior: Behavior) -> bool:
        """Whether the rule is about ops with this declaration."""
        raise NotImplementedError

    def source(self, value: SSAValue) -> SSAValue | None:
        """The constant that operand `value` is read from."""
        return value if constant_of(value) is not None else None

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(self.wants)

    def match(self, op: Operation) -> _Fold | None:
        sources: list[SSAValue] = []
        for operand in op.operands:
            source = self.source(operand)
            if source is None:
                return None
            sources.append(source)
        if not sources or not op.results or op.regions or not is_effect_free(op):
            return None
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        return _Fold(op, behavior, sources)

    def check(self, match: _Fold) -> Contract | Refusal:
        refusal = result_refusal(match.op, match.sources, self.max_growth)
        if refusal:
            return refusal
        arrays = evaluation.read_all(match.sources, self.session)
        if isinstance(arrays, Refusal):
            return arrays
        results = self.evaluate(match, arrays)
        if isinstance(results, Refusal):
            return results
        match.arrays = results
        return self.contract(match)

    def evaluate(self, match: _Fold, arrays: Sequence[Array]) -> list[Array] | Refusal:
        """The stored values of the results."""
        raise NotImplementedError

    def contract(self, match: _Fold) -> Contract:
        """What folding may change."""
        packed = any(is_packed(result, self.session) for result in match.op.results)
        return PACKED if packed else replaced_kernel(match.op, EXACT)

    def rewrite(self, match: _Fold, rewriter: Rewriter) -> None:
        results: list[SSAValue] = []
        for index, array in enumerate(match.arrays):
            element = element_type(match.op.results[index].type)
            results.append(self.insert(match.op, index, array, element, rewriter).result)
        rewriter.replace(match.op, results)

    def insert(
        self, op: Operation, index: int, array: Array, element: Attribute, rewriter: Rewriter
    ) -> ConstantOp:
        """A constant in place of result `index` of `op`, with its location and key."""
        constant = make_constant(array, element, self.session.blobs)
        if index:
            constant.attributes.update(_numbered_key(op, index))
        rewriter.insert(constant, op, keep=op)
        return constant


def _numbered_key(op: Operation, index: int) -> dict[str, Attribute]:
    """The key of a result after the first: the op's with the number, as importers name it."""
    keys = keys_of(op)
    return {KEY: StringAttr(f"{keys[0]}_{index}")} if keys else {}


class FoldMovement(_FoldRule):
    """f(constant, ..) = constant for a movement f; see the module."""

    name = "fold-movement"

    def wants(self, behavior: Behavior) -> bool:
        """Ops that move elements."""
        return behavior.movement is not None

    def evaluate(self, match: _Fold, arrays: Sequence[Array]) -> list[Array] | Refusal:
        """Stored values moved, or dequantized and quantized where operands have unequal qparams."""
        op, behavior = match.op, match.behavior
        try:
            verbatim = evaluation.agrees(op, behavior, arrays)
        except ValueError as error:
            return Refusal("shape", str(error))
        if isinstance(verbatim, Refusal):
            return verbatim
        if verbatim:
            return evaluation.move(op, behavior, match.sources, arrays)
        if behavior.requantizes_inputs:
            return evaluation.mix(op, behavior, arrays)
        return Refusal("storage-mismatch", "the result's qparams are not those of the operands")


class FoldArithmetic(_FoldRule):
    """op(constant, ..) = constant by the meaning of op; see the module."""

    name = "fold-arithmetic"

    def wants(self, behavior: Behavior) -> bool:
        """Ops that compute."""
        return behavior.movement is None

    def evaluate(self, match: _Fold, arrays: Sequence[Array]) -> list[Array] | Refusal:
        """The value of the one result."""
        if len(match.op.results) != 1:
            return Refusal("unsupported", "several results")
        result = evaluation.compute(match.op, match.behavior, arrays)
        return result if isinstance(result, Refusal) else [result]

    def contract(self, match: _Fold) -> Contract:
        """`ties` where runtimes may round in another order."""
        behavior, op = match.behavior, match.op
        floats = all(quant_element(v.type) is None for v in op.results)
        ordered = behavior.commutes or behavior.on_stored or behavior.select
        on_codes = not floats and not ordered and arithmetic_of(op) is Arithmetic.EXPRESSED
        if on_codes and not evaluation.rounds_each_step(op, behavior):
            return in_reals(op)
        several = behavior.pointwise or behavior.transcendental or behavior.work
        if floats and several and not behavior.select:
            note = "a float function of several roundings"
            return Contract(Numerics.TIES, note=note)
        return super().contract(match)


def _rounds_border(movement: IndexMap, params: QParams) -> bool:
    """Whether (q - z) * s, evaluated in the expressed type, may miss a border's value."""
    return movement.border_value != 0 and any(
        scale != round_to_format(scale, params.expressed) for scale in params.scale_list()
    )


class FoldBehindDequantize(_FoldRule):
    """f(dequantize(constant), ..) = dequantize(constant) for a movement f; see the module."""

    name = "fold-behind-dequantize"

    def wants(self, behavior: Behavior) -> bool:
        """Ops that move elements."""
        return behavior.movement is not None

    def source(self, value: SSAValue) -> SSAValue | None:
        """The constant that operand `value` is dequantized from, or itself."""
        cast = dequantized(value)
        return super().source(cast.input if cast is not None else value)

    def match(self, op: Operation) -> _Fold | None:
        found = super().match(op)
        if found is None:
            return None
        tied = tied_operands(op, found.behavior)
        casts = [dequantized(op.operands[i]) for i in tied]
        return found if tied and all(cast is not None for cast in casts) else None

    def evaluate(self, match: _Fold, arrays: Sequence[Array]) -> list[Array] | Refusal:
        """The codes moved; `match.params` gets the qparams of the results."""
        op, tied = match.op, tied_operands(match.op, match.behavior)
        params = [q for i in tied if (q := qparams_of(match.sources[i])) is not None]
        if len(params) != len(tied):
            return Refusal("dtype", "a dequantized constant has no known qparams")
        try:
            carried = carry_all_down(op, match.behavior, params)
        except ValueError as error:
            return Refusal("shape", str(error))
        if isinstance(carried, Illegal):
            return Refusal(carried.code, carried.reason)
        before = [
            ParameterField.of(q, shape_of(op.operands[i]))
            for q, i in zip(params, tied, strict=True)
        ]
        for qparams, result in zip(carried, op.results, strict=True):
            after = ParameterField.of(qparams, shape_of(result))
            grown = within_growth(before, after, constant=True, cap=int(self.max_growth))
            if isinstance(grown, Illegal):
                return Refusal(grown.code, grown.reason)
        if any(map(_rounds_border, evaluation.known_maps(op, match.behavior, arrays), params)):
            return Refusal("pad-value", "dequantizing the border would round")
        match.params = carried
        return evaluation.move(op, match.behavior, match.sources, arrays)

    def contract(self, match: _Fold) -> Contract:
        """The result is dequantized as it was: no weight becomes a constant."""
        return replaced_kernel(match.op, EXACT)

    def rewrite(self, match: _Fold, rewriter: Rewriter) -> None:
        op = match.op
        results: list[SSAValue] = []
        for index, (array, qparams) in enumerate(zip(match.arrays, match.params, strict=True)):
            kind = with_qparams(op.results[index], qparams)
            constant = self.insert(op, index, array, element_type(kind), rewriter)
            cast = DCastOp(constant.result, op.results[index].type)
            if index:
                cast.attributes.update(_numbered_key(op, index))
            rewriter.insert(cast, op, keep=op)
            results.append(cast.result)
        rewriter.replace(op, results)


class _CastRule(Rule[Operation]):
    """Common to the casts of one constant."""

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self.array: Array | None = None

    def match(self, op: Operation) -> Operation | None:
        return op if constant_of(op.operands[0]) is not None else None

    def check(self, match: Operation) -> Contract | Refusal:
        refusal = result_refusal(match, match.operands, 1.0)
        if refusal:
            return refusal
        stored = evaluation.read(match.operands[0], self.session)
        if isinstance(stored, Refusal):
            return stored
        result = self.cast(match, stored)
        if isinstance(result, Refusal):
            return result
        self.array = result
        return EXACT

    def cast(self, op: Operation, stored: Array) -> Array | Refusal:
        """The stored value of the result."""
        raise NotImplementedError

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        assert self.array is not None
        element = element_type(match.results[0].type)
        constant = make_constant(self.array, element, self.session.blobs)
        keep = match if KEY in match.attributes else constant_of(match.operands[0])
        rewriter.insert(constant, match, keep=keep)
        rewriter.replace(match, [constant.result])


class StorageCastOfConstant(_CastRule):
    """scast(constant) = constant: the same bits under another type."""

    name = "storage-cast-of-constant"
    root = SCastOp.name

    def cast(self, op: Operation, stored: Array) -> Array | Refusal:
        """The same bits, signless."""
        params = qparams_of(op.operands[0])
        if params is None or stored.dtype.kind != "u":
            return stored
        return signless(stored, params.storage.width)


class DequantizeOfConstant(_CastRule):
    """dequantize(constant) = float constant, as ONNX DequantizeLinear computes it."""

    name = "dequantize-of-constant"
    root = DCastOp.name

    def __init__(self, session: QContext, most: int) -> None:
        super().__init__(session)
        self.most = most

    def check(self, match: Operation) -> Contract | Refusal:
        elements = prod(shape_of(match.operands[0]))
        if 0 < self.most < elements:
            return Refusal("size", f"{elements} elements would be floats, the cap is {self.most}")
        params = qparams_of(match.operands[0])
        if self.most and params is not None and params.layout is Layout.BLOCK:
            return Refusal("blocks", "weights in blocks are codes for the sake of their size")
        if self.most and any(self._is_weight(value) for value in self._moved(match.results[0])):
            return Refusal("weight", "weights of products are codes for the sake of their size")
        if self.most and self._is_summed(match):
            return Refusal("bias", "a bias in an integer kernel is added to its sums")
        found = super().check(match)
        packed = any(is_packed(value, self.session) for value in self._moved(match.results[0]))
        return PACKED if found == EXACT and packed else found

    def _moved(self, value: SSAValue) -> Iterator[SSAValue]:
        pending = [value]
        while pending:
            current = pending.pop()
            yield current
            for use in current.uses:
                behavior = self.session.behaviors.get(use.operation)
                if behavior is not None and behavior.movement is not None:
                    pending += use.operation.results

    def _is_weight(self, value: SSAValue) -> bool:
        accumulators = [(self._accumulator(u.operation), u.index) for u in value.uses]
        return any(acc is not None and acc.rhs == index for acc, index in accumulators)

    def _is_summed(self, match: Operation) -> bool:
        """Whether a dequantized bias is on the scale of the sums of a product of dequantized
        codes that the target runs in integers."""
        for use in match.results[0].uses:
            op, acc = use.operation, self._accumulator(use.operation)
            if acc is None or acc.bias != use.index or self.session.target.at_load(op):
                continue
            sides = [dequantized(op.operands[n]) for n in (acc.lhs, acc.rhs)]
            x, w = (qparams_of(side.input) if side is not None else None for side in sides)
            bias = qparams_of(match.operands[0])
            if x is None or w is None or bias is None:
                continue
            if bias_matches(x, w, bias, acc.repeats(op)):
                return True
        return False

    def _accumulator(self, op: Operation) -> Accumulator | None:
        behavior = self.session.behaviors.get(op)
        return None if behavior is None else behavior.accumulator

    def cast(self, op: Operation, stored: Array) -> Array | Refusal:
        """(q - z) * s in the expressed type."""
        return evaluation.dequantize(stored, op.operands[0])


@dataclass(frozen=True)
class FoldConstants(RulePass):
    """Evaluate ops on constants; see the module."""

    name = "fold-constants"

    max_growth: float = 4.0
    dequantize: bool = False
    most: int = 0

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (
            FoldMovement(session, self.max_growth),
            FoldArithmetic(session, self.max_growth),
            FoldBehindDequantize(session, self.max_growth),
            RescaleOfConstant(session),
            QuantizeOfConstant(session),
            StorageCastOfConstant(session),
            *((DequantizeOfConstant(session, self.most),) if self.dequantize else ()),
        )
