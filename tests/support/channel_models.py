"""Small models whose channels are moved about, and what they give for one input."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdialect.interpreter import Interpreter
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.workflows.model import Model


def opened(text: str) -> Model:
    """The model of a text."""
    ctx = new_context()
    return Model(read_module(text, ctx), ctx)


def result(model: Model) -> list[NDArray[np.float32]]:
    """What a model of one input gives for small integers; unknown extents are 2."""
    shape = shape_of(model.function().body.block.args[0])
    shape = tuple(2 if extent == -1 else extent for extent in shape)
    x = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
    return Interpreter(model.ctx, model.module).run([x])


def constants(**shapes: tuple[int, ...]) -> str:
    """Constants of small integers by chance."""
    lines: list[str] = []
    for name, shape in shapes.items():
        array = np.random.default_rng(len(lines)).integers(-3, 4, shape).astype("<f4")
        kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
        data = array.tobytes().hex()
        lines.append(f'%{name} = nn.constant dense<"0x{data}"> : {kind} : {kind}')
    return "\n".join(lines)


def in_groups(width: int, weight: tuple[int, ...], groups: int) -> Model:
    """A convolution in groups of so many channels, between two others."""
    count = weight[0]
    kinds = [f"tensor<1x{n}x2x2xf32>" for n in (2, width, count, 3)]
    return opened(
        f"""
    func.func @main(%x: {kinds[0]}) -> {kinds[3]} {{
      {constants(a=(width, 2, 1, 1), b=weight, c=(3, count, 1, 1))}
      %0 = nn.conv2d %x, %a : ({kinds[0]}, tensor<{width}x2x1x1xf32>) -> {kinds[1]}
      %1 = nn.conv2d %0, %b groups {groups}
        : ({kinds[1]}, tensor<{"x".join(map(str, weight))}xf32>) -> {kinds[2]}
      %2 = nn.conv2d %1, %c : ({kinds[2]}, tensor<3x{count}x1x1xf32>) -> {kinds[3]}
      return %2 : {kinds[3]}
    }}"""
    )
