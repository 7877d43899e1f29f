"""Blocks of weights rounded together (`quantizer.reconstruction`), by slopes of PyTorch.

Each weight may go to the code on its other side. As AdaRound does for a layer
(`algebra.soft_rounding`), codes are soft between the two, and Adam moves them by slopes of the
loss of the block, of a few samples at a time (BRECQ: Li et al., 2021); but each starts near the
code that its layer was given, so that only what pays for the whole block changes:

    h = 0.9 where that is the upper code, 0.1 where it is the lower.

Weights of a block are many, and on few samples they fit much that is there by chance. So they are
fitted to three quarters of the samples, and what is found is kept where it is better on the rest.
The layers were fitted to all of them, which is in favor of the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.algebra.soft_rounding import SoftCodes, lower_codes
from qdialect.errors import UnsupportedError
from qdialect.packages import package
from qdialect.quantizer.reconstruction import Problem, SoftWeight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Floats = NDArray[np.float32]
    Codes = NDArray[np.int64]

STEPS = 400
_SAMPLES = 8
"""Samples of a step."""
_SOFT = 0.1
_WEIGHT = 100.0
"""What draws codes to one side: 20 times what it is for a layer, as slopes are of few samples."""
_PARTS = 4
"""The last sample of each so many is held out."""


class TorchBlocks:
    """A `Solver`; QError (`missing-package`) without torch."""

    def __init__(self, steps: int = STEPS) -> None:
        self._torch: Any = package("torch")
        self._steps = steps

    def solved(self, problem: Problem) -> Sequence[Codes]:
        from qdialect.plugins.torch.write import torch_module

        start = [weight.start for weight in problem.weights]
        numbers = range(len(problem.inputs))
        held_out = numbers[_PARTS - 1 :: _PARTS]
        fitted = [n for n in numbers if n not in held_out]
        try:
            module = torch_module(problem.function, problem.ctx.blobs, trainable=True)
        except UnsupportedError:
            return start
        block = _Block(self._torch, module, problem)
        before = block.loss(start, fitted)
        if not held_out or not before > 0:
            return start
        found = self._fitted(block, problem.weights, fitted, before)
        return found if block.loss(found, held_out) < block.loss(start, held_out) else start

    def _fitted(
        self, block: _Block, weights: Sequence[SoftWeight], numbers: Sequence[int], before: float
    ) -> Sequence[Codes]:
        """Codes for samples with these numbers, of which so much is lost before."""
        soft = [_soft_codes(weight) for weight in weights]
        random, order = np.random.default_rng(0), list[int]()
        # Both terms are about as large as there are weights.
        scale = sum(weight.start.size for weight in weights) * len(numbers) / before
        for step in range(self._steps):
            if len(order) < min(_SAMPLES, len(numbers)):
                order = random.permutation(numbers).tolist()
            some, order = order[:_SAMPLES], order[_SAMPLES:]
            slopes = block.slopes([each.numbers() for each in soft], some)
            for each, slope in zip(soft, slopes, strict=True):
                each.descend(slope * np.float32(scale / len(some)), step / self._steps)
        return [each.codes() for each in soft]


def _soft_codes(weight: SoftWeight) -> SoftCodes:
    exact = weight.real / weight.steps + weight.zeros
    floors = lower_codes(exact, weight.start, weight.low, weight.high)
    parts = np.where(weight.start > floors, 1 - _SOFT, _SOFT)
    return SoftCodes(floors, parts, weight.steps, weight.zeros, _WEIGHT)


class _Block:
    """The loss of a block, a sum over samples and results, each over the power of the result."""

    def __init__(self, torch: Any, module: Any, problem: Problem) -> None:
        self._torch, self._module, self._weights = torch, module, problem.weights
        module.requires_grad_(False)
        self._inputs = [[torch.from_numpy(a) for a in each] for each in problem.inputs]
        self._targets = [[torch.from_numpy(a) for a in each] for each in problem.targets]
        powers = [[float(a.square().sum()) for a in each] for each in self._targets]
        self._powers = [power or 1.0 for power in np.sum(powers, axis=0).tolist()]

    def loss(self, codes: Sequence[Codes], numbers: Iterable[int]) -> float:
        """That of samples with these numbers."""
        pairs = zip(self._weights, codes, strict=True)
        tensors = [self._torch.from_numpy(w.numbers(each).astype(np.float32)) for w, each in pairs]
        with self._torch.no_grad():
            return sum(float(self._of_sample(n, tensors)) for n in numbers)

    def slopes(self, weights: Sequence[Floats], numbers: Iterable[int]) -> Sequence[Floats]:
        """Those in the numbers of weights; 0 where it does not depend on them."""
        tensors = [self._torch.from_numpy(each).requires_grad_() for each in weights]
        for n in numbers:
            lost = self._of_sample(n, tensors)
            if lost.requires_grad:
                lost.backward()
        return [
            np.zeros_like(each) if tensor.grad is None else tensor.grad.numpy()
            for each, tensor in zip(weights, tensors, strict=True)
        ]

    def _of_sample(self, number: int, weights: Sequence[Any]) -> Any:
        made: Any = self._module(*self._inputs[number], *weights)
        made = [made] if len(self._powers) == 1 else made
        pairs = zip(made, self._targets[number], self._powers, strict=True)
        return sum((one - other).square().sum() / power for one, other, power in pairs)
