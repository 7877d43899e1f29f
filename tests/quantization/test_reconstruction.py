"""Weights of several ops rounded together, for what the block of them gives."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qdialect as qd
from qdialect.errors import QError
from qdialect.interpreter import argument_names
from qdialect.ir.ops import ReluOp
from qdialect.plugins.torch.blocks import TorchBlocks
from qdialect.quantizer import weight_rounding
from qdialect.quantizer.block_rounding import BlockRounding
from qdialect.quantizer.cuts import stretches
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.quantized_copy import quantized_copy
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.reconstruction import Problem
from qdialect.quantizer.shared_weights import shared_weights
from qdialect.quantizer.weight_rounding import WeightRounding
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

FUNNEL = """
!x = tensor<4x32xf32>
!y = tensor<4x4xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> !y {{
  %w = nn.constant dense<{w}> : tensor<64x32xf32> : tensor<64x32xf32>
  %b = nn.constant dense<{b}> : tensor<64xf32> : tensor<64xf32>
  %v = nn.constant dense<{v}> : tensor<4x64xf32> : tensor<4x64xf32>
  %0 = nn.fully_connected %x, %w, %b {{nn.key = "first"}}
      : (!x, tensor<64x32xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %1 = nn.relu %0 {{nn.key = "relu"}} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %2 = nn.fully_connected %1, %v {{nn.key = "second"}}
      : (tensor<4x64xf32>, tensor<4x64xf32>) -> !y
  func.return %2 : !y
}}
"""
"""Errors of 64 numbers count for the first layer; four sums of them come out."""

TIED = """
!x = tensor<4x32xf32>
!y = tensor<4x4xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> !y {{
  %w = nn.constant dense<{w}> : tensor<32x32xf32> : tensor<32x32xf32>
  %u = nn.constant dense<{u}> : tensor<32x32xf32> : tensor<32x32xf32>
  %v = nn.constant dense<{v}> : tensor<32x4xf32> : tensor<32x4xf32>
  %0 = nn.matmul %x, %w {{nn.key = "first"}} : (!x, tensor<32x32xf32>) -> !x
  %1 = nn.relu %0 {{nn.key = "relu"}} : (!x) -> !x
  %2 = nn.matmul %1, %u {{nn.key = "between"}} : (!x, tensor<32x32xf32>) -> !x
  %3 = nn.matmul %2, %w {{nn.key = "again"}} : (!x, tensor<32x32xf32>) -> !x
  %4 = nn.matmul %3, %v {{nn.key = "last"}} : (!x, tensor<32x4xf32>) -> !y
  func.return %4 : !y
}}
"""

SIGNS = """
!x = tensor<4x32xf32>
!y = tensor<4x4xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> (!y, tensor<4x32xi1>) {{
  %w = nn.constant dense<{w}> : tensor<32x32xf32> : tensor<32x32xf32>
  %v = nn.constant dense<{v}> : tensor<32x4xf32> : tensor<32x4xf32>
  %0 = nn.matmul %x, %w {{nn.key = "first"}} : (!x, tensor<32x32xf32>) -> !x
  %1 = nn.compare %0, %x mode lt {{nn.key = "less"}} : (!x, !x) -> tensor<4x32xi1>
  %2 = nn.matmul %0, %v {{nn.key = "last"}} : (!x, tensor<32x4xf32>) -> !y
  func.return %2, %1 : !y, tensor<4x32xi1>
}}
"""


def drawn(text: str, count: int, folder: Path, **shapes: tuple[int, ...]) -> Net:
    """A network with random weights of these shapes."""
    random = np.random.default_rng(3)
    values = {name: random.normal(0, 0.3, shape).tolist() for name, shape in shapes.items()}
    return net_of(text.format(**values), (4, 32), folder, count)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Net:
    text = chain_of_convolutions(np.random.default_rng(5))
    return net_of(text, (2, 8, 6, 6), tmp_path_factory.mktemp("chain"), 24)


@pytest.fixture(scope="module")
def funnel(tmp_path_factory: pytest.TempPathFactory) -> Net:
    folder = tmp_path_factory.mktemp("funnel")
    return drawn(FUNNEL, 256, folder, w=(64, 32), b=(64,), v=(4, 64))


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Net:
    return drawn(TIED, 48, tmp_path_factory.mktemp("tied"), w=(32, 32), u=(32, 32), v=(32, 4))


class Noted:
    """Notes what is asked of a solver, and what it finds."""

    def __init__(self, steps: int = 400) -> None:
        self._solver = TorchBlocks(steps)
        self.asked: list[tuple[Problem, Sequence[Codes]]] = []

    def solved(self, problem: Problem) -> Sequence[Codes]:
        found = self._solver.solved(problem)
        self.asked.append((problem, found))
        return found


class Still:
    """Finds nothing better."""

    def __init__(self) -> None:
        self.asked: list[Problem] = []

    def solved(self, problem: Problem) -> Sequence[Codes]:
        self.asked.append(problem)
        return [weight.start for weight in problem.weights]


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_chain_is_cut_into_blocks(chain: Net, most: int) -> None:
    selection, grids = chosen(chain)
    groups = [each.ops for each in shared_weights(selection, grids)]
    found = stretches(selection.values.block, groups, most)
    assert [len(each.whole) for each in found] == [most] * (DEPTH // most) + (
        [DEPTH % most] if DEPTH % most else []
    )
    # One value goes from block to block: what the relu behind a convolution gives.
    for each in found[:-1]:
        (value,) = each.results
        assert isinstance(value.owner, ReluOp)


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
    assert all(each.whole == each.groups and len(each.groups) <= most for each in found)
    for each in found:
        for value in each.results:
            assert value.owner in each.ops
            assert any(use.operation not in each.ops for use in value.uses)


def lost(problem: Problem, codes: Sequence[Codes], numbers: Sequence[int]) -> float:
    """What a block with codes loses of samples, by the interpreter."""
    block = qd.Model(ModuleOp([problem.function.clone()]), problem.ctx)
    weights = [w.numbers(c).astype("f4") for w, c in zip(problem.weights, codes, strict=True)]
    total = 0.0
    for n in numbers:
        names = argument_names(block.function())
        made = qd.run(block, dict(zip(names, (*problem.inputs[n], *weights), strict=True)))
        pairs = zip(made.values(), problem.targets[n], strict=True)
        total += sum(float(np.square(a - b, dtype="f8").sum()) for a, b in pairs)
    return total


def rounded(
    net: Net, recipe: Recipe, solver: Any, state: Path | None = None, method: str = "blocks"
) -> tuple[Grids, float]:
    """The grids of a net with weights rounded, and its noise on samples that nothing has seen."""
    selection, grids = chosen(net, recipe)
    if recipe.block:
        BlockRounding(net[2], "numpy")(selection, grids)
    made: Any = method
    WeightRounding(net[2], "numpy", made, state=state, solver=solver)(selection, grids)
    copy = quantized_copy(selection, grids)
    model = qd.Model(copy.module, copy.ctx)
    noise = 0.0
    for sample in net[3]:
        pairs = zip(qd.run(net[0], sample).values(), qd.run(model, sample).values(), strict=True)
        noise += sum(float(np.square(a.astype("f8") - b).sum()) for a, b in pairs)
    return grids, noise


RECIPES = [
    W4,
    Recipe(weights="i4", per_channel=False),
    Recipe(),
    Recipe(weights="u4", block=16),
    Recipe(weights="u2", block=16),
    Recipe(weights="i2", block=16),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.weights}-{r.block}-{r.per_channel}")
@pytest.mark.parametrize("name", ["chain", "funnel", "tied"])
def test_what_is_kept_is_better_where_it_was_not_fitted(
    name: str, recipe: Recipe, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("torch")
    net, solver = request.getfixturevalue(name), Noted(40)
    if recipe.block and name == "chain":
        pytest.skip("weights of convolutions are not in blocks")
    rounded(net, recipe, solver)
    ((problem, codes),) = solver.asked
    start, held_out = [weight.start for weight in problem.weights], range(3, len(net[2]), 4)
    same = all(np.array_equal(one, other) for one, other in zip(start, codes, strict=True))
    assert same or lost(problem, codes, held_out) < lost(problem, start, held_out)
    for weight, found in zip(problem.weights, codes, strict=True):
        assert found.min() >= weight.low and found.max() <= weight.high
        assert np.abs(found - weight.start).max() <= 1


def test_blocks_lose_less_than_their_layers_on_other_samples(funnel: Net) -> None:
    """The last bits of a matrix product choose among equally good codes, so one width of weights
    may gain nothing on some processor; none loses, and together they gain."""
    pytest.importorskip("torch")
    ratios: list[float] = []
    for weights in ("u2", "i2", "u4"):
        recipe = Recipe(weights=weights, block=16)
        grids, together = rounded(funnel, recipe, Noted())
        layers, alone = rounded(funnel, recipe, None, method="adaround")
        ratios.append(together / alone)
        # The layers decide what biases correct.
        assert grids.shifts.keys() and len(grids.shifts) == len(layers.shifts)
        pairs = zip(grids.shifts.values(), layers.shifts.values(), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs)
    assert max(ratios) < 1.02
    assert np.mean(ratios) < 0.95


def test_where_nothing_is_found_the_codes_are_those_of_the_layers(chain: Net) -> None:
    grids, solver = rounded(chain, W4, still := Still())[0], still
    layers, _ = rounded(chain, W4, None, method="adaround")
    assert len(solver.asked) == 1
    for one, other in zip(grids.constants.values(), layers.constants.values(), strict=True):
        assert np.array_equal(one.codes, other.codes)
    for one, other in zip(grids.shifts.values(), layers.shifts.values(), strict=True):
        assert np.array_equal(one, other)


class Changed(Still):
    """Other codes than those of the layers."""

    def solved(self, problem: Problem) -> Sequence[Codes]:
        start = super().solved(problem)
        return [np.where(c > w.low, c - 1, c) for c, w in zip(start, problem.weights, strict=True)]


def in_blocks_of(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(block: Any, groups: Any) -> Any:
        return stretches(block, groups, most)

    monkeypatch.setattr(weight_rounding, "stretches", cut)


def test_a_block_sees_those_above_in_their_last_codes(
    chain: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks_of(2, monkeypatch)
    rounded(chain, W4, still := Still())
    rounded(chain, W4, changed := Changed())
    assert len(still.asked) == len(changed.asked) == DEPTH // 2
    for number, (one, other) in enumerate(zip(still.asked, changed.asked, strict=True)):
        # Layers of the first block are the same in both, those below are rounded for other values.
        pairs = zip(one.weights, other.weights, strict=True)
        same = [np.array_equal(a.start, b.start) for a, b in pairs]
        assert all(same) if number == 0 else not any(same)
        assert np.array_equal(one.inputs[0][0], other.inputs[0][0]) == (number == 0)


def test_weights_in_several_blocks_are_rounded_by_layer(
    tied: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded(tied, W4, whole := Still())
    ((w, u, v),) = [problem.weights for problem in whole.asked]
    assert w.start.shape == u.start.shape == (32, 32) and v.start.shape == (32, 4)
    assert len(whole.asked[0].function.body.block.args) == 4
    in_blocks_of(1, monkeypatch)
    selection, grids = chosen(tied)
    groups = [each.ops for each in shared_weights(selection, grids)]
    found = stretches(selection.values.block, groups, 1)
    # The first of the groups has its last op in the third block.
    assert [(list(each.groups), list(each.whole)) for each in found] == [
        ([1], [1]), ([0], []), ([2], [2]),
    ]  # fmt: skip
    rounded(tied, W4, changed := Changed())
    assert [len(problem.weights) for problem in changed.asked] == [1, 1]
    for problem, real in zip(changed.asked, (u.real, v.real), strict=True):
        assert np.array_equal(problem.weights[0].real, real)


def test_what_is_no_float_is_no_result_of_a_block(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    net = drawn(SIGNS, 8, tmp_path, w=(32, 32), v=(32, 4))
    rounded(net, W4, noted := Noted(4))
    assert [len(problem.targets[0]) for problem, _ in noted.asked] == [1]
    selection, grids = chosen(net)
    groups = [each.ops for each in shared_weights(selection, grids)]
    first, _ = stretches(selection.values.block, groups, 1)
    assert [str(value.type) for value in first.results] == ["tensor<4x32xf32>"]


@pytest.mark.parametrize(("name", "recipe"), [("chain", W4), ("funnel", RECIPES[4])])
def test_a_run_goes_on_from_its_state(
    name: str, recipe: Recipe, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    net, solver = request.getfixturevalue(name), Changed()
    one, other = (rounded(net, recipe, solver, tmp_path)[0] for _ in range(2))
    assert len(solver.asked) == 1
    sorted(tmp_path.glob("*-together.npz"))[0].write_bytes(b"no archive")
    third = rounded(net, recipe, solver, tmp_path)[0]
    assert len(solver.asked) == 2
    for again in (other, third):
        pairs = zip(one.constants.values(), again.constants.values(), strict=True)
        assert all(np.array_equal(a.codes, b.codes) for a, b in pairs)
        alone = zip(one.only_weights.values(), again.only_weights.values(), strict=True)
        assert all(a[0] == b[0] and np.array_equal(a[1], b[1]) for a, b in alone)
        shifts = zip(one.shifts.values(), again.shifts.values(), strict=True)
        assert all(np.array_equal(a, b) for a, b in shifts)


def test_what_is_found_is_the_same_again(funnel: Net) -> None:
    pytest.importorskip("torch")
    solvers = Noted(40), Noted(40)
    for solver in solvers:
        rounded(funnel, RECIPES[4], solver)
    for one, other in zip(solvers[0].asked[0][1], solvers[1].asked[0][1], strict=True):
        assert np.array_equal(one, other)


def test_blocks_take_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="method 'blocks' takes a solver"):
        WeightRounding([], "numpy", "blocks")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(QError, match="package 'torch'"):
        TorchBlocks()
