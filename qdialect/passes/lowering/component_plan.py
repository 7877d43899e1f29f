"""The pieces of a composite op, typed and kept aside until somebody wants them.

On floats the pieces are as the declaration writes them, each with the component qparams
that are its own. On quantized operands each piece is a quantized op:

    a product that is still being summed   i32, scale = product of the scales, zero point 0
    the sum with a bias on that scale      the same, then one rescale
    any other piece                        its component qparams, the last: the result's

Constants become quantized constants that are exactly the same numbers, with a scale per
number where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.contractions import sums_of
from qdialect.analysis.ranges import ranges
from qdialect.behaviors import Accumulator, Behavior
from qdialect.behaviors.declaration import Size
from qdialect.behaviors.flow import carry_down, tied_operands
from qdialect.context import QContext
from qdialect.numerics.rounding import Rounding
from qdialect.ops import AddOp, NNOp, make_constant
from qdialect.ops.component_qparams import component_types, hold_types, result_role
from qdialect.ops.components import Components, Pieces
from qdialect.passes.constant_scalars import exact_scalar
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal
from qdialect.quant import RescaleOp, UniformType, quant_element, with_element
from qdialect.rewrite.driver import set_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX = 2**31 - 1


class Unplannable(Exception):
    """The pieces cannot be written: `code` for programs, the message for people."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(kw_only=True)
class Plan(Pieces):
    """The pieces of `op`, in order, and the value that stands for its result."""

    session: QContext
    components: Components
    rounding: Rounding
    ops: list[Operation] = field(default_factory=list[Operation])
    result: SSAValue | None = None
    #: values that are accumulators, and what bounds their codes
    sums: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def __post_init__(self) -> None:
        self.quantized = qparams_of(self.op.results[0]) is not None
        self.types = component_types(self.op)
        self.roles = self.components.roles_of(self.op)
        element = quant_element(self.op.results[0].type)
        if element is not None:
            self.types[self.roles[-1]] = element

    def erase(self) -> None:
        """Take back what was made."""
        for op in reversed(self.ops):
            op.erase()

    # -- what a declaration calls ---------------------------------------------

    def add(self, role: str, piece: Operation) -> SSAValue:
        if self.quantized:
            self._append(piece)
            self._transfer(role, piece, own=False)
            return self._quantized(role, piece)
        self._transfer(role, piece, own=True)
        return super().add(role, piece)

    def emit(self, op: Operation) -> SSAValue:
        value = self._append(op)
        if self.quantized and not op.has_trait(ConstantLike, value_if_unregistered=False):
            self._set_element(op, self._carried(op))
        return value

    def constant(self, array: NDArray[np.float64]) -> SSAValue:
        if not self.quantized:
            return super().constant(array)
        numbers = self.rounded(array, self._expressed()).astype("f8")
        return self.emit(_exact_constant(numbers, self._expressed(), self.session))

    def plain(self, value: SSAValue) -> SSAValue:
        if not self.quantized:
            return value
        array = self.array(value)
        if array is None:
            raise Unplannable("constants", "an operand that is not constant has no codes")
        return self.constant(array)

    # -- quantized pieces --------------------------------------------------------

    def _quantized(self, role: str, piece: NNOp) -> SSAValue:
        if role in self.components.sums:
            return self.put(role, piece, self._accumulated(piece))
        wanted = self.types.get(role)
        if wanted is None:
            raise Unplannable("component-qparams", f"nn.qparams says nothing of '{role}'")
        total = self._sum_type(piece)
        if total is None and "rounding" in piece.properties:
            piece.properties["rounding"] = StringAttr(self.rounding.value)
        behavior = self.session.behaviors.get(piece)
        tied = behavior is not None and behavior.is_tied
        self._set_element(piece, total or (self._carried(piece) if tied else wanted))
        value = piece.results[0]
        if quant_element(value.type) != wanted:
            rescale = RescaleOp(value, with_element(value.type, wanted), self.rounding)
            value = self._append(rescale)
        return self.put(role, cast("Operation", value.owner), value)

    def _append(self, op: Operation) -> SSAValue:
        op.location = self.op.location
        self.ops.append(op)
        return op.results[0]

    def _accumulated(self, piece: NNOp) -> SSAValue:
        """Integer products summed without rounding, if 32 bits hold them."""
        behavior = self.session.behaviors.get(piece)
        acc = None if behavior is None else behavior.accumulator
        if behavior is None:
            raise Unplannable("accumulator", f"nothing says what '{piece.name}' sums")
        if acc is None:
            largest, params = _sum_of_elements(self.session, piece, behavior)
        else:
            largest = _largest_sum(self.session, piece, behavior, acc)
            params = _sum_qparams(piece, acc)
        if not params.is_expressible:
            raise Unplannable("scale", f"the scale of a sum leaves the range of {params.expressed}")
        if largest > _MAX:
            raise Unplannable("overflow", "a sum may leave 32 bits")
        self._set_element(piece, UniformType(params))
        value = piece.results[0]
        self.sums[value] = largest
        return value

    def _sum_type(self, piece: NNOp) -> UniformType | None:
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
            raise Unplannable("component-qparams", f"nothing says how '{op.name}' is quantized")
        params = [qparams_of(op.operands[i]) for i in tied_operands(op, behavior)]
        if None in params:
            raise Unplannable("float-operand", f"'{op.name}' takes no floats here")
        carried = carry_down(op, behavior, cast("list[QParams]", params))
        if isinstance(carried, Illegal):
            raise Unplannable("tied", carried.reason)
        return UniformType(carried)

    # -- what goes along ------------------------------------------------------------

    def _transfer(self, role: str, piece: Operation, *, own: bool) -> None:
        """To a piece the qparams of its own pieces and, if `own`, of its result."""
        prefix = f"{role}/"
        held = {
            name.removeprefix(prefix): kind
            for name, kind in self.types.items()
            if name.startswith(prefix)
        }
        if own and role in self.types:
            held[result_role(piece, self.session.components.get(piece.name))] = self.types[role]
        hold_types(piece, held)

    def _set_element(self, op: Operation, element: Attribute) -> None:
        set_type(op.results[0], with_element(op.results[0].type, element))

    def _expressed(self) -> str:
        params = qparams_of(self.op.results[0])
        assert params is not None
        return params.expressed


def plan_pieces(
    op: Operation, components: Components, session: QContext, keys: Mapping[str, tuple[str, ...]]
) -> Plan:
    """The pieces of a composite op; Unplannable if there are none."""
    plan = Plan(
        op=op,
        store=session.blobs,
        keys=keys,
        session=session,
        components=components,
        rounding=session.target.rounding(rounding_of(op)),
    )
    try:
        plan.result = components.build(op, plan)
        if plan.result is None:
            reason = "its pieces need constant operands or static shapes, and few steps"
            raise Unplannable("constants", reason)
        if any(_is_like(piece, op, session) for piece in plan.ops):
            raise Unplannable("shape", "its pieces need static shapes")
    except Unplannable:
        plan.erase()
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
    """The largest |sum| of any number of the products, in any order."""
    found = sums_of(
        session,
        op,
        acc,
        behavior.operand_port(acc.rhs),
        (op.operands[acc.lhs], op.operands[acc.rhs]),
        ranges(session).of,
        partial=True,
    )
    return _MAX + 1 if found is None else found.largest


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
        raise Unplannable("accumulator", f"no bound on what '{op.name}' sums")
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
        raise Unplannable("constants", "a constant has numbers that no codes stand for")
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
    raise Unplannable("constants", "a constant has numbers that no codes stand for")
