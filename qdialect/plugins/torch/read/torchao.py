"""Affine quantization in blocks, as torchao writes it, and products of integers.

`block_size` are the extents of what shares a parameter: [1, K] one a row, the whole shape one a
tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import f32

from qdialect.algebra.qparams import Storage
from qdialect.ir import ops as nn
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.torch.program import ElementType, Node, Ref
from qdialect.plugins.torch.read import run_time
from qdialect.plugins.torch.read.parameters import SPELLINGS, Grid, known, qparams, storage
from qdialect.plugins.torch.read.quantized import codes, quantized
from qdialect.plugins.torch.read.rows import Results, Rule

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from qdialect.plugins.torch.read.importer import Importer

_TINY = 2.0**-126
"""The least scale where a program says none: the smallest normal float32."""


def choose_qparams_affine(imp: Importer, node: Node) -> Results:
    """Parameters of the range of each block, where a block is one element or everything along
    each dimension."""
    arguments = node.arguments
    symmetric = arguments["mapping_type"] == "SYMMETRIC"
    stored = _stored(imp, arguments, "target_dtype")
    if imp.kind(arguments["input"]) != f32 or stored is None:
        return None
    if not symmetric and arguments["mapping_type"] != "ASYMMETRIC":
        return None
    x = imp.value(arguments["input"])
    axes = _shared(imp, x, arguments["block_size"])
    if axes is None:
        return None
    least = arguments.get("eps")
    middle = (stored.max + stored.min + 1) // 2 if symmetric else None
    chosen = run_time.choose(
        imp, x, axes, (stored.min, stored.max), _TINY if least is None else float(least), middle
    )
    return run_time.exposed(imp, node, chosen)


def _shared(imp: Importer, x: SSAValue, blocks: Sequence[int]) -> list[int] | None:
    """The dimensions along which all elements share a parameter; None where blocks are others."""
    axes: list[int] = []
    for d, (extent, block) in enumerate(zip(imp.extents(x), blocks, strict=True)):
        if extent.number == block:
            axes += [d] if block != 1 else []
        elif block != 1:
            return None
    return axes or None


def _stored(imp: Importer, arguments: Mapping[str, Any], dtype: str) -> Storage | None:
    kind: ElementType = arguments[dtype]
    spelling = SPELLINGS.get(kind.code)
    if spelling is None:
        return None
    low, high = Storage.of(spelling).full_range
    low = low if arguments.get("quant_min") is None else imp.integer(arguments["quant_min"])
    high = high if arguments.get("quant_max") is None else imp.integer(arguments["quant_max"])
    return None if low is None or high is None else storage(spelling, low, high)


def _grid(imp: Importer, arguments: Mapping[str, Any]) -> Grid | None:
    """The parameters of an affine op; None where only a run has them."""
    scales, points = known(imp, arguments["scale"]), arguments.get("zero_point")
    zeros = known(imp, points)
    shape = [extent.number for extent in imp.extents_of(arguments["input"])]
    if scales is None or (zeros is None and points is not None):
        return None
    zeros = None if zeros is None or zeros.size == 0 else zeros
    if None in shape:
        return Grid(scales, zeros) if scales.size == 1 else None
    return Grid(scales, zeros, blocks=arguments["block_size"], shape=[n or 0 for n in shape])


def quantize_affine(imp: Importer, node: Node) -> Results:
    """Codes of floats."""
    arguments = node.arguments
    stored = _stored(imp, arguments, "output_dtype")
    if stored is None or imp.kind(arguments["input"]) not in FLOATS:
        return None
    grid = _grid(imp, arguments)
    if grid is None:
        return run_time.quantize(imp, node, stored)
    value = quantized(imp, imp.cast(imp.value(arguments["input"]), f32), stored, grid)
    return None if value is None else [value]


def dequantize_affine(imp: Importer, node: Node) -> Results:
    """What codes mean."""
    arguments, name = node.arguments, node.results[0]
    stored = _stored(imp, arguments, "input_dtype")
    if stored is None or not isinstance(name, str) or imp.element(name) != f32:
        return None
    grid = _grid(imp, arguments)
    if grid is None:
        return run_time.dequantize(imp, node)
    params = qparams(stored, grid)
    if params is None:
        return None
    return [imp.dequantized(codes(imp, cast("Ref", arguments["input"]), params))]


def integer_product(imp: Importer, node: Node) -> Results:
    """`_int_mm`: sums of products of 8-bit integers, in 32 bits."""
    name = node.results[0]
    if not isinstance(name, str):
        return None
    operands = [imp.plain(imp.value(node.arguments[key])) for key in ("self", "mat2")]
    return [imp.onnx("MatMulInteger", operands, imp.type(name))]


def packed_product(imp: Importer, node: Node) -> Results:
    """`_weight_int8pack_mm(x, weight [N, K], scales [N])`: x times the weight's rows."""
    arguments, weight = node.arguments, cast("Ref", node.arguments["mat2"])
    scales = known(imp, arguments["scales"])
    if scales is None or imp.kind(arguments["self"]) != f32:
        return None
    params = qparams(Storage.of("i8"), Grid(scales, None, axis=0))
    if params is None:
        return None
    real = imp.dequantized(codes(imp, weight, params))
    return [imp.build(nn.FullyConnectedOp, imp.value(arguments["self"]), real, None)]


RULES: Mapping[str, Rule] = {
    "torchao.choose_qparams_affine": choose_qparams_affine,
    "torchao.quantize_affine": quantize_affine,
    "torchao.dequantize_affine": dequantize_affine,
    "aten._int_mm": integer_product,
    "aten._weight_int8pack_mm": packed_product,
}
