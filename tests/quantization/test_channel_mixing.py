"""Channels that a matrix mixes leave the function of a model as it was."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.analysis.channel_mixing import find_blocks
from qdialect.context import new_context
from qdialect.formats.mlir.read import read_module
from qdialect.quantization.float_rewrites.mixing import mix_channels, mixed_value
from qdialect.quantization.preparation import prepare
from qdialect.reference import Interpreter
from qdialect.workflows.model import Model
from tests.generators.channel_networks import random_channels

SEEDS = range(24)


def opened(text: str) -> Model:
    ctx = new_context()
    return Model(read_module(text, ctx), ctx)


def result(model: Model, shape: tuple[int, ...]) -> list[NDArray[np.float32]]:
    x = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
    return Interpreter(model.ctx, model.module).run([x])


def rotation(size: int, seed: int) -> NDArray[np.float64]:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_rotations_keep_the_function(seed: int) -> None:
    text = random_channels(seed)
    model = opened(text)
    if seed % 2:
        prepare(model.module, model.ctx, frozenset())
    shape = (1, 3, 5, 5) if "%x: tensor<1x3x5x5" in text else (1, 4, 6)
    before = result(model, shape)
    changes = [
        (group, block, rotation(len(block), seed))
        for group, blocks in find_blocks(model.function(), model.ctx)
        for block in blocks
    ]
    mix_channels(changes, model.ctx)
    model.module.verify()
    for was, now in zip(before, result(model, shape), strict=True):
        np.testing.assert_allclose(now, was, atol=1e-4 * np.abs(was).max())


def chain(function: str) -> Model:
    return opened(
        f"""
    !x = tensor<?x2xf32>
    !w = tensor<2x2xf32>
    func.func @main(%x: !x) -> !x {{
      %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !w : !w
      %b = nn.constant dense<[1.0, -1.0]> : tensor<2xf32> : tensor<2xf32>
      %n = nn.constant dense<[3.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
      %h = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2xf32>) -> !x
      %a = nn.{function}
      %y = nn.fully_connected %a, %w : (!x, !w) -> !x
      return %y : !x
    }}"""
    )


@pytest.mark.parametrize(
    ("function", "passes"),
    [
        ("neg %h : (!x) -> !x", True),
        ("add %h, %b : (!x, tensor<2xf32>) -> !x", True),
        ("add %h, %n : (!x, tensor<2xf32>) -> !x", True),
        ("mul %h, %n : (!x, tensor<2xf32>) -> !x", True),
        ("div %h, %n : (!x, tensor<2xf32>) -> !x", True),
        ("sub %n, %h : (tensor<2xf32>, !x) -> !x", True),
        ("pad %h low [0, 0] high [1, 0] mode constant : (!x) -> !x", True),
        ("pad %h low [0, 0] high [1, 0] mode constant value 1.0 : (!x) -> !x", False),
        ("mul %h, %b : (!x, tensor<2xf32>) -> !x", False),
        ("add %h, %x : (!x, !x) -> !x", False),
        ("relu %h : (!x) -> !x", False),
        ("abs %h : (!x) -> !x", False),
        ("leaky_relu %h : (!x) -> !x", False),
        ("prelu %h, %n : (!x, tensor<2xf32>) -> !x", False),
        ("maximum %h, %b : (!x, tensor<2xf32>) -> !x", False),
        ("mul %h, %h : (!x, !x) -> !x", False),
        ("div %n, %h : (tensor<2xf32>, !x) -> !x", False),
        ("layer_norm %h, %n : (!x, tensor<2xf32>) -> !x", False),
    ],
)
def test_what_lets_matrices_pass(function: str, passes: bool) -> None:
    """A matrix of integers whose inverse has integers too: no number is rounded."""
    model = chain(function)
    found = find_blocks(model.function(), model.ctx)
    assert [[*map(tuple, blocks)] for _, blocks in found] == ([[(1, 2)]] if passes else [])
    if passes:
        before = result(model, (3, 2))
        matrix = np.array([[2.0, 1.0], [1.0, 1.0]])
        assert mix_channels([(found[0][0], found[0][1][0], matrix)], model.ctx) >= 2
        exact = 0.0 if "div" not in function else 1e-6
        for was, now in zip(before, result(model, (3, 2)), strict=True):
            np.testing.assert_allclose(now, was, rtol=exact, atol=10 * exact)


@pytest.mark.parametrize(
    ("matrix", "reason"), [(np.ones((2, 2)), "no inverse"), (np.ones((1, 2)), "2 rows and columns")]
)
def test_matrices_that_are_refused(matrix: NDArray[np.float64], reason: str) -> None:
    model = chain("neg %h : (!x) -> !x")
    ((group, blocks),) = find_blocks(model.function(), model.ctx)
    text = str(model.module)
    with pytest.raises(ValueError, match=reason):
        mix_channels([(group, blocks[0], matrix)], model.ctx)
    assert str(model.module) == text


def test_heads_are_blocks_of_their_own() -> None:
    """Queries and keys are mixed by inverse matrices, values by one and the next weights."""
    width, heads, tokens = 6, 2, 4
    x, w = f"tensor<1x{tokens}x{width}xf32>", f"tensor<{width}x{width}xf32>"
    lines: list[str] = []
    for name, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        split = (1, tokens, heads, width // heads)
        turned = f"tensor<{'x'.join(str(split[p]) for p in perm)}xf32>"
        data = np.random.default_rng(len(lines)).normal(size=(width, width)).astype("<f4")
        lines += [
            f'%w{name} = nn.constant dense<"0x{data.tobytes().hex()}"> : {w} : {w}',
            f"%{name}0 = nn.matmul %x, %w{name} : ({x}, {w}) -> {x}",
            f"%{name}1 = nn.reshape %{name}0 : ({x}) -> tensor<1x4x2x3xf32>",
            f"%{name} = nn.transpose %{name}1 perm {[*perm]} : (tensor<1x4x2x3xf32>) -> {turned}",
        ]
    body = "\n".join(lines)
    v, s = "tensor<1x2x4x3xf32>", "tensor<1x2x4x4xf32>"
    model = opened(
        f"""
    func.func @main(%x: {x}) -> {x} {{
      {body}
      %s = nn.matmul %q, %k : ({v}, tensor<1x2x3x4xf32>) -> {s}
      %p = nn.softmax %s axis 3 : ({s}) -> {s}
      %o = nn.matmul %p, %v : ({s}, {v}) -> {v}
      %t = nn.transpose %o perm [0, 2, 1, 3] : ({v}) -> tensor<1x4x2x3xf32>
      %r = nn.reshape %t : (tensor<1x4x2x3xf32>) -> {x}
      %y = nn.matmul %r, %wq : ({x}, {w}) -> {x}
      return %y : {x}
    }}"""
    )
    found = find_blocks(model.function(), model.ctx)
    assert sorted(len(block) for _, blocks in found for block in blocks) == [3] * 4
    before = result(model, (1, tokens, width))
    changes = [(g, b, 2 * rotation(3, n)) for g, blocks in found for n, b in enumerate(blocks)]
    mix_channels(changes, model.ctx)
    for was, now in zip(before, result(model, (1, tokens, width)), strict=True):
        np.testing.assert_allclose(now, was, atol=1e-5 * np.abs(was).max())


def test_values_are_mixed_fibre_by_fibre() -> None:
    """Two heads of three channels; samples come first, and of the others each has its labels."""
    labels = np.arange(1, 7).reshape(1, 2, 1, 3)
    array = np.random.default_rng(3).normal(size=(7, 1, 2, 5, 3))
    matrix = 2 * rotation(3, 1)
    mixed = mixed_value(array, labels, (4, 5, 6), matrix)
    np.testing.assert_array_equal(mixed[:, :, 0], array[:, :, 0])
    np.testing.assert_allclose(mixed[:, :, 1], array[:, :, 1] @ matrix.T)
    inverse = mixed_value(array, -labels, (4, 5, 6), matrix)
    np.testing.assert_allclose(inverse[:, :, 1], array[:, :, 1] @ np.linalg.inv(matrix))
    assert mixed_value(array, labels, (7, 8, 9), matrix) is array
