"""Differences between runs, and random inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, i1, i32
from xdsl.dialects.func import FuncOp

from qdialect.algebra.qparams import QParams, Storage
from qdialect.errors import InputError
from qdialect.interpreter import compare, compare_all, random_inputs
from qdialect.ir.ops.base import ranked
from qdialect.ir.quant import UniformType

Q = TensorType(UniformType.per_tensor("i8", 0.5, 3), [2, 2])
F = TensorType(f32, [4])


def test_quantized_tensors_in_steps() -> None:
    a, b = np.array([[3, 5], [7, 9]], np.int8), np.array([[3, 5], [4, 10]], np.int8)
    difference = compare(a, b, Q)
    assert difference.max_steps == 3
    assert difference.max_abs == 1.5
    assert difference.share_differing == 0.5
    assert difference.first_index == (1, 0)
    power, noise = 0 + 1 + 4 + 9, 1.5**2 + 0.5**2
    assert difference.sqnr_db == pytest.approx(10 * math.log10(power / noise))
    assert not difference.is_equal


def test_floats_in_units_in_the_last_place() -> None:
    a = np.float32([1.0, 0.0, np.nan, 1e30])
    b = np.float32([np.nextafter(np.float32(1), np.float32(2)), -0.0, np.nan, 1e30])
    difference = compare(a, b, F)
    assert difference.max_steps == 1
    assert difference.first_index == (0,)
    assert difference.share_differing == 0.25
    across = compare(np.float32([1e-45]), np.float32([-1e-45]), TensorType(f32, [1]))
    assert across.max_steps == 2
    half = compare(np.float16([1.0]), np.float16([1.0 + 2**-9]), TensorType(f16, [1]))
    assert half.max_steps == 2
    brain = compare(np.float32([1.0]), np.float32([1.0 + 2**-7]), TensorType(bf16, [1]))
    assert brain.max_steps == 1


def test_what_is_no_number_is_infinitely_far() -> None:
    for value in (np.nan, np.inf):
        difference = compare(np.float32([1.0]), np.float32([value]), TensorType(f32, [1]))
        assert difference.max_steps == math.inf
        assert difference.max_abs == math.inf


def test_equal_tensors_and_lists() -> None:
    a = np.float32([1.0, 0.0, np.nan, np.inf])
    difference = compare(a, a.copy(), F)
    assert difference.is_equal
    assert difference.sqnr_db == math.inf
    assert [d.is_equal for d in compare_all([a, a], [a, a + 1], [F, F])] == [True, False]
    assert compare(np.array([2]), np.array([5]), TensorType(i32, [1])).max_steps == 3
    with pytest.raises(InputError, match="shapes"):
        compare(a, a[:2], F)
    with pytest.raises(InputError, match="2 and 1 results"):
        compare_all([a, a], [a], [F, F])


NARROW = QParams.per_axis(Storage.of("i8", -100, 90), 1, [0.5, 0.25], [-90, 90])


def test_random_inputs() -> None:
    types = [
        TensorType(UniformType(NARROW), [200, 2]),
        ranked(f32, [-1, 50]),
        TensorType(i1, [20]),
        i32,
    ]
    func = FuncOp("main", (types, []))
    first, again = random_inputs(func, 5), random_inputs(func, 5)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], random_inputs(func, 6)[0])
    assert [a.shape for a in first] == [(200, 2), (1, 50), (20,), ()]
    assert [a.dtype for a in first] == [np.int8, np.float32, np.bool_, np.int32]
    assert random_inputs(func, 5, shapes=[(200, 2), (3, 50), (20,), ()])[1].shape == (3, 50)
    for boundary in (False, True):
        stored, floats, *_ = random_inputs(func, 7, boundary)
        assert stored.min() >= -100
        assert stored.max() <= 90
        assert np.isfinite(floats).all()
    stored, floats, *_ = random_inputs(func, 7, boundary=True)
    counts = [int((stored == v).sum()) for v in (-100, 90)]
    assert min(counts) > 10
    assert {-91, -90, -89} <= set(stored[:, 0].tolist())
    assert {0.0, 1e6} <= set(floats.reshape(-1).tolist())
