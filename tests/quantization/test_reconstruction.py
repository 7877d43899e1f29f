"""Weights of several ops rounded together, for what the block of them gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from qdialect.quantization.cuts import stretches
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.reconstruction import Problem, Solution
from qdialect.quantization.shared_weights import shared_weights
from qdialect.quantization.weight_rounding import WeightRounding
from qdialect.workflows.torch_blocks import TorchBlocks
from tests.generators.channel_networks import random_channels
from tests.quantization.test_sequential_rounding import (
    DEPTH,
    W4,
    Net,
    chain_of_convolutions,
    chosen,
    net_of,
    noise,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


class Noted(TorchBlocks):
    """Notes what is asked, and what is found."""

    def __init__(self, steps: int = 300) -> None:
        super().__init__(steps)
        self.asked: list[Problem] = []

    def solved(self, problem: Problem) -> Solution | None:
        self.asked.append(problem)
        return super().solved(problem)


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


def test_errors_that_meet_behind_a_layer_are_less(chain: Net) -> None:
    pytest.importorskip("torch")
    seen = chain[2]
    alone = noise(chain, WeightRounding(seen, "numpy", "descent"))
    together = noise(chain, WeightRounding(seen, "numpy", "blocks", solver=TorchBlocks()))
    assert together < 0.9 * alone


def losses(problem: Problem, solution: Solution | None) -> NDArray[np.float64]:
    """What a block loses of each sample with what was found, or with what it started from."""
    import torch

    from qdialect.formats.torch.write import torch_module

    block = torch_module(problem.function, problem.ctx.blobs, trainable=True)
    weights: list[Any] = []
    for n, weight in enumerate(problem.weights):
        codes = weight.start if solution is None else solution.codes[n]
        factors = None if solution is None else solution.factors[n]
        weights.append(torch.tensor(weight.numbers(codes, factors), dtype=torch.float32))
    assert problem.counts is not None
    found = list[float]()
    for inputs, targets, counts in zip(
        problem.inputs, problem.targets, problem.counts, strict=True
    ):
        made = block(*(torch.from_numpy(each) for each in inputs), *weights).detach().numpy()
        found.append(float((np.square(made - targets[0]) * counts[0]).sum()))
    return np.array(found)


@pytest.mark.parametrize("steps", [1, 300])
@pytest.mark.parametrize("recipe", [W4, Recipe(weights="u2", block=16)])
def test_what_is_found_is_no_worse_on_what_it_has_seen(
    chain: Net, perceptron: Net, recipe: Recipe, steps: int
) -> None:
    pytest.importorskip("torch")
    net, solver = perceptron if recipe.block else chain, Noted(steps)
    selection, grids = chosen(net, recipe)
    block_codes(net, recipe)(selection, grids)
    WeightRounding(net[2], "numpy", "blocks", solver=solver)(selection, grids)
    assert solver.asked
    for problem in solver.asked:
        solution = solver.solved(problem)
        assert solution is not None
        before, after = losses(problem, None), losses(problem, solution)
        assert after.sum() <= before.sum() * (1 + 1e-6)
        for weight, codes in zip(problem.weights, solution.codes, strict=True):
            assert codes.min() >= weight.low and codes.max() <= weight.high
    if steps > 1:
        assert after.sum() < 0.9 * before.sum()


def block_codes(net: Net, recipe: Recipe) -> Any:
    from qdialect.quantization.block_rounding import BlockRounding

    return BlockRounding(net[2], "numpy") if recipe.block else lambda *_: None


@pytest.mark.parametrize("method", ["sequential", "adaround"])
def test_weights_that_alone_are_codes_are_rounded_by_all_methods(
    perceptron: Net, method: Any
) -> None:
    recipe = Recipe(weights="u2", block=16)
    before, after = chosen(perceptron, recipe), chosen(perceptron, recipe)
    for each in (before, after):
        block_codes(perceptron, recipe)(*each)
    WeightRounding(perceptron[2], "numpy", method)(*after)
    changed = 0
    for one, other in zip(
        before[1].only_weights.values(), after[1].only_weights.values(), strict=True
    ):
        assert one[0] == other[0] and one[1].dtype == other[1].dtype
        assert other[1].max() <= 3
        changed += int((one[1] != other[1]).sum())
    assert changed


def test_a_run_goes_on_from_its_state(perceptron: Net, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    recipe, made = Recipe(weights="u2", block=16), list[Any]()
    solver = Noted(100)
    for _ in range(2):
        selection, grids = chosen(perceptron, recipe)
        block_codes(perceptron, recipe)(selection, grids)
        WeightRounding(perceptron[2], "numpy", "blocks", state=tmp_path, solver=solver)(
            selection, grids
        )
        made.append(grids.only_weights.values())
    assert len(solver.asked) == 1
    for one, other in zip(*made, strict=True):
        assert one[0] == other[0] and np.array_equal(one[1], other[1])


def test_blocks_take_a_solver() -> None:
    with pytest.raises(ValueError, match="method 'blocks' takes a solver"):
        WeightRounding([], "numpy", "blocks")
