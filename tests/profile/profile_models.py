"""A small float network with composites, and data for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from qdialect.api import Model, save
from qdialect.ir import ops as nn
from qdialect.ir.context import new_context
from qdialect.ir.ops.functions import GeluOp, SwishOp
from qdialect.ir.ops.reduction import ReduceMeanOp


def network() -> Model:
    """x -> conv (bias) -> norm -> swish -> gelu -> hard_swish -> hard_sigmoid -> fc -> softmax
    -> mean."""
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

    ctx, rng = new_context(), np.random.default_rng(0)
    kind = TensorType(f32, [DYNAMIC_INDEX, 3, 6, 6])
    block = Block(arg_types=[kind])

    def add(op: Any, key: str | None = None) -> Any:
        if key:
            op.attributes[nn.KEY] = StringAttr(key)
        block.add_op(op)
        return op.results[0]

    def const(*shape: int) -> Any:
        array = np.abs(rng.normal(size=shape)).astype(np.float32) + np.float32(0.1)
        array *= np.where(rng.random(shape) < 0.5, 1, -1) if len(shape) > 1 else 1
        return add(nn.make_constant(array.astype(np.float32), f32, ctx.blobs))

    x = block.args[0]
    x = add(nn.Conv2DOp(x, const(4, 3, 3, 3), const(4), pads=(1, 1, 1, 1)), "conv")
    x = add(nn.BatchNormOp(x, const(4), const(4), const(4), const(4)), "norm")
    x = add(SwishOp(x, alpha=0.5), "swish")
    x = add(GeluOp(x), "gelu")
    x = add(GeluOp(x, approximate="tanh"), "gelu_tanh")
    x = add(nn.HardSwishOp(x), "hard")
    x = add(nn.HardSigmoidOp(x), "sigmoid")
    x = add(nn.FlattenOp(x), "flat")
    x = add(nn.FullyConnectedOp(x, const(5, 144), const(5)), "fc")
    x = add(nn.SoftmaxOp(x), "probabilities")
    x = add(ReduceMeanOp(x, axes=(1,), keepdims=False), "mean")
    block.add_op(ReturnOp(x))
    func = FuncOp("main", ((kind,), (x.type,)), Region(block))
    func.arg_attrs = ArrayAttr([DictionaryAttr({"nn.name": StringAttr("x")})])
    module = ModuleOp([func])
    module.verify()
    return Model(module, ctx)


def saved(folder: Path) -> Path:
    """The network as a file."""
    path = folder / "net.mlir"
    save(network(), path)
    return path


def images(count: int = 6) -> Any:
    return np.random.default_rng(1).normal(size=(count, 3, 6, 6)).astype(np.float32)


def data_file(folder: Path, count: int = 6) -> Path:
    path = folder / "data.npz"
    np.savez(path, x=images(count))
    return path
