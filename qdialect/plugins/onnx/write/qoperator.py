"""Quantized ops as integer kernels; whatever has none is dequantize, op, quantize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.arithmetic import quantized
from qdialect.algebra.qparams.parameters import QParams
from qdialect.algebra.requantize import quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.ir import ops as nn
from qdialect.ir.ops import ConstantOp, NNOp, shape_of
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.quant import RescaleOp, arithmetic_of, quant_element
from qdialect.plugins.onnx.dialect import STORED_TRANSPOSED
from qdialect.plugins.onnx.write.kernels import CLAMPS, KERNELS, Kernel, Version, refusal
from qdialect.plugins.onnx.write.opsets import INTEGER_OPSETS
from qdialect.plugins.onnx.write.quantization import packed, parameters, storage_code, write_bounds

if TYPE_CHECKING:
    from qdialect.plugins.onnx.write.exporter import Exporter


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
