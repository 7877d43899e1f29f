"""Write composite ops as their pieces, where the target does not run them whole.

The declaration of an op says which pieces it has (`qdialect.ir.ops.components`). Pieces inherit
keys and component qparams (`nn.qparams`), so that a piece that is a composite itself finds its own
when it is lowered. On floats this is exact in the reals (`ties` where a constant such as sqrt(1/2)
is rounded to a float). On quantized operands each piece is a quantized op:

    a product that is still being summed   i32, scale = product of the scales, zero point 0
    the sum with a bias on that scale      the same, then one rescale
    any other piece                        its component qparams, the last: the result's

which is exact where nothing is rounded in between,

    q(x @ w + b)  =  rescale((x @ w) + b)      sums of integers, in 32 bits

and `relaxed` where pieces have qparams of their own, which round and clip. Without component
qparams such an op stays whole: the range of its result is not that of its pieces. Constants become
quantized constants that are exactly the same numbers, with a scale per number where there are
several.

For example

    %b = nn.constant dense<[100, -7]> : tensor<2xi32> : !b
    %0 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y

becomes

    %b = nn.constant dense<[100, -7]> : tensor<2xi32> : !b
    %1 = nn.fully_connected %x, %w {nn.key = "fc/matmul"} : (!x, !w) -> !sums
    %2 = nn.add %1, %b : (!sums, !b) -> !sums
    %0 = quant.rescale %2 {nn.key = "fc"} : !sums to !y
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.ranges import Interval
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.contractions import sums_of
from qdialect.analysis.ranges import ranges
from qdialect.errors import UsageError
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.declaration import Size
from qdialect.ir.behaviors.flow import carry_down, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import AddOp, make_constant
from qdialect.ir.ops.component_qparams import (
    component_types,
    hold_types,
    qparams_refusal,
    result_role,
)
from qdialect.ir.ops.components import Components, NoPiecesError, Pieces, built
from qdialect.ir.quant import RescaleOp, UniformType, quant_element, with_element
from qdialect.passes.constant_scalars import exact_scalar
from qdialect.passes.importing.component_matching import numbers_of
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_types
from qdialect.rewrite import Refusal, Rewriter, Rule
from qdialect.rewrite.refused import refused_by_target
from qdialect.rewrite.rewriter import set_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALL = "all"
_MAX = 2**31 - 1


@dataclass(kw_only=True)
class PiecePlan(Pieces):
    """The pieces of `op`, in program order but in no block yet, and the values of its results."""

    session: QContext
    components: Components
    rounding: Rounding
    ops: list[Operation] = field(default_factory=list[Operation])
    results: Sequence[SSAValue] = ()
    #: values that are accumulators, and what bounds their codes
    sums: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def __post_init__(self) -> None:
        self.quantized = qparams_of(self.op.results[0]) is not None
        self.types = component_types(self.op)
        self.roles = self.components.roles_of(self.op)
        roles = self.components.result_roles(self.op)
        for role, result in zip(roles, self.op.results, strict=True):
            if (element := quant_element(result.type)) is not None:
                self.types[role] = element

    # -- what a declaration calls ---------------------------------------------

    def add(self, role: str, piece: Operation) -> SSAValue:
        """The result of a piece, quantized where the op is."""
        if self.quantized:
            self._append(piece)
            self._transfer(role, piece, result=role in self.components.sums)
            return self._quantized(role, piece)
        self._transfer(role, piece, result=True)
        return super().add(role, piece)

    def emit(self, op: Operation) -> SSAValue:
        """The result of an op of no role, which keeps the qparams of its operands."""
        value = self._append(op)
        if any(quant_element(operand.type) is not None for operand in op.operands):
            self._set_element(op, self._carried(op))
        return value

    def constant(self, array: NDArray[np.float64]) -> SSAValue:
        """Numbers as a constant: of floats, or of codes that are exactly these."""
        if not self.quantized:
            return super().constant(array)
        numbers = self.rounded(array, self._expressed()).astype("f8")
        return self.emit(_exact_constant(numbers, self._expressed(), self.session))

    def array(self, value: SSAValue) -> NDArray[np.float64] | None:
        """The numbers of a constant operand, of codes too, or of a dequantized constant."""
        found = numbers_of(value, self.session)
        return None if found is None else found.astype("f8")

    def plain(self, value: SSAValue) -> SSAValue:
        """A float operand as one of the pieces takes it."""
        if not self.quantized:
            return value
        array = self.array(value)
        if array is None:
            raise NoPiecesError("constants", "an operand that is not constant has no codes")
        return self.constant(array)

    def alike(self, value: SSAValue, model: SSAValue) -> SSAValue:
        """A value rescaled to the qparams of `model`."""
        element = quant_element(model.type)
        if element is None or quant_element(value.type) == element:
            return value
        return self._append(RescaleOp(value, with_element(value.type, element), self.rounding))

    # -- quantized pieces --------------------------------------------------------

    def _quantized(self, role: str, piece: Operation) -> SSAValue:
        if role in self.components.sums:
            return self.put(role, piece, self._accumulated(piece))
        behavior = self.session.behaviors.get(piece)
        element = self.types.get(self.roles[-1] if role in self.components.as_result else role)
        if element is None:
            raise NoPiecesError("component-qparams", f"nn.qparams says nothing of '{role}'")
        is_behind = self.components.as_result and role not in self.components.as_result
        if is_behind and not (behavior and behavior.commutes):
            raise NoPiecesError("rounding", f"'{piece.name}' does not commute with rounding")
        total = self._sum_type(piece)
        if total is None and "rounding" in piece.properties:
            piece.properties["rounding"] = StringAttr(self.rounding.value)
        tied = behavior is not None and behavior.is_tied
        self._set_element(piece, total or (self._carried(piece) if tied else element))
        value = piece.results[0]
        if quant_element(value.type) != element:
            rescale = RescaleOp(value, with_element(value.type, element), self.rounding)
            value = self._append(rescale)
        return self.put(role, cast("Operation", value.owner), value)

    def _append(self, op: Operation) -> SSAValue:
        op.location = self.op.location
        self.ops.append(op)
        return op.results[0]

    def _accumulated(self, piece: Operation) -> SSAValue:
        """Integer products summed without rounding, if 32 bits hold them."""
        behavior = self.session.behaviors.get(piece)
        acc = None if behavior is None else behavior.accumulator
        if behavior is None:
            raise NoPiecesError("accumulator", f"nothing says what '{piece.name}' sums")
        if acc is None:
            largest, params = _sum_of_elements(self.session, piece, behavior)
        else:
            largest = _largest_sum(self.session, piece, behavior, acc)
            params = _sum_qparams(piece, acc)
        if not params.is_expressible:
            raise NoPiecesError(
                "scale", f"the scale of a sum leaves the range of {params.expressed}"
            )
        if largest > _MAX:
            raise NoPiecesError("overflow", "a sum may leave 32 bits")
        self._set_element(piece, UniformType(params))
        value = piece.results[0]
        self.sums[value] = largest
        return value

    def _sum_type(self, piece: Operation) -> UniformType | None:
        """What an accumulator and something on its scales add up to, in 32 bits."""
        if not isinstance(piece, AddOp) or piece.operands[0] not in self.sums:
            return None
        total, other = (qparams_of(v) for v in piece.operands)
        if total is None or other is None or other.storage != total.storage:
            return None
        if any(other.zero_point_list()) or other.scale_list() != total.scale_list():
            return None
        codes = ranges(self.session).of(_source(piece.operands[1]))
        if codes is None:
            return None
        largest = self.sums[piece.operands[0]] + max(abs(int(codes.low)), abs(int(codes.high)))
        return UniformType(total) if largest <= _MAX else None

    def _carried(self, op: Operation) -> UniformType:
        """What an op with tied ports makes of its operands."""
        behavior = self.session.behaviors.get(op)
        if behavior is None or not behavior.is_tied:
            raise NoPiecesError("component-qparams", f"nothing says how '{op.name}' is quantized")
        params = [qparams_of(op.operands[i]) for i in tied_operands(op, behavior)]
        if None in params:
            raise NoPiecesError("float-operand", f"'{op.name}' takes no floats here")
        carried = carry_down(op, behavior, cast("list[QParams]", params))
        if isinstance(carried, Illegal):
            raise NoPiecesError("tied", carried.reason)
        return UniformType(carried)

    # -- types and component qparams ------------------------------------------------------------

    def _transfer(self, role: str, piece: Operation, *, result: bool) -> None:
        """Give a piece the qparams of its own pieces and, with `result`, of its result."""
        prefix = f"{role}/"
        types = {
            name.removeprefix(prefix): kind
            for name, kind in self.types.items()
            if name.startswith(prefix)
        }
        if result and role in self.types:
            types[result_role(piece, self.session.components.get(piece.name))] = self.types[role]
        hold_types(piece, types)

    def _set_element(self, op: Operation, element: Attribute) -> None:
        set_type(op.results[0], with_element(op.results[0].type, element))

    def _expressed(self) -> str:
        params = qparams_of(self.op.results[0])
        assert params is not None
        return params.expressed


def plan_pieces(
    op: Operation, components: Components, session: QContext, keys: Mapping[str, tuple[str, ...]]
) -> PiecePlan:
    """The pieces of a composite op; NoPiecesError if there are none."""
    plan = PiecePlan(
        op=op,
        store=session.blobs,
        keys=keys,
        session=session,
        components=components,
        rounding=session.target.rounding(rounding_of(op)),
        most=session.target.most_pieces,
    )
    try:
        results = built(components.build, op, plan)
        if results is None:
            raise NoPiecesError("constants", "its pieces need constant operands or static shapes")
        plan.results = results
        if any(_is_like(piece, op, session) for piece in plan.ops):
            raise NoPiecesError("shape", "its pieces need static shapes")
    except NoPiecesError:
        erase_new(plan.ops)
        raise
    return plan


def _is_like(piece: Operation, op: Operation, session: QContext) -> bool:
    """Whether a piece would be lowered to itself for ever."""
    components = session.components.get(piece.name)
    return piece.name == op.name and components is not None and bool(components.roles_of(piece))


def _source(value: SSAValue) -> SSAValue:
    """The value of which `value` is a copy under another shape, by ops not in the module."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.parent is None and len(owner.operands) == 1:
        value = owner.operands[0]
        owner = value.owner
    return value


def _largest_sum(session: QContext, op: Operation, behavior: Behavior, acc: Accumulator) -> int:
    """The largest |sum| of any number of the products, in any order, and of the bias."""
    known = ranges(session).of
    bias = Interval(0, 0)
    if acc.bias is not None and acc.bias < len(op.operands):
        bias = known(op.operands[acc.bias])
    found = sums_of(
        session,
        op,
        acc,
        behavior.operand_port(acc.rhs),
        (op.operands[acc.lhs], op.operands[acc.rhs]),
        known,
        partial=True,
    )
    return _MAX + 1 if found is None or bias is None else found.largest + int(bias.largest)


def is_accumulator(op: Operation, session: QContext) -> bool:
    """Whether a contraction of codes gives its products' sum as it is, in 32 bits."""
    behavior = session.behaviors.get(op)
    acc = None if behavior is None else behavior.accumulator
    if behavior is None or acc is None or not all(map(qparams_of, op.operands[:2])):
        return False
    exact = qparams_of(op.results[0]) == _sum_qparams(op, acc)
    return exact and _largest_sum(session, op, behavior, acc) <= _MAX


def _sum_of_elements(session: QContext, op: Operation, behavior: Behavior) -> tuple[int, QParams]:
    """The largest |sum| of codes (zero points taken off) of one operand, and its qparams."""
    params = qparams_of(op.operands[0])
    gain = None if behavior.gain is None else behavior.gain(op, 0, lambda operand: Size())
    codes = ranges(session).of(op.operands[0])
    if params is None or codes is None or not params.is_per_tensor or gain is None:
        raise NoPiecesError("accumulator", f"no bound on what '{op.name}' sums")
    furthest = max(abs(int(code) - params.zero_point) for code in (codes.low, codes.high))
    sums = QParams.per_tensor("i32", params.scale, 0, params.expressed)
    return int(gain) * furthest, sums


def _sum_qparams(op: Operation, acc: Accumulator) -> QParams:
    lhs, rhs = (qparams_of(op.operands[n]) for n in (acc.lhs, acc.rhs))
    assert lhs is not None and rhs is not None
    scales = [lhs.scale * s for s in rhs.scale_list()]
    if len(scales) == 1:
        return QParams.per_tensor("i32", scales[0], 0, lhs.expressed)
    axis, repeats = acc.result_axis(op), acc.repeats(op)
    return QParams.per_axis("i32", axis, scales * repeats, None, lhs.expressed)


def _exact_constant(numbers: NDArray[np.float64], expressed: str, session: QContext) -> Operation:
    """Codes -1, 0, 1 on the magnitudes of the numbers, if these differ along one dimension
    at most; else multiples of one power of two."""
    import numpy as np

    if numbers.size == 1 or (numbers == numbers.flat[0]).all():
        return exact_scalar(Fraction(float(numbers.flat[0])), expressed, numbers.shape, session)
    long = [d for d, n in enumerate(numbers.shape) if n > 1]
    if not np.isfinite(numbers).all():
        raise NoPiecesError("constants", "a constant has numbers that no codes stand for")
    if len(long) > 1:
        return _common_step(numbers, expressed, session)
    scales = np.where(numbers == 0, 1.0, np.abs(numbers)).reshape(-1).tolist()
    params = QParams.per_axis("i8", long[0], scales, None, expressed)
    return make_constant(np.sign(numbers).astype(np.int8), UniformType(params), session.blobs)


def _common_step(numbers: NDArray[np.float64], expressed: str, session: QContext) -> Operation:
    """Codes on the largest power of two of which all numbers are multiples."""
    import numpy as np

    fractions, exponents = np.frexp(numbers)
    whole = (np.abs(fractions) * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    step = int((exponents - 53 + lowest)[numbers != 0].min())
    codes = np.ldexp(numbers, -step)
    for bits in (8, 16, 32):
        if np.abs(codes).max() < 2.0 ** (bits - 1):
            params = QParams.per_tensor(f"i{bits}", 2.0**step, 0, expressed)
            stored = codes.astype(f"i{bits // 8}")
            return make_constant(stored, UniformType(params), session.blobs)
    raise NoPiecesError("constants", "a constant has numbers that no codes stand for")


@dataclass(frozen=True)
class _Composite:
    op: Operation
    components: Components


class LowerComposite(Rule[_Composite]):
    """A composite op becomes its pieces."""

    name = "lower-composite"

    def __init__(self, session: QContext, ops: Sequence[str], refused: bool = False) -> None:
        super().__init__(session)
        self._ops, self._refused = ops, refused

    def roots(self) -> Iterable[str]:
        return self._ops

    def match(self, op: Operation) -> _Composite | None:
        components = self.session.components[op.name]
        if not components.roles_of(op):
            return None
        if self._refused and not (
            qparams_of(op.results[0]) and refused_by_target(self.session, op)
        ):
            return None
        return _Composite(op, components)

    def check(self, match: _Composite) -> Contract | Refusal:
        op, target = match.op, self.session.target
        if not target.should_lower(op):
            return Refusal("whole", f"{target.name} runs '{op.name}' whole")
        reason = qparams_refusal(op, self.session.components)
        if reason:
            return Refusal("component-qparams", reason)
        quantized = [quant_element(v.type) is not None for v in (op.operands[0], *op.results)]
        if any(quantized) and not all(quantized):
            return Refusal("mixed", "floats and codes meet in it: integerize or dequantize first")
        try:
            plan = self._plan(match)
        except NoPiecesError as error:
            return Refusal(error.code, str(error))
        try:
            return self._refusal(plan) or self._contract(plan)
        finally:
            erase_new(plan.ops)

    def _plan(self, match: _Composite) -> PiecePlan:
        keys = match.components.keys_of(match.op)
        return plan_pieces(match.op, match.components, self.session, keys)

    def _refusal(self, plan: PiecePlan) -> Refusal | None:
        """Why the pieces cannot be: their own rules, or the target's."""
        for piece in plan.ops:
            try:
                piece.verify_()
            except VerifyException as error:
                return Refusal("types", str(error))
            if not plan.quantized:
                continue
            operands, results = piece.operand_types, piece.result_types
            behavior = self.session.behaviors.get(piece)
            if behavior is not None:
                refusal = refuse_types(self.session, behavior, piece, operands, results)
            else:
                reason = self.session.target.refuses(piece, operands, results)
                refusal = Refusal("target", reason) if reason else None
            if refusal is not None:
                return refusal
        return None

    def _contract(self, plan: PiecePlan) -> Contract:
        if not plan.quantized and plan.rounds_constants:
            return Contract(Numerics.TIES, note="its constants are rounded to floats")
        if not plan.quantized:
            return in_reals(plan.op)
        components = plan.components
        known = (*components.sums, *components.as_result, *components.result_roles(plan.op))
        rounded = [role for role in plan.roles if role not in known]
        if rounded:
            return Contract(Numerics.RELAXED, inf, f"rounds and clips {', '.join(rounded)}")
        if plan.rounding is not rounding_of(plan.op):
            return Contract(Numerics.TIES, note=f"rounds {plan.rounding.value}")
        return Contract(Numerics.EXACT, note="one rounding")

    def rewrite(self, match: _Composite, rewriter: Rewriter) -> None:
        plan = self._plan(match)
        for piece in plan.ops:
            rewriter.insert(piece, match.op)
        rewriter.replace(match.op, plan.results)


@dataclass(frozen=True)
class LowerComposites(RulePass):
    """Composites as pieces; `ops` names which, joined by `+`, and `refused` of these only those
    on codes that the target refuses; see the module."""

    name = "lower-composites"

    ops: str = ALL
    refused: bool = False

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        known = session.components
        if self.ops == ALL:
            return (LowerComposite(session, tuple(known), self.refused),)
        names = self.ops.split("+")
        for name in names:
            if name not in known:
                raise UsageError(
                    f"{self.name}: '{name}' is no composite op ({', '.join(sorted(known))})",
                    code="unknown-op",
                )
        return (LowerComposite(session, names, self.refused),)
