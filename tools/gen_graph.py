"""Networks of any size, built op by op without text, to measure and to stress.

Three shapes: `chain` (one value after the other), `residual` (convolutions with a skip
around each) and `concat` (many branches that meet in one wide op). Two forms: `qdq`, floats
between dequantize and quantize, and `quantized`, ops on quantized types with rescales where
scales meet. Everything follows from the arguments.

    python tools/gen_graph.py residual 1000 --form quantized > graph.mlir
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from qdialect.dialects.nn import (
    KEY,
    AddOp,
    ConcatOp,
    ConstantOp,
    Conv2DOp,
    MaxPool2DOp,
    ReluOp,
    TransposeOp,
)
from qdialect.dialects.nn.base import to_attribute
from qdialect.dialects.quant import DCastOp, QCastOp, RescaleOp, UniformType
from qdialect.qparams import QParams

SHAPE = (1, 4, 8, 8)
FORMS = ("qdq", "quantized")

_WEIGHT = bytes((3 * index + 5) % 251 for index in range(16))
_BIAS = bytes(16)


@cache
def activation(index: int) -> UniformType:
    """One of 1 009 encodings of an activation, by number; scales from 1/32 to 1/16."""
    scale = (1 + index % 1009 / 1024) / 32
    return UniformType(QParams.per_tensor("i8", scale, index % 7 - 3))


@cache
def _parameter(storage: str, scale: float) -> UniformType:
    return UniformType(QParams.per_tensor(storage, scale))


@cache
def _tensor(element: Attribute, shape: tuple[int, ...]) -> TensorType[Any]:
    return TensorType(element, shape)


@cache
def _defaults(kind: type[IRDLOperation]) -> dict[str, Attribute]:
    properties = kind.get_irdl_definition().properties
    return {
        name: prop.default_value
        for name, prop in properties.items()
        if prop.default_value is not None
    }


class Network:
    """A function under construction, in one of the two forms."""

    def __init__(self, form: str) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
        self.quantized = form == "quantized"
        self.ops: list[Operation] = []
        self.block = Block(arg_types=[_tensor(activation(0), SHAPE)])
        self.input: SSAValue = self.block.args[0]

    def put(
        self,
        kind: type[IRDLOperation],
        operands: Sequence[SSAValue],
        result: Attribute,
        **properties: Any,
    ) -> SSAValue:
        """Append one op; its properties are Python values."""
        given = {name: to_attribute(value) for name, value in properties.items()}
        op = kind.create(
            operands=operands,
            result_types=[result],
            properties=_defaults(kind) | given,
            attributes={KEY: StringAttr(f"n{len(self.ops)}")},
        )
        self.ops.append(op)
        return op.results[0]

    def constant(self, data: bytes, storage: str, scale: float, shape: tuple[int, ...]) -> SSAValue:
        """A quantized constant; `data` holds its stored integers."""
        held = _tensor(IntegerType(8 * len(data) // _size(shape)), shape)
        element = _parameter(storage, scale)
        value = DenseIntOrFPElementsAttr(held, BytesAttr(data))
        return self.put(ConstantOp, (), _tensor(element, shape), value=value)

    def layer(
        self,
        kind: type[IRDLOperation],
        operands: Sequence[SSAValue],
        encoding: int,
        shape: tuple[int, ...] = SHAPE,
        **properties: Any,
    ) -> SSAValue:
        """One op of the network, on quantized types or between dequantize and quantize."""
        result = _tensor(activation(encoding), shape)
        if self.quantized:
            return self.put(kind, operands, result, **properties)
        floats = [self.put(DCastOp, (value,), _as_float(value)) for value in operands]
        value = self.put(kind, floats, _tensor(f32, shape), **properties)
        return self.put(QCastOp, (value,), result)

    def rescale(self, value: SSAValue, encoding: int) -> SSAValue:
        """The same reals in another encoding."""
        result = _tensor(activation(encoding), SHAPE)
        if self.quantized:
            return self.put(RescaleOp, (value,), result)
        return self.put(QCastOp, (self.put(DCastOp, (value,), _as_float(value)),), result)

    def finish(self, output: SSAValue) -> ModuleOp:
        """The module of one function that returns `output`."""
        self.block.add_ops([*self.ops, ReturnOp(output)])
        signature = FunctionType.from_lists([self.input.type], [output.type])
        return ModuleOp([FuncOp("main", signature, Region(self.block))])


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _as_float(value: SSAValue) -> TensorType[Any]:
    kind: Any = value.type
    return _tensor(f32, kind.get_shape())


def chain(size: int, form: str) -> ModuleOp:
    """Order-preserving and movement ops in a row, with a rescale before every eighth."""
    network = Network(form)
    value, encoding = network.input, 0
    while len(network.ops) < size:
        step = len(network.ops) // 8
        value = network.rescale(value, encoding := encoding + 1)
        value = network.layer(ReluOp, (value,), encoding)
        value = network.layer(TransposeOp, (value,), encoding, perm=(0, 1, 3, 2))
        window = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
        value = network.layer(MaxPool2DOp, (value,), encoding, **window)
        if step % 2:
            value = network.layer(TransposeOp, (value,), encoding, perm=(0, 1, 3, 2))
    return network.finish(value)


def residual(size: int, form: str) -> ModuleOp:
    """Blocks of convolution and relu with a skip around them, rescaled where it joins."""
    network = Network(form)
    value, encoding = network.input, 0
    while len(network.ops) < size:
        scale = 0.5 / (1 + encoding % 7)
        weight = network.constant(_WEIGHT, "i8", scale, (4, 4, 1, 1))
        activation_scale = activation(encoding).qparams.scale
        bias = network.constant(_BIAS, "i32", activation_scale * scale, (4,))
        body = network.layer(Conv2DOp, (value, weight, bias), encoding + 1)
        body = network.layer(ReluOp, (body,), encoding + 1)
        skip = network.rescale(value, encoding + 1)
        encoding += 2
        value = network.layer(AddOp, (body, skip), encoding)
    return network.finish(value)


def concat(size: int, form: str) -> ModuleOp:
    """Branches of a rescale and a relu from one input, all joined by one op."""
    network = Network(form)
    branches: list[SSAValue] = []
    while len(network.ops) < size:
        branch = network.rescale(network.input, 1 + len(branches))
        branches.append(network.layer(ReluOp, (branch,), 1 + len(branches)))
    shape = (1, SHAPE[1] * len(branches), *SHAPE[2:])
    joined = [network.rescale(branch, 1) for branch in branches]
    return network.finish(network.layer(ConcatOp, joined, 1, shape, axis=1))


GRAPHS: dict[str, Callable[[int, str], ModuleOp]] = {
    "chain": chain,
    "residual": residual,
    "concat": concat,
}


def main(arguments: Sequence[str] | None = None) -> None:
    from qdialect.backends.mlir import print_module
    from qdialect.context import new_context

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", choices=GRAPHS)
    parser.add_argument("size", type=int, help="at least this many ops")
    parser.add_argument("--form", choices=FORMS, default="quantized")
    options = parser.parse_args(arguments)
    print_module(GRAPHS[options.graph](options.size, options.form), new_context(), sys.stdout)


if __name__ == "__main__":
    main()
