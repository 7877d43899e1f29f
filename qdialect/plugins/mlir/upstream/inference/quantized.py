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

from qdialect.plugins.mlir.upstream.inference.view import demand, must_agree, must_be
from qdialect.plugins.mlir.upstream.shapes import element_or_self, layout_of, shape_of


def is_quantized(kind: Attribute) -> bool:
    """Whether elements are quantized."""
    return layout_of(element_or_self(kind)) != ""


def params_of(kind: Attribute) -> Any:
    """The qparams of a quantized type."""
    return cast("Any", element_or_self(kind)).data


def axis_of(kind: Attribute) -> int | None:
    """The dimension along which scales vary; None of other types."""
    return params_of(kind).axis if layout_of(element_or_self(kind)) == "axis" else None


def _pairs(kind: Attribute) -> list[tuple[float, int]]:
    params = params_of(kind)
    return list(zip(params.scale_list(), params.zero_point_list(), strict=True))


def check_sum(kinds: Sequence[Attribute]) -> None:
    """Of a sum: all are quantized, in one storage, and per axis as the result is."""
    must_agree("whether operands and result are quantized", *map(is_quantized, kinds))
    for field in ("storage", "expressed"):
        must_agree(f"{field} types", *(getattr(params_of(kind), field) for kind in kinds))
    *operands, axis = map(axis_of, kinds)
    varying = [found for found in operands if found is not None]
    must_be("the quantized dimension of the result", axis, *(varying[:1] or [None]))
    must_agree("quantized dimensions of operands", *varying)


def check_same_values(source: Attribute, result: Attribute) -> None:
    """Of a movement: the scales and zero points of the operand."""
    if is_quantized(source) and is_quantized(result):
        same = _pairs(source) == _pairs(result)
        apart = params_of(source).difference(params_of(result))
        demand(
            same, f"result must have the scales and zero points of {source}, but is {result}{apart}"
        )


def check_reshape(source: Attribute, result: Attribute) -> None:
    """The quantized dimension stays where it is among the elements."""
    check_same_values(source, result)
    axes, shapes = (axis_of(source), axis_of(result)), (shape_of(source), shape_of(result))
    pairs = list(zip(shapes, axes, strict=True))
    if any(shape is None or axis is None or min(shape) < 0 for shape, axis in pairs):
        return
    (before, size), (after, found) = (
        (prod((shape or ())[:axis]), (shape or ())[axis or 0]) for shape, axis in pairs
    )
    stays = (before, size) == (after, found)
    demand(stays, f"the quantized dimension of {source} must stay, but is moved in {result}")


def check_moved(source: Attribute, result: Attribute, places: Sequence[int]) -> None:
    """The quantized dimension d of the operand is dimension `places[d]` of the result."""
    before, after = axis_of(source), axis_of(result)
    if before is not None and after is not None:
        must_be("the quantized dimension of the result", after, places[before])


def check_broadcast(source: Attribute, result: Attribute, places: Sequence[int]) -> None:
    """A scale is repeated where its dimension is."""
    if axis_of(source) is None or axis_of(result) is None:
        check_same_values(source, result)
        return
    check_moved(source, result, places)
    if params_of(source).count == 1:
        repeated = {*_pairs(source)} == {*_pairs(result)}
        demand(repeated, f"result must repeat the scale of {source}, but is {result}")


def check_product(kinds: Sequence[Attribute]) -> None:
    """The right factor is quantized, and the left one if the result is."""
    lhs, rhs, result = kinds
    fits = is_quantized(rhs) and is_quantized(lhs) == is_quantized(result)
    demand(fits, f"rhs must be quantized, and lhs as the result: {lhs}, {rhs}, {result}")
    expressed = params_of(rhs).expressed
    if not is_quantized(lhs):
        for name, kind in (("lhs", lhs), ("result", result)):
            must_be(f"element type of {name}", str(element_or_self(kind)), expressed)
        return
    must_agree("expressed types", *(params_of(kind).expressed for kind in kinds))
    must_agree("widths of factors", *(params_of(kind).storage.width for kind in (lhs, rhs)))
    per_axis = axis_of(rhs) is not None or axis_of(result) is None
    demand(per_axis, f"result must have one scale, as rhs has, but is {result}")


def check_right_factor(kind: Attribute, summed: Sequence[int]) -> None:
    """Of `dot_general`: no zero points, and one scale along what is summed."""
    zeros = params_of(kind).zero_point_list()
    demand(not any(zeros), f"zero points of rhs must be 0, but are {zeros}")
    along = axis_of(kind) in summed
    demand(not along, f"scales of rhs must not vary along {[*summed]}, which are summed: {kind}")
