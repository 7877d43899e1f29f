"""Small fields and the two ways a pull can end, for the tests that read like a table."""

from __future__ import annotations

import math

from qdialect.algebra.qparams import Illegal, Layout, ParameterField, QParams, Shape
from qdialect.algebra.qparams.maps import IndexMap

ABCD = [1.0, 2.0, 3.0, 4.0]
ZEROS = [5, 6, 7, 8]


def tensor(
    shape: Shape, scale: float = 0.5, zero_point: int = 3, storage: str = "i8"
) -> ParameterField:
    return ParameterField.of(QParams.per_tensor(storage, scale, zero_point), shape)


def axis(
    shape: Shape, at: int, scales: list[float], zeros: list[int] | None = None
) -> ParameterField:
    return ParameterField.of(QParams.per_axis("i8", at, scales, zeros), shape)


def grid(shape: Shape, *blocks: int) -> ParameterField:
    """All-different parameters on blocks of that size."""
    counts = [s // b for s, b in zip(shape, blocks, strict=True)]
    scales = [float(k + 1) for k in range(math.prod(counts))]
    return ParameterField.of(
        QParams.blockwise("i8", list(enumerate(blocks)), counts, scales), shape
    )


def pulled(index_map: IndexMap, *fields: ParameterField, layout: Layout | None = None) -> QParams:
    result = index_map.pull(fields, layout=layout)
    assert isinstance(result, ParameterField), result
    return result.to_qparams()


def refused(index_map: IndexMap, *fields: ParameterField, layout: Layout | None = None) -> str:
    result = index_map.pull(fields, layout=layout)
    assert isinstance(result, Illegal), result
    assert result.reason
    return result.code


def on(at: int, scales: list[float], zeros: list[int] | None = None) -> QParams:
    return QParams.per_axis("i8", at, scales, zeros)


def one(scale: float, zero_point: int = 0) -> QParams:
    return QParams.per_tensor("i8", scale, zero_point)
