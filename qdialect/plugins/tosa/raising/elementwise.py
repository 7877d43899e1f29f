"""Elementwise ops: arithmetic on integers of one scale or on floats, clamps, tables, functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import keyword_of, number_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tosa.raising.casts import dequantized
from qdialect.plugins.tosa.raising.facts import known, number, scaled_cast
from qdialect.plugins.tosa.raising.movement import as_typed, common_order, same_typed
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser
from qdialect.plugins.tosa.raising.rescale import rescaled
from qdialect.plugins.tosa.raising.ties import corrected

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _is_float(x: Raised) -> bool:
    return str(x.storage) in ("f32", "f16", "bf16", "f64")


def _refuse_ignored_nan(op: Operation, x: Raised) -> None:
    if _is_float(x) and keyword_of(op, "nan_mode", "PROPAGATE") == "IGNORE":
        raise Unraisable("nan", "it ignores NaN")


def _arithmetic(kind: type[NNOp]) -> Handler:
    """`add` and `sub`, of codes less no zero point."""

    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        order = common_order(operands)
        if not r.meanings.is_quantized(op.results[0]):
            return Raised(order, r.op(kind, *(r.plain(x, order) for x in operands)))
        params = r.meanings.params(op.results[0], 0)
        values = [r.typed(x, params, order) for x in operands]
        return Raised(order, r.op(kind, *values, element=UniformType(params)))

    return raise_it


def difference(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`sub`; one that puts ties right is the rescale in front of it, rounded otherwise."""
    found = corrected(op, r.session)
    if found is None:
        return _arithmetic(nn.SubOp)(r, op, operands)
    rescale, given = found
    return rescaled(r, rescale, r.known[rescale.operands[0]], op.results[0], given)


def product(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`mul`: the scales are multiplied too."""
    order = common_order(operands[:2])
    scaled = scaled_cast(op, r.session)
    if scaled is not None:
        cast, scale = scaled
        return dequantized(r, r.known[cast.operands[0]], scale)
    if _is_float(operands[0]):
        return Raised(order, r.op(nn.MulOp, *(r.plain(x, order) for x in operands[:2])))
    if number(op, 2, r.session):
        raise Unraisable("shift", "it shifts its product")
    if not any(r.meanings.is_quantized(v) for v in (*op.operands[:2], op.results[0])):
        if str(operands[0].storage) != "i32":
            raise Unraisable("type", "its product is wider than its operands")
        return Raised(order, r.op(nn.MulOp, *(r.plain(x, order) for x in operands[:2])))
    params = [_factor(r, v) for v in op.operands[:2]]
    result = QParams.per_tensor("i32", params[0].scale * params[1].scale)
    values = [r.typed(x, p, order) for x, p in zip(operands[:2], params, strict=True)]
    return Raised(order, r.op(nn.MulOp, *values, element=UniformType(result)))


def _factor(r: Raiser, value: SSAValue) -> QParams:
    params = r.meanings.params(value, 0)
    return QParams.per_tensor(f"i{params.storage.width}", params.scale)


def _extremum(kind: type[NNOp]) -> Handler:
    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        _refuse_ignored_nan(op, operands[0])
        order = common_order(operands)
        return Raised(order, r.op(kind, *same_typed(r, op, operands, order, op.operands)))

    return raise_it


def clamp(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`clamp` as `nn.relu` or `nn.clip`, whose bounds are numbers that codes stand for."""
    (x,), value = operands, op.operands[0]
    _refuse_ignored_nan(op, x)
    low, high = number_of(op, "min_val"), number_of(op, "max_val")
    stored = as_typed(r, x, value)
    params = Raised(x.order, stored).params
    if params is None:
        if isinstance(x.storage, IntegerType):
            raise Unraisable("type", "nn clips real numbers")
        if low == 0 and high >= _largest(str(x.storage)):
            return Raised(x.order, r.op(nn.ReluOp, stored))
        return Raised(x.order, r.op(nn.ClipOp, stored, min=float(low), max=float(high)))
    if not params.is_per_tensor or not params.storage.signed:
        params = r.meanings.params(value)
        params = QParams.per_tensor(f"i{params.storage.width}", params.scale)
        stored = r.typed(x, params)
    zero, storage = params.zero_point, params.storage
    if low <= zero and low > storage.min and low == zero and high >= storage.max:
        return Raised(x.order, r.op(nn.ReluOp, stored))
    bounds: dict[str, Any] = {}
    if low > storage.min:
        bounds["min"] = (int(low) - zero) * params.scale
    if high < storage.max:
        bounds["max"] = (int(high) - zero) * params.scale
    if not bounds:
        return Raised(x.order, stored)
    return Raised(x.order, r.op(nn.ClipOp, stored, **bounds))


def _largest(kind: str) -> float:
    return {"f16": 65504.0, "bf16": 3.3895313892515355e38}.get(kind, 3.4028234663852886e38)


def table(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`table` of 8-bit codes, or of 16-bit codes with all that lies between entries written out."""
    x, value, result = operands[0], op.operands[0], op.results[0]
    entries = known(op, 1, r.session).reshape(-1)
    width = r.meanings.storage(value).width
    if width == 16:
        entries = _interpolated(entries)
    elif width != 8:
        raise Unraisable("table", f"it looks up {width} bits")
    source = x.params
    if source is None or not source.is_per_tensor or not source.storage.signed:
        source = QParams.per_tensor(f"i{width}", r.meanings.scale(value))
    target = r.meanings.params(result)
    if not target.storage.signed:
        # The bits of the entries are those of the codes.
        entries = entries.view(f"u{entries.dtype.itemsize}")
    stored = r.constant(np.ascontiguousarray(entries), UniformType(target))
    out = r.op(nn.TableOp, r.typed(x, source), stored, element=UniformType(target))
    return Raised(x.order, out)


def _interpolated(entries: NDArray[Any]) -> NDArray[np.int32]:
    """What a table of 513 entries gives for every 16-bit code: 7 bits lie between two."""
    wide = entries.astype(np.int64)
    places, parts = np.divmod(np.arange(1 << 16), 1 << 7)
    slopes = wide[places + 1] - wide[places]
    return ((wide[places] << 7) + slopes * parts).astype(np.int32)


def _function(kind: type[NNOp], **properties: Any) -> Handler:
    """A function of floats."""

    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        x = operands[0]
        if not _is_float(x):
            raise Unraisable("type", "it is no function of floats")
        return Raised(x.order, r.op(kind, r.plain(x, x.order), **properties))

    return raise_it


def reciprocal_root(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`rsqrt` in two ops."""
    (x,) = operands
    if not _is_float(x):
        raise Unraisable("type", "it is no function of floats")
    return Raised(x.order, r.op(nn.ReciprocalOp, r.op(nn.SqrtOp, r.plain(x, x.order))))


def select(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`select` by a condition."""
    order = common_order(operands)
    condition = r.plain(operands[0], order)
    values = same_typed(r, op, operands[1:], order, op.operands[1:])
    return Raised(order, r.op(nn.SelectOp, condition, *values))


def _comparison(mode: str) -> Handler:
    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        order = common_order(operands)
        values = [r.plain(x, order) for x in operands]
        return Raised(order, r.op(nn.CompareOp, *values, mode=mode))

    return raise_it


def negation(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`logical_not` of what is equal."""
    (x,) = operands
    compared = None if x.value is None else x.value.owner
    if not isinstance(compared, nn.CompareOp) or compared.values["mode"] != "eq":
        raise Unraisable("no-counterpart", "nothing of ours negates booleans")
    return Raised(x.order, r.op(nn.CompareOp, *compared.operands, mode="ne"))


HANDLERS: Mapping[str, Handler] = {
    "add": _arithmetic(nn.AddOp),
    "sub": difference,
    "mul": product,
    "maximum": _extremum(nn.MaximumOp),
    "minimum": _extremum(nn.MinimumOp),
    "clamp": clamp,
    "table": table,
    "select": select,
    "logical_not": negation,
    "equal": _comparison("eq"),
    "greater": _comparison("gt"),
    "greater_equal": _comparison("ge"),
    "abs": _function(nn.AbsOp),
    "ceil": _function(nn.CeilOp),
    "floor": _function(nn.FloorOp),
    "exp": _function(nn.ExpOp),
    "log": _function(nn.LogOp),
    "erf": _function(nn.ErfOp),
    "sigmoid": _function(nn.SigmoidOp),
    "tanh": _function(nn.TanhOp),
    "reciprocal": _function(nn.ReciprocalOp),
    "negate": _function(nn.NegOp),
    "rsqrt": reciprocal_root,
}
