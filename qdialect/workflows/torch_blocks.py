"""Blocks of weights rounded together (`quantization.reconstruction`), by slopes of PyTorch.

Where a code of a weight w, with step s, goes to the one on the other side of w, by d = s or -s, the
loss L of the block changes, to second order and for each weight alone, by

    g d + h d^2 / 2,     g = dL/dw',     h = 2 E (d(v f)/dw')^2 / E z^2

with random v of independent elements of mean 0 and variance 1: h is the diagonal of the
Gauss-Newton matrix. Of the weights that gain by this, the best go to their other codes at once: all
of them, or half, a quarter and so on, the first number for which L falls. That is done again, with
slopes at the new codes, until L falls no more.

The samples are in parts, and a weight gains what it gains on the part where that is least; L must
fall on each part, too. So of what is there by chance on few samples little is taken, and what is
found is on no part worse than the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.dialects.onnx import package
from qdialect.errors import UnsupportedError
from qdialect.quantization.reconstruction import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.int64]

ROUNDS = 24
_PARTS = 4


class TorchBlocks:
    """A `Solver`; QError (`missing-package`) without torch."""

    def __init__(self, rounds: int = ROUNDS) -> None:
        self._torch: Any = package("torch")
        self.rounds = rounds

    def solved(self, problem: Problem) -> Sequence[Codes]:
        """See `Solver`."""
        from qdialect.formats.torch.write import torch_module

        try:
            block = torch_module(problem.function, problem.ctx.blobs, trainable=True)
        except UnsupportedError:
            return [weight.start for weight in problem.weights]
        return _Search(self._torch, block, problem).found(self.rounds)


class _Search:
    """The search for the codes of one block."""

    def __init__(self, torch: Any, block: Any, problem: Problem) -> None:
        self._torch, self._block, self._weights = torch, block, problem.weights
        self._inputs = [[torch.from_numpy(a) for a in each] for each in problem.inputs]
        self._targets = [[torch.from_numpy(a) for a in each] for each in problem.targets]
        powers = [[float(a.square().sum()) for a in each] for each in self._targets]
        self._power = [power or 1.0 for power in np.sum(powers, axis=0).tolist()]
        self._random = torch.Generator().manual_seed(0)
        #: so many weights at most go to their other code at once
        self._most = sum(weight.start.size for weight in problem.weights)
        #: the samples in parts, on each of which what is found must be better
        count = len(self._inputs)
        self._parts = [range(n, count, _PARTS) for n in range(min(_PARTS, count))]

    def found(self, rounds: int) -> Sequence[Codes]:
        """The best that is found from the start."""
        codes: Sequence[Codes] = [weight.start for weight in self._weights]
        lost, curvatures = self._losses(codes), self._curvatures(codes)
        for _ in range(rounds):
            better = self._step(codes, lost, curvatures)
            if better is None:
                break
            codes, lost = better
        return codes

    def _step(
        self, codes: Sequence[Codes], lost: Array, curvatures: Sequence[Array]
    ) -> tuple[Sequence[Codes], Array] | None:
        """Better codes and what is lost with them, or None."""
        others: list[Codes] = []
        gains: list[Array] = []
        slopes = zip(*(self._slopes(codes, part) for part in self._parts), strict=True)
        for weight, each, some, curvature in zip(
            self._weights, codes, slopes, curvatures, strict=True
        ):
            exact = weight.real / weight.steps + weight.zeros
            other = np.where(exact > each, each + 1, each - 1)
            inside = (other >= weight.low) & (other <= weight.high)
            by = (other - each) * weight.steps
            gain = -(np.max([slope * by for slope in some], axis=0) + curvature * by**2 / 2)
            others.append(other)
            gains.append(np.where(inside, gain, 0.0))
        order = np.sort(np.concatenate([gain.ravel() for gain in gains]))[::-1]
        count = min(int(np.count_nonzero(order > 0)), self._most)
        while count:
            least = order[count - 1]
            made = [
                np.where(gain >= least, other, each)
                for each, other, gain in zip(codes, others, gains, strict=True)
            ]
            after = self._losses(made)
            if np.all(after < lost):
                self._most = 2 * count
                return made, after
            count //= 2
        return None

    def _slopes(self, codes: Sequence[Codes], part: Sequence[int]) -> list[Array]:
        """Those of the loss of some samples."""
        weights = self._numbers(codes, slopes=True)
        found = [np.zeros(each.shape) for each in codes]
        for n in part:
            for each, slope in zip(
                found, self._gradients(self._loss(n, weights), weights), strict=True
            ):
                each += slope
        return found

    def _curvatures(self, codes: Sequence[Codes]) -> list[Array]:
        """The diagonal of the Gauss-Newton matrix of the mean loss of a part."""
        torch = self._torch
        weights = self._numbers(codes, slopes=True)
        found = [np.zeros(each.shape) for each in codes]
        for n in range(len(self._inputs)):
            total: Any = torch.zeros(())
            for made, power in zip(self._made(n, weights), self._power, strict=True):
                random = torch.randn(made.shape, generator=self._random)
                total = total + (made * random).sum() * (2 / power) ** 0.5
            for each, slope in zip(found, self._gradients(total, weights), strict=True):
                each += np.square(slope) / len(self._parts)
        return found

    def _gradients(self, total: Any, weights: Sequence[Any]) -> list[Array]:
        """Those of a number by weights, 0 where it does not depend on them."""
        if not total.requires_grad:
            return [np.zeros(weight.shape) for weight in weights]
        grad = self._torch.autograd.grad
        found = grad(total, weights, allow_unused=True, materialize_grads=True)
        return [slope.double().numpy() for slope in found]

    def _losses(self, codes: Sequence[Codes]) -> Array:
        """Those of each part of the samples."""
        weights = self._numbers(codes)
        with self._torch.no_grad():
            return np.array(
                [sum(float(self._loss(n, weights)) for n in part) for part in self._parts]
            )

    def _loss(self, number: int, weights: Sequence[Any]) -> Any:
        """The loss of a sample, of results over their power."""
        pairs = zip(self._made(number, weights), self._targets[number], self._power, strict=True)
        return sum((made - target).square().sum() / power for made, target, power in pairs)

    def _made(self, number: int, weights: Sequence[Any]) -> Sequence[Any]:
        made: Any = self._block(*self._inputs[number], *weights)
        return [made] if len(self._power) == 1 else made

    def _numbers(self, codes: Sequence[Codes], *, slopes: bool = False) -> list[Any]:
        torch = self._torch
        arrays = (weight.numbers(each) for weight, each in zip(self._weights, codes, strict=True))
        return [torch.tensor(array, dtype=torch.float32, requires_grad=slopes) for array in arrays]
