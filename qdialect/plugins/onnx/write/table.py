"""Which op is written how: one entry per op name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qdialect.ir.behaviors import PortKind
from qdialect.ir.ops import (
    DYNAMIC_CONVOLUTIONS,
    ConstantOp,
    FullyConnectedOp,
    GatherOp,
    MatMulOp,
    PadOp,
    WindowOp,
    shape_of,
)
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.ops.declare import DECLARED, behavior_of
from qdialect.ir.quant import DCastOp, RescaleOp, element_type, quant_element
from qdialect.plugins.onnx.dialect import STORED_TRANSPOSED
from qdialect.plugins.onnx.write import dynamic, nodes
from qdialect.plugins.onnx.write.accumulators import write_accumulator
from qdialect.plugins.onnx.write.block_tables import is_packed_table, write_table
from qdialect.plugins.onnx.write.float_ops import PLAIN, Call, Writer
from qdialect.plugins.onnx.write.fully_connected import fully_connected, is_transposed_weight
from qdialect.plugins.onnx.write.indexing import INDEXING
from qdialect.plugins.onnx.write.kernels import CLAMPS, DIRECT, WEIGHTS, Version, runs_on
from qdialect.plugins.onnx.write.n_bits import is_packed_weight, write_n_bits
from qdialect.plugins.onnx.write.opsets import INTEGER_OPSETS
from qdialect.plugins.onnx.write.ordering import ORDERING
from qdialect.plugins.onnx.write.qoperator import is_absorbed, write_clamp, write_kernel
from qdialect.plugins.onnx.write.quantization import parameters
from qdialect.plugins.onnx.write.reduction import REDUCTIONS

if TYPE_CHECKING:
    from qdialect.algebra.qparams.parameters import QParams
    from qdialect.plugins.onnx.write.exporter import Exporter

OTHERS: Mapping[str, Callable[[Any, Any], None]] = {
    "nn.constant": nodes.write_constant,
    "quant.dcast": nodes.write_dcast,
    "quant.qcast": nodes.write_qcast,
    "quant.scast": nodes.write_scast,
    "quant.rescale": nodes.write_rescale,
    "nn.table": nodes.write_table,
    "nn.dynamic_matmul": dynamic.write_product,
    **{kind.name: dynamic.write_product for kind in DYNAMIC_CONVOLUTIONS},
    "onnx.node": nodes.write_node,
    "builtin.unrealized_conversion_cast": nodes.write_conversion,
}

FLOAT: Mapping[str, Writer] = {
    **PLAIN,
    **INDEXING,
    **ORDERING,
    **REDUCTIONS,
    "nn.dynamic_quantize": dynamic.dynamic_quantize,
}
"""How each float op is written; `nn.fully_connected` is in `fully_connected.py`."""

SEVERAL = frozenset({"nn.split", "nn.lstm", "nn.gru"})
"""Ops of several quantized results, whose function writes all but the first."""

RENAMES = frozenset({"quant.scast", "builtin.unrealized_conversion_cast"})
"""Ops that give a tensor another type or name, but write no node."""


def may_defer(exporter: Exporter, op: Operation) -> bool:
    """Whether the readers of `op` have a form of their own for it, so that it is only
    written if one of them asks for its tensor after all."""
    if isinstance(op, RescaleOp):
        return is_absorbed(op, exporter.runtime)
    hidden = (is_transposed_weight, is_packed_weight, is_packed_table, dynamic.is_layer_weight)
    return isinstance(op, DCastOp) and any(is_hidden(op) for is_hidden in hidden)


def write(exporter: Exporter, op: Operation) -> None:
    """Write one op; UnsupportedError if there is no way to."""
    if op.name in OTHERS:
        OTHERS[op.name](exporter, op)
    elif op.name in FLOAT or isinstance(op, FullyConnectedOp):
        _write_nn(exporter, op)
    else:
        raise exporter.unsupported(op, "has no ONNX form")


def _write_nn(exporter: Exporter, op: Operation) -> None:
    elements = [quant_element(v.type) for v in (*op.operands, *op.results)]
    key = exporter.key(op)
    hint = exporter.output_names(op, key)[0]
    if not any(elements):
        output = exporter.claim(op.results[0], hint)
        if isinstance(op, MatMulOp) and write_n_bits(exporter, op, key, output):
            return
        if isinstance(op, GatherOp) and write_table(exporter, op, key, output):
            return
        if not dynamic.write_layer(exporter, op, key, output):
            _write_float(exporter, op, key, output)
        return
    direct = _is_direct(op, exporter.runtime, exporter.opset) and not any(
        v.owner in exporter.deferred for v in op.operands
    )
    if write_accumulator(exporter, op, key, hint):
        return
    if op.name in CLAMPS and write_clamp(exporter, op, key, hint):
        return
    kernels = exporter.form == "qoperator" or is_kernel(op)
    if kernels and not direct and _write_codes(exporter, op, key, hint):
        return
    if direct:
        inputs = [exporter.tensor(v) for v in op.operands]
        FLOAT[op.name](Call(exporter, op, key, inputs, exporter.claim(op.results[0], hint)))
        return
    _write_dequantized(exporter, op, key, hint)


def _write_codes(exporter: Exporter, op: Operation, key: str, hint: str) -> bool:
    """Write the op as an integer kernel; False if there is none."""
    if write_kernel(exporter, op, key, hint):
        return True
    return write_to_float(exporter, op, key, hint)


def _write_dequantized(exporter: Exporter, op: Operation, key: str, hint: str) -> None:
    """Dequantize, op, quantize."""
    result = op.results[0]
    if quant_element(result.type) is None:
        _write_float(exporter, op, key, exporter.claim(result, hint))
        return
    if op.name not in SEVERAL and any(quant_element(other.type) for other in op.results[1:]):
        raise exporter.unsupported(op, "gives several quantized results")
    real = exporter.graph.tensor(hint)
    _write_float(exporter, op, key, real)
    if op.name in SEVERAL and result.first_use is None:
        return
    exporter.quantize(real, result, f"{real}_quantized", f"{key}_QuantizeLinear")


def _write_float(exporter: Exporter, op: Operation, key: str, output: str) -> None:
    if isinstance(op, FullyConnectedOp):
        fully_connected(exporter, op, key, output)
        return
    # Numbers are concatenated as they are: the quantization of the result rescales them.
    values = [_rescaled_from(exporter, v) or v for v in op.operands]
    inputs = [exporter.floats(v) for v in values]
    FLOAT[op.name](Call(exporter, op, key, inputs, output))


def _rescaled_from(exporter: Exporter, value: SSAValue) -> SSAValue | None:
    op = value.owner
    return op.input if isinstance(op, RescaleOp) and op in exporter.deferred else None


def _is_direct(op: Operation, runtime: Version, opset: int) -> bool:
    """An op that moves or picks elements, or tells their order, between equal qparams of a
    storage it runs on."""
    if opset < INTEGER_OPSETS.get(op.name, 0):
        return False
    storages = DIRECT.get(op.name)
    behavior = behavior_of(op.name) if op.name in DECLARED else None
    data = [
        v
        for i, v in enumerate(op.operands)
        if behavior is None or behavior.operand_port(i).kind is not PortKind.PLAIN
    ]
    data += [
        v
        for i, v in enumerate(op.results)
        if behavior is None or behavior.result_port(i).kind is not PortKind.PLAIN
    ]
    elements = [quant_element(v.type) for v in data]
    if storages is None or any(element is None for element in elements):
        return False
    known = [element.qparams for element in elements if element is not None]
    names = {q.storage.spelling for q in known}
    if not names <= storages or not all(runs_on(op.name, n, runtime) for n in names):
        return False
    if op.name == "nn.concat":
        return all(q == known[0] and q.is_per_tensor for q in known)
    return not isinstance(op, PadOp | WindowOp) or known[0].is_per_tensor


# Products of codes whose result is a float: MatMulIntegerToFloat and QGemm.
#
# Both sum integers, and multiply by the scales in f32.

_MS = "com.microsoft"


def write_to_float(exporter: Exporter, op: Operation, key: str, hint: str) -> bool:
    """Write `op` on stored integers with a float result; False if no kernel runs it."""
    found = _qparams(op)
    if found is None:
        return False
    lhs, rhs = found
    weight, transposed, tensor = op.operands[1], False, ""
    if STORED_TRANSPOSED in op.attributes and isinstance(weight.owner, ConstantOp):
        tensor, transposed = exporter.constant(weight.owner, transposed=True), True
    tensors = [exporter.tensor(op.operands[0]), tensor or exporter.tensor(weight)]
    graph = exporter.graph
    x, w = (parameters(graph, t, q) for t, q in zip(tensors, (lhs, rhs), strict=True))
    bias = [exporter.tensor(op.operands[2])] if len(op.operands) > 2 else []
    output = exporter.claim(op.results[0], hint)
    if isinstance(op, MatMulOp):
        inputs = [*tensors, x[0], w[0], x[1], w[1]]
        graph.node("MatMulIntegerToFloat", inputs, [output], key, _MS)
    else:
        inputs = [tensors[0], *x, tensors[1], *w, *bias]
        turned = 0 if transposed else 1
        graph.node("QGemm", inputs, [output], key, _MS, alpha=1.0, transA=0, transB=turned)
    return True


def _qparams(op: Operation) -> tuple[QParams, QParams] | None:
    """The qparams of both sides, if there is a kernel for them."""
    if not isinstance(op, MatMulOp | FullyConnectedOp) or element_type(op.result.type) != f32:
        return None
    elements = [quant_element(value.type) for value in op.operands]
    known = [element.qparams for element in elements if element is not None]
    if len(known) != len(elements):
        return None
    lhs, rhs = known[:2]
    shape = shape_of(op.operands[1])
    channel = len(shape) - 1 if isinstance(op, MatMulOp) else 0
    if not lhs.is_per_tensor or lhs.storage.spelling not in WEIGHTS:
        return None
    if rhs.storage.spelling not in WEIGHTS[lhs.storage.spelling]:
        return None
    if min(len(shape), len(shape_of(op.operands[0]))) < 2:
        return None
    if not rhs.is_per_tensor and (rhs.axis != channel or len(shape) != 2):
        return None
    return lhs, rhs
