"""What the ops compute, for the interpreter of qdialect: from the definitions, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from qdialect.quant import quant_element


def reals(codes, kind):
    """Codes (or floats) as exact rationals."""
    element = quant_element(kind)
    values = np.vectorize(Fraction, otypes=[object])(codes.astype(np.float64))
    if element is None:
        return values
    q = element.qparams
    shape = [1] * codes.ndim
    if q.axis is not None:
        shape[q.axis] = -1
    scales = np.array([Fraction(s) for s in q.scale_list()], object)
    zeros = np.array(q.zero_point_list(), object)
    if q.axis is None:
        return (values - int(zeros[0])) * scales[0]
    return (values - zeros.reshape(shape)) * scales.reshape(shape)


def codes(values, kind, dtype):
    """Rationals as codes: half to even, saturated."""
    element = quant_element(kind)
    if element is None:
        return values.astype(dtype)
    q = element.qparams
    low, high, zero, scale = q.storage.min, q.storage.max, q.zero_point, Fraction(q.scale)
    stored = np.vectorize(lambda v: min(max(round(v / scale) + zero, low), high), otypes=[dtype])
    return stored(values)


def splat_max(op, operands, evaluation):
    kind = op.results[0].type
    x = reals(operands[0], op.operands[0].type)
    floor = Fraction(op.properties["floor"].value.data)
    return [codes(np.maximum(x, floor), kind, evaluation.dtype(kind))]


def rotate(op, operands, evaluation):
    return [operands[0][..., ::-1]]


def conv_relu(op, operands, evaluation):
    kind = op.results[0].type
    x, w, *bias = (reals(v, o.type) for v, o in zip(operands, op.operands, strict=True))
    y = np.moveaxis(np.tensordot(w[:, :, 0, 0], x, axes=(1, 1)), 0, 1)
    if bias:
        y = y + bias[0].reshape(1, -1, 1, 1)
    return [codes(np.maximum(y, Fraction(0)), kind, evaluation.dtype(kind))]
