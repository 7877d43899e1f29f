"""Kernels of ops that read or write elements by index: gather, select, insert and lookups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array, Evaluation, Kernel, place
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element


def _gather(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Indices outside [-extent, extent) are an InputError (`index-range`)."""
    x, indices = operands
    axis: int = properties(op)["axis"]
    extent = x.shape[axis]
    if indices.size and not -extent <= int(indices.min()) <= int(indices.max()) < extent:
        raise InputError(
            f"'{op.name}' reads outside an extent of {extent}", where=place(op), code="index-range"
        )
    return [np.take(x, indices.astype(np.int64), axis)]


def _select(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.where(*operands)]


def _insert(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """An update that does not fit is an InputError (`index-range`)."""
    x, update = operands
    v = properties(op)
    result = x.copy()
    where = list[Array]()
    for extent, count, start, step in zip(
        x.shape, update.shape, v["starts"], v["steps"], strict=True
    ):
        indices: Array = start + step * np.arange(count, dtype=np.int64)
        if count and int(indices[-1]) >= extent:
            raise InputError(
                f"'{op.name}' writes outside an extent of {extent}",
                where=place(op),
                code="index-range",
            )
        where.append(indices)
    result[np.ix_(*where)] = update
    return [result]


def _table(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """One entry per element, by the number of its code from the lowest one up."""
    codes, entries = operands
    element = quant_element(op.operands[0].type)
    assert element is not None
    storage = element.qparams.storage
    lowest = -(1 << (storage.width - 1)) if storage.signed else 0
    return [np.take(entries, codes.astype(np.int64) - lowest)]


KERNELS: Mapping[str, Kernel] = {
    nn.GatherOp.name: _gather,
    nn.SelectOp.name: _select,
    nn.InsertOp.name: _insert,
    nn.TableOp.name: _table,
}
