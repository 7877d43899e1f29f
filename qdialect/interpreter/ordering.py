"""Kernels of ops that tell how elements compare: of floats as they are, of codes in the
order of the numbers they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.qparams import Storage
from qdialect.interpreter.codes import codes_of, is_coded, ordered
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element

_RELATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    relation = _RELATIONS[properties(op)["mode"]]
    storage = _storage(op)
    if storage is not None and is_coded(storage):
        operands = [codes_of(storage).read(x) for x in operands]
    return [np.asarray(relation(operands[0], operands[1]))]


def _storage(op: Operation) -> Storage | None:
    element = quant_element(op.operands[0].type)
    return None if element is None else element.qparams.storage


def _place(largest: bool) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        (x,), v, storage = operands, properties(op), _storage(op)
        ranks = x if storage is None else ordered(x, storage)
        rows = np.moveaxis(ranks, v["axis"], -1)
        if v["last"]:
            rows = rows[..., ::-1]
        places = np.argmax(rows, -1) if largest else np.argmin(rows, -1)
        if v["last"]:
            places = rows.shape[-1] - 1 - places
        places = np.asarray(places, np.int64)
        return [np.expand_dims(places, v["axis"]) if v["keepdims"] else places]

    return kernel


def _top_k(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    (x,), v, storage = operands, properties(op), _storage(op)
    axis, extent = v["axis"], x.shape[v["axis"]]
    ranks = x if storage is None else ordered(x, storage)
    order: Array
    if v["largest"]:
        # Ascending from behind and read backwards: of equal ones the first stays first.
        rising: Array = np.argsort(np.flip(ranks, axis), axis=axis, kind="stable")
        order = extent - 1 - np.flip(rising, axis)
    else:
        order = np.argsort(ranks, axis=axis, kind="stable")
    places: Array = np.take(order, np.arange(v["k"], dtype=np.int64), axis).astype(np.int64)
    return [np.take_along_axis(x, places, axis), places]


KERNELS: Mapping[str, Kernel] = {
    nn.CompareOp.name: _compare,
    nn.ArgMaxOp.name: _place(largest=True),
    nn.ArgMinOp.name: _place(largest=False),
    nn.TopKOp.name: _top_k,
}
