"""What StableHLO demands of quantized types, by the constraints of its specification.

add          all quantized, with one storage; per axis if an operand is, along its dimension
dot_general  the right factor has zero points of 0, and one scale along what is summed
reshape      the same scales, along a dimension that stays
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

from xdsl.ir import Attribute

from qdialect.upstream.inference.view import demand
from qdialect.upstream.shapes import element_or_self, layout_of, shape_of


def is_quantized(kind: Attribute) -> bool:
    """Whether elements are quantized."""
    return layout_of(element_or_self(kind)) != ""


def is_per_axis(kind: Attribute) -> bool:
    """Whether scales vary along a dimension."""
    return layout_of(element_or_self(kind)) == "axis"


def params_of(kind: Attribute) -> Any:
    """The qparams of a quantized type."""
    return cast("Any", element_or_self(kind)).data


def _axis(kind: Attribute) -> int | None:
    return params_of(kind).axis if is_per_axis(kind) else None


def _one(kinds: Sequence[Attribute], field: str) -> None:
    values = [getattr(params_of(kind), field) for kind in kinds]
    demand(len(set(values)) == 1, f"quantized types must have one {field}, but have {values}")


def same_kind(kinds: Sequence[Attribute]) -> None:
    """Of a sum: all are quantized, in one storage, and per axis as the result is."""
    demand(
        all(map(is_quantized, kinds)), "operands and results must all be quantized, or none of them"
    )
    for field in ("storage", "expressed"):
        _one(kinds, field)
    *operands, result = kinds
    axes = {axis for kind in operands if (axis := _axis(kind)) is not None}
    demand(
        axes == ({_axis(result)} if is_per_axis(result) else set()),
        f"result must be quantized along the dimension that its operands are, {sorted(axes)}, "
        f"but is {result}",
    )


def same_values(source: Attribute, result: Attribute) -> None:
    """Of a movement: the scales and zero points of the operand."""
    if not is_quantized(source) or not is_quantized(result):
        return
    a, b = params_of(source), params_of(result)
    demand(
        a.scales == b.scales and a.zero_points == b.zero_points,
        f"result must have the scales and zero points of its operand, {source}, but is {result}",
    )


def kept_axis(source: Attribute, result: Attribute) -> None:
    """Of a reshape: the quantized dimension stays where it is among the elements."""
    same_values(source, result)
    if not is_per_axis(source) or not is_per_axis(result):
        return
    shapes = (shape_of(source) or (), shape_of(result) or ())
    if min((*shapes[0], *shapes[1]), default=0) < 0:
        return
    places = [
        (prod(shape[:axis]), shape[axis])
        for shape, axis in zip(shapes, (_axis(source) or 0, _axis(result) or 0), strict=True)
    ]
    demand(
        places[0] == places[1],
        f"the quantized dimension must stay, but {source} has it behind {places[0][0]} elements "
        f"and {result} behind {places[1][0]}",
    )


def moved_axis(source: Attribute, result: Attribute, places: Sequence[int]) -> None:
    """The quantized dimension d of the operand is dimension `places[d]` of the result."""
    before, after = _axis(source), _axis(result)
    if before is not None and after is not None:
        demand(
            places[before] == after,
            f"quantized dimension {before} becomes dimension {places[before]}, not {after}",
        )


def repeated(source: Attribute, result: Attribute, places: Sequence[int]) -> None:
    """Of a broadcast: a scale is repeated where the dimension is."""
    if not is_per_axis(source) or not is_per_axis(result):
        same_values(source, result)
        return
    moved_axis(source, result, places)
    a, b = params_of(source), params_of(result)
    if a.count == 1:
        demand(
            set(b.scale_list()) == set(a.scale_list())
            and set(b.zero_point_list()) == set(a.zero_point_list()),
            f"result must repeat the scale and zero point of {source}, but is {result}",
        )


def product(kinds: Sequence[Attribute]) -> None:
    """Of a product: the right factor is quantized, the left one if the result is."""
    lhs, rhs, result = kinds
    demand(
        is_quantized(rhs) and is_quantized(lhs) == is_quantized(result),
        f"rhs must be quantized, and lhs if the result is, but they are {lhs}, {rhs}, {result}",
    )
    if not is_quantized(lhs):
        elements = [str(element_or_self(kind)) for kind in (lhs, result)]
        demand(
            {*elements} == {params_of(rhs).expressed},
            f"lhs and result must be of {params_of(rhs).expressed}, as rhs expresses, "
            f"but are of {elements}",
        )
        return
    _one(kinds, "expressed")
    demand(
        params_of(lhs).storage.width == params_of(rhs).storage.width,
        f"factors must have one storage type, but are {lhs} and {rhs}",
    )
    demand(
        is_per_axis(rhs) or not is_per_axis(result),
        f"result must have one scale, as rhs has, but is {result}",
    )


def right_factor(kind: Attribute, summed: Sequence[int]) -> None:
    """Of `dot_general`: no zero points, and one scale along what is summed."""
    params = params_of(kind)
    demand(not any(params.zero_point_list()), f"zero points of rhs must be 0, but it is {kind}")
    demand(
        not is_per_axis(kind) or params.axis not in summed,
        f"rhs must have one scale along dimensions {[*summed]}, which are summed, but is {kind}",
    )
