"""Channels that are there twice leave the function of a model as it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_splits import find_splittable
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import new_context
from qdialect.quantizer.float_rewrites.splitting import split_channels, split_refusal
from qdialect.quantizer.preparation import prepare
from qdialect.workflows.model import Model
from tests.generators.channel_networks import random_channels
from tests.support.channel_models import constants, in_groups, opened, result
from tests.support.exact_numbers import exact_results, random_rationals

Split = tuple[ChannelGroup, Sequence[int]]


def some(model: Model, seed: int) -> list[Split]:
    """Classes by chance of all groups that are not refused."""
    random, found = np.random.default_rng(seed), list[Split]()
    for group, classes in find_splittable(model.function(), model.ctx):
        count = int(random.integers(1, len(classes) + 1))
        chosen = sorted(random.choice(classes, count, replace=False).tolist())
        if split_refusal(group, chosen, model.ctx) is None:
            found.append((group, chosen))
    return found


def test_functions_of_generated_networks_stay() -> None:
    count = 0
    for seed in range(40):
        model = opened(random_channels(seed))
        if seed % 2:
            prepare(model.module, model.ctx, frozenset())
        before, changes = result(model), some(model, seed)
        count += len(changes)
        split_channels(changes, model.ctx)
        model.module.verify()
        for was, now in zip(before, result(model), strict=True):
            np.testing.assert_allclose(now, was, atol=2e-6 * np.abs(was).max())
    assert count > 40


def depthwise(middle: str = "", last: str = "%3") -> str:
    """A depthwise convolution between others, then a reshape and a product."""
    return f"""
    !x = tensor<1x2x2x2xf32>
    !h = tensor<1x4x2x2xf32>
    !p = tensor<1x4x1x1xf32>
    !r = tensor<1x4xf32>
    !y = tensor<1x3xf32>
    func.func @main(%x: !x) -> !y {{
      {constants(w=(4, 2, 1, 1), b=(4,), d=(4, 1, 2, 2), c=(4,), s=(4, 1, 1), v=(3, 4))}
      %0 = nn.conv2d %x, %w, %b : (!x, tensor<4x2x1x1xf32>, tensor<4xf32>) -> !h
      %1 = nn.clip %0 min -3.0 max 5.0 : (!h) -> !h
      %2 = nn.conv2d %1, %d, %c groups 4 : (!h, tensor<4x1x2x2xf32>, tensor<4xf32>) -> !p
      %3 = nn.add %2, %s : (!p, tensor<4x1x1xf32>) -> !p
      {middle}
      %r = nn.reshape {last} : (!p) -> !r
      %y = nn.fully_connected %r, %v : (!r, tensor<3x4xf32>) -> !y
      return %y : !y
    }}"""


def test_rational_numbers_stay() -> None:
    """Also where groups of a convolution and extents of a reshape are others then."""
    model = opened(depthwise())
    x = random_rationals((1, 2, 2, 2), np.random.default_rng(3))
    before = exact_results(model, [x])
    groups = find_splittable(model.function(), model.ctx)
    assert [classes for _, classes in groups] == [[1, 2, 3, 4]]
    assert split_channels([(groups[0][0], [2, 4])], model.ctx) == 6
    model.module.verify()
    made = [shape_of(op.results[0]) for op in model.function().body.block.ops if op.results]
    assert (1, 6, 2, 2) in made and (1, 6) in made and (3, 6) in made and (6, 1, 2, 2) in made
    for was, now in zip(before, exact_results(model, [x]), strict=True):
        assert (was == now).all()


@pytest.mark.parametrize(
    ("middle", "last"),
    [
        ("%q = nn.reduce_mean %3 axes [1] : (!p) -> tensor<1x1x1x1xf32>\n"
         "%a = nn.sub %3, %q : (!p, tensor<1x1x1x1xf32>) -> !p", "%a"),
        ("%a = nn.softmax %3 axis 1 : (!p) -> !p", "%a"),
        ("%a = nn.layer_norm %3, %s axis 1 : (!p, tensor<4x1x1xf32>) -> !p", "%a"),
    ],
)  # fmt: skip
def test_sums_over_channels_would_count_them_twice(middle: str, last: str) -> None:
    assert find_splittable(opened(depthwise(middle, last)).function(), new_context()) == []


def test_reasons_for_refusal() -> None:
    """Every other channel would be another one; nothing changes then."""
    kinds = [f"tensor<1x{n}x1x1xf32>" for n in (2, 4, 2, 3)]
    model = opened(
        f"""
    func.func @main(%x: {kinds[0]}) -> {kinds[3]} {{
      {constants(a=(4, 2, 1, 1), b=(3, 2, 1, 1))}
      %0 = nn.conv2d %x, %a : ({kinds[0]}, tensor<4x2x1x1xf32>) -> {kinds[1]}
      %1 = nn.slice %0 starts [0, 0, 0, 0] stops [1, 4, 1, 1] steps [1, 2, 1, 1]
        : ({kinds[1]}) -> {kinds[2]}
      %2 = nn.conv2d %1, %b : ({kinds[2]}, tensor<3x2x1x1xf32>) -> {kinds[3]}
      return %2 : {kinds[3]}
    }}"""
    )
    ((group, classes),) = find_splittable(model.function(), model.ctx)
    text = str(model.module)
    reason = split_refusal(group, classes[:1], model.ctx)
    assert reason is not None and "nn.slice" in reason
    with pytest.raises(ValueError, match=r"nn\.slice"):
        split_channels([(group, classes[:1])], model.ctx)
    assert str(model.module) == text


@pytest.mark.parametrize("weight", [(4, 2, 1, 1), (8, 1, 1, 1)])
def test_groups_of_several_channels_are_left(weight: tuple[int, ...]) -> None:
    model = in_groups(4, weight, 4 // weight[1])
    assert find_splittable(model.function(), model.ctx) == []
