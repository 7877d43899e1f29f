"""Arithmetic on constants, of shapes mostly: its result is a constant.

Only small ones of plain numbers are computed, so that reshapes and slices behind them are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.ir.ops.constants import element_name
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising.node import Node, params_of
from qdialect.plugins.tflite.raising.slices import slices_of
from qdialect.plugins.tflite.raising.values import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST = 1 << 12
"""Elements of a result at most."""
_KINDS = {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
_FLOATS = {"f32": np.float32, "f64": np.float64}

Arrays = Sequence["NDArray[Any]"]
Fold = Callable[[Node, Arrays], Any]


def folded(node: Node) -> Raised | None:
    """The constant that an op gives, if its operands are small constants of plain numbers."""
    if len(node.op.results) != 1 or node.params() is not None:
        return None
    shaped = _of_shape(node)
    if shaped is not None:
        return _constant(node, shaped)
    fold = _FOLDS.get(node.name)
    if fold is None or node.activation != "NONE":
        return None
    arrays: list[NDArray[Any]] = []
    for x in node.inputs:
        if x is None or x.array is None or params_of(x) is not None or x.array.size > _LARGEST:
            return None
        arrays.append(x.array)
    # Of floats, only what moves them: their sums are those of a runtime.
    if any(a.dtype.kind == "f" for a in arrays) and node.name not in _MOVES:
        return None
    return _constant(node, fold(node, arrays))


def _constant(node: Node, found: Any) -> Raised | None:
    kind = {**_KINDS, **_FLOATS}.get(element_name(node.kind()))
    if kind is None:
        return None
    array = np.asarray(found).astype(kind)
    return Constant(identity_order(array.ndim), None, array, node.kind())


def _of_shape(node: Node) -> Any:
    if node.name == "SHAPE" and min((0, *node.input(0).shape)) >= 0:
        return np.array(node.input(0).shape, np.int64)
    return np.array(node.input(0).rank) if node.name == "RANK" else None


def _div(a: Any, b: Any) -> Any:
    """Integers, toward zero."""
    return np.trunc(a / b)


def _binary(function: Callable[[Any, Any], Any]) -> Fold:
    return lambda node, x: function(x[0], x[1])


def _slice(node: Node, x: Arrays) -> Any:
    begin, size = x[1].reshape(-1), x[2].reshape(-1)
    return x[0][
        tuple(
            slice(int(a), None if n < 0 else int(a) + int(n))
            for a, n in zip(begin, size, strict=True)
        )
    ]


def _strided(node: Node, x: Arrays) -> Any:
    found = slices_of(node, x[0].shape)
    taken: Any = x[0][tuple(slice(*bounds) for bounds in found.bounds(x[0].shape))]
    return taken.reshape(found.shape(taken.shape))


def _range(node: Node, x: Arrays) -> Any:
    start, stop, step = (int(a.reshape(-1)[0]) for a in x)
    return np.array(range(start, stop, step), np.int64)


def _squeeze(node: Node, x: Arrays) -> Any:
    shape = node.shape()
    return x[0].reshape(shape) if min((0, *shape)) >= 0 else np.squeeze(x[0])


def _small(shape: Sequence[int]) -> tuple[int, ...]:
    found = tuple(int(n) for n in shape)
    if int(np.prod(found)) > _LARGEST:
        raise ValueError("it fills a tensor that is larger than shapes are")
    return found


_MOVES: Mapping[str, Fold] = {
    "RESHAPE": lambda node, x: x[0].reshape(x[1].reshape(-1) if len(x) > 1 else node.shape()),
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": lambda node, x: np.expand_dims(x[0], int(x[1].reshape(-1)[0])),
    "TRANSPOSE": lambda node, x: x[0].transpose(x[1].reshape(-1)),
    "CONCATENATION": lambda node, x: np.concatenate(x, axis=node.number("axis")),
    "PACK": lambda node, x: np.stack(x, axis=node.number("axis")),
    "SLICE": _slice,
    "STRIDED_SLICE": _strided,
}
_FOLDS: Mapping[str, Fold] = {
    **_MOVES,
    "GATHER": lambda node, x: (
        np.take(x[0], x[1], axis=node.number("axis")) if not node.number("batch_dims") else None
    ),
    "ADD": _binary(np.add),
    "SUB": _binary(np.subtract),
    "MUL": _binary(np.multiply),
    "DIV": _binary(_div),
    "FLOOR_DIV": _binary(np.floor_divide),
    "FLOOR_MOD": _binary(np.mod),
    "MAXIMUM": _binary(np.maximum),
    "MINIMUM": _binary(np.minimum),
    "CAST": lambda node, x: x[0],
    "NEG": lambda node, x: -x[0],
    "REDUCE_PROD": lambda node, x: np.prod(
        x[0], axis=tuple(x[1].reshape(-1).tolist()), keepdims=node.flag("keep_dims")
    ),
    "RANGE": _range,
    "FILL": lambda node, x: np.full(_small(x[0].reshape(-1).tolist()), x[1].reshape(-1)[0]),
    "BROADCAST_TO": lambda node, x: np.broadcast_to(x[0], _small(x[1].reshape(-1).tolist())),
}
