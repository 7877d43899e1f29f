"""`apply`, and through it `gather_index`, against definitions written out element by element."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from qdialect.algebra.qparams.maps import (
    Broadcast,
    Concat,
    DepthToSpace,
    Flip,
    Gather,
    GatherDynamic,
    Im2col,
    Pad,
    RepeatInterleave,
    Reshape,
    Select,
    Slice,
    SpaceToDepth,
    Tile,
    Transpose,
    split,
)

X = np.arange(2 * 3 * 4).reshape(2, 3, 4)


def test_plain_movements_are_numpys() -> None:
    assert np.array_equal(Reshape((4, -1)).apply([X]), X.reshape(4, 6))
    assert np.array_equal(Transpose((2, 0, 1)).apply([X]), X.transpose(2, 0, 1))
    assert np.array_equal(Slice.along(3, 2, -1, None, -2).apply([X]), X[:, :, ::-2])
    assert np.array_equal(Flip((0, 2)).apply([X]), X[::-1, :, ::-1])
    assert np.array_equal(Tile((2, 1, 3)).apply([X]), np.tile(X, (2, 1, 3)))
    assert np.array_equal(RepeatInterleave((1, 2, 1)).apply([X]), X.repeat(2, 1))
    assert np.array_equal(Broadcast((5, 2, 3, 4)).apply([X]), np.broadcast_to(X, (5, 2, 3, 4)))
    assert np.array_equal(Concat(1).apply([X, X]), np.concatenate([X, X], 1))
    assert np.array_equal(Gather.of(1, [[0, -1], [1, 1]]).apply([X]), X[:, [[0, -1], [1, 1]]])
    assert np.array_equal(Gather.of(2, -1).apply([X]), X[:, :, -1])
    assert np.array_equal(GatherDynamic(1, (2,)).apply([X, np.array([2, 0])]), X[:, [2, 0]])


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pad_modes_are_numpys(mode: str) -> None:
    got = Pad((1, 0, 2), (0, 2, 1), mode).apply([X])  # pyright: ignore[reportArgumentType]
    assert np.array_equal(got, np.pad(X, [(1, 0), (0, 2), (2, 1)], mode))


def test_constant_pad_takes_a_fill_per_channel() -> None:
    fill = np.array([7, 8, 9]).reshape(1, 3, 1)
    got = Pad((0, 0, 1), (0, 0, 0)).apply([X], fill)
    assert got[:, :, 0].tolist() == [[7, 8, 9], [7, 8, 9]]
    assert np.array_equal(got[:, :, 1:], X)


def test_split_parts_concatenate_back() -> None:
    parts = [part.apply([X]) for part in split(3, 2, (1, 3))]
    assert np.array_equal(Concat(2).apply(parts), X)


def test_select_reads_the_mask_row_major() -> None:
    mask = (True, False, True)
    got = Select((2, 3), mask * 2).apply([np.ones((2, 3)), np.zeros((1, 3))])
    assert got.tolist() == [[1, 0, 1]] * 2


@pytest.mark.parametrize("order", ["DCR", "CRD"])
def test_depth_to_space_element_by_element(order: str) -> None:
    r, inner, h, w = 2, 3, 2, 2
    x = np.arange(inner * r * r * h * w).reshape(1, inner * r * r, h, w)
    got = DepthToSpace(r, order).apply([x])  # pyright: ignore[reportArgumentType]
    back = SpaceToDepth(r, order).apply([got])  # pyright: ignore[reportArgumentType]
    for c, i, j in itertools.product(range(inner), range(h * r), range(w * r)):
        phase = i % r * r + j % r
        channel = phase * inner + c if order == "DCR" else c * r * r + phase
        assert got[0, c, i, j] == x[0, channel, i // r, j // r]
    assert np.array_equal(back, x)


def test_im2col_element_by_element() -> None:
    rng = random.Random(1)
    for _ in range(20):
        (kh, kw), (sh, sw) = [(rng.choice((1, 2)), rng.choice((1, 2, 3))) for _ in range(2)]
        (top, left), (bottom, right) = [(rng.choice((0, 1)), rng.choice((0, 1))) for _ in range(2)]
        dh, dw = rng.choice((1, 2)), 1
        x = np.arange(1, 2 * 3 * 5 * 4 + 1).reshape(2, 3, 5, 4)
        got = Im2col((kh, kw), (sh, sw), (top, left), (bottom, right), (dh, dw)).apply([x], -7)
        oh = (5 + top + bottom - dh * (kh - 1) - 1) // sh + 1
        ow = (4 + left + right - dw * (kw - 1) - 1) // sw + 1
        assert got.shape == (2, 3 * kh * kw, oh * ow)
        places = itertools.product(range(3), range(kh), range(kw), range(oh), range(ow))
        for c, i, j, y, z in places:
            at = (y * sh + i * dh - top, z * sw + j * dw - left)
            inside = 0 <= at[0] < 5 and 0 <= at[1] < 4
            row, column = (c * kh + i) * kw + j, y * ow + z
            assert got[1, row, column] == (x[1, c, at[0], at[1]] if inside else -7)


def test_gather_index_numbers_operands_and_fills() -> None:
    operand, flat = Concat(0).gather_index([(1, 2), (2, 2)])
    assert operand.tolist() == [[0, 0], [1, 1], [1, 1]]
    assert flat.tolist() == [[0, 1], [0, 1], [2, 3]]
    operand, flat = Pad((1,), (0,)).gather_index([(2,)])
    assert (operand.tolist(), flat.tolist()) == ([-1, 0, 0], [-1, 0, 1])
