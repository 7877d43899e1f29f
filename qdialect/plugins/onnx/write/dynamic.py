"""Quantization at run time: the nodes that ONNX Runtime's `quantize_dynamic` writes.

    DynamicQuantizeLinear -> MatMulInteger | ConvInteger -> Cast -> Mul(Mul(scale, scale))

The runtime fuses them.  What several products quantize alike is written once. A recurrent layer is
one node, DynamicQuantizeLSTM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from qdialect.ir import ops as nn
from qdialect.ir.ops import ConstantOp, constant_array, shape_of
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.plugins.onnx.dialect import FUSED
from qdialect.plugins.onnx.write.accumulators import zero_points
from qdialect.plugins.onnx.write.float_ops import Call, recurrent

if TYPE_CHECKING:
    from qdialect.algebra.qparams.parameters import QParams
    from qdialect.plugins.onnx.write.exporter import Exporter

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
    if exporter.opset < 11:
        raise exporter.unsupported(op, "needs opset 11")
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


def layer_weights(op: Operation) -> list[tuple[ConstantOp, QParams]]:
    """The quantized weights of a layer that is written as DynamicQuantizeLSTM; else none."""
    if not isinstance(op, nn.LstmOp) or FUSED not in op.attributes:
        return []
    found: list[tuple[ConstantOp, QParams]] = []
    for value in op.operands[1:3]:
        real = value.owner
        if not isinstance(real, DCastOp) or not isinstance(real.input.owner, ConstantOp):
            return []
        element, (directions, rows, depth) = quant_element(real.input.type), shape_of(value)
        if element is None or element.qparams.storage.spelling not in ("i8", "u8"):
            return []
        blocks = dict(element.qparams.blocks)
        whole = [blocks.get(0, directions), blocks.get(1, rows), blocks.get(2, depth)]
        if whole not in ([1, 1, depth], [1, rows, depth]) or element.qparams.expressed != "f32":
            return []
        found.append((real.input.owner, element.qparams))
    return found


def is_layer_weight(op: Operation) -> bool:
    """A dequantized constant that is only read as a weight of such layers."""
    return (
        isinstance(op, DCastOp)
        and op.result.first_use is not None
        and all(use.index in (1, 2) and layer_weights(use.operation) for use in op.result.uses)
    )


def write_layer(exporter: Exporter, op: Operation, key: str, output: str) -> bool:
    """Write `op` as DynamicQuantizeLSTM, whose weights are [directions, in, rows]; False if it
    is none."""
    import numpy as np

    found = layer_weights(op)
    if not found:
        return False
    graph, names, more = exporter.graph, list[str](), list[str]()
    for constant, qparams in found:
        name, dtype = exporter.key(constant), np.int8 if qparams.storage.signed else np.uint8
        codes = constant_array(constant, exporter.ctx.blobs).astype(dtype)
        names.append(graph.array(name, np.ascontiguousarray(codes.transpose(0, 2, 1))))
        shape = qparams.grid[:2] if qparams.grid[1] > 1 else qparams.grid[:1]
        scales, zeros = qparams.scale_array(), qparams.zero_point_array()
        more.append(graph.array(f"{name}_scale", scales.astype(np.float32).reshape(shape)))
        more.append(graph.array(f"{name}_zero_point", zeros.astype(dtype).reshape(shape)))
    floats = [exporter.floats(value) for value in (op.operands[0], *op.operands[3:])]
    call = Call(exporter, op, key, [floats[0], *names, *floats[1:]], output)
    recurrent(call, "DynamicQuantizeLSTM", *more, domain="com.microsoft")
    return True


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
