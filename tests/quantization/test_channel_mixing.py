"""Channels that a matrix mixes leave the function of a model as it was."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.algebra.rotations import rotation_keeping_ones
from qdialect.analysis import channel_walk
from qdialect.analysis.channel_mixing import Block, Matrices, find_blocks, find_gains
from qdialect.interpreter import Interpreter
from qdialect.quantizer.float_rewrites.mixing import mix_channels, mixed_value
from qdialect.quantizer.preparation import prepare
from qdialect.workflows.model import Model
from tests.generators.channel_networks import random_channels
from tests.generators.norm_networks import BREAKERS, WIDTH, random_stream
from tests.support.channel_models import opened

SEEDS = range(24)


def result(model: Model, shape: tuple[int, ...]) -> list[NDArray[np.float32]]:
    x = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
    return Interpreter(model.ctx, model.module).run([x])


def rotation(size: int, seed: int) -> NDArray[np.float64]:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


def fitting(block: Block, seed: int) -> NDArray[np.float64]:
    """A matrix that may mix a block, of none of the smaller classes."""
    size = len(block.classes)
    if block.matrices is Matrices.KEEPING_ONES:
        return rotation_keeping_ones(size, np.random.default_rng(seed))
    return rotation(size, seed) * (1 if block.matrices is Matrices.ORTHOGONAL else 1.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_rotations_keep_the_function(seed: int) -> None:
    text = random_channels(seed)
    model = opened(text)
    if seed % 2:
        prepare(model.module, model.ctx, frozenset())
    shape = (1, 3, 5, 5) if "%x: tensor<1x3x5x5" in text else (1, 4, 6)
    before = result(model, shape)
    changes = [
        (mixable, block, fitting(block, seed))
        for mixable in find_blocks(model.function(), model.ctx)
        for block in mixable.blocks
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
      %z = nn.constant dense<[3.0, 0.0]> : tensor<2xf32> : tensor<2xf32>
      %h = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2xf32>) -> !x
      %a = nn.{function}
      %y = nn.fully_connected %a, %w : (!x, !w) -> !x
      return %y : !x
    }}"""
    )


@pytest.mark.parametrize(
    ("function", "matrices"),
    [
        ("neg %h : (!x) -> !x", Matrices.INVERTIBLE),
        ("add %h, %b : (!x, tensor<2xf32>) -> !x", Matrices.INVERTIBLE),
        ("add %h, %n : (!x, tensor<2xf32>) -> !x", Matrices.INVERTIBLE),
        ("mul %h, %n : (!x, tensor<2xf32>) -> !x", Matrices.INVERTIBLE),
        ("div %h, %n : (!x, tensor<2xf32>) -> !x", Matrices.INVERTIBLE),
        ("sub %n, %h : (tensor<2xf32>, !x) -> !x", Matrices.INVERTIBLE),
        ("layer_norm %h, %n : (!x, tensor<2xf32>) -> !x", Matrices.KEEPING_ONES),
        ("layer_norm %h, %b : (!x, tensor<2xf32>) -> !x", Matrices.KEEPING_ONES),
        ("layer_norm %h, %z : (!x, tensor<2xf32>) -> !x", None),
        ("pad %h low [0, 0] high [1, 0] mode constant : (!x) -> !x", Matrices.INVERTIBLE),
        ("pad %h low [0, 0] high [1, 0] mode constant value 1.0 : (!x) -> !x", None),
        ("mul %h, %b : (!x, tensor<2xf32>) -> !x", Matrices.INVERTIBLE),
        ("div %h, %b : (!x, tensor<2xf32>) -> !x", Matrices.INVERTIBLE),
        ("mul %h, %z : (!x, tensor<2xf32>) -> !x", None),
        ("add %h, %x : (!x, !x) -> !x", None),
        ("relu %h : (!x) -> !x", None),
        ("abs %h : (!x) -> !x", None),
        ("sqrt %h : (!x) -> !x", None),
        ("leaky_relu %h : (!x) -> !x", None),
        ("prelu %h, %n : (!x, tensor<2xf32>) -> !x", None),
        ("maximum %h, %b : (!x, tensor<2xf32>) -> !x", None),
        ("mul %h, %h : (!x, !x) -> !x", None),
        ("pow %h exponent 2.0 : (!x) -> !x", None),
        ("div %n, %h : (tensor<2xf32>, !x) -> !x", None),
    ],
)
def test_what_lets_matrices_pass(function: str, matrices: Matrices | None) -> None:
    """Matrices of integers whose inverses have integers too: no number is rounded."""
    model = chain(function)
    found = find_blocks(model.function(), model.ctx)
    if matrices is None:
        assert not found
        return
    block = Block([1, 2], matrices)
    assert [each.blocks for each in found] == [[block]]
    before = result(model, (3, 2))
    turn = np.array([[0.0, 1.0], [1.0, 0.0]])
    matrix = np.array([[2.0, 1.0], [1.0, 1.0]]) if matrices is Matrices.INVERTIBLE else turn
    assert mix_channels([(found[0], block, matrix)], model.ctx) >= 2
    exact = 0.0 if "div" not in function and "norm" not in function else 1e-6
    for was, now in zip(before, result(model, (3, 2)), strict=True):
        np.testing.assert_allclose(now, was, rtol=exact, atol=10 * exact)


@pytest.mark.parametrize(
    ("matrix", "reason"), [(np.ones((2, 2)), "no inverse"), (np.ones((1, 2)), "2 rows and columns")]
)
def test_matrices_that_are_refused(matrix: NDArray[np.float64], reason: str) -> None:
    model = chain("neg %h : (!x) -> !x")
    (found,) = find_blocks(model.function(), model.ctx)
    text = str(model.module)
    with pytest.raises(ValueError, match=reason):
        mix_channels([(found, found.blocks[0], matrix)], model.ctx)
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
    blocks = [(each, block) for each in found for block in each.blocks]
    assert [len(block.classes) for _, block in blocks] == [3] * 4
    before = result(model, (1, tokens, width))
    changes = [(each, block, 2 * rotation(3, n)) for n, (each, block) in enumerate(blocks)]
    mix_channels(changes, model.ctx)
    for was, now in zip(before, result(model, (1, tokens, width)), strict=True):
        np.testing.assert_allclose(now, was, atol=1e-5 * np.abs(was).max())


def test_values_are_mixed_fibre_by_fibre() -> None:
    """Two heads of three channels; samples come first, and of the others each has its labels."""
    labels = np.arange(1, 7).reshape(1, 2, 1, 3)
    array = np.random.default_rng(3).normal(size=(7, 1, 2, 5, 3))
    matrix = 2 * rotation(3, 1)
    block = Block([4, 5, 6], Matrices.INVERTIBLE)
    mixed = mixed_value(array, labels, block, matrix)
    np.testing.assert_array_equal(mixed[:, :, 0], array[:, :, 0])
    np.testing.assert_allclose(mixed[:, :, 1], array[:, :, 1] @ matrix.T)
    inverse = mixed_value(array, -labels, block, matrix)
    np.testing.assert_allclose(inverse[:, :, 1], array[:, :, 1] @ np.linalg.inv(matrix))
    other = Block([7, 8, 9], Matrices.INVERTIBLE)
    assert mixed_value(array, labels, other, matrix) is array


def streams(model: Model) -> list[Block]:
    found = find_blocks(model.function(), model.ctx)
    blocks = [block for each in found for block in each.blocks]
    return [block for block in blocks if block.matrices >= Matrices.ORTHOGONAL]


def mixed_by(model: Model, seed: int) -> int:
    changes = [
        (each, block, fitting(block, seed))
        for each in find_blocks(model.function(), model.ctx)
        for block in each.blocks
    ]
    return mix_channels(changes, model.ctx)


@pytest.mark.parametrize("seed", range(40))
def test_a_stream_before_norms_is_one_block(seed: int) -> None:
    """Matrices keep the vector of ones where a norm takes a mean off."""
    text, given = random_stream(seed)
    model = opened(text)
    means = "nn.layer_norm" in text or "nn.sub" in text
    (block,) = streams(model)
    assert len(block.classes) == WIDTH
    assert block.matrices is (Matrices.KEEPING_ONES if means else Matrices.ORTHOGONAL)
    before = Interpreter(model.ctx, model.module).run([given])
    assert mixed_by(model, seed) >= 4
    model.module.verify()
    for was, now in zip(before, Interpreter(model.ctx, model.module).run([given]), strict=True):
        np.testing.assert_allclose(now, was, atol=2e-5 * np.abs(was).max())


@pytest.mark.parametrize("breaker", BREAKERS)
@pytest.mark.parametrize("seed", range(8))
def test_streams_that_stay(breaker: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_walk, "_SHARED", WIDTH)
    text, given = random_stream(seed, breaker)
    model = opened(text)
    assert not streams(model)
    before = Interpreter(model.ctx, model.module).run([given])
    mixed_by(model, seed)
    for was, now in zip(before, Interpreter(model.ctx, model.module).run([given]), strict=True):
        np.testing.assert_allclose(now, was, atol=2e-5 * np.abs(was).max())


def words(norm: str, rows: list[list[float]]) -> Model:
    """Rows of a table, a norm of them, and a product."""
    table, x = f"tensor<{len(rows)}x4xf32>", f"tensor<{len(rows)}x4xf32>"
    return opened(
        f"""
    func.func @main(%i: tensor<{len(rows)}xi64>) -> tensor<{len(rows)}x3xf32> {{
      %t = nn.constant dense<{rows}> : {table} : {table}
      %g = nn.constant dense<[2.0, -1.0, 0.5, 4.0]> : tensor<4xf32> : tensor<4xf32>
      %e = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
      %w = nn.constant dense<[[1.0, -2.0, 3.0, 5.0], [4.0, 0.0, 7.0, -1.0], [2.0, 2.0, -3.0, 1.0]]>
        : tensor<3x4xf32> : tensor<3x4xf32>
      %x = nn.gather %t, %i : ({table}, tensor<{len(rows)}xi64>) -> {x}
      {norm.replace("!x", x).replace("!s", f"tensor<{len(rows)}x1xf32>")}
      %y = nn.fully_connected %n, %w : ({x}, tensor<3x4xf32>) -> tensor<{len(rows)}x3xf32>
      return %y : tensor<{len(rows)}x3xf32>
    }}"""
    )


LAYER_NORM = "%n = nn.layer_norm %x, %g epsilon 0.0 : (!x, tensor<4xf32>) -> !x"
ROOT_NORM = """
      %q = nn.pow %x exponent 2.0 : (!x) -> !x
      %m = nn.reduce_mean %q axes [1] : (!x) -> !s
      %a = nn.add %m, %e : (!s, tensor<f32>) -> !s
      %r = nn.sqrt %a : (!s) -> !s
      %d = nn.div %x, %r : (!x, !s) -> !x
      %n = nn.mul %d, %g : (!x, tensor<4xf32>) -> !x"""
# Of deviation, or root mean square, 1, 2 and 4.
CENTERED = [[6.0, 4.0, 6.0, 4.0], [1.0, 5.0, 1.0, 5.0], [4.0, -4.0, -4.0, 4.0]]
PLAIN = [[1.0, -1.0, 1.0, 1.0], [4.0, 0.0, 0.0, 0.0], [0.0, 0.0, -8.0, 0.0]]


@pytest.mark.parametrize(
    ("norm", "rows", "normal"),
    [
        (LAYER_NORM, CENTERED, [1, 1, -1, -1]),
        (LAYER_NORM, CENTERED, [1, -1, 0, 0]),
        (ROOT_NORM, PLAIN, [1, 1, 1, 1]),
        (ROOT_NORM, PLAIN, [1, -1, 1, 1]),
    ],
)
def test_norms_are_exact(norm: str, rows: list[list[float]], normal: list[int]) -> None:
    """Reflections of fractions that floats hold, and rows that are normalized without a remainder:
    the same bits."""
    model = words(norm, rows)
    w = np.array(normal, np.float64)
    given = np.arange(len(rows))
    before = Interpreter(model.ctx, model.module).run([given])
    (mixable,) = find_blocks(model.function(), model.ctx)
    reflection = np.eye(4) - 2 * np.outer(w, w) / (w @ w)
    assert mix_channels([(mixable, mixable.blocks[0], reflection)], model.ctx) == 3
    np.testing.assert_array_equal(Interpreter(model.ctx, model.module).run([given]), before)


@pytest.mark.parametrize(
    ("norm", "rows", "matrix", "reason"),
    [
        (LAYER_NORM, CENTERED, 2 * np.eye(4), "not orthogonal"),
        (ROOT_NORM, PLAIN, np.eye(4) + np.eye(4)[::-1] / 2, "not orthogonal"),
        (LAYER_NORM, CENTERED, np.diag([1.0, 1.0, 1.0, -1.0]), "does not keep the vector of ones"),
    ],
)
def test_matrices_that_norms_refuse(
    norm: str, rows: list[list[float]], matrix: NDArray[np.float64], reason: str
) -> None:
    """They are refused, and with reason: as matrices of a larger class they change the result."""
    model = words(norm, rows)
    (found,) = find_blocks(model.function(), model.ctx)
    with pytest.raises(ValueError, match=reason):
        mix_channels([(found, found.blocks[0], matrix)], model.ctx)
    given = np.arange(len(rows))
    (before,) = Interpreter(model.ctx, model.module).run([given])
    block = Block(found.blocks[0].classes, Matrices.INVERTIBLE)
    mix_channels([(found, block, matrix)], model.ctx)
    (after,) = Interpreter(model.ctx, model.module).run([given])
    assert np.abs(after - before).max() > 0.1


@pytest.mark.parametrize(
    ("breaker", "reason"),
    [
        ("zero gain", "has a zero"),
        ("norm behind", "takes up no factors"),
        ("gain of the sum", "takes up no factors"),
    ],
)
def test_gains_that_stay_say_why(breaker: str, reason: str) -> None:
    for seed in range(6):
        model = opened(random_stream(seed, breaker)[0])
        assert any(
            reason in why for why in find_gains(model.function(), model.ctx).refused.values()
        )


def test_gains_of_two_norms_whose_results_are_added() -> None:
    """The weights behind take up one of two, if they are not the same."""
    x, g = "tensor<3x4xf32>", "tensor<4xf32>"
    model = opened(
        f"""
    func.func @main(%x: {x}) -> {x} {{
      %g = nn.constant dense<[2.0, 1.0, 0.5, 4.0]> : {g} : {g}
      %h = nn.constant dense<[2.0, 3.0, 0.5, 4.0]> : {g} : {g}
      %w = nn.constant dense<{[[1.0, 2.0, 3.0, 4.0]] * 4}> : tensor<4x4xf32> : tensor<4x4xf32>
      %a = nn.layer_norm %x, %g : ({x}, {g}) -> {x}
      %b = nn.layer_norm %x, %h : ({x}, {g}) -> {x}
      %s = nn.add %a, %b : ({x}, {x}) -> {x}
      %y = nn.fully_connected %s, %w : ({x}, tensor<4x4xf32>) -> {x}
      return %y : {x}
    }}"""
    )
    gains = find_gains(model.function(), model.ctx)
    assert len(gains.free) == 1
    assert list(gains.refused.values()) == ["another gain has the same factors"]
