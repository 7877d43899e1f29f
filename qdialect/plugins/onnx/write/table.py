"""Which op is written how: one entry per op name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.arithmetic import quantized
from qdialect.algebra.qparams.parameters import QParams
from qdialect.algebra.requantize import quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import PortKind
from qdialect.ir.ops import (
    DYNAMIC_CONVOLUTIONS,
    ConstantOp,
    FullyConnectedOp,
    GatherOp,
    MatMulOp,
    NNOp,
    PadOp,
    WindowOp,
    shape_of,
)
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.ops.declare import DECLARED, behavior_of
from qdialect.ir.quant import DCastOp, RescaleOp, arithmetic_of, element_type, quant_element
from qdialect.plugins.onnx.dialect import STORED_TRANSPOSED
from qdialect.plugins.onnx.write import dynamic, nodes
from qdialect.plugins.onnx.write.accumulators import write_accumulator
from qdialect.plugins.onnx.write.block_tables import is_packed_table, write_table
from qdialect.plugins.onnx.write.float_ops import PLAIN, Call, Writer
from qdialect.plugins.onnx.write.fully_connected import fully_connected, is_transposed_weight
from qdialect.plugins.onnx.write.indexing import INDEXING
from qdialect.plugins.onnx.write.kernels import (
    CLAMPS,
    DIRECT,
    KERNELS,
    WEIGHTS,
    Kernel,
    Version,
    refusal,
    runs_on,
)
from qdialect.plugins.onnx.write.n_bits import is_packed_weight, write_n_bits
from qdialect.plugins.onnx.write.opsets import INTEGER_OPSETS
from qdialect.plugins.onnx.write.ordering import ORDERING
from qdialect.plugins.onnx.write.quantization import packed, parameters, storage_code, write_bounds
from qdialect.plugins.onnx.write.reduction import REDUCTIONS

if TYPE_CHECKING:
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


# Quantized ops as integer kernels; whatever has none is dequantize, op, quantize.


@dataclass
class KernelCall:
    """One quantized op to write as an integer kernel."""

    exporter: Exporter
    op: Operation
    kernel: Kernel
    key: str
    output: str

    @property
    def values(self) -> dict[str, Any]:
        """The op's properties as Python values."""
        return cast("NNOp", self.op).values

    def tensor(self, index: int) -> str:
        """The stored integers of an operand."""
        return self.exporter.tensor(self.op.operands[index])

    def params(self, value: SSAValue, base: str) -> list[str]:
        """Scale and zero point of a value."""
        return parameters(self.exporter.graph, base, qparams_of(value))

    def operand(self, index: int) -> list[str]:
        """Stored integers, scale and zero point of an operand."""
        tensor = self.tensor(index)
        return [tensor, *self.params(self.op.operands[index], tensor)]

    def result(self) -> list[str]:
        """Scale and zero point of the result."""
        return self.params(self.op.results[0], self.output)

    def node(self, inputs: list[str], **attributes: Any) -> None:
        """Write the kernel."""
        kernel = self.kernel
        self.exporter.graph.node(
            kernel.op_type, inputs, [self.output], self.key, kernel.domain, **attributes
        )


def qparams_of(value: SSAValue) -> QParams:
    """The qparams of a value known to be quantized."""
    element = quant_element(value.type)
    assert element is not None
    return element.qparams


def write_kernel(exporter: Exporter, op: Operation, key: str, hint: str) -> bool:
    """Write `op` on stored integers; False if no kernel runs it."""
    if op.name in CLAMPS:
        return write_clamp(exporter, op, key, hint)
    # What a kernel defines may be what that kernel gives.
    numerics = "bounded" if is_kernel(op) else exporter.numerics
    if op.name not in WRITERS or refusal(op, numerics, exporter.runtime):
        return False
    output = exporter.claim(op.results[0], hint)
    qparams = qparams_of(op.results[0])
    target = output if qparams.storage.is_full_range else exporter.graph.tensor(output)
    WRITERS[op.name](KernelCall(exporter, op, KERNELS[op.name], key, target))
    if target != output:
        write_bounds(exporter.graph, target, output, qparams, key)
    return True


# -- kernels --------------------------------------------------------------------------


def _conv(call: KernelCall) -> None:
    v = call.values
    bias = [call.tensor(2)] if len(call.op.operands) > 2 else []
    call.node(
        [*call.operand(0), *call.operand(1), *call.result(), *bias],
        dilations=v["dilations"],
        group=v["groups"],
        kernel_shape=shape_of(call.op.operands[1])[2:],
        pads=v["pads"],
        strides=v["strides"],
    )


def _fully_connected(call: KernelCall) -> None:
    weight, transposed = call.op.operands[1], False
    tensor = ""
    if STORED_TRANSPOSED in call.op.attributes and isinstance(weight.owner, ConstantOp):
        tensor, transposed = call.exporter.constant(weight.owner, transposed=True), True
    tensor = tensor or call.tensor(1)
    bias = call.tensor(2) if len(call.op.operands) > 2 else ""
    call.node(
        [*call.operand(0), tensor, *call.params(weight, tensor), bias, *call.result()],
        alpha=1.0,
        transA=0,
        transB=0 if transposed else 1,
    )


def _binary(call: KernelCall) -> None:
    call.node([*call.operand(0), *call.operand(1), *call.result()])


def _unary(*names: str, **constants: int) -> Callable[[KernelCall], None]:
    def write(call: KernelCall) -> None:
        values = call.values
        carried = {name: values[name] for name in names}
        call.node([*call.operand(0), *call.result()], **carried, **constants)

    return write


def _average_pool(call: KernelCall) -> None:
    v = call.values
    call.node(
        [*call.operand(0), *call.result()],
        kernel_shape=v["kernel"],
        strides=v["strides"],
        pads=v["pads"],
        ceil_mode=int(v["ceil_mode"]),
        count_include_pad=int(v["count_include_pad"]),
    )


def _concat(call: KernelCall) -> None:
    """QLinearConcat takes every input's own qparams, so it does the rescales too."""
    inputs = call.result()
    for operand in call.op.operands:
        owner = operand.owner
        absorbed = isinstance(owner, RescaleOp) and owner in call.exporter.deferred
        source = cast("RescaleOp", owner).input if absorbed else operand
        tensor = call.exporter.tensor(source)
        inputs += [tensor, *call.params(source, tensor)]
    call.node(inputs, axis=call.values["axis"])


def is_absorbed(op: RescaleOp, runtime: Version) -> bool:
    """A rescale that the QLinearConcat it feeds performs: in QDQ form the quantization of
    the concatenated numbers, which ONNX Runtime makes that kernel of."""
    use = op.result.get_user_of_unique_use()
    if use is None or use.name != "nn.concat" or refusal(use, runtime=runtime):
        return False
    source = quant_element(op.input.type)
    if source is None or op.rounding is not Rounding.HALF_EVEN or op.fixed_point:
        return False
    before, after = source.qparams, qparams_of(op.result)
    return (
        before.is_per_tensor
        and after.storage.is_full_range
        and before.storage.spelling == after.storage.spelling
        and before.expressed == "f32"
        and _comes_back(after)
    )


def _comes_back(qparams: QParams) -> bool:
    return all(2.0**-100 < scale < 2.0**100 for scale in qparams.scale_list())


WRITERS: Mapping[str, Callable[[KernelCall], None]] = {
    **{kind.name: _conv for kind in nn.CONVOLUTIONS},
    "nn.fully_connected": _fully_connected,
    "nn.matmul": _binary,
    "nn.add": _binary,
    "nn.mul": _binary,
    "nn.concat": _concat,
    **{kind.name: _average_pool for kind in nn.AVERAGE_POOLS},
    **{kind.name: _unary(channels_last=0) for kind in nn.GLOBAL_AVERAGE_POOLS},
    "nn.sigmoid": _unary(),
    "nn.leaky_relu": _unary("alpha"),
    "nn.softmax": _unary("axis", opset=13),
}


# -- clamps ---------------------------------------------------------------------------


def write_clamp(exporter: Exporter, op: Operation, key: str, hint: str) -> bool:
    """`nn.relu` and `nn.clip` as Clip on stored integers, which costs a tenth of one on floats
    between casts; nothing at all where the storage bounds do it already.  False if it is
    written in another way."""
    source, result = quant_element(op.operands[0].type), quant_element(op.results[0].type)
    if source is None or source != result or not source.qparams.is_per_tensor:
        return False
    qparams = source.qparams
    if qparams.storage.spelling not in CLAMPS[op.name] or not _comes_back(qparams):
        return False
    low, high = stored_bounds(op, qparams)
    bounds = [
        ("min", None if low == qparams.storage.min else low),
        ("max", None if high == qparams.storage.max else high),
    ]
    while bounds and bounds[-1][1] is None:
        bounds.pop()
    if not bounds:
        exporter.alias(op.results[0], op.operands[0])
        return True
    if exporter.opset < INTEGER_OPSETS["nn.clip"]:
        return False
    import numpy as np

    code = storage_code(qparams)
    inputs = [
        ""
        if bound is None
        else exporter.graph.initializer(f"{key}_{name}", code, (), packed(np.array(bound), 8))
        for name, bound in bounds
    ]
    source_tensor = exporter.tensor(op.operands[0])
    output = exporter.claim(op.results[0], hint)
    exporter.graph.node("Clip", [source_tensor, *inputs], [output], key)
    return True


def stored_bounds(op: Operation, qparams: QParams) -> tuple[int | None, int | None]:
    """The bounds of a relu or clip as stored integers, None where there is none."""
    values = {"min": 0.0} if op.name == "nn.relu" else cast("NNOp", op).values
    low, high = values.get("min"), values.get("max")
    (grid,), floats = quant_grids(qparams), arithmetic_of(op).floats(qparams.expressed)
    return (
        None if low is None else quantized(low, grid, Rounding.HALF_EVEN, floats),
        None if high is None else quantized(high, grid, Rounding.HALF_EVEN, floats),
    )
