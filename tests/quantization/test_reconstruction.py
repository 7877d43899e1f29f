"""Weights of several ops rounded together, for what the block of them gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qdialect as qd
from qdialect.quantization.block_rounding import BlockRounding
from qdialect.quantization.cuts import stretches
from qdialect.quantization.grids import Grids
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.reconstruction import Problem
from qdialect.quantization.shared_weights import shared_weights
from qdialect.quantization.weight_rounding import WeightRounding
from qdialect.reference import argument_names
from qdialect.workflows.torch_blocks import TorchBlocks
from tests.generators.channel_networks import random_channels
from tests.quantization.test_sequential_rounding import (
    DEPTH,
    W4,
    Net,
    chain_of_convolutions,
    chosen,
    net_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]

MLP = """
!x = tensor<2x32xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> !x {{
  %w = nn.constant dense<{w}> : tensor<32x32xf32> : tensor<32x32xf32>
  %v = nn.constant dense<{v}> : tensor<32x32xf32> : tensor<32x32xf32>
  %0 = nn.matmul %x, %w {{nn.key = "first"}} : (!x, tensor<32x32xf32>) -> !x
  %1 = nn.relu %0 {{nn.key = "relu"}} : (!x) -> !x
  %2 = nn.matmul %1, %v {{nn.key = "second"}} : (!x, tensor<32x32xf32>) -> !x
  %3 = nn.add %2, %x {{nn.key = "sum"}} : (!x, !x) -> !x
  func.return %3 : !x
}}
"""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Net:
    text = chain_of_convolutions(np.random.default_rng(5))
    return net_of(text, (2, 8, 6, 6), tmp_path_factory.mktemp("chain"), 24)


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory: pytest.TempPathFactory) -> Net:
    random = np.random.default_rng(3)
    w, v = (random.normal(0, 0.3, (32, 32)).tolist() for _ in range(2))
    return net_of(MLP.format(w=w, v=v), (2, 32), tmp_path_factory.mktemp("mlp"), 48)


class Noted:
    """Notes what is asked of a solver, and what it finds."""

    def __init__(self, rounds: int = 24) -> None:
        self._solver = TorchBlocks(rounds)
        self.asked: list[tuple[Problem, Sequence[Codes]]] = []

    def solved(self, problem: Problem) -> Sequence[Codes]:
        found = self._solver.solved(problem)
        self.asked.append((problem, found))
        return found


class Still:
    """A solver that cannot follow slopes."""

    def solved(self, problem: Problem) -> Sequence[Codes]:
        return [weight.start for weight in problem.weights]


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_chain_is_cut_into_blocks(chain: Net, most: int) -> None:
    selection, grids = chosen(chain)
    groups = [each.ops for each in shared_weights(selection, grids)]
    found = stretches(selection.values.block, groups, most)
    assert [len(each.groups) for each in found] == [most] * (DEPTH // most) + (
        [DEPTH % most] if DEPTH % most else []
    )
    # One value goes from block to block: what the relu behind a convolution gives.
    assert [[value.owner.name for value in each.results] for each in found[:-1]] == [
        ["nn.relu"] for _ in found[:-1]
    ]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [1, 3])
def test_blocks_have_all_weights_once_and_know_what_leaves_them(
    seed: int, most: int, tmp_path: Path
) -> None:
    text = random_channels(seed)
    shape = (1, 3, 5, 5) if "1x3x5x5" in text.split("->")[0] else (1, 4, 6)
    selection, grids = chosen(net_of(text, shape, tmp_path, 2))
    groups = [[op] for each in shared_weights(selection, grids) for op in each.ops]
    found = stretches(selection.values.block, groups, most)
    assert [n for each in found for n in each.groups] == [*range(len(groups))]
    assert all(len(each.groups) <= most for each in found)
    for each in found:
        for value in each.results:
            assert value.owner in each.ops
            assert any(use.operation not in each.ops for use in value.uses)


def losses(problem: Problem, codes: Sequence[Codes]) -> NDArray[np.float64]:
    """What a block with codes loses of each sample, by the interpreter."""
    module = ModuleOp([problem.function.clone()])
    block = qd.Model(module, problem.ctx)
    weights = [w.numbers(c).astype("f4") for w, c in zip(problem.weights, codes, strict=True)]
    found = list[float]()
    for inputs, targets in zip(problem.inputs, problem.targets, strict=True):
        names = argument_names(block.function())
        made = qd.run(block, dict(zip(names, (*inputs, *weights), strict=True)))
        pairs = zip(made.values(), targets, strict=True)
        found.append(sum(float(np.square(a - b, dtype="f8").sum()) for a, b in pairs))
    return np.array(found)


RECIPES = [
    W4,
    Recipe(weights="i4", per_channel=False),
    Recipe(),
    Recipe(weights="u4", block=16),
    Recipe(weights="u2", block=16),
    Recipe(weights="i2", block=16),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.weights}-{r.block}-{r.per_channel}")
def test_what_is_found_is_no_worse_on_any_part_of_the_samples(
    chain: Net, perceptron: Net, recipe: Recipe
) -> None:
    pytest.importorskip("torch")
    net, solver = perceptron if recipe.block else chain, Noted()
    rounded(net, recipe, solver)
    assert solver.asked
    for problem, codes in solver.asked:
        start = [weight.start for weight in problem.weights]
        before, after = losses(problem, start), losses(problem, codes)
        for part in range(4):
            assert after[part::4].sum() <= before[part::4].sum() * (1 + 1e-6)
        for weight, found in zip(problem.weights, codes, strict=True):
            assert found.min() >= weight.low and found.max() <= weight.high
            # No code is further than a step from its weight, unless it was.
            apart = np.abs(weight.numbers(found) - weight.real) / weight.steps
            assert np.all((apart < 1) | (found == weight.start))
    if recipe == W4:
        assert after.sum() < before.sum()


def rounded(net: Net, recipe: Recipe, solver: Any, state: Path | None = None) -> Grids:
    """The grids of a net with weights of blocks rounded together."""
    selection, grids = chosen(net, recipe)
    if recipe.block:
        BlockRounding(net[2], "numpy")(selection, grids)
    WeightRounding(net[2], "numpy", "blocks", state=state, solver=solver)(selection, grids)
    return grids


def test_the_start_is_what_is_found_for_each_op(chain: Net) -> None:
    selection, grids = chosen(chain)
    WeightRounding(chain[2], "numpy", "adaround")(selection, grids)
    still = rounded(chain, W4, Still())
    for one, other in zip(grids.constants.values(), still.constants.values(), strict=True):
        assert np.array_equal(one.codes, other.codes)
    for one, other in zip(grids.shifts.values(), still.shifts.values(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("recipe", [W4, Recipe(weights="u2", block=16)])
def test_a_run_goes_on_from_its_state(
    chain: Net, perceptron: Net, recipe: Recipe, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    net, solver = perceptron if recipe.block else chain, Noted(4)
    one, other = (rounded(net, recipe, solver, tmp_path) for _ in range(2))
    assert len(solver.asked) == 1
    pairs = zip(one.constants.values(), other.constants.values(), strict=True)
    assert all(np.array_equal(a.codes, b.codes) for a, b in pairs)
    alone = zip(one.only_weights.values(), other.only_weights.values(), strict=True)
    assert all(a[0] == b[0] and np.array_equal(a[1], b[1]) for a, b in alone)


def test_blocks_take_a_solver() -> None:
    with pytest.raises(ValueError, match="method 'blocks' takes a solver"):
        WeightRounding([], "numpy", "blocks")
