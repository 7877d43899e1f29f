"""Evaluate an op on constants, by its declaration.

A movement op copies stored values by its index map; the qparams of the result must be those of the
operands pulled through the map (sigma o phi, law 2.2). An op with `arithmetic` on codes dequantizes
exactly, computes in rationals and quantizes once; on floats it computes in the type of the floats
(f16 and bf16 in f32, rounded once). Ops that take more than `WORK` products, or that sum non-finite
floats, are refused.

    %0 = nn.add %a, %b : (!half, !quarter) -> !sum        codes of %a and %b  ->  codes of %0

This file shares no code with the reference interpreter, which tests compare it with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps import IndexMap
from qdialect.algebra.qparams.parameter_field import ParameterField
from qdialect.algebra.quantize import (
    can_quantize_floats,
    chunks,
    quantize_floats,
    spread,
    storage_dtype,
)
from qdialect.algebra.rationals import Rationals, RootsUp
from qdialect.algebra.reals import Reals, UndecidedError, decide
from qdialect.algebra.requantize import round_floats
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of, rounding_of
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.behaviors.flow import pulled_along, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import BlobAttr, constant_array, constant_of, shape_of
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.ops.constants import element_name
from qdialect.ir.ops.ports import is_same_field
from qdialect.ir.quant import UniformType, arithmetic_of, element_type, storage_type
from qdialect.ir.weights import DTYPES
from qdialect.rewrite import Refusal

Array = NDArray[Any]
ElementaryFunctions = Callable[[Operation, Sequence[Any]], Any]

_FLOATS = {"f16": np.float32, "bf16": np.float32, "f32": np.float32, "f64": np.float64}
_STORED = {"f16": np.float16, "bf16": np.uint16}
"""The numpy types of stored floats that are not the type they are computed in."""


def can_hold(type: Attribute) -> bool:
    """Whether a constant of this tensor type can be read and written."""
    element = element_type(type)
    if isinstance(element, UniformType):
        if element.qparams.storage.is_float:
            return False
        element = storage_type(element.qparams)
    return element_name(element) in DTYPES


def read(value: SSAValue, session: QContext) -> Array | Refusal:
    """The stored array of a constant operand."""
    constant = constant_of(value)
    assert constant is not None
    if not can_hold(value.type):
        return Refusal("dtype", f"no constants of type {element_type(value.type)}")
    if isinstance(constant.value, BlobAttr) and constant.value.key.data not in session.blobs:
        return Refusal("missing-blob", f"weight '{constant.value.key.data}' is not at hand")
    return constant_array(constant, session.blobs)


def read_all(values: Sequence[SSAValue], session: QContext) -> list[Array] | Refusal:
    """`read` for every operand, or the first refusal."""
    arrays: list[Array] = []
    for value in values:
        array = read(value, session)
        if isinstance(array, Refusal):
            return array
        arrays.append(array)
    return arrays


# -- movement -------------------------------------------------------------------


def known_maps(op: Operation, behavior: Behavior, arrays: Sequence[Array]) -> tuple[IndexMap, ...]:
    """The index maps of `op` whose operands hold `arrays`."""
    if behavior.movement_of_values is None:
        return behavior.maps(op)
    plain = [
        array
        for index, array in enumerate(arrays)
        if behavior.operand_port(index).kind is PortKind.PLAIN
    ]
    return (behavior.movement_of_values(op, plain),)


def move(
    op: Operation, behavior: Behavior, sources: Sequence[SSAValue], arrays: Sequence[Array]
) -> list[Array] | Refusal:
    """The results of a movement `op` whose operands are `arrays` of the types of `sources`.

    `sources` may be quantized where `op` is not (its operands dequantized): the law's
    refusals then concern the qparams of a quantized result.
    """
    tied = tied_operands(op, behavior)
    data = [arrays[i] for i in tied]
    try:
        maps = known_maps(op, behavior, arrays)
        fill = border(maps[0], [sources[i] for i in tied])
        if isinstance(fill, Illegal):
            return Refusal(fill.code, fill.reason)
        return [each.apply(data, fill) for each in maps]
    except (ValueError, IndexError) as error:
        return Refusal("shape", str(error))


def border(movement: IndexMap, operands: Sequence[SSAValue]) -> Any:
    """What `apply` fills with, in the representation of the operands; or the refusal."""
    params = [qparams_of(value) for value in operands]
    known = [q for q in params if q is not None]
    if len(known) == len(params):
        fields = [ParameterField.of(q, shape_of(v)) for q, v in zip(known, operands, strict=True)]
        return movement.border_integers(fields)
    if str(element_type(operands[0].type)) == "bf16":
        return _narrowed(np.array([movement.border_value], np.float32), "bf16")[0]
    return movement.border_value


def agrees(op: Operation, behavior: Behavior, arrays: Sequence[Array]) -> Refusal | bool:
    """Whether the qparams of the results are sigma o phi, so that integers move verbatim;
    a refusal when no qparams are."""
    tied = [op.operands[i] for i in tied_operands(op, behavior)]
    params = [qparams_of(value) for value in tied]
    fields = [
        ParameterField.of(q, shape_of(v))
        for q, v in zip(params, tied, strict=True)
        if q is not None
    ]
    if not fields:
        return True
    for movement, result in zip(known_maps(op, behavior, arrays), op.results, strict=True):
        declared = qparams_of(result)
        whole = len(fields) == len(params)
        pulled = pulled_along(movement, fields, declared) if whole else None
        if isinstance(pulled, Illegal) and not behavior.requantizes_inputs:
            return Refusal(pulled.code, pulled.reason)
        if declared is None or pulled is None or isinstance(pulled, Illegal):
            return False
        if not is_same_field(pulled, declared, result):
            return False
    return True


def mix(op: Operation, behavior: Behavior, arrays: Sequence[Array]) -> list[Array] | Refusal:
    """A movement `op` on operands of unequal qparams: dequantize, move, quantize half even."""
    declared = qparams_of(op.results[0])
    if declared is None or not is_integer(declared):
        return Refusal("float-result", "quantized constants give a float result")
    if arithmetic_of(op) is Arithmetic.EXPRESSED and can_quantize_floats(declared):
        floats = [dequantize(array, v) for array, v in zip(arrays, op.operands, strict=True)]
        known = [array for array in floats if not isinstance(array, Refusal)]
        if len(known) < len(floats):
            return Refusal("dtype", "an operand is not dequantized")
        (movement,) = behavior.maps(op)
        return [quantize_floats(movement.apply(known), declared, Rounding.HALF_EVEN)]
    reals = _exact(op.operands, arrays)
    if isinstance(reals, Refusal):
        return reals
    (movement,) = behavior.maps(op)
    num = movement.apply([real.num for real in reals])
    den = movement.apply([np.broadcast_to(real.den, real.shape) for real in reals])
    return [Rationals(num, den).quantize(declared, Rounding.HALF_EVEN)]


# -- arithmetic -------------------------------------------------------------------


WORK = 1 << 22
"""Exact sums of more numbers than this are left to run time."""


def compute(op: Operation, behavior: Behavior, arrays: Sequence[Array]) -> Array | Refusal:
    """The single result of `op`, which computes, on constants that hold `arrays`."""
    shape = shape_of(op.results[0])
    solid = [array.reshape(array.shape or (1,)) for array in arrays]
    work = behavior.work(op) if behavior.work is not None else 0
    if work > WORK:
        return Refusal("work", f"{work} numbers to multiply or sum, the cap is {WORK}")
    try:
        if any(qparams_of(v) is not None for v in (*op.operands, *op.results)):
            result = compute_codes(op, behavior, solid)
        elif isinstance(element_type(op.results[0].type), IntegerType):
            result = _on_integers(op, behavior, solid)
        else:
            result = _on_floats(op, behavior, solid)
    except (ValueError, IndexError) as error:
        return Refusal("unsupported", str(error))
    return result if isinstance(result, Refusal) else result.reshape(shape)


def _unsupported(op: Operation) -> Refusal:
    return Refusal("unsupported", f"no exact arithmetic is declared for '{op.name}'")


def _exact(values: Sequence[SSAValue], arrays: Sequence[Array]) -> list[Rationals] | Refusal:
    reals: list[Rationals] = []
    for value, array in zip(values, arrays, strict=True):
        params = qparams_of(value)
        name = str(element_type(value.type))
        if params is not None:
            if not is_integer(params):
                return Refusal("dtype", f"no arithmetic on codes stored as {params.storage}")
            reals.append(Rationals.of_codes(array, params))
        elif name in _FLOATS:
            widened = _widened(array, name)
            if not np.isfinite(widened).all():
                return Refusal("not-finite", "a constant holds NaN or infinity")
            reals.append(Rationals.of_floats(widened))
        else:
            return Refusal("dtype", f"no arithmetic on constants of {name}")
    return reals


def compute_codes(op: Operation, behavior: Behavior, arrays: Sequence[Array]) -> Array | Refusal:
    """The codes that `op` gives for arrays of at least one dimension, which broadcast where
    the op is elementwise."""
    if behavior.on_stored is not None:
        return behavior.on_stored(op, arrays)
    declared = qparams_of(op.results[0])
    if declared is None or not is_integer(declared):
        return Refusal("float-result", f"'{op.name}' on codes does not give integer codes")
    rounding = rounding_of(op)
    if rounding.two_stage:
        return Refusal("rounding", f"{rounding.value} does not round real numbers")
    if behavior.clamp is not None:
        bounds = behavior.clamp(op)
        defined = arithmetic_of(op)
        low, high = (_bound(bound, op.operands[0], arrays[0], defined) for bound in bounds)
        return np.minimum(np.maximum(arrays[0], low), high)
    if behavior.select is not None:
        return behavior.select(op, arrays[0], declared.storage.min)
    if behavior.choose is not None:
        return behavior.choose(op, arrays)
    function = behavior.analytic or behavior.pointwise or behavior.transcendental
    if behavior.arithmetic is None and function is None:
        return _unsupported(op)
    if rounds_each_step(op, behavior):
        return _in_floats(op, behavior, arrays, declared, rounding)
    reals = _exact(op.operands, arrays)
    if isinstance(reals, Refusal):
        return reals
    if behavior.arithmetic is not None:
        exact: Rationals = behavior.arithmetic(op, reals)
        codes = exact.quantize(declared, rounding)
        if behavior.roots:
            upper = behavior.arithmetic(op, [RootsUp(x.num, x.den) for x in reals])
            if np.any(upper.quantize(declared, rounding) != codes):
                return Refusal("tie", "a square root does not decide which code is nearest")
        return codes
    if behavior.analytic is not None and declared.is_per_tensor:
        return _decided(op, behavior.analytic, reals, declared)
    return _on_table(op, behavior, reals[0])


def rounds_each_step(op: Operation, behavior: Behavior) -> bool:
    """Whether `op` on codes is a few floats of 32 bits, each rounded once, so that every runtime
    computes the same."""
    if arithmetic_of(op) is Arithmetic.REAL or is_kernel(op):
        return False
    known = [qparams_of(v) for v in (*op.operands, *op.results)]
    floats = all(q is not None and q.expressed == "f32" for q in known)
    return floats and behavior.elementwise and behavior.arithmetic is not None


def _in_floats(
    op: Operation,
    behavior: Behavior,
    arrays: Sequence[Array],
    declared: QParams,
    rounding: Rounding,
) -> Array | Refusal:
    values: list[Array] = []
    for array, value in zip(arrays, op.operands, strict=True):
        floats = dequantize(array, value)
        if isinstance(floats, Refusal):
            return floats
        values.append(floats)
    steps = behavior.in_floats or behavior.arithmetic
    assert steps is not None
    with np.errstate(all="ignore"):
        result: Array = steps(op, values)
    return quantize_floats(result.astype(np.float32, copy=False), declared, rounding)


def _decided(
    op: Operation, function: ElementaryFunctions, reals: Sequence[Rationals], to: QParams
) -> Array | Refusal:
    """A function that is not rational, of exact operands: the nearest codes for certain."""
    shape = np.broadcast_shapes(*(x.shape for x in reals))
    rows = list(zip(*(x.fractions(shape) for x in reals), strict=True))
    distinct = list(dict.fromkeys(rows))
    operands = [Reals.exact([row[i] for row in distinct]) for i in range(len(reals))]
    bounds = to.storage.min, to.storage.max
    try:
        result = Reals.apply(lambda x: function(op, x), *operands)
        codes = decide(result, to.scale, to.zero_point, bounds, rounding_of(op))
    except UndecidedError as error:
        return Refusal("tie", str(error))
    code_of = dict(zip(distinct, codes.tolist(), strict=True))
    return np.array([code_of[row] for row in rows], storage_dtype(to)).reshape(shape)


def _bound(bound: float, value: SSAValue, codes: Array, defined: Arithmetic) -> Array:
    """A real bound as codes of `value`, half even; the storage's own bound if infinite."""
    params = qparams_of(value)
    assert params is not None
    if not np.isfinite(bound):
        end = params.storage.max if bound > 0 else params.storage.min
        return np.array(end, codes.dtype)
    if defined is Arithmetic.EXPRESSED and can_quantize_floats(params):
        return quantize_floats(np.full(codes.shape, bound), params, Rounding.HALF_EVEN)
    level = Rationals.of_floats(np.full(codes.shape, bound))
    return level.quantize(params, Rounding.HALF_EVEN)


_LIBRARY_ERROR = 2.0**-48
"""Relative error granted to float64 library functions."""


def _on_table(op: Operation, behavior: Behavior, x: Rationals) -> Array | Refusal:
    """A transcendental function of exact operands, where no result is near a tie."""
    declared = qparams_of(op.results[0])
    function = behavior.pointwise or behavior.transcendental
    assert declared is not None and function is not None
    try:
        operand = (x.num / x.den).astype(np.float64)
    except OverflowError:
        return Refusal("not-finite", "an operand is beyond float64")
    scale = spread(declared.scale_array(), declared, x.shape)
    zero = spread(declared.zero_point_array(), declared, x.shape)
    steps = function(op, operand) / scale
    distance = np.abs(np.abs(steps - np.floor(steps)) - 0.5)
    error = _LIBRARY_ERROR
    if behavior.transcendental is not None:
        # Exponentials of operands that were rounded, and sums of them.
        error += (4 * np.abs(operand).max(initial=0.0) + operand.size) * 2.0**-52
    if np.any(distance <= np.abs(steps) * error):
        return Refusal("tie", "a result is too close to a rounding boundary to be decided")
    codes = round_floats(steps, Rounding.HALF_EVEN) + zero
    stored = np.clip(codes, declared.storage.min, declared.storage.max)
    return stored.astype(Rationals.of_integers(codes).quantize(declared, Rounding.HALF_EVEN).dtype)


def _on_integers(op: Operation, behavior: Behavior, arrays: Sequence[Array]) -> Array | Refusal:
    """Plain integers: exact; quotients towards zero, as ONNX has them."""
    dtype = arrays[0].dtype
    if behavior.arithmetic is None and behavior.select is None and behavior.choose is None:
        return _unsupported(op)
    if dtype.kind not in "iu" or any(array.dtype != dtype for array in arrays):
        return Refusal(
            "dtype", f"no arithmetic on constants of {element_type(op.operands[0].type)}"
        )
    if behavior.select is not None:
        return behavior.select(op, arrays[0], np.iinfo(dtype).min)
    if behavior.choose is not None:
        return behavior.choose(op, arrays)
    assert behavior.arithmetic is not None
    exact: Rationals = behavior.arithmetic(op, [Rationals.of_integers(a) for a in arrays])
    try:
        whole = exact.truncate()
        return np.array(whole.tolist(), dtype)
    except (ValueError, OverflowError) as error:
        return Refusal("overflow", str(error))


def _on_floats(op: Operation, behavior: Behavior, arrays: Sequence[Array]) -> Array | Refusal:
    name = str(element_type(op.results[0].type))
    names = [str(element_type(operand.type)) for operand in op.operands]
    for each in (name, *names):
        if each not in _FLOATS:
            return Refusal("dtype", f"no arithmetic on constants of {each}")
    widened = [_widened(array, each) for array, each in zip(arrays, names, strict=True)]
    sums = behavior.work is not None and behavior.select is None
    if sums and not all(np.isfinite(array).all() for array in widened):
        return Refusal("not-finite", "a constant holds NaN or infinity")
    with np.errstate(all="ignore"):
        if behavior.clamp is not None:
            low, high = behavior.clamp(op)
            return _narrowed(np.clip(widened[0], low, high), name)
        if behavior.select is not None:
            return _narrowed(behavior.select(op, widened[0], -np.inf), name)
        if behavior.choose is not None:
            return _narrowed(behavior.choose(op, widened), name)
        if behavior.arithmetic is not None:
            steps = behavior.in_floats or behavior.arithmetic
            result: Array = steps(op, widened)
            return _narrowed(result.astype(_FLOATS[name], copy=False), name)
        function = behavior.pointwise or behavior.transcendental
        if function is not None:
            exact = function(op, widened[0].astype(np.float64))
            return _narrowed(exact.astype(_FLOATS[name]), name)
    return _unsupported(op)


def dequantize(codes: Array, value: SSAValue) -> Array | Refusal:
    """float(q - z) * s in the expressed type, as ONNX DequantizeLinear."""
    params = qparams_of(value)
    if params is None or not is_integer(params) or params.expressed not in _FLOATS:
        return Refusal("dtype", f"no float constant for {element_type(value.type)}")
    working = _FLOATS[params.expressed]
    sides = params.scale_array().astype(working), params.zero_point_array()
    scale, zero = (np.broadcast_to(spread(v, params, codes.shape), codes.shape) for v in sides)
    result = np.empty(codes.shape, _STORED.get(params.expressed, working))
    for where in chunks(codes.shape):
        steps = codes[where].astype(np.int64) - zero[where]
        with np.errstate(all="ignore"):
            result[where] = _narrowed(steps.astype(working) * scale[where], params.expressed)
    return result


def _widened(array: Array, name: str) -> Array:
    if name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(_FLOATS[name], copy=False)


def _narrowed(values: Array, name: str) -> Array:
    """Numbers as stored floats, rounded to nearest even."""
    if name == "f16":
        return values.astype(np.float16)
    if name != "bf16":
        return values
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)
