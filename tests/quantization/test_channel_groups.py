"""Channels that are scaled together leave the function of a model as it was, bit for bit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.analysis.channel_groups import ChannelGroup, find_groups, find_shifts
from qdialect.interpreter import Interpreter
from qdialect.ir.behaviors.degrees import homogeneity, product_powers, sums_alike
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import constant_array, constant_of
from qdialect.plugins.mlir.read import read_module
from qdialect.quantizer.float_rewrites.apply import (
    NotFiniteError,
    scale_channels,
    shift_channels,
)
from qdialect.quantizer.preparation import prepare
from qdialect.workflows.model import Model
from tests.generators.channel_networks import random_channels
from tests.support.channel_models import opened
from tests.support.exact_numbers import random_rationals

SEEDS = range(40)


def groups_of(model: Model) -> list[ChannelGroup]:
    return find_groups(model.function(), model.ctx)


def result(model: Model, seed: int = 0) -> list[NDArray[np.float32]]:
    shape = shape_of(model.function().body.block.args[0])
    shape = tuple(2 if extent == -1 else extent for extent in shape)
    x = np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)
    return Interpreter(model.ctx, model.module).run([x])


@pytest.mark.parametrize("seed", SEEDS)
def test_powers_of_two_change_no_bit(seed: int) -> None:
    model = opened(random_channels(seed))
    if seed % 2:
        prepare(model.module, model.ctx, frozenset())
    before, random = result(model, seed), np.random.default_rng(seed)
    groups = groups_of(model)
    scale_channels([(each, 2.0 ** random.integers(-2, 3, each.size)) for each in groups], model.ctx)
    model.module.verify()
    for was, now in zip(before, result(model, seed), strict=True):
        np.testing.assert_array_equal(was, now)


def test_generated_networks_have_groups() -> None:
    found = [groups_of(opened(random_channels(seed))) for seed in SEEDS]
    assert sum(map(bool, found)) > len(SEEDS) * 0.9
    assert sum(len(groups) for groups in found) > 2 * len(SEEDS)


@pytest.mark.parametrize("seed", range(6))
def test_any_factors_change_what_rounding_does(seed: int) -> None:
    model = opened(random_channels(seed))
    before, random = result(model), np.random.default_rng(seed)
    groups = groups_of(model)
    scale_channels([(each, random.uniform(0.25, 4, each.size)) for each in groups], model.ctx)
    for was, now in zip(before, result(model), strict=True):
        np.testing.assert_allclose(now, was, atol=1e-4 * np.abs(was).max())


@pytest.mark.parametrize("seed", range(24))
def test_what_is_added_is_taken_away(seed: int) -> None:
    model = opened(random_channels(seed))
    if seed % 2:
        prepare(model.module, model.ctx, frozenset())
    before, random = result(model, seed), np.random.default_rng(seed)
    groups = find_shifts(model.function(), model.ctx)
    shift_channels([(each, random.integers(-3, 4, each.size)) for each in groups], model.ctx)
    model.module.verify()
    for was, now in zip(before, result(model, seed), strict=True):
        np.testing.assert_allclose(now, was, atol=1e-4 * np.abs(was).max())


def rows(*lines: str, results: str = "%y", width: int = 2) -> str:
    body = "\n".join(lines)
    return f"""
    !x = tensor<?x2xf32>
    !y = tensor<?x{width}xf32>
    func.func @main(%x: !x) -> !y {{
      %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
      %b = nn.constant dense<[1.0, -1.0]> : tensor<2xf32> : tensor<2xf32>
      %h = nn.fully_connected %x, %w, %b : (!x, tensor<2x2xf32>, tensor<2xf32>) -> !x
      {body}
      return {results} : !y
    }}"""


OUT = "%y = nn.fully_connected %a, %w : (!x, tensor<2x2xf32>) -> !y"


@pytest.mark.parametrize(
    ("function", "count"),
    [
        ("relu %h : (!x) -> !x", 2),
        ("abs %h : (!x) -> !x", 2),
        ("leaky_relu %h alpha 0.5 : (!x) -> !x", 2),
        ("clip %h max 0.0 : (!x) -> !x", 2),
        ("clip %h min 0.0 max 6.0 : (!x) -> !x", 0),
        ("gelu %h : (!x) -> !x", 0),
        ("hard_swish %h : (!x) -> !x", 0),
        ("add %h, %x : (!x, !x) -> !x", 0),
        ("add %h, %b : (!x, tensor<2xf32>) -> !x", 2),
        ("mul %h, %b : (!x, tensor<2xf32>) -> !x", 4),
        ("mul %h, %x : (!x, !x) -> !x", 2),
        ("mul %h, %h : (!x, !x) -> !x", 0),
        ("div %x, %h : (!x, !x) -> !x", 2),
        ("maximum %h, %b : (!x, tensor<2xf32>) -> !x", 2),
        ("softmax %h : (!x) -> !x", 0),
        ("layer_norm %h, %b : (!x, tensor<2xf32>) -> !x", 2),
        ("transpose %h perm [0, 1] : (!x) -> !x", 2),
        ("pad %h low [0, 0] high [1, 0] mode constant : (!x) -> !x", 2),
        ("pad %h low [0, 0] high [1, 0] mode constant value 2.0 : (!x) -> !x", 0),
    ],
)
def test_what_passes(function: str, count: int) -> None:
    model = opened(rows(f"%a = nn.{function}", OUT))
    assert sum(group.size for group in groups_of(model)) == count


def test_inverse_of_the_second_factor() -> None:
    model = opened(rows("%a = nn.div %x, %h : (!x, !x) -> !x", OUT))
    (group,) = groups_of(model)
    labels = [found.reshape(-1).tolist() for found in group.values.values()]
    assert sorted(labels) == [[-2, -1], [1, 2]] or [-1, -2] in labels


def test_constants_of_several_uses_are_copied() -> None:
    model = opened(rows("%a = nn.relu %h : (!x) -> !x", OUT))
    before = result(model)
    (group,) = groups_of(model)
    assert scale_channels([(group, [2.0, 0.5])], model.ctx) == 3
    arrays = [
        constant_array(constant, model.ctx.blobs).tolist()
        for op in model.function().body.block.ops
        for value in op.operands
        if (constant := constant_of(value)) is not None
    ]
    assert arrays == [[[2.0, 4.0], [1.5, 2.0]], [2.0, -0.5], [[0.5, 4.0], [1.5, 8.0]]]
    for was, now in zip(before, result(model), strict=True):
        np.testing.assert_array_equal(was, now)


def test_a_value_that_is_returned_keeps_its_numbers() -> None:
    assert groups_of(opened(rows(results="%h"))) == []


@pytest.mark.parametrize(
    ("function", "count"),
    [
        ("relu %h : (!x) -> !x", 0),
        ("neg %h : (!x) -> !x", 2),
        ("add %h, %x : (!x, !x) -> !x", 2),
        ("add %h, %b : (!x, tensor<2xf32>) -> !x", 4),
        ("mul %h, %b : (!x, tensor<2xf32>) -> !x", 0),
        ("mul %h, %x : (!x, !x) -> !x", 0),
        ("sub %h, %h : (!x, !x) -> !x", 0),
        ("maximum %h, %b : (!x, tensor<2xf32>) -> !x", 2),
        ("layer_norm %h, %b, %b : (!x, tensor<2xf32>, tensor<2xf32>) -> !x", 2),
        ("pad %h low [0, 0] high [1, 0] mode edge : (!x) -> !x", 2),
        ("pad %h low [0, 0] high [1, 0] mode constant : (!x) -> !x", 0),
    ],
)
def test_what_lets_sums_pass(function: str, count: int) -> None:
    model = opened(rows(f"%a = nn.{function}", OUT))
    assert sum(group.size for group in find_shifts(model.function(), model.ctx)) == count


def test_a_missing_bias_is_made() -> None:
    model = opened(rows("%a = nn.neg %h : (!x) -> !x", OUT))
    before = result(model)
    (group,) = find_shifts(model.function(), model.ctx)
    assert shift_channels([(group, [2.0, 4.0])], model.ctx) == 2
    for was, now in zip(before, result(model), strict=True):
        np.testing.assert_array_equal(was, now)
    last = list(model.function().body.block.ops)[-2]
    made = constant_of(last.operands[2])
    assert made is not None
    # The result of the negation is less by (2, 4), so the rows add (1, 2) and (3, 4) times that.
    assert constant_array(made, model.ctx.blobs).tolist() == [10.0, 22.0]


@pytest.mark.parametrize(
    ("ending", "count"),
    [("", 0), ("%a = nn.add %p, %b : (!x, tensor<2xf32>) -> !x", 2)],
)
def test_products_without_a_bias_move_only_into_one(ending: str, count: int) -> None:
    product = "%p = nn.matmul %h, %w : (!x, tensor<2x2xf32>) -> !x"
    model = opened(rows(product, ending, results="%a" if ending else "%p"))
    assert sum(group.size for group in find_shifts(model.function(), model.ctx)) == count


@pytest.mark.parametrize("factors", [[1.0], [1.0, -1.0], [1.0, 0.0], [1.0, np.inf]])
def test_factors_that_are_refused(factors: list[float]) -> None:
    model = opened(rows("%a = nn.relu %h : (!x) -> !x", OUT))
    with pytest.raises(ValueError, match="expects 2 positive factors"):
        scale_channels([(groups_of(model)[0], factors)], model.ctx)


def test_overflow_changes_nothing() -> None:
    model = opened(rows("%a = nn.relu %h : (!x) -> !x", OUT))
    text = str(model.module)
    with pytest.raises(NotFiniteError):
        scale_channels([(groups_of(model)[0], [2.0, 2.0**127])], model.ctx)
    assert str(model.module) == text


# -- what declarations say ---------------------------------------------------------------


LINEAR = [
    "avg_pool2d %x kernel [2, 2] pads [1, 0, 0, 1] count_include_pad true : (!x) -> !y",
    "global_avg_pool2d %x : (!x) -> tensor<1x3x1x1xf32>",
    "reduce_mean %x axes [2] keepdims true : (!x) -> tensor<1x3x1x4xf32>",
    "reduce_sum %x axes [2, 3] keepdims true : (!x) -> tensor<1x3x1x1xf32>",
    "resize_linear %x sizes [1, 3, 8, 2] : (!x) -> tensor<1x3x8x2xf32>",
]


@pytest.mark.parametrize("text", LINEAR)
def test_linear_ops_are(text: str) -> None:
    """In exact rationals: any matrix on the channels passes."""
    ctx: QContext = new_context()
    kind = text.rsplit("-> ", 1)[1].replace("!y", "tensor<1x3x4x4xf32>")
    module = read_module(
        f"!x = tensor<1x3x4x4xf32>\n!y = {kind}\n"
        f"func.func @main(%x: !x) -> !y {{\n%r = nn.{text}\nreturn %r : !y\n}}",
        ctx,
    )
    op = next(iter(Interpreter(ctx, module).function().body.block.ops))
    behavior = ctx.behaviors.get(op)
    assert behavior is not None
    assert behavior.linear
    assert behavior.arithmetic is not None
    random = np.random.default_rng(0)
    x, matrix = random_rationals((1, 3, 4, 4), random), random_rationals((3, 3), random)
    y = behavior.arithmetic(op, [x])
    mixed = (matrix @ x.reshape(3, -1)).reshape(x.shape)
    expected = (matrix @ y.reshape(3, -1)).reshape(y.shape)
    assert (behavior.arithmetic(op, [mixed]) == expected).all()


CONTRACTIONS = [
    ("conv2d %x, %w groups 3", (1, 3, 4, 4), (6, 1, 2, 2), (1, 6, 3, 3)),
    ("conv2d %x, %w groups 2", (1, 4, 3, 3), (4, 2, 1, 1), (1, 4, 3, 3)),
    ("conv_transpose2d %x, %w groups 2", (1, 4, 2, 2), (4, 3, 2, 2), (1, 6, 3, 3)),
    ("conv_transpose2d %x, %w groups 4", (1, 4, 2, 2), (4, 1, 1, 1), (1, 4, 2, 2)),
    ("fully_connected %x, %w", (2, 3), (4, 3), (2, 4)),
    ("matmul %x, %w", (2, 2, 3), (3, 4), (2, 2, 4)),
    ("matmul %x, %w", (2, 2, 3), (2, 3, 4), (2, 2, 4)),
]


@pytest.mark.parametrize(("text", "x", "w", "y"), CONTRACTIONS)
def test_channels_that_weights_join(
    text: str, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]
) -> None:
    """In exact rationals: factors of both sides go into the weights."""
    ctx = new_context()
    kinds = [f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in (x, w, y)]
    head, *rest = text.split(" %x, %w")
    module = read_module(
        f"func.func @main(%x: {kinds[0]}, %w: {kinds[1]}) -> {kinds[2]} {{\n"
        f"%r = nn.{head} %x, %w{rest[0]} : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}\n"
        f"return %r : {kinds[2]}\n}}",
        ctx,
    )
    op = next(iter(Interpreter(ctx, module).function().body.block.ops))
    behavior = ctx.behaviors.get(op)
    assert behavior is not None
    assert behavior.accumulator is not None
    assert behavior.arithmetic is not None
    sums = behavior.accumulator
    assert sums.channels is not None
    inner, outer = sums.channels(op)
    assert np.broadcast_shapes(inner.shape, outer.shape, w) == w
    random = np.random.default_rng(1)
    a, b = sums.lhs_axis(op), sums.result_axis(op)
    numbers, weights = random_rationals(x, random), random_rationals(w, random)
    before = np.array([Fraction(n + 2, 3) for n in range(x[a])])
    after = np.array([Fraction(5, n + 1) for n in range(y[b])])
    scaled = weights * after[outer] / before[inner]
    along = [[-1 if d == at else 1 for d in range(len(shape))] for at, shape in ((a, x), (b, y))]
    expected = behavior.arithmetic(op, [numbers, weights]) * after.reshape(along[1])
    found = behavior.arithmetic(op, [numbers * before.reshape(along[0]), scaled])
    assert (found == expected).all()


def test_degrees_of_a_formula() -> None:
    model = opened(rows("%a = nn.prelu %h, %b : (!x, tensor<2xf32>) -> !x", OUT))
    op = next(op for op in model.function().body.block.ops if op.name == "nn.prelu")
    behavior = model.ctx.behaviors.get(op)
    assert behavior is not None
    found = homogeneity(op, behavior)
    assert found is not None
    assert found.result == {0: 1}
    assert found.conditions == ({1: -1},)


@pytest.mark.parametrize(
    ("line", "powers"),
    [
        ("mul %h, %h : (!x, !x) -> !x", {0: 1, 1: 1}),
        ("div %h, %b : (!x, tensor<2xf32>) -> !x", {0: 1, 1: -1}),
        ("neg %h : (!x) -> !x", {0: 1}),
        ("pow %h exponent 2.0 : (!x) -> !x", {0: 2}),
        ("pow %h exponent 3.0 : (!x) -> !x", {0: 3}),
        ("reciprocal %h : (!x) -> !x", {0: -1}),
        ("pow %h exponent 0.5 : (!x) -> !x", None),
        ("sqrt %h : (!x) -> !x", None),
        ("abs %h : (!x) -> !x", None),
        ("add %h, %b : (!x, tensor<2xf32>) -> !x", None),
        ("relu %h : (!x) -> !x", None),
        ("exp %h : (!x) -> !x", None),
        ("prelu %h, %b : (!x, tensor<2xf32>) -> !x", None),
    ],
)
def test_which_formulas_are_products(line: str, powers: dict[int, int] | None) -> None:
    model = opened(rows(f"%a = nn.{line}", OUT))
    name = "nn." + line.split(" ", 1)[0]
    op = next(op for op in model.function().body.block.ops if op.name == name)
    behavior = model.ctx.behaviors.get(op)
    assert behavior is not None
    assert product_powers(op, behavior) == powers


@pytest.mark.parametrize(
    ("line", "alike"),
    [
        ("reduce_mean %x axes [1] : (!x) -> tensor<1x1x4x4xf32>", True),
        ("reduce_sum %x axes [1, 2] keepdims false : (!x) -> tensor<1x4xf32>", True),
        ("reduce_max %x axes [1] : (!x) -> tensor<1x1x4x4xf32>", False),
        ("avg_pool2d %x kernel [2, 2] : (!x) -> tensor<1x2x3x3xf32>", False),
        ("resize_linear %x sizes [1, 2, 1, 1] : (!x) -> tensor<1x2x1x1xf32>", False),
    ],
)
def test_which_sums_have_one_weight(line: str, alike: bool) -> None:
    kind = line.rsplit(" ", 1)[1]
    text = f"""
    !x = tensor<1x2x4x4xf32>
    func.func @main(%x: !x) -> {kind} {{
      %y = nn.{line}
      return %y : {kind}
    }}"""
    model = opened(text)
    op = model.function().body.block.first_op
    assert op is not None
    behavior = model.ctx.behaviors.get(op)
    assert behavior is not None
    assert sums_alike(op, behavior) is alike


def test_declarations_from_outside_say_which_channels_weights_join() -> None:
    ctx = new_context()
    declared = ctx.behaviors.named("nn.fully_connected")
    assert declared is not None
    ctx.behaviors.register(declared)
    text = rows("%a = nn.relu %h : (!x) -> !x", OUT)
    model = Model(read_module(text, ctx), ctx)
    assert [group.size for group in groups_of(model)] == [2]
