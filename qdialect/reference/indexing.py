"""Kernels of ops that number, pick or repeat elements.

Stored integers are copied as they are: the verifier sees to it that the qparams of
operand and result agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect import ops as nn
from qdialect.errors import InputError
from qdialect.reference.elementwise import properties
from qdialect.reference.values import Array, Evaluation, Kernel, place


def _squeeze(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.squeeze(operands[0], tuple(properties(op)["axes"]))]


def _unsqueeze(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.expand_dims(operands[0], tuple(properties(op)["axes"]))]


def _expand(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    shape = np.broadcast_shapes(operands[0].shape, tuple(properties(op)["shape"]))
    return [np.broadcast_to(operands[0], shape)]


def _tile(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.tile(operands[0], properties(op)["repeats"])]


def _repeat(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    x = operands[0]
    for axis, count in enumerate(properties(op)["repeats"]):
        x = np.repeat(x, count, axis)
    return [x]


def _flip(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.flip(operands[0], tuple(properties(op)["axes"]))]


def _split(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    v = properties(op)
    return np.split(operands[0], np.cumsum(v["sizes"])[:-1], v["axis"])


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


KERNELS: Mapping[str, Kernel] = {
    nn.SqueezeOp.name: _squeeze,
    nn.UnsqueezeOp.name: _unsqueeze,
    nn.ExpandOp.name: _expand,
    nn.TileOp.name: _tile,
    nn.RepeatOp.name: _repeat,
    nn.FlipOp.name: _flip,
    nn.SplitOp.name: _split,
    nn.GatherOp.name: _gather,
    nn.SelectOp.name: _select,
    nn.InsertOp.name: _insert,
}
