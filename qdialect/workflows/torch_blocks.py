"""Blocks of weights rounded together (`quantization.reconstruction`), by slopes of PyTorch.

Where a code c of a weight w, with step s and zero point z, may go to the code on the other side of
w, by d = s or -s, the loss L of the block changes, to second order and for each weight alone, by

    g d + h d^2 / 2,     g = dL/dw',     h = 2 E (d(v f)/dw')^2 / E z^2

with random v of mean 0 and variance 1: the diagonal of the Gauss-Newton matrix. So of the weights
that gain by this the best go to their other code at once: all of them, or half, a quarter, and so
on, the first number for which L falls. Every third sample is kept aside, and L must fall on these, too.
That is done again with slopes at the new codes until nothing falls. So what is found is never worse
than the start.
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
_ASIDE = 3
"""Of so many samples one is kept aside."""


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
        numbers = range(len(self._inputs))
        self._aside = [n for n in numbers if n % _ASIDE == 1]
        self._seen = [n for n in numbers if n % _ASIDE != 1]

    def found(self, rounds: int) -> Sequence[Codes]:
        """The best that is found from the start."""
        codes = [weight.start for weight in self._weights]
        lost = self._losses(codes)
        curvatures = self._curvatures(codes)
        first = lost
        for _ in range(rounds):
            better = self._step(codes, lost, curvatures)
            if better is None:
                break
            codes, lost = better
        import os
        if os.environ.get("BLK"):
            start = [weight.start for weight in self._weights]
            print("  loss", first, lost, "rounds", _, "changed", sum(int((a!=b).sum()) for a,b in zip(codes,start)), "of", sum(a.size for a in start), flush=True)
        return codes

    def _step(
        self, codes: Sequence[Codes], lost: Array, curvatures: Sequence[Array]
    ) -> tuple[Sequence[Codes], Array] | None:
        """Better codes and what is lost with them, or None."""
        others, gains = list["Codes"](), list["Array"]()
        for weight, each, slope, curvature in zip(
            self._weights, codes, self._slopes(codes), curvatures, strict=True
        ):
            exact = weight.real / weight.steps + weight.zeros
            other = np.where(exact > each, each + 1, each - 1)
            inside = (other >= weight.low) & (other <= weight.high)
            by = (other - each) * weight.steps
            gain = -(slope * by + curvature * by**2 / 2)
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

    def _slopes(self, codes: Sequence[Codes]) -> list[Array]:
        """Those of the loss of samples that are seen."""
        weights = self._numbers(codes, slopes=True)
        for n in self._seen:
            self._loss(n, weights).backward()
        return [weight.grad.double().numpy() for weight in weights]

    def _curvatures(self, codes: Sequence[Codes]) -> list[Array]:
        """The diagonal of the Gauss-Newton matrix of the same loss."""
        torch = self._torch
        weights = self._numbers(codes, slopes=True)
        found = [torch.zeros_like(weight) for weight in weights]
        for n in self._seen:
            total: Any = torch.zeros(())
            for made, power in zip(self._made(n, weights), self._power, strict=True):
                random = torch.randn(made.shape, generator=self._random)
                total = total + (made * random).sum() * (2 / power) ** 0.5
            slopes = torch.autograd.grad(total, weights, allow_unused=True)
            for each, slope in zip(found, slopes, strict=True):
                if slope is not None:
                    each += slope.square()
        return [each.double().numpy() for each in found]

    def _losses(self, codes: Sequence[Codes]) -> Array:
        """Those of the samples that are seen, and of those aside."""
        weights = self._numbers(codes)
        with self._torch.no_grad():
            return np.array(
                [sum(float(self._loss(n, weights)) for n in part) for part in (self._seen, self._aside) if part]
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
        arrays = (
            weight.numbers(each) for weight, each in zip(self._weights, codes, strict=True)
        )
        return [
            torch.tensor(array, dtype=torch.float32, requires_grad=slopes) for array in arrays
        ]
