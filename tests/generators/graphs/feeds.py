"""Inputs of a random graph: anything, many ties of roundings, extreme numbers."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

EXTREMES = (0.0, -0.0, 1e-39, -1e-39, 1e30, -1e30, 3e38, -3e38, 1e4, -1e4, 1.0, -1.0, 0.5, -2.5)


def scales_of(model: onnx.ModelProto) -> list[float]:
    """The scales by which the model quantizes, where they are constants."""
    known = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = node.attribute[0].t
    found: list[float] = []
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[1] in known:
            found += numpy_helper.to_array(known[node.input[1]]).reshape(-1).tolist()
    return [s for s in found if 0 < s < 1e30]


def random_feeds(model: onnx.ModelProto, kind: int) -> dict[str, np.ndarray]:
    """Inputs: 0 of anything, 1 with many ties of roundings, 2 of extreme numbers."""
    rng, feeds = np.random.default_rng(kind), dict[str, np.ndarray]()
    constants = {tensor.name for tensor in model.graph.initializer}
    scales = scales_of(model) or [0.05]
    for value in model.graph.input:
        if value.name not in constants:
            shape = _sample_shape(value)
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            feeds[value.name] = _feed(rng, shape, dtype, kind, scales)
    return feeds


def resized(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model with other samples: all dynamic extents, and each by itself, are 0, 1 and 7."""
    named = {_extent(dim, at) for at, dim in _dynamic(model)}
    for chosen in [named, *({name} for name in sorted(named) if len(named) > 1)] if named else ():
        for extent in (0, 1, 7):
            other = onnx.ModelProto()
            other.CopyFrom(model)
            for value in other.graph.input:
                shape = _sample_shape(value)
                for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                    if not dim.HasField("dim_value") and _extent(dim, (value.name, axis)) in chosen:
                        shape[axis] = extent
                value.doc_string = json.dumps(shape)
            yield other


def _dynamic(model: onnx.ModelProto) -> Iterator[tuple[tuple[str, int], Any]]:
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                yield (value.name, axis), dim


def _extent(dim: Any, at: tuple[str, int]) -> str:
    """What two extents that are the same have in common."""
    return dim.dim_param or f"{at}"


def _sample_shape(value: onnx.ValueInfoProto) -> list[int]:
    """The shape of an input: a dynamic one has that of its sample as its text."""
    dims = value.type.tensor_type.shape.dim
    if value.doc_string:
        return json.loads(value.doc_string)
    return [dim.dim_value or (2 if dim.dim_param else 0) for dim in dims]


def _feed(rng: Any, shape: Any, dtype: Any, kind: int, scales: Sequence[float]) -> np.ndarray:
    if dtype.isbuiltin == 2:  # of ml_dtypes
        return np.clip(_feed(rng, shape, np.dtype(np.float32), kind, scales), -6, 6).astype(dtype)
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape) > 0)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        wide = dtype.itemsize == 1
        low, high = (limits.min, limits.max) if wide else (max(limits.min, -9), 9)
        codes = rng.integers(low, high, shape, endpoint=True, dtype=dtype)
        return np.asarray(codes if kind != 2 else rng.choice([low, high, 0, 1], shape)).astype(
            dtype
        )
    if kind == 0:
        return np.asarray(rng.normal(size=shape) * 2).astype(dtype)
    if kind == 1:
        halves = rng.integers(-260, 260, shape) * np.float32(0.5)
        return np.asarray(halves * np.float32(rng.choice(scales))).astype(dtype)
    limit = float(np.finfo(dtype).max)
    return np.asarray(np.clip(rng.choice(EXTREMES, shape), -limit, limit)).astype(dtype)
