"""Law 2.5, row by row, on cases small enough to read."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from small_fields import ABCD, ZEROS, axis, grid, on, one, pulled, refused, tensor

from qdialect.algebra.qparams import DYNAMIC, Illegal, Layout, ParameterField, QParams, Storage
from qdialect.algebra.qparams.maps import (
    Broadcast,
    Concat,
    DepthToSpace,
    Flatten,
    Flip,
    Gather,
    GatherDynamic,
    Im2col,
    Pad,
    RepeatInterleave,
    Reshape,
    ResizeNearest,
    Select,
    Slice,
    SpaceToDepth,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
    split,
)


def test_per_tensor_passes_every_map() -> None:
    field = tensor((2, 4, 4, 2))
    for index_map in (Reshape((8, 8)), Transpose((3, 1, 0, 2)), Flip((1,)), DepthToSpace(2, "DCR")):
        assert pulled(index_map, field) == one(0.5, 3)


def test_transpose_uses_the_inverse_permutation() -> None:
    field = axis((4, 2, 3), 0, ABCD, ZEROS)
    assert pulled(Transpose((1, 2, 0)), field) == on(2, ABCD, ZEROS)
    assert pulled(Transpose((2, 0, 1)), field) == on(1, ABCD, ZEROS)
    moved = Transpose((1, 2, 0)).pull([grid((4, 2, 3), 2, 1, 3)])
    assert isinstance(moved, ParameterField)
    assert moved.blocks == (1, 3, 2)
    assert moved.to_qparams().scale_list() == [1.0, 3.0, 2.0, 4.0]


def test_reshape_covers_the_axis_or_is_refused() -> None:
    assert refused(Reshape((4, 2)), axis((2, 4), 1, ABCD)) == "axis-split"
    assert refused(Reshape((2, 2, 2)), axis((2, 4), 1, ABCD)) == "axis-split"
    assert refused(Reshape((3, 2)), axis((2, 3), 0, [1.0, 2.0])) == "axis-merge"
    assert pulled(Reshape((8,)), axis((2, 4), 1, ABCD)) == on(0, ABCD * 2)
    assert pulled(Reshape((2, 8)), axis((2, 4, 2), 1, ABCD)) == on(1, [1, 1, 2, 2, 3, 3, 4, 4])
    assert pulled(Reshape((2, 2, 2)), axis((2, 4), 1, [1.0, 1.0, 2.0, 2.0])) == on(1, [1.0, 2.0])
    assert pulled(Reshape((2, 2, 2)), axis((2, 4), 1, [1.0, 2.0] * 2)) == on(2, [1.0, 2.0])
    assert pulled(Reshape((4, 2)), axis((2, 4), 1, [9.0] * 4)) == one(9.0)


def test_reshape_splits_an_axis_into_a_grid() -> None:
    six = axis((6,), 0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    split_axis = pulled(Reshape((2, 3)), six, layout=Layout.BLOCK)
    assert (split_axis.layout, split_axis.grid) == (Layout.BLOCK, (2, 3))


def test_flatten_squeeze_unsqueeze() -> None:
    field = axis((DYNAMIC, 4, 1, 2), 1, ABCD)
    assert pulled(Flatten(1, 4), field) == on(1, [1, 1, 2, 2, 3, 3, 4, 4])
    assert pulled(Squeeze((2,)), field) == on(1, ABCD)
    assert pulled(Squeeze((0,)), axis((1, 4), 1, ABCD)) == on(0, ABCD)
    assert pulled(Squeeze((1,)), axis((4, 1), 1, [7.0])) == one(7.0)
    assert pulled(Unsqueeze((0, 2)), field) == on(3, ABCD)


def test_onnx_reshape_copies_and_infers() -> None:
    field = axis((DYNAMIC, 4, 6), 1, ABCD)
    result = Reshape.onnx(field.shape, (0, 0, 2, -1)).pull([field])
    assert isinstance(result, ParameterField)
    assert result.shape == (DYNAMIC, 4, 2, 3)
    assert result.to_qparams() == on(1, ABCD)
    assert Reshape.onnx((0, 3), (3, 0), allowzero=True).output_shape([(0, 3)]) == (3, 0)


def test_slice() -> None:
    field = axis((2, 4), 1, ABCD)
    assert pulled(Slice.along(2, 0, 1, 2), field) == on(1, ABCD)
    assert pulled(Slice.along(2, 1, 1, None, 2), field) == on(1, [2.0, 4.0])
    assert pulled(Slice.along(2, 1, None, None, -1), field) == on(1, ABCD[::-1])
    assert pulled(Slice.along(2, 1, 2, 3), field) == one(3.0)
    assert refused(Slice.along(2, 1, 2, 2), field) == "empty"


def test_slice_of_blocks() -> None:
    field = grid((16, 2), 4, 1)
    for start, stop, step, block in ((4, 12, 1, 4), (2, 14, 1, 2), (0, 16, 2, 2), (1, 16, 3, 1)):
        result = Slice.along(2, 0, start, stop, step).pull([field])
        assert isinstance(result, ParameterField)
        assert result.blocks[0] == block


def test_split_and_unpack() -> None:
    field = axis((2, 4), 1, ABCD)
    assert [pulled(p, field) for p in split(2, 1, (1, 3))] == [one(1.0), on(1, [2.0, 3.0, 4.0])]
    assert pulled(Gather.of(1, 2), field) == one(3.0)


def test_concat_on_the_axis_appends_vectors_and_zero_points() -> None:
    left, right = axis((2, 2), 1, [1.0, 2.0], [1, 2]), axis((2, 1), 1, [3.0], [3])
    assert pulled(Concat(1), left, right) == on(1, [1.0, 2.0, 3.0], [1, 2, 3])
    promoted = pulled(Concat(1), left, tensor((2, 2), 9.0, 4))
    assert promoted == on(1, [1.0, 2.0, 9.0, 9.0], [1, 2, 4, 4])


def test_concat_across_the_axis_needs_equal_vectors() -> None:
    field = axis((2, 4), 1, ABCD, ZEROS)
    assert pulled(Concat(0), field, field) == on(1, ABCD, ZEROS)
    assert refused(Concat(0), field, axis((2, 4), 1, ABCD)) == "concat-params"
    assert refused(Concat(0), field, tensor((2, 4))) == "concat-params"
    assert refused(Concat(0), axis((2, 2), 1, [1e-9, 2.0]), axis((2, 2), 1, [2e-9, 2.0]))


def test_concat_of_different_per_tensor_operands_is_per_axis() -> None:
    assert pulled(Concat(0), tensor((2, 3), 1.0), tensor((1, 3), 2.0)) == on(
        0, [1.0, 1.0, 2.0], [3, 3, 3]
    )
    assert refused(Concat(0), tensor((2,), 1.0), tensor((1,), 2.0), layout=Layout.TENSOR)


def test_concat_refuses_other_storage_and_bounds() -> None:
    narrow = ParameterField.of(QParams.per_tensor(Storage.of("i8", -127, 127), 0.5, 3), (2,))
    half = ParameterField.of(QParams.per_tensor("i8", 0.5, 3, "f16"), (2,))
    for other in (tensor((2,), storage="u8"), narrow, half):
        assert refused(Concat(0), tensor((2,)), other) == "storage-mismatch"


def test_concat_of_unknown_sizes() -> None:
    assert pulled(Concat(0), tensor((DYNAMIC, 2)), tensor((3, 2))) == one(0.5, 3)
    assert refused(Concat(0), tensor((DYNAMIC, 2)), tensor((3, 2), 9.0)) == "dynamic-shape"
    field = axis((2, 4, DYNAMIC), 1, ABCD)
    assert pulled(Concat(0), field, axis((2, 4, 5), 1, ABCD)) == on(1, ABCD)


def test_gather() -> None:
    field = axis((3, 4, 2), 1, ABCD)
    assert pulled(Gather.of(1, [3, -4]), field) == on(1, [4.0, 1.0])
    assert pulled(Gather.of(0, [[0, 1], [1, 2]]), field) == on(2, ABCD)
    assert pulled(Gather.of(2, [[0, 1], [1, 0]]), field) == on(1, ABCD)
    assert pulled(Gather.of(0, 1), field) == on(0, ABCD)
    assert refused(Gather.of(1, [[0, 1], [2, 3]]), field) == "axis-split"
    assert pulled(Gather.of(1, [[0, 1], [0, 1]]), field) == on(2, [1.0, 2.0])
    with pytest.raises(ValueError, match="indices"):
        Gather.of(1, [4]).pull([field])


def test_gather_with_run_time_indices() -> None:
    field = axis((3, 4, 2), 1, ABCD)
    assert pulled(GatherDynamic(0, (DYNAMIC, 5)), field) == on(2, ABCD)
    assert pulled(GatherDynamic(0, ()), field) == on(0, ABCD)
    assert refused(GatherDynamic(1, (DYNAMIC,)), field) == "dynamic-params"
    uniform = axis((3, 4, 2), 1, [2.0] * 4)
    assert pulled(GatherDynamic(1, (DYNAMIC,)), uniform) == one(2.0)
    back = GatherDynamic(0, (5, 6)).push(axis((5, 6, 4, 2), 2, ABCD), [(3, 4, 2)])
    assert isinstance(back, tuple)
    assert back[0].to_qparams() == on(1, ABCD)
    lost = GatherDynamic(0, (4,)).push(axis((4, 4, 2), 0, ABCD), [(3, 4, 2)])
    assert isinstance(lost, Illegal)


def test_tile_repeat_flip() -> None:
    field = axis((3, 2), 1, [1.0, 2.0])
    assert pulled(Tile((2, 1)), field) == on(1, [1.0, 2.0])
    assert pulled(Tile((1, 2)), field) == on(1, [1.0, 2.0, 1.0, 2.0])
    assert pulled(RepeatInterleave((1, 2)), field) == on(1, [1.0, 1.0, 2.0, 2.0])
    assert pulled(Flip((0,)), field) == on(1, [1.0, 2.0])
    assert pulled(Flip((1,)), field) == on(1, [2.0, 1.0])
    blocks = RepeatInterleave((3, 1)).pull([grid((4, 2), 2, 1)])
    assert isinstance(blocks, ParameterField)
    assert blocks.blocks == (6, 1)


def test_broadcast() -> None:
    assert pulled(Broadcast((5, 3, 4)), axis((3, 4), 1, ABCD)) == on(2, ABCD)
    assert pulled(Broadcast((5, 4)), axis((1, 4), 1, ABCD)) == on(1, ABCD)
    assert pulled(Broadcast((5, 4)), axis((1, 4), 0, [7.0])) == one(7.0)
    assert pulled(Broadcast((DYNAMIC, 4)), axis((1, 4), 1, ABCD)) == on(1, ABCD)


def test_resize_nearest() -> None:
    field = axis((2, 4), 1, ABCD)
    assert pulled(ResizeNearest(((0, 0, 1, 1), None)), field) == on(1, ABCD)
    assert pulled(ResizeNearest((None, (0, 2, 2))), field) == on(1, [1.0, 3.0, 3.0])


def test_zero_pad_fills_with_each_channels_zero_point() -> None:
    field = axis((2, 3), 0, [1.0, 2.0], [4, 5])
    pad = Pad((0, 1), (0, 0))
    assert pulled(pad, field) == on(0, [1.0, 2.0], [4, 5])
    result = pad.pull([field])
    assert isinstance(result, ParameterField)
    fills = pad.fill_integers(result)
    assert isinstance(fills, np.ndarray)
    assert fills.tolist() == [[4], [5]]
    assert pad.apply([np.zeros((2, 3), np.int64)], fills).tolist() == [[4, 0, 0, 0], [5, 0, 0, 0]]


def test_pad_value_must_be_stored_exactly() -> None:
    assert pulled(Pad((0, 1), (0, 0), value=2.0), tensor((2, 3), 0.5, 3)) == one(0.5, 3)
    fills = Pad((0, 1), (0, 0), value=2.0).fill_integers(tensor((2, 4), 0.5, 3))
    assert isinstance(fills, np.ndarray)
    assert fills.item() == 7
    assert refused(Pad((0, 1), (0, 0), value=0.3), tensor((2, 3))) == "pad-value"
    assert refused(Pad((0, 1), (0, 0), value=63.0), tensor((2, 3))) == "pad-value"
    mixed = axis((2, 3), 0, [1.0, 2.0])
    assert refused(Pad((0, 1), (0, 0), value=3.0), mixed) == "pad-value"
    assert pulled(Pad((0, 0), (0, 0), value=0.3), tensor((2, 3))) == one(0.5, 3)


def test_pad_of_minus_infinity_only_for_comparisons() -> None:
    field = tensor((2, 3))
    assert refused(Pad((0, 1), (0, 0), value=-math.inf), field) == "pad-value"
    pad = Pad((0, 1), (0, 0), value=-math.inf, order_only=True)
    assert pulled(pad, field) == one(0.5, 3)
    fills = pad.fill_integers(field)
    assert isinstance(fills, np.ndarray)
    assert fills.item() == -128


def test_pad_on_the_axis_copies_a_neighbour_or_invents_units() -> None:
    field = axis((2, 3), 0, [2.0, 4.0])
    assert pulled(Pad((1, 0), (1, 0), value=8.0), field) == on(0, [2.0, 2.0, 4.0, 4.0])
    assert pulled(Pad((1, 0), (1, 0), value=6.0), field) == on(0, [2.0, 2.0, 4.0, 1.0])
    assert refused(Pad((1, 0), (1, 0), value=6.5), field) == "pad-value"


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pad_with_copies(mode: Literal["edge", "reflect", "wrap"]) -> None:
    field = axis((2, 4), 1, ABCD)
    assert pulled(Pad((1, 0), (0, 0), mode), field) == on(1, ABCD)
    assert pulled(Pad((0, 2), (0, 1), mode), field) == on(1, np.pad(ABCD, (2, 1), mode).tolist())


def test_leading_pad_shifts_blocks() -> None:
    result = Pad((2, 0), (2, 0)).pull([grid((8, 2), 4, 1)])
    assert isinstance(result, ParameterField)
    assert result.blocks[0] == 6
    result = Pad((2, 0), (0, 0)).pull([grid((12, 2), 4, 1)])
    assert isinstance(result, ParameterField)
    assert result.blocks[0] == 2


def test_depth_to_space() -> None:
    shape = (1, 8, 2, 2)
    periodic = axis(shape, 1, [1.0, 2.0] * 4)
    runs = axis(shape, 1, [1.0] * 4 + [2.0] * 4)
    assert pulled(DepthToSpace(2, "DCR"), periodic) == on(1, [1.0, 2.0])
    assert pulled(DepthToSpace(2, "CRD"), runs) == on(1, [1.0, 2.0])
    assert pulled(DepthToSpace(2, "CRD"), periodic) == on(3, [1.0, 2.0] * 2)
    distinct = axis(shape, 1, [float(k + 1) for k in range(8)])
    assert refused(DepthToSpace(2, "DCR"), distinct) == "phase-mix"
    assert refused(DepthToSpace(2, "CRD"), distinct) == "phase-mix"
    assert pulled(DepthToSpace(2, "DCR"), axis(shape, 2, [1.0, 2.0])) == on(2, [1.0, 1.0, 2.0, 2.0])


def test_space_to_depth() -> None:
    channels = axis((1, 2, 4, 4), 1, [1.0, 2.0])
    assert pulled(SpaceToDepth(2), channels) == on(1, [1.0, 2.0] * 4)
    assert pulled(SpaceToDepth(2, "CRD"), channels) == on(1, [1.0] * 4 + [2.0] * 4)
    assert pulled(SpaceToDepth(2), axis((1, 2, 4, 4), 2, [1.0, 1.0, 2.0, 2.0])) == on(2, [1.0, 2.0])
    assert refused(SpaceToDepth(2), axis((1, 2, 4, 4), 2, ABCD)) == "phase-mix"


def test_im2col_repeats_channels_per_tap() -> None:
    patches = Im2col((3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    assert pulled(patches, axis((1, 2, 4, 4), 1, [1.0, 2.0], [3, 4])) == on(
        1, [1.0] * 9 + [2.0] * 9, [3] * 9 + [4] * 9
    )
    assert refused(patches, axis((1, 2, 4, 4), 3, ABCD)) == "phase-mix"
    assert refused(Im2col((3,), (1,), (1,), (1,), (1,), 0.3), tensor((1, 2, 4))) == "pad-value"


def test_select_needs_equal_fields() -> None:
    field = axis((2, 4), 1, ABCD)
    assert pulled(Select((2, 4)), field, field) == on(1, ABCD)
    assert pulled(Select((3, 2, 4)), field, axis((1, 4), 1, ABCD)) == on(2, ABCD)
    assert refused(Select((2, 4)), field, tensor((2, 4))) == "select-params"
    assert refused(Select((2, 4)), tensor((2, 4), 1.0), tensor((2, 4), 2.0)) == "select-params"
