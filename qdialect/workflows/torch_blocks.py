"""Blocks of weights rounded together (`quantization.reconstruction`), by PyTorch.

Of each weight between two codes, c and c + 1, the part h(v) of a step is learned with the rectified
sigmoid of `numerics.soft_rounding`, along with factors e^a of steps that may change:

    w' = s e^a (c + h(v) - z),

by Adam on a few samples at a time, for the loss of the block over that of the codes it starts from,
and a push of each h to 0 or 1, which grows in the last part of the steps (AdaRound). One of the two
codes is the one that the weight starts from, the other is on the side of the weight, and h starts
where w' is the weight. Every third sample is kept aside: what is found is taken only if it is
better on these and on all of them, else the start is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.dialects.onnx import package
from qdialect.errors import UnsupportedError
from qdialect.numerics.soft_rounding import GAMMA, ZETA, sharpness
from qdialect.quantization.reconstruction import Problem, SoftWeight, Solution
from qdialect.reference import argument_names

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import SSAValue

    from qdialect.context import QContext

    Arrays = Mapping[str, NDArray[Any]]
    Array = NDArray[np.float64]

STEPS = 400
_SAMPLES = 4
"""Of a step."""
_PROBES = 4
"""Random directions of the outputs whose slopes are followed."""
_RATE, _FACTOR_RATE = 0.05, 3e-4
_PUSH = 20.0
"""What the push of all weights together is worth, where the loss is 1."""
_WARM = 0.2
_ASIDE = 3
"""Of so many samples one is kept aside."""


class TorchBlocks:
    """A `Solver`; QError (`missing-package`) without torch."""

    def __init__(self, steps: int = STEPS) -> None:
        self._torch: Any = package("torch")
        self.steps = steps

    def counts(
        self,
        function: FuncOp,
        ctx: QContext,
        values: Sequence[SSAValue],
        samples: Sequence[Arrays],
    ) -> Sequence[Mapping[SSAValue, NDArray[Any]]] | None:
        """See `Solver`: the mean square of the slopes of outputs in random directions, each output
        over its size."""
        from qdialect.formats.torch.write.slopes import squared_slopes

        try:
            given = [[sample[name] for name in argument_names(function)] for sample in samples]
            return squared_slopes(function, ctx.blobs, values, given, _PROBES)
        except UnsupportedError:
            return None

    def solved(self, problem: Problem) -> Solution | None:
        """See `Solver`."""
        from qdialect.formats.torch.write import torch_module

        try:
            block = torch_module(problem.function, problem.ctx.blobs, trainable=True)
        except UnsupportedError:
            return None
        return _Search(self._torch, block, problem).found(self.steps)


class _Soft:
    """One weight as a tensor that slopes go through."""

    def __init__(self, torch: Any, weight: SoftWeight) -> None:
        self._torch, self.weight = torch, weight
        exact = weight.real / weight.steps + weight.zeros
        start = weight.start
        below = np.where(exact < start, start - 1, start)
        self.base = np.clip(below, weight.low, weight.high - 1)
        first = np.clip(exact - self.base, 0.01, 0.99)
        logits = np.log((first - GAMMA) / (ZETA - first))
        self.logits = torch.tensor(logits, dtype=torch.float32, requires_grad=True)
        self.factors: Any = None
        if weight.cells is not None:
            self.factors = torch.zeros(int(weight.cells.max()) + 1, requires_grad=True)
            self._cells = torch.tensor(weight.cells)
        self._offsets = torch.tensor(self.base - weight.zeros, dtype=torch.float32)
        self._steps = torch.tensor(weight.steps, dtype=torch.float32)

    def parts(self) -> Any:
        """h(v)."""
        return (self._torch.sigmoid(self.logits) * (ZETA - GAMMA) + GAMMA).clamp(0, 1)

    def made(self, parts: Any) -> Any:
        """The numbers for these parts of a step."""
        steps = self._steps
        if self.factors is not None:
            steps = steps * self.factors.exp()[self._cells]
        return (self._offsets + parts) * steps

    def hard(self) -> tuple[NDArray[np.int64], Array | None]:
        """Codes, and factors of steps."""
        codes = self.base + (self.parts().detach().numpy() >= 0.5)
        factors = None if self.factors is None else self.factors.detach().exp().numpy()
        return codes.astype(np.int64), None if factors is None else factors.astype(np.float64)


class _Search:
    """The steps for one block."""

    def __init__(self, torch: Any, block: Any, problem: Problem) -> None:
        self._torch, self._block, self._problem = torch, block, problem
        self._soft = [_Soft(torch, weight) for weight in problem.weights]
        self._inputs = [[torch.from_numpy(a) for a in each] for each in problem.inputs]
        self._targets = [[torch.from_numpy(a) for a in each] for each in problem.targets]
        numbers = range(len(self._targets))
        counts = problem.counts
        if counts is None:
            self._counts = [[torch.ones(()) for _ in each] for each in self._targets]
        else:
            self._counts = [[torch.from_numpy(a) for a in each] for each in counts]
        self._power: list[float] = []
        for k in range(len(self._targets[0])):
            powers = (self._counts[n][k] * self._targets[n][k].square() for n in numbers)
            self._power.append(sum(float(each.sum()) for each in powers) or 1.0)

    def found(self, steps: int) -> Solution:
        """The best of what is found and of the start."""
        torch, problem = self._torch, self._problem
        start = [(weight.start, None) for weight in problem.weights]
        before = self._losses(start)
        total = float(before.sum())
        if not total > 0:
            return _solution(start)
        seen = [n for n in range(len(before)) if n % _ASIDE != 1] if len(before) >= _ASIDE else [0]
        logits = [soft.logits for soft in self._soft]
        factors = [soft.factors for soft in self._soft if soft.factors is not None]
        moved = [{"params": logits, "lr": _RATE}, {"params": factors, "lr": _FACTOR_RATE}]
        descent = torch.optim.Adam(moved)
        weights = sum(each.numel() for each in logits)
        random = np.random.default_rng(0)
        order: list[int] = []
        scale = len(before) / total
        for step in range(steps):
            if len(order) < _SAMPLES:
                order += [seen[n] for n in random.permutation(len(seen))]
            some, order = order[:_SAMPLES], order[_SAMPLES:]
            parts = [soft.parts() for soft in self._soft]
            made = [soft.made(part) for soft, part in zip(self._soft, parts, strict=True)]
            loss: Any = sum(self._loss(n, made) for n in some) * (scale / len(some))
            warm = (step / steps - _WARM) / (1 - _WARM)
            if warm > 0:
                power = sharpness(warm)
                away = sum((1 - (2 * part - 1).abs() ** power).sum() for part in parts)
                loss = loss + away * (_PUSH / weights)
            descent.zero_grad()
            loss.backward()
            descent.step()
        made = [soft.hard() for soft in self._soft]
        after = self._losses(made)
        aside = [n for n in range(len(before)) if n not in seen] or seen
        better = after.sum() < before.sum() and after[aside].sum() < before[aside].sum()
        return _solution(made if better else start)

    def _loss(self, number: int, weights: Sequence[Any]) -> Any:
        """The loss of a sample, of results over their power."""
        made: Any = self._block(*self._inputs[number], *weights)
        listed: list[Any] = [made] if len(self._power) == 1 else list(made)
        loss: Any = 0.0
        for k, result in enumerate(listed):
            error = (result - self._targets[number][k]).square() * self._counts[number][k]
            loss = loss + error.sum() / self._power[k]
        return loss

    def _losses(self, made: Sequence[tuple[Any, Array | None]]) -> Array:
        """Those of all samples, for codes and factors."""
        torch = self._torch
        weights = [
            torch.tensor(weight.numbers(codes, factors), dtype=torch.float32)
            for weight, (codes, factors) in zip(self._problem.weights, made, strict=True)
        ]
        with torch.no_grad():
            return np.array([float(self._loss(n, weights)) for n in range(len(self._inputs))])


def _solution(made: Sequence[tuple[Any, Array | None]]) -> Solution:
    return Solution([codes for codes, _ in made], [factors for _, factors in made])
