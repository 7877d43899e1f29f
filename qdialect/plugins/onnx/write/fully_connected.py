"""`nn.fully_connected` as Gemm, with the weight as the file it came from stored it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.ops import ConstantOp, FullyConnectedOp
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.plugins.onnx.dialect import AT_LOAD, PARAMS, STORED_TRANSPOSED
from qdialect.plugins.onnx.write.float_ops import Call
from qdialect.plugins.onnx.write.quantization import (
    along_one,
    write_cast_and_scaled,
    write_dequantize,
)

if TYPE_CHECKING:
    from qdialect.plugins.onnx.write.exporter import Exporter


def fully_connected(exporter: Exporter, op: FullyConnectedOp, key: str, output: str) -> None:
    """Gemm on floats; [K, N] weights where the model had them so."""
    inputs = [exporter.floats(op.operands[0]), *(exporter.floats(v) for v in op.operands[2:])]
    transposed = None
    if STORED_TRANSPOSED in op.attributes:
        transposed = _transposed(exporter, op.operands[1])
    weight = transposed or exporter.floats(op.operands[1])
    call = Call(exporter, op, key, inputs, output)
    call.node("Gemm", inputs[0], weight, *inputs[1:], transB=None if transposed else 1)


def is_transposed_weight(op: Operation) -> bool:
    """A dequantized constant that is only read as the [K, N] weight of Gemms."""
    return (
        isinstance(op, DCastOp)
        and isinstance(op.input.owner, ConstantOp)
        and op.result.first_use is not None
        and all(
            isinstance(use.operation, FullyConnectedOp)
            and use.index == 1
            and STORED_TRANSPOSED in use.operation.attributes
            for use in op.result.uses
        )
    )


def _transposed(exporter: Exporter, weight: SSAValue) -> str | None:
    """The tensor of the transposed real weight; None if it is not constant."""
    owner = weight.owner
    if isinstance(owner, ConstantOp):
        quantized = quant_element(weight.type)
        tensor = exporter.constant(owner, transposed=True)
        if quantized is None:
            return tensor
        return _dequantized(exporter, tensor, along_one(quantized.qparams, weight), None)
    if isinstance(owner, DCastOp) and isinstance(owner.input.owner, ConstantOp):
        quantized = quant_element(owner.input.type)
        if quantized is not None:
            write = exporter.castable if AT_LOAD in owner.attributes else exporter.constant
            tensor = write(owner.input.owner, transposed=True)
            return _dequantized(exporter, tensor, along_one(quantized.qparams, owner.input), owner)
    return None


def _dequantized(exporter: Exporter, tensor: str, qparams: QParams, op: DCastOp | None) -> str:
    flipped = qparams.transposed()
    key = exporter.key(op) if op else f"{tensor}_DequantizeLinear"
    hint = exporter.output_names(op, key)[0] if op else f"{tensor}_dequantized"
    params = string_list(op.attributes.get(PARAMS)) if op else []
    output = exporter.graph.tensor(hint)
    if op is not None and AT_LOAD in op.attributes:
        write_cast_and_scaled(exporter.graph, tensor, output, flipped, key, rank=2)
        return output
    write_dequantize(exporter.graph, tensor, output, flipped, key, exporter.opset, params)
    return output
