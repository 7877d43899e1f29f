"""Networks of any size, built op by op without text, to measure and to stress.

Seven shapes: `chain` (one value after the other), `residual` (convolutions with a skip
around each), `concat` (many branches that meet in one wide op), `dense` (each layer takes
all before it in its block), `inception` (branches of different lengths that meet, again and
again), `attention` (projections, transposes, products, softmax and a skip) and `partial`
(convolutions on codes, and between them sums that stay on floats). Two forms:
`qdq`, floats between dequantize and quantize, and `quantized`, ops on quantized types with
rescales where scales meet (of `partial` they are the same). `dense` to `partial` put rescales
and casts as a careless front end does, some right after what makes a value and some right before
each use, with movement in between. Everything follows from the arguments.

    python -m tests.generators.sized residual 1000 --form quantized > graph.mlir
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

from qdialect.algebra.qparams import QParams
from qdialect.ir.ops import (
    KEY,
    AddOp,
    ConcatOp,
    ConstantOp,
    Conv2DOp,
    MatMulOp,
    MaxPool2DOp,
    PadOp,
    ReluOp,
    ReshapeOp,
    SliceOp,
    SoftmaxOp,
    SplitOp,
    TileOp,
    TransposeOp,
)
from qdialect.ir.ops.base import to_attribute
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, UniformType

SHAPE = (1, 4, 8, 8)
FORMS = ("qdq", "quantized")

_BIAS = bytes(16)


@cache
def _weights(size: int) -> bytes:
    return bytes((3 * index + 5) % 251 for index in range(size))


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

    def append(
        self,
        kind: type[IRDLOperation],
        operands: Sequence[SSAValue],
        results: Sequence[Attribute],
        **properties: Any,
    ) -> Operation:
        """Append one op; its properties are Python values."""
        given = {name: to_attribute(value) for name, value in properties.items()}
        op = kind.create(
            operands=operands,
            result_types=results,
            properties=_defaults(kind) | given,
            attributes={KEY: StringAttr(f"n{len(self.ops)}")},
        )
        self.ops.append(op)
        return op

    def put(
        self,
        kind: type[IRDLOperation],
        operands: Sequence[SSAValue],
        result: Attribute,
        **properties: Any,
    ) -> SSAValue:
        """Append an op of one result, and that result."""
        return self.append(kind, operands, [result], **properties).results[0]

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
        result = _tensor(activation(encoding), _shape(value))
        if self.quantized:
            return self.put(RescaleOp, (value,), result)
        return self.put(QCastOp, (self.put(DCastOp, (value,), _as_float(value)),), result)

    def move(
        self,
        kind: type[IRDLOperation],
        operands: Sequence[SSAValue],
        *shapes: tuple[int, ...],
        **properties: Any,
    ) -> Sequence[SSAValue]:
        """An op with results of these shapes and of the encoding that its operands have."""
        element = _element(operands[0])
        kinds = [_tensor(element, shape) for shape in shapes]
        if self.quantized:
            return self.append(kind, operands, kinds, **properties).results
        floats = [self.put(DCastOp, (value,), _as_float(value)) for value in operands]
        real = [_tensor(f32, shape) for shape in shapes]
        made = self.append(kind, floats, real, **properties).results
        return [self.put(QCastOp, (each,), kind) for each, kind in zip(made, kinds, strict=True)]

    def convolution(self, value: SSAValue, encoding: int) -> SSAValue:
        """A convolution of one pixel to the shape of the input, and relu."""
        channels, scale = _shape(value)[1], 0.5 / (1 + encoding % 7)
        weight = self.constant(_weights(4 * channels), "i8", scale, (4, channels, 1, 1))
        bias = self.constant(_BIAS, "i32", _element(value).qparams.scale * scale, (4,))
        made = self.layer(Conv2DOp, (value, weight, bias), encoding)
        return self.layer(ReluOp, (made,), encoding)

    def detour(self, value: SSAValue, number: int) -> SSAValue:
        """Movement there and back, of which there are some: rescales cost less between some."""
        n, c, h, w = shape = _shape(value)
        if number % 5 == 0:
            flipped = self.move(TransposeOp, (value,), (n, c, w, h), perm=(0, 1, 3, 2))
            window = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
            pooled = self.move(MaxPool2DOp, flipped, (n, c, w, h), **window)
            return self.move(TransposeOp, pooled, shape, perm=(0, 1, 3, 2))[0]
        if number % 5 == 1:
            border = {"low": (0, 0, 1, 1), "high": (0, 0, 1, 1)}
            padded = self.move(PadOp, (value,), (n, c, h + 2, w + 2), **border)
            stops = {"starts": (0, 0, 1, 1), "stops": (n, c, h + 1, w + 1), "steps": (1, 1, 1, 1)}
            return self.move(SliceOp, padded, shape, **stops)[0]
        if number % 5 == 2:
            stops = {"starts": (0, 0, 0, 0), "stops": (n, c, h // 2, w), "steps": (1, 1, 1, 1)}
            half = self.move(SliceOp, (value,), (n, c, h // 2, w), **stops)
            rest = {"low": (0, 0, 0, 0), "high": (0, 0, h - h // 2, 0)}
            return self.move(PadOp, half, shape, **rest)[0]
        if number % 5 == 3:
            halves = (n, c, h // 2, w), (n, c, h - h // 2, w)
            first, last = self.move(SplitOp, (value,), *halves, axis=2, sizes=(h // 2, h - h // 2))
            return self.move(ConcatOp, (last, first), shape, axis=2)[0]
        flat = self.move(ReshapeOp, (value,), (n, c * h, w), shape=(n, c * h, w))
        return self.move(ReshapeOp, flat, shape, shape=shape)[0]

    def finish(self, output: SSAValue) -> ModuleOp:
        """The module of one function that returns `output`."""
        self.block.add_ops([*self.ops, ReturnOp(output)])
        inputs = [argument.type for argument in self.block.args]
        signature = FunctionType.from_lists(inputs, [output.type])
        return ModuleOp([FuncOp("main", signature, Region(self.block))])


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _shape(value: SSAValue) -> tuple[int, ...]:
    kind: Any = value.type
    return kind.get_shape()


def _element(value: SSAValue) -> UniformType:
    kind: Any = value.type
    return kind.element_type


def _as_float(value: SSAValue) -> TensorType[Any]:
    return _tensor(f32, _shape(value))


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
        weight = network.constant(_weights(16), "i8", scale, (4, 4, 1, 1))
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


def dense(size: int, form: str) -> ModuleOp:
    """Blocks in which each layer takes all before it: values of many uses, rescaled once by
    what makes them in one block, by each concat to an encoding of its own in the next."""
    network = Network(form)
    value, encoding, block = network.input, 0, 0
    while len(network.ops) < size:
        once, first = block % 2 == 0, encoding + 1
        encoding += 2
        features = [network.rescale(value, first) if once else value]
        for layer in range(4):
            joint = first if once else encoding + 1
            parts = features if once else [network.rescale(part, joint) for part in features]
            joined = _joined(network, [network.detour(parts[-1], layer + block), *parts[:-1]])
            encoding += 2
            made = network.convolution(joined, encoding)
            features.append(network.rescale(made, first) if once else made)
        joint = first if once else encoding + 1
        parts = features if once else [network.rescale(part, joint) for part in features]
        encoding += 2
        value = network.convolution(_joined(network, parts), encoding)
        block += 1
    return network.finish(value)


def inception(size: int, form: str) -> ModuleOp:
    """Branches of one to four detours, rescaled at their start, between or at their end,
    that meet in one op."""
    network = Network(form)
    value, encoding, block = network.input, 0, 0
    while len(network.ops) < size:
        joint = encoding = encoding + 1
        ends: list[SSAValue] = []
        for branch in range(4):
            rescaled = (branch + block) % (branch + 2)
            end = value
            if branch % 2:
                encoding += 1
                end = network.convolution(end, encoding)
            for step in range(branch + 1):
                if step == rescaled:
                    end = network.rescale(end, joint)
                end = network.detour(end, step + branch + block)
            ends.append(network.rescale(end, joint) if rescaled > branch else end)
        encoding += 1
        value = network.convolution(_joined(network, ends), encoding)
        block += 1
    return network.finish(value)


def attention(size: int, form: str) -> ModuleOp:
    """Four heads: projections of one value, each rescaled before or after heads are made;
    products around a softmax; a skip around it all."""
    network = Network(form)
    value, encoding, block = network.input, 0, 0
    n, heads, tokens, width = SHAPE
    rows, split = (n, tokens, heads * width), (n, tokens, heads, width)
    while len(network.ops) < size:
        flat = network.move(TransposeOp, (value,), split, perm=(0, 2, 1, 3))
        flat = network.move(ReshapeOp, flat, rows, shape=rows)
        encoding += 1
        shared = network.rescale(flat[0], encoding)
        made: list[SSAValue] = []
        for projection in range(3):
            source = shared if block % 2 else network.rescale(flat[0], encoding + 1)
            scale = 0.25 / (1 + encoding % 5)
            weight = network.constant(_weights(32 * 32), "i8", scale, (32, 32))
            encoding += 2
            part = network.layer(MatMulOp, (source, weight), encoding, rows)
            early = (projection + block) % 2
            encoding += 1
            part = network.rescale(part, encoding) if early else part
            part = network.move(ReshapeOp, (part,), split, shape=split)[0]
            key = projection == 1
            perm, out = ((0, 2, 3, 1), (n, heads, width, tokens)) if key else ((0, 2, 1, 3), SHAPE)
            part = network.move(TransposeOp, (part,), out, perm=perm)[0]
            made.append(part if early else network.rescale(part, encoding))
        query, key, values = made
        square = (n, heads, tokens, tokens)
        scores = network.layer(MatMulOp, (query, key), encoding + 1, square)
        scores = network.rescale(scores, encoding + 2)
        weights = network.layer(SoftmaxOp, (scores,), encoding + 3, square)
        weights = network.rescale(weights, encoding + 4)
        mixed = network.layer(MatMulOp, (weights, values), encoding + 5)
        mixed = network.rescale(network.detour(mixed, block), encoding + 6)
        skip = network.detour(network.rescale(value, encoding + 6), block + 1)
        encoding += 7
        value = network.layer(AddOp, (mixed, skip), encoding)
        block += 1
    return network.finish(value)


def _joined(network: Network, parts: Sequence[SSAValue]) -> SSAValue:
    """The parts side by side in their channels."""
    n, _, *rest = _shape(parts[0])
    channels = sum(_shape(part)[1] for part in parts)
    return network.move(ConcatOp, parts, (n, channels, *rest), axis=1)[0]


def partial(size: int, form: str) -> ModuleOp:
    """Convolutions on codes and, between them, sums with a float argument, which no integer op
    computes: casts as a careless front end puts them, with movement on both sides."""
    network = Network(form)
    network.quantized = True
    n, c, h, w = SHAPE
    half, row = (n, c, h // 2, w), (n, c, 1, w)
    other = network.block.insert_arg(_tensor(f32, half), 1)
    window = {"starts": (0, 0, 0, 0), "stops": row, "steps": (1, 1, 1, 1)}
    value, encoding = network.input, 0
    while len(network.ops) < size:
        value = network.convolution(value, encoding := encoding + 1)
        real = network.put(DCastOp, (value,), _as_float(value))
        real = network.detour(real, encoding)
        part = network.move(SliceOp, (real,), row, **window)
        rows = network.move(TileOp, part, half, repeats=(1, 1, h // 2, 1))[0]
        total = network.put(AddOp, (rows, other), _tensor(f32, half))
        part = network.move(SliceOp, (total,), row, **window)
        real = network.move(TileOp, part, SHAPE, repeats=(1, 1, h, 1))[0]
        real = network.detour(real, encoding + 2)
        value = network.put(QCastOp, (real,), _tensor(activation(encoding := encoding + 1), SHAPE))
        value = network.detour(value, encoding)
    return network.finish(value)


GRAPHS: dict[str, Callable[[int, str], ModuleOp]] = {
    "chain": chain,
    "residual": residual,
    "concat": concat,
    "dense": dense,
    "inception": inception,
    "attention": attention,
    "partial": partial,
}


def main(arguments: Sequence[str] | None = None) -> None:
    from qdialect.ir.context import new_context
    from qdialect.plugins.mlir.write import print_module

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", choices=GRAPHS)
    parser.add_argument("size", type=int, help="at least this many ops")
    parser.add_argument("--form", choices=FORMS, default="quantized")
    options = parser.parse_args(arguments)
    print_module(GRAPHS[options.graph](options.size, options.form), new_context(), sys.stdout)


if __name__ == "__main__":
    main()
