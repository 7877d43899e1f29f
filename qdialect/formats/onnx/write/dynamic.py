"""Quantization at run time: the nodes that ONNX Runtime's `quantize_dynamic` writes.

    DynamicQuantizeLinear -> MatMulInteger | ConvInteger -> Cast -> Mul(Mul(scale, scale))

The runtime fuses them.  What several products quantize alike is written once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect import ops as nn
from qdialect.dialects.onnx import FUSED
from qdialect.formats.onnx.write.accumulators import zero_points
from qdialect.formats.onnx.write.float_ops import Call
from qdialect.ops import shape_of
from qdialect.quant import quant_element

if TYPE_CHECKING:
    from qdialect.formats.onnx.write.exporter import Exporter
    from qdialect.qparams.parameters import QParams

_FLOAT = 1


def dynamic_quantize(call: Call) -> None:
    """`nn.dynamic_quantize` as DynamicQuantizeLinear."""
    exporter, names = call.exporter, call.exporter.output_names(call.op, call.key)
    more = [
        exporter.claim(value, name)
        for value, name in zip(call.op.results[1:], names[1:], strict=True)
    ]
    if exporter.opset < 11:
        raise exporter.unsupported(call.op, "needs opset 11")
    exporter.graph.node("DynamicQuantizeLinear", call.inputs, [call.output, *more], call.key)


def write_product(exporter: Exporter, op: nn.DynamicOp) -> None:
    """A product whose input is quantized as it runs, as integer product, Cast and Mul."""
    if exporter.opset < 11:
        raise exporter.unsupported(op, "needs opset 11")
    key, graph = exporter.key(op), exporter.graph
    output = exporter.claim(op.result, exporter.output_names(op, key)[0])
    element = quant_element(op.weight.type)
    assert element is not None
    if FUSED in op.attributes and isinstance(op, nn.DynamicMatMulOp):
        weight = exporter.tensor(op.weight)
        inputs = [exporter.tensor(op.input), weight, _scale(exporter, op, weight, element.qparams)]
        zero = zero_points(exporter, op.weight, weight)
        inputs += [zero] if zero else []
        graph.node("DynamicQuantizeMatMul", inputs, [output], key, "com.microsoft")
        return
    codes, scale, zero = _quantized(exporter, exporter.tensor(op.input))
    weight = exporter.tensor(op.weight)
    sums, real = graph.tensor(f"{output}_sums"), graph.tensor(f"{output}_real")
    inputs = [codes, weight, zero, zero_points(exporter, op.weight, weight)]
    inputs = inputs if inputs[-1] else inputs[:-1]
    if isinstance(op, nn.DynamicMatMulOp):
        graph.node("MatMulInteger", inputs, [sums], f"{key}_quant")
    else:
        values = op.values
        graph.node(
            "ConvInteger",
            inputs,
            [sums],
            f"{key}_quant",
            dilations=values["dilations"],
            group=values["groups"],
            kernel_shape=shape_of(op.weight)[2:],
            pads=values["pads"],
            strides=values["strides"],
        )
    graph.node("Cast", [sums], [real], f"{key}_cast", to=_FLOAT)
    given = _scale(exporter, op, weight, element.qparams)
    both = graph.tensor(f"{output}_scale")
    graph.node("Mul", [scale, given], [both], f"{key}_scales_mul")
    graph.node("Mul", [real, both], [output], key)


def _quantized(exporter: Exporter, source: str) -> tuple[str, str, str]:
    """Codes, scale and zero point of a tensor, quantized once."""
    if source not in exporter.quantized_at_run_time:
        graph = exporter.graph
        names = (
            graph.tensor(f"{source}_quantized"),
            graph.tensor(f"{source}_scale"),
            graph.tensor(f"{source}_zero_point"),
        )
        graph.node("DynamicQuantizeLinear", [source], names, f"{source}_QuantizeLinear")
        exporter.quantized_at_run_time[source] = names
    return exporter.quantized_at_run_time[source]


def _scale(exporter: Exporter, op: nn.DynamicOp, weight: str, qparams: QParams) -> str:
    """The scales of the weight, along the channels of the result."""
    import numpy as np

    scales = qparams.scale_array().astype(np.float32)
    below = 0 if isinstance(op, nn.DynamicMatMulOp) else len(shape_of(op.result)) - 2
    if not qparams.is_per_tensor:
        scales = scales.reshape(-1, *(1 for _ in range(below)))
    return exporter.graph.array(f"{weight}_scale", scales)
