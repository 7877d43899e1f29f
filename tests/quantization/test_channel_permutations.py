"""Channels in another order leave the function of a model as it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from qdialect.analysis.channel_permutations import Blocks, find_permutable
from qdialect.quantizer.float_rewrites.permuting import permute_channels
from qdialect.quantizer.preparation import prepare
from qdialect.workflows.model import Model
from tests.generators.channel_networks import random_channels
from tests.support.channel_models import constants, in_groups, opened, result
from tests.support.exact_numbers import exact_results, random_rationals

SEEDS = range(40)


def blocks_of(model: Model) -> list[Blocks]:
    return [blocks for _, blocks in find_permutable(model.function(), model.ctx)]


def permute_all(model: Model, seed: int = 0) -> int:
    """Put the channels of all blocks in an order by chance; how many blocks."""
    random = np.random.default_rng(seed)
    changes = [
        (group, block, random.permutation(len(block)))
        for group, blocks in find_permutable(model.function(), model.ctx)
        for block in blocks
    ]
    permute_channels(changes, model.ctx)
    model.module.verify()
    return len(changes)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_keeps_the_function(seed: int) -> None:
    model = opened(random_channels(seed))
    if seed % 2:
        prepare(model.module, model.ctx, frozenset())
    before = result(model)
    assert permute_all(model, seed)
    for was, now in zip(before, result(model), strict=True):
        np.testing.assert_allclose(now, was, atol=2e-6 * np.abs(was).max())


def residual() -> str:
    """A depthwise convolution, a residual sum, a norm without a root, a part that is cut out."""
    parts = constants(
        w=(6, 2, 1, 1), d=(6, 1, 3, 3), b=(6,), s=(6, 1, 1), v=(6, 6, 1, 1), u=(2, 3, 1, 1)
    )
    return f"""
    !x = tensor<1x2x4x4xf32>
    !h = tensor<1x6x4x4xf32>
    !m = tensor<1x1x4x4xf32>
    !p = tensor<1x3x4x4xf32>
    !y = tensor<1x2x4x4xf32>
    func.func @main(%x: !x) -> !y {{
      {parts}
      %0 = nn.conv2d %x, %w, %b : (!x, tensor<6x2x1x1xf32>, tensor<6xf32>) -> !h
      %1 = nn.conv2d %0, %d pads [1, 1, 1, 1] groups 6 : (!h, tensor<6x1x3x3xf32>) -> !h
      %2 = nn.clip %1 min -4.0 max 9.0 : (!h) -> !h
      %3 = nn.mul %2, %s : (!h, tensor<6x1x1xf32>) -> !h
      %4 = nn.conv2d %3, %v : (!h, tensor<6x6x1x1xf32>) -> !h
      %5 = nn.add %0, %4 : (!h, !h) -> !h
      %6 = nn.reduce_mean %5 axes [1] : (!h) -> !m
      %7 = nn.sub %5, %6 : (!h, !m) -> !h
      %8 = nn.mul %7, %7 : (!h, !h) -> !h
      %9 = nn.slice %8 starts [0, 3, 0, 0] stops [1, 6, 4, 4] steps [1, 1, 1, 1] : (!h) -> !p
      %y = nn.conv2d %9, %u : (!p, tensor<2x3x1x1xf32>) -> !y
      return %y : !y
    }}"""


def test_rational_numbers_stay() -> None:
    """Two parts of three channels, of which one is cut out, change places within themselves."""
    model = opened(residual())
    x = random_rationals((1, 2, 4, 4), np.random.default_rng(3))
    before, text = exact_results(model, [x]), str(model.module)
    assert [[len(block) for block in blocks] for blocks in blocks_of(model)] == [[3, 3]]
    assert permute_all(model, seed=2) == 2
    assert str(model.module) != text
    for was, now in zip(before, exact_results(model, [x]), strict=True):
        assert (was == now).all()


def rows(*lines: str, results: str = "%y") -> str:
    return f"""
    !x = tensor<?x4xf32>
    !w = tensor<4x4xf32>
    func.func @main(%x: !x) -> !x {{
      {constants(w=(4, 4), b=(4,), n=(1,))}
      %h = nn.fully_connected %x, %w, %b : (!x, !w, tensor<4xf32>) -> !x
      {chr(10).join(lines)}
      return {results} : !x
    }}"""


OUT = "%y = nn.fully_connected %a, %w : (!x, !w) -> !x"


@pytest.mark.parametrize(
    ("function", "passes"),
    [
        ("gelu %h : (!x) -> !x", True),
        ("hard_swish %h : (!x) -> !x", True),
        ("maximum %h, %b : (!x, tensor<4xf32>) -> !x", True),
        ("prelu %h, %b : (!x, tensor<4xf32>) -> !x", True),
        ("mul %h, %b : (!x, tensor<4xf32>) -> !x", True),
        ("div %n, %h : (tensor<1xf32>, !x) -> !x", True),
        ("mul %h, %h : (!x, !x) -> !x", True),
        ("layer_norm %h, %b, %b : (!x, tensor<4xf32>, tensor<4xf32>) -> !x", True),
        ("softmax %h axis 1 : (!x) -> !x", False),
        ("concat %h, %h axis 0 : (!x, !x) -> !x", True),
        ("pad %h low [0, 0] high [1, 0] mode constant : (!x) -> !x", True),
        ("mul %h, %x : (!x, !x) -> !x", False),
        ("add %x, %h : (!x, !x) -> !x", False),
        ("concat %h, %h axis 0 : (!x, !x) -> !x\n%q = nn.add %h, %x : (!x, !x) -> !x", False),
    ],
)
def test_what_channels_of_any_order_pass(function: str, passes: bool) -> None:
    model = opened(rows(f"%a = nn.{function}", OUT))
    assert blocks_of(model) == ([[[1, 2, 3, 4]]] if passes else [])
    before = result(model)
    assert permute_all(model) == passes
    for was, now in zip(before, result(model), strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-5, atol=1e-5)


def test_what_is_returned_keeps_its_order() -> None:
    assert blocks_of(opened(rows(results="%h"))) == []
    assert blocks_of(opened(rows("%a = nn.relu %h : (!x) -> !x", results="%a"))) == []


@pytest.mark.parametrize(
    ("groups", "weight", "sizes"),
    [
        (1, (4, 6, 1, 1), [6]),
        (2, (4, 3, 1, 1), [3, 3]),
        (6, (6, 1, 1, 1), [6]),
        (6, (12, 1, 1, 1), []),
    ],
)
def test_channels_of_groups_stay_together(
    groups: int, weight: tuple[int, ...], sizes: list[int]
) -> None:
    """The channels that a convolution in groups reads, and their products."""
    model = in_groups(6, weight, groups)
    found = find_permutable(model.function(), model.ctx)
    first = next(op for op in model.function().body.block.ops if op.name == "nn.conv2d").results[0]
    here = [blocks for group, blocks in found if first in group.values]
    assert [len(block) for blocks in here for block in blocks] == sizes
    before = result(model)
    permute_all(model, seed=4)
    for was, now in zip(before, result(model), strict=True):
        np.testing.assert_array_equal(now, was)


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 0, 1, 2], [1, 2, 3, 4]])
def test_orders_that_are_refused(order: Sequence[int]) -> None:
    model = opened(rows("%a = nn.gelu %h : (!x) -> !x", OUT))
    ((group, blocks),) = find_permutable(model.function(), model.ctx)
    text = str(model.module)
    with pytest.raises(ValueError, match="each of 0 to 3 once"):
        permute_channels([(group, blocks[0], np.array(order))], model.ctx)
    assert str(model.module) == text
