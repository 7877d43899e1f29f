"""Fake quantization, as training writes it: floats to floats, rounded to what codes mean.

Each is a quantize and a dequantize of the least storage that has its bounds.  That of a constant
is a constant of its codes, so that integer weights leave training as integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import f32

from qdialect.algebra.quantize import quantize_floats
from qdialect.algebra.rounding import Rounding
from qdialect.ir.quant import UniformType
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.parameters import (
    Grid,
    known,
    qparams,
    smallest_storage,
)
from qdialect.plugins.torch.read.quantized import quantized
from qdialect.plugins.torch.read.rows import Results, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.ir import SSAValue

    from qdialect.algebra.qparams import Storage
    from qdialect.plugins.torch.read.importer import Importer


def fake_quantize(learned: bool = False) -> Rule:
    """`fake_quantize_per_tensor_affine`, `fake_quantize_per_channel_affine`, and those with
    parameters that training learned: zero points are rounded and clamped then."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        x = cast("Ref", arguments["self"])
        low, high = (imp.integer(arguments[name]) for name in ("quant_min", "quant_max"))
        if imp.kind(x) != f32 or low is None or high is None or not _is_on(imp, arguments):
            return None
        stored = smallest_storage(low, high)
        grid = _grid(imp, x, arguments, (low, high) if learned else None)
        if stored is None or grid is None:
            return None
        value = constant_codes(imp, x, stored, grid)
        if value is None:
            value = quantized(imp, imp.value(x), stored, grid)
        if value is None:
            return None
        return [imp.dequantized(value), *[None] * (len(node.results) - 1)]

    return rule


def _is_on(imp: Importer, arguments: Mapping[str, Any]) -> bool:
    if "fake_quant_enabled" not in arguments:
        return True
    switch = known(imp, arguments["fake_quant_enabled"])
    return switch is not None and bool(switch.all())


def _grid(
    imp: Importer, x: Ref, arguments: Mapping[str, Any], bounds: tuple[int, int] | None
) -> Grid | None:
    import numpy as np

    scales, zeros = (known(imp, arguments[name]) for name in ("scale", "zero_point"))
    if scales is None or zeros is None:
        return None
    if bounds is not None:
        zeros = np.clip(np.round(zeros.astype(np.float32)), *bounds)
    # The reciprocal is that of the float32 number, also where the program has a double.
    scales = scales.astype(np.float32)
    if "axis" not in arguments:
        return Grid(scales.reshape(-1)[:1], zeros.reshape(-1)[:1])
    return Grid(scales, zeros, axis=int(arguments["axis"]) % len(imp.extents_of(x)))


def constant_codes(imp: Importer, x: Ref, stored: Storage, grid: Grid) -> SSAValue | None:
    """The codes of a tensor of float32 that is known, as a constant; None for others."""
    import numpy as np

    array, params = known(imp, x), qparams(stored, grid)
    if array is None or params is None or array.dtype != np.float32 or np.isnan(array).any():
        return None
    codes: NDArray[Any] = quantize_floats(array, params, Rounding.RECIPROCAL)
    name = imp.paths.get(x.name)
    value = imp.constant(codes, UniformType(params), name)
    return value


def observed(imp: Importer, node: Node) -> Results:
    """Fake quantization that still observes ranges: InputError (`unsupported`)."""
    raise imp.unsupported(
        f"'{node.target}' observes ranges as training does: "
        "call convert_pt2e(model) and export the result"
    )


_PLAIN, _LEARNED = fake_quantize(), fake_quantize(learned=True)

RULES: Mapping[str, Rule] = {
    "aten.fake_quantize_per_tensor_affine": _PLAIN,
    "aten.fake_quantize_per_channel_affine": _PLAIN,
    "aten.fake_quantize_per_tensor_affine_cachemask": _PLAIN,
    "aten.fake_quantize_per_channel_affine_cachemask": _PLAIN,
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _PLAIN,
    "aten._fake_quantize_learnable_per_tensor_affine": _LEARNED,
    "aten._fake_quantize_learnable_per_channel_affine": _LEARNED,
    "aten.fused_moving_avg_obs_fake_quant": observed,
    "aten._fused_moving_avg_obs_fq_helper": observed,
    "aten._fused_moving_avg_obs_fq_helper_functional": observed,
}
