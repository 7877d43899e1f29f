"""Products and convolutions of StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr

from qdialect.dialects.stablehlo.attributes import ConvolutionDimensionsAttr, RecordAttr
from qdialect.upstream.inference import quantized
from qdialect.upstream.inference.view import Inferred, Rule, View, demand
from qdialect.upstream.inference.windows import Window
from qdialect.upstream.shapes import Shape, fit, listed, merged, shape_of
from qdialect.upstream.traits import inferred_as

_NOTHING: Sequence[Inferred] = ()


def _kinds(v: View) -> Sequence[Any]:
    return [v.kind("lhs"), v.kind("rhs"), v.op.results[0].type]


def _precision(v: View) -> bool:
    """Whether all of at most two precisions are the default."""
    config = v.attribute("precision_config")
    found = cast("ArrayAttr[Any]", config).data if isinstance(config, ArrayAttr) else ()
    demand(len(found) <= 2, f"precision_config has {len(found)} precisions for two factors")
    return all(getattr(entry, "data", "DEFAULT") == "DEFAULT" for entry in found)


def _dot(v: View) -> Sequence[Inferred]:
    _precision(v)
    lhs, rhs = v.shape("lhs") or (), v.shape("rhs") or ()
    demand(
        1 <= len(lhs) <= 2 and 1 <= len(rhs) <= 2 and fit(lhs[-1:], rhs[:1]),
        f"cannot multiply {listed(lhs)} with {listed(rhs)}",
    )
    return [Inferred((*lhs[:-1], *rhs[1:]))]


def _dot_general(v: View) -> Sequence[Inferred]:
    numbers = v.attribute("dot_dimension_numbers")
    demand(isinstance(numbers, RecordAttr), f"dot_dimension_numbers cannot be {numbers}")
    dims = cast("RecordAttr", numbers).values
    default = _precision(v)
    demand(
        default or v.attribute("algorithm") is None,
        "precision_config must be DEFAULT where there is an algorithm",
    )
    shapes = {side: v.shape(side) or () for side in ("lhs", "rhs")}
    pairs: dict[str, list[Sequence[int]]] = {}
    for what in ("batching", "contracting"):
        sides = [cast("Sequence[int]", dims[f"{side}_{what}_dimensions"]) for side in shapes]
        demand(
            len(sides[0]) == len(sides[1]),
            f"both factors must have as many {what} dimensions, but have {sides[0]} and {sides[1]}",
        )
        pairs[what] = sides
    free: list[Shape] = []
    for n, (side, shape) in enumerate(shapes.items()):
        taken = [*pairs["batching"][n], *pairs["contracting"][n]]
        demand(
            len({*taken}) == len(taken) and all(0 <= d < len(shape) for d in taken),
            f"batching and contracting dimensions of {side} must be different ones of "
            f"{len(shape)}, but are {taken}",
        )
        free.append(tuple(size for d, size in enumerate(shape) if d not in taken))
    batches: Shape | None = ()
    for what, sides in pairs.items():
        extents = [
            tuple(shape[d] for d in side)
            for shape, side in zip(shapes.values(), sides, strict=True)
        ]
        demand(
            fit(*extents),
            f"{what} dimensions must have one size, but have {' and '.join(map(listed, extents))}",
        )
        batches = merged(*extents) if what == "batching" else batches
    if any(map(quantized.is_quantized, _kinds(v))):
        if quantized.is_quantized(v.kind("rhs")):
            quantized.right_factor(v.kind("rhs"), pairs["contracting"][1])
        quantized.product(_kinds(v))
    return [Inferred((*(batches or ()), *free[0], *free[1]))]


# -- convolutions -------------------------------------------------------------------


def _places(v: View, rank: int) -> list[dict[str, int]]:
    """Where batch, features and spatial dimensions of input, kernel and result are."""
    numbers = v.attribute("dimension_numbers")
    demand(isinstance(numbers, ConvolutionDimensionsAttr), f"dimension_numbers are {numbers}")
    layouts = cast("ConvolutionDimensionsAttr", numbers).data
    spatial = {str(d) for d in range(rank - 2)}
    for layout, roles in zip(layouts, ("bf", "io", "bf"), strict=True):
        demand(
            len(layout) == rank and {*layout} == {*roles, *spatial},
            f"dimension_numbers must name {rank} dimensions once each, but are {numbers}",
        )
    return [{role: d for d, role in enumerate(layout)} for layout in layouts]


def _divided(size: int, count: int, what: str) -> int:
    demand(size < 0 or size % count == 0, f"{what} must be a multiple of {count}, but is {size}")
    return size // count if size >= 0 else -1


def _convolution(v: View) -> Sequence[Inferred]:
    x, w = v.shape("lhs") or (), v.shape("rhs") or ()
    rank = len(x)
    demand(
        2 <= rank == len(w),
        f"both factors must have one rank of at least 2, but have {listed(x)} and {listed(w)}",
    )
    kinds = _kinds(v)
    any_quantized = any(map(quantized.is_quantized, kinds))
    demand(
        any_quantized or inferred_as(kinds[0]) == inferred_as(kinds[1]),
        f"both factors must have one element type, but are {kinds[0]} and {kinds[1]}",
    )
    given, kernel, result = _places(v, rank)
    groups, batches = v.integer("feature_group_count", 1), v.integer("batch_group_count", 1)
    demand(min(groups, batches) == 1, f"cannot group features, by {groups}, and batches, {batches}")
    features = _divided(x[given["f"]], groups, "input features")
    demand(
        fit((features,), (w[kernel["i"]],)),
        f"kernel must have {features} input features, but has {w[kernel['i']]}",
    )
    _divided(w[kernel["o"]], groups * batches, "output features")
    _precision(v)
    spatial = [str(d) for d in range(rank - 2)]
    window = Window.of(
        v, [w[kernel[d]] for d in spatial], base="lhs_dilation", spread="rhs_dilation"
    )
    sizes = window.extents([x[given[d]] for d in spatial])
    found = {
        "b": _divided(x[given["b"]], batches, "the batch"),
        "f": w[kernel["o"]],
        **dict(zip(spatial, sizes, strict=True)),
    }
    if any_quantized:
        _quantized_axes(v, kernel["o"], result["f"])
        quantized.product(kinds)
    places = sorted(result, key=lambda role: result[role])
    return [Inferred(tuple(found[role] for role in places))]


def _quantized_axes(v: View, kernel: int, result: int) -> None:
    """Scales vary along output features."""
    for kind, expected in ((v.kind("rhs"), kernel), (v.op.results[0].type, result)):
        demand(
            not quantized.is_per_axis(kind) or quantized.params_of(kind).axis == expected,
            f"scales must vary along dimension {expected}, the output features, but it is {kind}",
        )


def _dynamic_convolution(v: View) -> Sequence[Inferred]:
    rank, shape = len(v.shape("lhs") or ()), shape_of(v.kind("padding"))
    demand(
        fit(shape, (rank - 2, 2)),
        f"padding must have two numbers for each of {rank - 2} dimensions, but is {listed(shape)}",
    )
    return _convolution(v)


RULES: Mapping[str, Rule] = {
    "convolution": _convolution,
    "dot": _dot,
    "dot_general": _dot_general,
    "dynamic_conv": _dynamic_convolution,
}
