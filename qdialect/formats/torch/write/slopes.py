"""What elements of values count for the results of a function: squares of slopes, by torch.

Of a value x, and results y, it is the mean over random directions v of

    (d / dx  sum over float results y of  v y / |y|)^2,

whose expectation is the sum of the squared slopes of all elements of the results, each result over
its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, fx

from qdialect.formats.torch.write.layers import as_list
from qdialect.formats.torch.write.module import ModuleWriter
from qdialect.formats.torch.write.tensor_types import from_array

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import SSAValue

    from qdialect.weights import BlobStore

_LEAST = 1e-30


def squared_slopes(
    function: FuncOp,
    weights: BlobStore,
    values: Sequence[SSAValue],
    samples: Sequence[Sequence[NDArray[Any]]],
    probes: int,
) -> list[dict[SSAValue, NDArray[np.float32]]]:
    """Those of values for each sample (arrays in the order of the arguments), shaped like the
    values; UnsupportedError for a function that has no form in torch."""
    writer = ModuleWriter(function, weights, trainable=False)
    running = _Noisy(writer.write(), {writer.values[value]: value for value in values})
    random = torch.Generator().manual_seed(0)
    found: list[dict[SSAValue, NDArray[np.float32]]] = []
    for sample in samples:
        running.noise.clear()
        made: Any = running.run(*(from_array(np.array(array)) for array in sample))
        results = [y for y in as_list(made) if y.requires_grad]
        sizes: list[float] = [max(float(y.detach().norm()), _LEAST) for y in results]
        noise = list(running.noise.values())
        squares = [torch.zeros_like(each) for each in noise]
        for _ in range(probes):
            total: Any = torch.zeros(())
            for y, size in zip(results, sizes, strict=True):
                total = total + (y * torch.randn(y.shape, generator=random)).sum() / size
            slopes: Any = torch.autograd.grad(total, noise, retain_graph=True, allow_unused=True)
            for square, slope in zip(squares, slopes, strict=True):
                if slope is not None:
                    square += slope.square() / probes
        pairs = zip(running.noise, squares, strict=True)
        found.append({value: square.numpy() for value, square in pairs})
    return found


class _Noisy(fx.Interpreter):
    """Runs a module with noise of 0 added to some nodes, which slopes are followed to."""

    def __init__(self, module: fx.GraphModule, places: Mapping[fx.Node, SSAValue]) -> None:
        super().__init__(module)
        self._places = places
        self.noise: dict[SSAValue, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        """The value of a node, with noise if it gets any."""
        made = super().run_node(n)
        value = self._places.get(n)
        if value is None:
            return made
        self.noise[value] = torch.zeros_like(made, requires_grad=True)
        return made + self.noise[value]
