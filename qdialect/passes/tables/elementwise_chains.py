"""Elementwise chains: which values are functions of the codes of one other value, and which.

Where all elements of a value depend, each for itself, on the codes of one other value, its
`root`, the value is a table of its results on all codes of that root:

    %0 = quant.dcast %x : !a to !f
    %1 = nn.sigmoid %0 : (!f) -> !f
    %2 = nn.mul %0, %1 : (!f, !f) -> !f        %x is the root of all three

`ElementwiseChains` finds the roots in one forward sweep and evaluates a value on all codes of its
root when somebody asks for it, once per value. Codes are computed exactly, op by op. Floats between
a dequantize and a quantize are the real numbers they stand for, as in `integerize`; in a module
whose quantized ops are defined in floats they are those of 32 bits, as an interval of what runtimes
may compute (`FloatSpan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.float_spans import (
    FLOATS,
    CodeSpan,
    FloatSpan,
    InexactError,
    approximated,
)
from qdialect.algebra.qparams import QParams
from qdialect.algebra.quantize import storage_dtype
from qdialect.algebra.reals import Reals, UndecidedError, decide
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of, rounding_of
from qdialect.ir.behaviors import Behavior
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of, shape_of
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    arithmetic_of,
    cast_rounding,
    element_type,
)
from qdialect.passes.constant_scalars import scalar_of
from qdialect.passes.folding.constant_evaluation import compute_codes
from qdialect.rewrite import Refusal
from qdialect.rewrite.effects import has_effects

Array = NDArray[Any]
Span = CodeSpan | FloatSpan
Result = Array | Reals | Span | Refusal
"""A value on all codes of its root, lowest first: codes or bits, real numbers, what floats make
of them, or why it is not known."""

ROOT_WIDTH = 8
"""Bits of storage whose codes are enumerated: 65 536 entries of 16-bit codes do not stay in
a first-level cache and take as long to fill as the tensor itself."""

_FLOATS = ("f16", "bf16", "f32", "f64")
_NAN = Refusal("undecided", "a result is not a number")
_OTHER_FLOATS = Refusal("unsupported", "it computes in other floats than f32")


class ElementwiseChains:
    """The chains of a module: the root of each value, and its results on all codes of it."""

    def __init__(self, module: Operation, session: QContext) -> None:
        self._session = session
        self._in_floats = arithmetic_of(module) is Arithmetic.EXPRESSED
        self._roots: dict[SSAValue, SSAValue | None] = {}
        self._results: dict[SSAValue, Result] = {}
        #: ops on codes that are in no chain since parameters differ along a dimension
        self.per_axis: set[Operation] = set()
        #: values that an op defined by an integer kernel is above of
        self._by_kernels: set[SSAValue] = set()
        #: values all uses of which lead to codes with the same root
        self.inner: set[SSAValue] = set()
        ops = list(module.walk())
        for op in ops:
            self.note(op)
        for op in reversed(ops):
            self._note_inner(op)

    def root(self, value: SSAValue) -> SSAValue | None:
        """The value whose codes alone decide `value`: itself, if nothing is known above."""
        if value not in self._roots:
            self._roots[value] = value if _is_narrow(value) else None
        return self._roots[value]

    def note(self, op: Operation) -> None:
        """Find the root of what `op` gives."""
        if len(op.results) != 1:
            return
        result = op.results[0]
        source = self._source(op)
        if source is not None:
            self._roots[result] = source
            if is_kernel(op) or any(v in self._by_kernels for v in op.operands):
                self._by_kernels.add(result)

    def renew(self, op: Operation) -> None:
        """Find the roots of `op`, and of what stands above it, again where they are erased."""
        if not any(map(self._is_erased, (*op.operands, *op.results))):
            return
        pending, order = [op], dict[Operation, None]()
        while pending:
            current = pending[-1]
            above = [v.owner for v in current.operands if self._is_erased(v)]
            missing = [a for a in above if isinstance(a, Operation) and a not in order]
            if missing:
                pending += missing
                continue
            order[pending.pop()] = None
        for current in order:
            for result in current.results:
                self._roots.pop(result, None)
                self._results.pop(result, None)
        for current in order:
            self.note(current)

    def _is_erased(self, value: SSAValue) -> bool:
        root = self._roots.get(value)
        return root is not None and isinstance(root.owner, Operation) and root.owner.parent is None

    def needed(self, value: SSAValue) -> bool:
        """Whether something other than a longer chain uses `value`."""
        root = self._roots[value]
        return any(not self._continues(use.operation, root) for use in value.uses)

    def is_link(self, op: Operation) -> bool:
        """Whether `op` is part of a chain that starts above it."""
        return len(op.results) == 1 and self.root(op.results[0]) not in (None, op.results[0])

    def _note_inner(self, op: Operation) -> None:
        for result in op.results:
            root = self._roots.get(result)
            if root is None or qparams_of(result) is not None or result.first_use is None:
                continue
            if all(self._continues(use.operation, root) for use in result.uses):
                self.inner.add(result)

    def _continues(self, user: Operation, root: SSAValue | None) -> bool:
        if len(user.results) != 1 or self._roots.get(user.results[0]) is not root:
            return False
        result = user.results[0]
        return qparams_of(result) is not None or result in self.inner

    # -- finding ----------------------------------------------------------------------

    def _source(self, op: Operation) -> SSAValue | None:
        """The root that all operands of `op` have, if it is a link of a chain."""
        if constant_of(op.results[0]) is not None or not self._is_elementwise(op):
            return None
        data = [v for v in op.operands if constant_of(v) is None]
        roots = {self.root(v) for v in data}
        root = roots.pop() if len(roots) == 1 else None
        if root is not None and _fits(op, root) and self._constants_fit(op, root):
            return root
        if len(set(data)) == 1 and _is_per_axis(op, data[0]):
            self.per_axis.add(op)
        return None

    def _is_elementwise(self, op: Operation) -> bool:
        if isinstance(op, RescaleOp):
            return op.fixed_point is None and not op.rounding.two_stage
        if isinstance(op, QCastOp):
            return not cast_rounding(op).two_stage
        if isinstance(op, DCastOp | SCastOp):
            return True
        behavior = self._session.behaviors.get(op)
        if behavior is None or not behavior.elementwise or op.regions or has_effects(op):
            return False
        codes = [qparams_of(v) is not None for v in (*op.operands, *op.results)]
        return all(codes) or not any(codes)

    def _constants_fit(self, op: Operation, root: SSAValue) -> bool:
        """Whether every constant is one number that does not broadcast x; a table's list
        of entries is none of its elements."""
        behavior = self._session.behaviors.get(op)
        shape = shape_of(root)
        for value in op.operands:
            if constant_of(value) is None or (behavior and behavior.on_stored):
                continue
            extents = shape_of(value)
            pairs = zip(reversed(extents), reversed(shape), strict=False)
            if len(extents) > len(shape) or any(a not in (1, b) for a, b in pairs):
                return False
            if scalar_of(value, self._session) is None:
                return False
        return True

    # -- computing --------------------------------------------------------------------

    def results(self, value: SSAValue) -> Result:
        """`value` on all codes of its root, lowest first."""
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self._results:
                pending.pop()
                continue
            missing = [v for v in self._above(current) if v not in self._results]
            if missing:
                pending += missing
                continue
            pending.pop()
            self._results[current] = self._compute(current)
        return self._results[value]

    def _above(self, value: SSAValue) -> list[SSAValue]:
        owner = value.owner
        if self._roots[value] is value or not isinstance(owner, Operation):
            return []
        return [v for v in owner.operands if constant_of(v) is None]

    def _compute(self, value: SSAValue) -> Result:
        params = qparams_of(value)
        if self._roots[value] is value:
            assert params is not None
            low, high = params.storage.full_range
            codes = np.arange(low, high + 1)
            return (
                CodeSpan.exactly(codes) if self._in_floats else codes.astype(storage_dtype(params))
            )
        op = value.owner
        assert isinstance(op, Operation)
        operands = [self._results.get(v) for v in op.operands]
        for each in operands:
            if isinstance(each, Refusal):
                return each
        evaluate = _evaluated_in_floats if self._in_floats else _evaluated_in_reals
        try:
            return evaluate(op, operands, self._session)
        except UndecidedError as error:
            return Refusal("undecided", str(error))
        except ValueError as error:
            return Refusal("unsupported", str(error))

    def entries(self, value: SSAValue) -> tuple[Array, Contract] | Refusal:
        """The codes of `value` on all codes of its root, and the contract of a table of them."""
        results, params = self.results(value), qparams_of(value)
        assert params is not None and not isinstance(results, Reals | FloatSpan)
        if isinstance(results, Refusal):
            return results
        if not isinstance(results, CodeSpan):
            return results, Contract(Numerics.EXACT, note=f"{len(results)} codes")
        codes = results.likely.astype(storage_dtype(params))
        if value in self._by_kernels:
            note = "an integer kernel rounds in a way of its own"
            return codes, Contract(Numerics.BOUNDED, max(results.doubt, 1), note)
        if not results.undecided:
            return codes, Contract(Numerics.EXACT, note=f"{len(codes)} codes")
        level = Numerics.TIES if results.doubt == 1 else Numerics.BOUNDED
        note = f"{results.undecided} of {len(codes)} codes are ties to a runtime's functions"
        return codes, Contract(level, results.doubt, note)


def _is_narrow(value: SSAValue) -> bool:
    """Whether all codes of `value` are few, and mean the same everywhere."""
    params = qparams_of(value)
    return (
        params is not None
        and isinstance(value.type, TensorType)
        and params.is_per_tensor
        and is_integer(params)
        and params.storage.width <= ROOT_WIDTH
    )


def _is_per_axis(op: Operation, x: SSAValue) -> bool:
    """Whether the few codes of x mean different things, or those of the result."""
    source, result = qparams_of(x), qparams_of(op.results[0])
    if source is None or result is None or source.storage.width > ROOT_WIDTH:
        return False
    return not (source.is_per_tensor and result.is_per_tensor)


def _fits(op: Operation, root: SSAValue) -> bool:
    """Whether the result of `op` has the extents of the root, and one set of parameters."""
    result = op.results[0]
    kind: Attribute = result.type
    if not isinstance(kind, TensorType) or shape_of(result) != shape_of(root):
        return False
    params, element = qparams_of(result), element_type(cast("Attribute", kind))
    if params is None:
        return isinstance(element, IntegerType) or str(element) in _FLOATS
    return params.is_per_tensor and is_integer(params) and params.storage.width <= 32


# -- one op on all codes of its root ------------------------------------------------------
#
# An operand is None where it is a constant.


def _clamp_of(
    op: Operation, behavior: Behavior, session: QContext
) -> tuple[int, float, float] | Refusal | None:
    """The operand that `op` clamps and its bounds, if it is a clamp by its declaration or by one
    constant operand."""
    if behavior.as_clamp is not None:
        numbers = [scalar_of(v, session) for v in op.operands]
        bounds = behavior.as_clamp(op, numbers) if numbers.count(None) == 1 else None
        if bounds is None:
            return Refusal("unsupported", f"'{op.name}' of two values is no function here")
        low, high = (None if bound is None else float(bound) for bound in bounds)
        x = numbers.index(None)
        return x, -np.inf if low is None else low, np.inf if high is None else high
    if behavior.clamp is not None:
        low, high = behavior.clamp(op)
        return 0, float(low), float(high)
    return None


def _constant_array(value: SSAValue, session: QContext) -> Array:
    constant = constant_of(value)
    assert constant is not None
    return constant_array(constant, session.blobs)


def _evaluated_in_reals(op: Operation, operands: Sequence[Any], session: QContext) -> Result:
    """Codes computed exactly, floats as the real numbers they stand for."""
    if isinstance(op, DCastOp | QCastOp | RescaleOp | SCastOp):
        return _cast(op, operands[0])
    behavior = session.behaviors.get(op)
    assert behavior is not None
    if qparams_of(op.results[0]) is not None:
        arrays: list[Array] = []
        for value, each in zip(op.operands, operands, strict=True):
            array = _constant_array(value, session) if each is None else each
            # A table is a constant of many entries; any other constant is one number.
            arrays.append(array if each is not None or behavior.on_stored else _first(array))
        return compute_codes(op, behavior, arrays)
    clamp = _clamp_of(op, behavior, session)
    if isinstance(clamp, Refusal):
        return clamp
    if clamp is not None:
        index, low, high = clamp
        return Reals.apply(lambda x: x[0].clip(low, high), operands[index])
    function = behavior.analytic or behavior.arithmetic
    if function is None:
        return Refusal("unsupported", f"nothing says exactly what '{op.name}' computes")
    size = next(len(each) for each in operands if each is not None)
    reals = [
        Reals.exact([_number(value, session)] * size) if each is None else each
        for each, value in zip(operands, op.operands, strict=True)
    ]
    return Reals.apply(lambda x: function(op, x), *reals, defined=True)


def _first(array: Array) -> Array:
    return array.reshape(-1)[:1]


def _number(value: SSAValue, session: QContext) -> Fraction:
    number = scalar_of(value, session)
    assert number is not None
    return number


def _cast(op: DCastOp | QCastOp | RescaleOp | SCastOp, operand: Any) -> Result:
    source, result = qparams_of(op.operands[0]), qparams_of(op.results[0])
    if isinstance(op, SCastOp):
        return operand if result is None else _reinterpreted(operand, result)
    if isinstance(op, DCastOp):
        assert source is not None
        return Reals.of_codes(operand, source.scale, source.zero_point)
    assert result is not None
    if isinstance(op, RescaleOp):
        assert source is not None
        (a,), (b,) = exact.quant_grids(source), exact.quant_grids(result)
        return exact.requantize(operand, a, b, op.rounding).astype(storage_dtype(result))
    bounds = result.storage.min, result.storage.max
    rounding = cast_rounding(op)
    codes = decide(operand, result.scale, result.zero_point, bounds, rounding, defined=True)
    return codes.astype(storage_dtype(result))


def _reinterpreted(bits: Array, params: QParams) -> Array:
    """Stored integers, whatever their sign was, as codes of a storage."""
    low = params.storage.full_range[0]
    return ((bits.astype(np.int64) - low) % (1 << params.storage.width) + low).astype(
        storage_dtype(params)
    )


def _evaluated_in_floats(op: Operation, operands: Sequence[Any], session: QContext) -> Result:
    """In floats of 32 bits, each step rounded once."""
    params = qparams_of(op.results[0])
    if isinstance(op, SCastOp):
        bits = operands[0]
        if params is None:
            return bits
        read = CodeSpan(*(_reinterpreted(codes, params).astype(np.int64) for codes in bits))
        # Reinterpreting moves all codes alike, unless some go round the end of the storage.
        if (read.low > read.likely).any() or (read.likely > read.high).any():
            return Refusal("undecided", "floats do not decide what is read")
        return read
    if isinstance(op, DCastOp):
        return _floats(op.input, operands[0], session)
    if isinstance(op, QCastOp):
        return _quantized(operands[0], params, cast_rounding(op))
    if isinstance(op, RescaleOp):
        value = _floats(op.input, operands[0], session)
        return value if isinstance(value, Refusal) else _quantized(value, params, op.rounding)
    behavior = session.behaviors.get(op)
    assert behavior is not None
    if params is not None and (behavior.on_stored or behavior.choose):
        return _spans_of_codes(op, behavior, operands, session)
    values: list[FloatSpan] = []
    for operand, each in zip(op.operands, operands, strict=True):
        value = _floats(operand, each, session)
        if isinstance(value, Refusal):
            return value
        values.append(value)
    with np.errstate(all="ignore"):
        result = _float_function(op, behavior, values, session)
    if isinstance(result, Refusal) or params is None:
        return result
    return _quantized(result, params, rounding_of(op))


def _floats(value: SSAValue, operand: Span | None, session: QContext) -> FloatSpan | Refusal:
    params = qparams_of(value)
    if params is None and str(element_type(value.type)) != FLOATS:
        return _OTHER_FLOATS
    if params is not None and params.expressed != FLOATS:
        return _OTHER_FLOATS
    if operand is None:
        array = _first(_constant_array(value, session))
        if params is None:
            return FloatSpan.exactly(array)
        operand = CodeSpan.exactly(array.astype(np.int64))
    if isinstance(operand, CodeSpan):
        assert params is not None
        return FloatSpan.of_codes(operand, exact.affine(params))
    return operand


def _quantized(operand: Span | None, params: QParams | None, rounding: Rounding) -> Span | Refusal:
    assert params is not None and isinstance(operand, FloatSpan)
    if operand.has_nan:
        return _NAN
    return operand.quantized(exact.affine(params), rounding)


def _spans_of_codes(
    op: Operation, behavior: Behavior, operands: Sequence[Span | None], session: QContext
) -> CodeSpan | Refusal:
    """An op that is defined on codes, or selects one of two."""
    function = behavior.on_stored or behavior.choose
    assert function is not None
    spans: list[CodeSpan] = []
    for operand, each in zip(op.operands, operands, strict=True):
        if each is None:
            array = _constant_array(operand, session)
            whole = array if behavior.on_stored else _first(array)
            each = CodeSpan.exactly(whole.astype(np.int64))
        assert isinstance(each, CodeSpan)
        spans.append(each)
    if behavior.on_stored and any(each.undecided for each in spans):
        return Refusal("undecided", "floats do not decide what is looked up")
    ends: list[NDArray[Any]] = [function(op, side) for side in zip(*spans, strict=True)]
    return CodeSpan(*(end.astype(np.int64) for end in ends))


def _float_function(
    op: Operation, behavior: Behavior, values: Sequence[FloatSpan], session: QContext
) -> FloatSpan | Refusal:
    clamp = _clamp_of(op, behavior, session)
    if isinstance(clamp, Refusal):
        return clamp
    if clamp is not None:
        return values[clamp[0]].clip(clamp[1], clamp[2])
    function = behavior.analytic or behavior.arithmetic
    if function is None:
        return Refusal("unsupported", f"nothing says exactly what '{op.name}' computes")
    try:
        return (behavior.in_floats or function)(op, list(values))
    except (InexactError, ValueError):
        pointwise = behavior.pointwise
        if pointwise is None or len(values) != 1:
            return Refusal("unsupported", f"floats do not say what '{op.name}' computes")
        return approximated(lambda v: function(op, v), lambda v: pointwise(op, v), values[0])
