"""Images of another size: `upsample_*`, `grid_sampler`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.torch.program import Node
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.rows import Results, Rule, result

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from qdialect.plugins.torch.read.importer import Importer

_SCALES = ("scales", "scales_d", "scales_h", "scales_w")


def _scales(node: Node, rank: int) -> list[float | None]:
    """The scale of each spatial dimension that the program has."""
    arguments = node.arguments
    if "scale_factors" in arguments:
        given = arguments["scale_factors"]
        return [float(s) for s in given] if given else [None] * rank
    names = {1: ("scales",), 2: _SCALES[2:], 3: _SCALES[1:]}[rank]
    found = [arguments.get(name) for name in names]
    return [None if s is None else float(s) for s in found]


def _agree(node: Node, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether the scales that are said are those of the sizes, of which ONNX takes them."""
    pairs = zip(_scales(node, len(before)), before, after, strict=True)
    return all(s is None or s * n == m for s, n, m in pairs)


def nearest(rank: int, exact: bool) -> Rule:
    """`upsample_nearest*d`: floor(j / scale); `_upsample_nearest_exact*d`: the nearest center."""

    def rule(imp: Importer, node: Node) -> Results:
        x, shapes = _operand(imp, node, rank)
        if shapes is None or not imp.is_float(_argument(node)):
            return None
        before, after = shapes
        if not _agree(node, before, after) or imp.extents(x)[:2] != imp.shape(result(node))[:2]:
            return None
        if not exact and not all(
            a % b == 0 or b % a == 0 for a, b in zip(before, after, strict=True)
        ):
            return [_gathered(imp, x, before, after)]
        properties: dict[str, Any] = {
            "scales": [1.0, 1.0, *(m / n for n, m in zip(before, after, strict=True))],
            "coordinates": "half_pixel" if exact else "asymmetric",
            "nearest": "round_prefer_ceil" if exact else "floor",
        }
        return [imp.build(nn.ResizeNearestOp, x, **properties)]

    return rule


def _gathered(
    imp: Importer, x: SSAValue, before: tuple[int, ...], after: tuple[int, ...]
) -> SSAValue:
    """Places that PyTorch computes in float32: floor(j * (in / out))."""
    import numpy as np

    for d, (n, m) in enumerate(zip(before, after, strict=True)):
        if n != m:
            step = np.float32(n) / np.float32(m)
            places = np.floor(np.arange(m, dtype=np.float32) * step).astype(np.int64)
            places = np.minimum(places, n - 1)
            x = imp.build(nn.GatherOp, x, imp.vector(places.tolist()), axis=d + 2)
    return x


def linear(rank: int) -> Rule:
    """`upsample_linear1d`, `upsample_bilinear2d`, `upsample_trilinear3d`."""

    def rule(imp: Importer, node: Node) -> Results:
        x, shapes = _operand(imp, node, rank)
        if shapes is None or not imp.is_float(_argument(node)):
            return None
        before, after = shapes
        corners = bool(node.arguments["align_corners"])
        mode = "align_corners" if corners else "half_pixel"
        if not corners and not _agree(node, before, after):
            return _by_scales(imp, x, _scales(node, rank), after)
        extents = list(imp.shape(result(node)))
        if rank == 1:
            n, c, w = imp.extents(x)
            x = imp.reshape(x, (n, c, Extent.of(1), w))
            y = _bilinear(imp, x, (1, before[0]), (1, after[0]), mode)
            return [imp.reshape(y, extents)]
        if rank == 2:
            return [_bilinear(imp, x, before, after, mode)]
        return [_resized(imp, x, extents, "linear", mode)]

    return rule


def _by_scales(
    imp: Importer, x: SSAValue, scales: list[float | None], after: tuple[int, ...]
) -> Results:
    """Bilinear by scales of which the sizes are rounded."""
    if len(after) != 2 or None in scales:
        return None
    factors = [1.0, 1.0, *(float(scale or 1) for scale in scales)]
    y = imp.build(nn.ResizeLinearOp, x, scales=factors, coordinates="half_pixel")
    return [y] if static(imp.extents(y)[2:]) == after else None


def _bilinear(
    imp: Importer, x: SSAValue, before: tuple[int, ...], after: tuple[int, ...], mode: str
) -> SSAValue:
    sizes = [*static(imp.extents(x)[:2]), *after]
    if DYNAMIC not in sizes:
        return imp.build(nn.ResizeLinearOp, x, sizes=sizes, coordinates=mode)
    scales = [1.0, 1.0, *(m / n for n, m in zip(before, after, strict=True))]
    return imp.build(nn.ResizeLinearOp, x, scales=scales, coordinates=mode)


def cubic(imp: Importer, node: Node) -> Results:
    """`upsample_bicubic2d`."""
    x, shapes = _operand(imp, node, 2)
    if shapes is None or not imp.is_float(_argument(node)):
        return None
    corners = bool(node.arguments["align_corners"])
    if not corners and not _agree(node, *shapes):
        return None
    mode = "align_corners" if corners else "half_pixel"
    return [_resized(imp, x, list(imp.shape(result(node))), "cubic", mode)]


def _resized(imp: Importer, x: SSAValue, extents: list[Extent], kind: str, mode: str) -> SSAValue:
    from qdialect.plugins.torch.read.sizes import run_time_shape

    shape = run_time_shape(imp, tuple(extents))
    attributes: dict[str, Any] = {"mode": kind, "coordinate_transformation_mode": mode}
    if kind == "cubic":
        attributes["cubic_coeff_a"] = -0.75
    operands = [x, None, None, shape]
    return imp.function("Resize", operands, element_type(x.type), extents, **attributes)


def _argument(node: Node) -> Any:
    return node.arguments.get("input", node.arguments.get("self"))


def _operand(
    imp: Importer, node: Node, rank: int
) -> tuple[SSAValue, tuple[tuple[int, ...], tuple[int, ...]] | None]:
    """The image, and its spatial sizes before and after; None where one is no number."""
    x = imp.value(_argument(node))
    extents, after = imp.extents(x), static(imp.shape(result(node))[2:])
    before = static(extents[2:])
    known = len(extents) == rank + 2 and DYNAMIC not in (*before, *after) and 0 not in before
    return x, (before, after) if known else None


_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sampler(imp: Importer, node: Node) -> Results:
    """`grid_sampler`: elements of an image at places that a tensor says."""
    name = result(node)
    x, grid = imp.value(node.arguments["input"]), imp.value(node.arguments["grid"])
    if not imp.is_float(node.arguments["input"]) or len(imp.extents(x)) != 4:
        return None
    mode = int(node.arguments["interpolation_mode"])
    attributes = {
        "mode": _MODES[mode],
        "padding_mode": _PADDINGS[int(node.arguments["padding_mode"])],
        "align_corners": int(bool(node.arguments["align_corners"])),
    }
    operands = [x, grid]
    return [imp.function("GridSample", operands, imp.element(name), imp.shape(name), **attributes)]
