"""Elementwise chains: which values are functions of which codes, and what functions.

A value whose elements depend on the codes of one other value alone is a table of its
results on all codes of that one, its `root`.  Codes are computed exactly, op by op;
floats between a dequantize and a quantize are real numbers, as `integerize` reads them, or
in a module of floats those of 32 bits (`float_chains`).
One forward sweep finds the roots; results are computed on demand, once per value.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.behaviors import Behavior
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.arithmetic import Arithmetic
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.decide import Reals, UndecidedError, decide
from qdialect.numerics.float_spans import CodeSpan, FloatSpan
from qdialect.numerics.quantize import storage_dtype
from qdialect.numerics.rounding import Rounding
from qdialect.ops import constant_of, shape_of
from qdialect.ops.base import is_kernel
from qdialect.passes.constant_scalars import scalar_of
from qdialect.passes.folding.constant_evaluation import compute_codes
from qdialect.passes.tables.float_chains import Span, computed
from qdialect.qparams import QParams
from qdialect.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    arithmetic_of,
    cast_rounding,
    element_type,
)
from qdialect.rewrite import Refusal
from qdialect.rewrite.effects import has_effects

Array = NDArray[Any]
LaidOut = Array | Reals | Span | Refusal
"""A value on all codes of its root: codes or bits, real numbers (or what floats make of them),
or why not."""

ROOT_WIDTH = 8
"""Bits of storage whose codes are enumerated: 65 536 entries of 16-bit codes do not stay in
a first-level cache and take as long to fill as the tensor itself."""

_FLOATS = ("f16", "bf16", "f32", "f64")


class Chains:
    """What is known of the values of a module."""

    def __init__(self, module: Operation, session: QContext) -> None:
        self._session = session
        self._in_floats = arithmetic_of(module) is Arithmetic.EXPRESSED
        self._roots: dict[SSAValue, SSAValue | None] = {}
        self._held: dict[SSAValue, LaidOut] = {}
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
        """Find the roots of `op`, and of what stands above it, anew where they are gone."""
        if not any(map(self._is_gone, (*op.operands, *op.results))):
            return
        pending, order = [op], dict[Operation, None]()
        while pending:
            current = pending[-1]
            above = [v.owner for v in current.operands if self._is_gone(v)]
            missing = [a for a in above if isinstance(a, Operation) and a not in order]
            if missing:
                pending += missing
                continue
            order[pending.pop()] = None
        for current in order:
            for result in current.results:
                self._roots.pop(result, None)
                self._held.pop(result, None)
        for current in order:
            self.note(current)

    def _is_gone(self, value: SSAValue) -> bool:
        """Whether another rule has erased the root of `value`."""
        root = self._roots.get(value)
        return root is not None and isinstance(root.owner, Operation) and root.owner.parent is None

    def needed(self, value: SSAValue) -> bool:
        """Whether something else than a longer chain uses `value`."""
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
            return op.fixed_point is None and op.rounding is not Rounding.GEMMLOWP
        if isinstance(op, QCastOp):
            return cast_rounding(op) is not Rounding.GEMMLOWP
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

    def held(self, value: SSAValue) -> LaidOut:
        """`value` on all codes of its root, lowest first."""
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self._held:
                pending.pop()
                continue
            missing = [v for v in self._above(current) if v not in self._held]
            if missing:
                pending += missing
                continue
            pending.pop()
            self._held[current] = self._compute(current)
        return self._held[value]

    def _above(self, value: SSAValue) -> list[SSAValue]:
        owner = value.owner
        if self._roots[value] is value or not isinstance(owner, Operation):
            return []
        return [v for v in owner.operands if constant_of(v) is None]

    def _compute(self, value: SSAValue) -> LaidOut:
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
        held = [self._held.get(v) for v in op.operands]
        for each in held:
            if isinstance(each, Refusal):
                return each
        try:
            if self._in_floats:
                return self._computed_in_floats(op, held)
            if isinstance(op, DCastOp | QCastOp | RescaleOp | SCastOp):
                return _cast(op, held[0])
            behavior = self._session.behaviors.get(op)
            assert behavior is not None
            if params is not None:
                return self._codes(op, behavior, held)
            return self._reals(op, behavior, held)
        except UndecidedError as error:
            return Refusal("undecided", str(error))
        except ValueError as error:
            return Refusal("unsupported", str(error))

    def _computed_in_floats(self, op: Operation, held: Sequence[Any]) -> LaidOut:
        if not isinstance(op, SCastOp):
            return computed(op, self._session.behaviors.get(op), held, self._session)
        result, bits = qparams_of(op.result), held[0]
        if result is None:
            return bits
        read = CodeSpan(*(_read(codes, result).astype(np.int64) for codes in bits))
        # Reading moves all codes alike, unless some go round the end of the storage.
        if (read.low > read.likely).any() or (read.likely > read.high).any():
            return Refusal("undecided", "floats do not decide what is read")
        return read

    def entries(self, value: SSAValue) -> tuple[Array, Contract] | Refusal:
        """The codes of `value` on all codes of its root, and what a table of them changes."""
        held, params = self.held(value), qparams_of(value)
        assert params is not None and not isinstance(held, Reals | FloatSpan)
        if isinstance(held, Refusal):
            return held
        if not isinstance(held, CodeSpan):
            return held, Contract(Numerics.EXACT, note=f"{len(held)} codes")
        codes = held.likely.astype(storage_dtype(params))
        if value in self._by_kernels:
            note = "an integer kernel rounds in a way of its own"
            return codes, Contract(Numerics.BOUNDED, max(held.doubt, 1), note)
        if not held.undecided:
            return codes, Contract(Numerics.EXACT, note=f"{len(codes)} codes")
        level = Numerics.TIES if held.doubt == 1 else Numerics.BOUNDED
        note = f"{held.undecided} of {len(codes)} codes are ties to a runtime's functions"
        return codes, Contract(level, held.doubt, note)

    def _codes(self, op: Operation, behavior: Behavior, held: Sequence[Any]) -> LaidOut:
        arrays = [
            self._constant(operand, behavior) if array is None else array
            for operand, array in zip(op.operands, held, strict=True)
        ]
        return compute_codes(op, behavior, arrays)

    def _constant(self, value: SSAValue, behavior: Behavior) -> Array:
        from qdialect.ops import constant_array

        constant = constant_of(value)
        assert constant is not None
        array = constant_array(constant, self._session.blobs)
        return array if behavior.on_stored else array.reshape(-1)[:1]

    def _reals(self, op: Operation, behavior: Behavior, held: Sequence[Any]) -> LaidOut:
        numbers = [scalar_of(v, self._session) for v in op.operands]
        bounds = behavior.clamp(op) if behavior.clamp else None
        if behavior.as_clamp is not None:
            given = [n if h is None else None for n, h in zip(numbers, held, strict=True)]
            found = behavior.as_clamp(op, given) if given.count(None) == 1 else None
            if found is None:
                return Refusal("unsupported", f"'{op.name}' of two values is no function here")
            low, high = found
            bounds = (-np.inf if low is None else low, np.inf if high is None else high)
            held = [next(h for h in held if h is not None)]
        if bounds is not None:
            low, high = float(bounds[0]), float(bounds[1])
            return Reals.apply(lambda x: x[0].clip(low, high), held[0])
        words = behavior.analytic or behavior.arithmetic
        if words is None:
            return Refusal("unsupported", f"nothing says exactly what '{op.name}' computes")
        size = next(len(h) for h in held if h is not None)
        operands = [
            Reals.exact([_number(number)] * size) if each is None else each
            for each, number in zip(held, numbers, strict=True)
        ]
        return Reals.apply(lambda x: words(op, x), *operands, defined=True)


def _number(value: Fraction | None) -> Fraction:
    assert value is not None
    return value


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


def _cast(op: DCastOp | QCastOp | RescaleOp | SCastOp, held: Any) -> LaidOut:
    source, result = qparams_of(op.operands[0]), qparams_of(op.results[0])
    if isinstance(op, SCastOp):
        return held if result is None else _read(held, result)
    if isinstance(op, DCastOp):
        assert source is not None
        return Reals.of_codes(held, source.scale, source.zero_point)
    assert result is not None
    if isinstance(op, RescaleOp):
        assert source is not None
        (a,), (b,) = exact.quant_grids(source), exact.quant_grids(result)
        return exact.requantize(held, a, b, op.rounding).astype(storage_dtype(result))
    bounds = result.storage.min, result.storage.max
    codes = decide(held, result.scale, result.zero_point, bounds, cast_rounding(op), defined=True)
    return codes.astype(storage_dtype(result))


def _read(bits: Array, params: QParams) -> Array:
    """Stored integers, whatever their sign was, as codes of a storage."""
    low = params.storage.full_range[0]
    return ((bits.astype(np.int64) - low) % (1 << params.storage.width) + low).astype(
        storage_dtype(params)
    )
