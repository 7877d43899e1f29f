"""Products and convolutions of StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from qdialect.plugins.mlir.upstream.inference import quantized
from qdialect.plugins.mlir.upstream.inference.view import (
    Inferred,
    Results,
    Rule,
    View,
    demand,
    dimensions,
    must_agree,
    must_be,
    must_fit,
)
from qdialect.plugins.mlir.upstream.inference.windows import Window
from qdialect.plugins.mlir.upstream.shapes import Shape, fit, listed, merged
from qdialect.plugins.mlir.upstream.traits import inferred_as
from qdialect.plugins.stablehlo.dialect.attributes import ConvolutionDimensionsAttr, RecordAttr


def _kinds(v: View) -> Sequence[Attribute]:
    return [v.kind("lhs"), v.kind("rhs"), v.result]


def _precision(v: View) -> bool:
    """Whether all of at most two precisions are the default."""
    config = v.attribute("precision_config")
    found = cast("ArrayAttr[Any]", config).data if isinstance(config, ArrayAttr) else ()
    must_be("number of precisions", len(found), 0, 1, 2)
    return all(getattr(entry, "data", "DEFAULT") == "DEFAULT" for entry in found)


def _dot(v: View) -> Results:
    _precision(v)
    lhs, rhs = v.ranked("lhs"), v.ranked("rhs")
    fits = 1 <= len(lhs) <= 2 and 1 <= len(rhs) <= 2 and fit(lhs[-1:], rhs[:1])
    demand(fits, f"cannot multiply {listed(lhs)} with {listed(rhs)}")
    return [Inferred((*lhs[:-1], *rhs[1:]))]


def _dot_general(v: View) -> Results:
    numbers = v.record("dot_dimension_numbers", RecordAttr).values
    default = _precision(v) or v.attribute("algorithm") is None
    demand(default, "precision_config must be DEFAULT where there is an algorithm")
    shapes = {side: v.ranked(side) for side in ("lhs", "rhs")}
    paired, free = list[list[Sequence[int]]](), list[int]()
    for side, shape in shapes.items():
        taken = [numbers[f"{side}_{what}_dimensions"] for what in ("batching", "contracting")]
        both = (*taken[0], *taken[1])
        dimensions(f"batching and contracting dimensions of {side}", both, len(shape))
        paired.append(taken)
        free += [n for d, n in enumerate(shape) if d not in both]
    extents: list[Shape] = []
    for k, what in enumerate(("batching", "contracting")):
        dims = [taken[k] for taken in paired]
        must_agree(f"numbers of {what} dimensions", *map(len, dims))
        pair = [
            tuple(shape[d] for d in of) for shape, of in zip(shapes.values(), dims, strict=True)
        ]
        must_fit(f"{what} dimensions of rhs", pair[1], pair[0])
        extents.append(merged(*pair) or ())
    if any(map(quantized.is_quantized, _kinds(v))):
        if quantized.is_quantized(v.kind("rhs")):
            quantized.check_right_factor(v.kind("rhs"), paired[1][1])
        quantized.check_product(_kinds(v))
    return [Inferred((*extents[0], *free))]


# -- convolutions -------------------------------------------------------------------


def _places(v: View, rank: int) -> list[dict[str, int]]:
    """Where batch, features and spatial dimensions of input, kernel and result are."""
    numbers = v.record("dimension_numbers", ConvolutionDimensionsAttr)
    spatial = {str(d) for d in range(rank - 2)}
    for layout, roles in zip(numbers.data, ("bf", "io", "bf"), strict=True):
        once = len(layout) == rank and {*layout} == {*roles, *spatial}
        demand(once, f"dimension_numbers must name {rank} dimensions once each, not {numbers}")
    return [{role: d for d, role in enumerate(layout)} for layout in numbers.data]


def _divided(size: int, count: int, what: str) -> int:
    demand(size < 0 or size % count == 0, f"{what} must be a multiple of {count}, but is {size}")
    return max(size // count, -1)


def _convolution(v: View) -> Results:
    x, w, kinds = v.ranked("lhs"), v.ranked("rhs"), _kinds(v)
    rank = len(x)
    must_agree("ranks of factors", rank, len(w))
    demand(rank >= 2, f"factors must have 2 dimensions or more, but have {rank}")
    any_quantized = any(map(quantized.is_quantized, kinds))
    if not any_quantized:
        must_agree("element types of factors", *map(inferred_as, kinds[:2]))
    given, kernel, result = _places(v, rank)
    groups, batches = v.integer("feature_group_count", 1), v.integer("batch_group_count", 1)
    demand(min(groups, batches) == 1, f"cannot group features, by {groups}, and batches, {batches}")
    features = _divided(x[given["f"]], groups, "number of input features")
    must_fit("input features of the kernel", (w[kernel["i"]],), (features,))
    _divided(w[kernel["o"]], groups * batches, "number of output features")
    _precision(v)
    if any_quantized:
        for kind, axis in ((kinds[1], kernel["o"]), (kinds[2], result["f"])):
            must_be(f"quantized dimension of {kind}", quantized.axis_of(kind), axis, None)
        quantized.check_product(kinds)
    if v.op.name == "stablehlo.dynamic_conv":
        must_fit("padding", v.shape("padding"), (rank - 2, 2))
        return None
    spatial = [str(d) for d in range(rank - 2)]
    window = Window.of(v, [w[kernel[d]] for d in spatial], ("lhs_dilation", "rhs_dilation"))
    sizes = window.extents([x[given[d]] for d in spatial])
    found = {"b": _divided(x[given["b"]], batches, "the batch"), "f": w[kernel["o"]]}
    found.update(zip(spatial, sizes, strict=True))
    return [Inferred(tuple(found[role] for role in sorted(result, key=result.__getitem__)))]


RULES: Mapping[str, Rule] = {
    "convolution": _convolution,
    "dot": _dot,
    "dot_general": _dot_general,
    "dynamic_conv": _convolution,
}
