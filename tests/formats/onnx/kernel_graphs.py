"""Functions of quantized arguments, run through the QOperator form."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_models import BOUNDS, STORAGE_DTYPES, Array, export, steps
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir import ops as nn
from qdialect.ir.context import QContext, new_context
from qdialect.ir.quant import UniformType
from qdialect.plugins.onnx.write import OrtEngine

SHAPE = (2, 6, 8, 10)
BYTES = ("u8", "i8")


def encoding(storage: str, scale: float, zero: int) -> UniformType:
    """Per tensor; `zero` is counted from the middle of the storage."""
    middle = 128 if storage == "u8" else 0
    return UniformType(QParams.per_tensor(storage, float(np.float32(scale)), middle + zero))


def stored(rng: np.random.Generator, shape: tuple[int, ...], storage: str) -> Array:
    bounds = BOUNDS[storage]
    dtype = STORAGE_DTYPES[storage]
    return rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)


def real(values: Array, element: UniformType) -> Array:
    q = element.qparams
    scales, zeros = q.scale_array(), q.zero_point_array()
    if q.axis is not None:
        shape = [1] * values.ndim
        shape[q.axis] = -1
        scales, zeros = scales.reshape(shape), zeros.reshape(shape)
    return (values.astype(np.float64) - zeros) * scales


class Graph:
    """A function of quantized arguments."""

    def __init__(self, *arguments: tuple[UniformType, tuple[int, ...]]) -> None:
        self.ctx: QContext = new_context()
        self.block = Block(arg_types=[TensorType(e, shape) for e, shape in arguments])

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, values: Array, element: UniformType) -> SSAValue:
        return self.add(nn.make_constant(values, element, self.ctx.blobs))

    def module(self, result: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(result))
        kind = FunctionType.from_lists([a.type for a in self.block.args], [result.type])
        module = ModuleOp([FuncOp("f", kind, Region(self.block))])
        module.verify()
        return module

    def run(self, result: SSAValue, inputs: list[Array], want: list[str], **options: Any) -> Array:
        """The one result, from ONNX Runtime; `want` are the op types of the model."""
        model = export(self.ctx, self.module(result), "qoperator", **options)
        assert [node.op_type for node in model.graph.node] == want
        engine = OrtEngine(model, optimize=False)
        feeds = dict(zip(engine.inputs, inputs, strict=True))
        return engine.run(feeds)[engine.outputs[0]]


def check(got: Array, exact: Array, element: UniformType, tie: int = 1) -> None:
    q = element.qparams
    largest, off_tie = steps(got, exact, q.scale, q.zero_point, q.storage.spelling)
    assert off_tie == 0
    assert largest <= tie
