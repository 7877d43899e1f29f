"""Structural legality, push, size limits and malformed maps, on small cases."""

from __future__ import annotations

import pytest
from small_fields import ABCD, axis, on, one, refused, tensor

from qdialect.algebra.qparams import Illegal, Layout, ParameterField, Shape
from qdialect.algebra.qparams.maps import (
    Broadcast,
    Concat,
    DepthToSpace,
    Flatten,
    Flip,
    Gather,
    GatherDynamic,
    IndexMap,
    Pad,
    Reshape,
    ResizeNearest,
    Select,
    Slice,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)


def test_structural_legality_does_not_look_at_values() -> None:
    uniform = axis((2, 4), 1, [9.0] * 4)
    assert isinstance(Reshape((4, 2)).pull([uniform]), ParameterField)
    refusal = Reshape((4, 2)).pull([uniform], structural=True)
    assert isinstance(refusal, Illegal)
    assert refusal.code == "axis-split"
    kept = Transpose((1, 0)).pull([uniform], structural=True)
    assert isinstance(kept, ParameterField)
    assert kept.layout is Layout.AXIS


def test_push() -> None:
    out = axis((2, 4), 1, ABCD)
    for index_map, shapes, wanted in (
        (Transpose((1, 0)), [(4, 2)], [on(0, ABCD)]),
        (Reshape((2, 4)), [(2, 4, 1)], [on(1, ABCD)]),
        (Slice.along(2, 0, 1, 3), [(5, 4)], [on(1, ABCD)]),
        (Concat(1), [(2, 1), (2, 3)], [one(1.0), on(1, ABCD[1:])]),
        (Concat(0), [(1, 4), (1, 4)], [on(1, ABCD), on(1, ABCD)]),
        (Flip((1,)), [(2, 4)], [on(1, ABCD[::-1])]),
        (Gather.of(1, [3, 2, 1, 0]), [(2, 4)], [on(1, ABCD[::-1])]),
        (Select((2, 4)), [(2, 4), (1, 4)], [on(1, ABCD), on(1, ABCD)]),
    ):
        result = index_map.push(out, shapes)
        assert isinstance(result, tuple), result
        assert [field.to_qparams() for field in result] == wanted
        assert index_map.pull(result) == out
    for index_map, shape in (
        (Slice.along(2, 1, 0, 4), (2, 5)),
        (Broadcast((2, 4)), (2, 1)),
        (Tile((1, 2)), (2, 2)),
        (Gather.of(1, [0, 1, 1, 2]), (2, 3)),
        (Pad((0, 1), (0, 0)), (2, 3)),
    ):
        result = index_map.push(out, [shape])
        assert isinstance(result, Illegal)
        assert result.code == "undetermined"


def test_a_grid_too_large_to_build_is_refused() -> None:
    channels = axis((1, 512, 1024, 1024), 1, [float(k + 1) for k in range(512)])
    assert refused(DepthToSpace(2, "CRD"), channels, layout=Layout.BLOCK) == "growth"
    assert refused(DepthToSpace(2, "CRD"), channels) == "phase-mix"


@pytest.mark.parametrize(
    ("index_map", "shapes"),
    [
        (Reshape((5,)), [(2, 4)]),
        (Reshape((3, -1)), [(2, 4)]),
        (Reshape((2, 4), ((1, 1),)), [(2, 4)]),
        (Transpose((0, 0)), [(2, 4)]),
        (Slice((0,), (1,), (1,)), [(2, 4)]),
        (Concat(2), [(2, 4), (2, 4)]),
        (Concat(1), [(2, 4), (3, 4)]),
        (Tile((2,)), [(2, 4)]),
        (Flip((2,)), [(2, 4)]),
        (Pad((1,), (1,)), [(2, 4)]),
        (Pad((-1, 0), (0, 0)), [(2, 4)]),
        (Broadcast((3, 4)), [(2, 4)]),
        (Squeeze((0,)), [(2, 4)]),
        (Unsqueeze((3,)), [(2, 4)]),
        (Flatten(1, 1), [(2, 4)]),
        (Gather(0, (0,), (2,)), [(2, 4)]),
        (GatherDynamic(2, (1,)), [(2, 4)]),
        (ResizeNearest((None,)), [(2, 4)]),
        (DepthToSpace(2, "DCR"), [(2, 4)]),
        (DepthToSpace(2, "DCR"), [(1, 6, 2, 2)]),
        (Select((2, 4)), [(2, 4)]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_map_that_does_not_fit_its_operands_is_an_error(
    index_map: IndexMap, shapes: list[Shape]
) -> None:
    with pytest.raises(ValueError, match=r"."):
        index_map.pull([tensor(shape) for shape in shapes])
