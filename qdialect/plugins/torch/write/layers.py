"""One layer of a module for each op: codes or floats in, codes or floats out.

    on codes      the op moves stored integers, or tells their order
    in floats     dequantize, a float op, quantize: as an ONNX or a PyTorch model says it
    in the reals  exact sums and products, rounded once
    trainable     all values are floats, and quantizing is rounding to the grid

Layers hold no weights: those are operands.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Module, ModuleDict

from qdialect.algebra.rounding import Rounding
from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.grid import Grid
from qdialect.plugins.torch.write.rows import Number, Properties, Results, Row

_NARROW = (torch.float16, torch.bfloat16)


class Layer(Module):
    """An op: its row, properties, and the grids of its operands and results."""

    def __init__(
        self,
        op: str,
        row: Row,
        properties: Properties,
        operands: Sequence[Grid | None],
        results: Sequence[Grid | None],
        rounding: Rounding,
    ) -> None:
        super().__init__()
        self.op, self.row, self.properties, self.rounding = op, row, properties, rounding
        self._counts = len(operands), len(results)
        self.operand_grids, self.result_grids = _numbered(operands), _numbered(results)

    def extra_repr(self) -> str:
        """The op's name and properties."""
        shown = {n: v for n, v in self.properties.values.items() if n != "rounding"}
        return ", ".join([self.op, *(f"{name}={value}" for name, value in shown.items())])

    def grids_of_operands(self) -> list[Grid | None]:
        """The grid of each operand, None of what is not quantized."""
        return _listed(self.operand_grids, self._counts[0])

    def grids_of_results(self) -> list[Grid | None]:
        """The grid of each result, None of what is not quantized."""
        return _listed(self.result_grids, self._counts[1])

    def on_floats(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The function on floats; narrow ones in f32."""
        if self.row.wide:
            values = [v.float() if v.dtype in _NARROW else v for v in values]
        return as_list(self.row.floats(self.properties, *values))

    def finished(self, results: Sequence[Tensor]) -> Results:
        """Results that are not quantized in their type; one alone, several as a tuple."""
        grids = self.grids_of_results()
        found = [
            value.to(kind) if grid is None else value
            for value, grid, kind in zip(results, grids, self.properties.kinds, strict=True)
        ]
        return found[0] if len(found) == 1 else tuple(found)


def _numbered(grids: Sequence[Grid | None]) -> ModuleDict:
    return ModuleDict({str(n): grid for n, grid in enumerate(grids) if grid is not None})


def _listed(grids: ModuleDict, count: int) -> list[Grid | None]:
    known = dict(grids.items())
    found = (known.get(str(n)) for n in range(count))
    return [grid if isinstance(grid, Grid) else None for grid in found]


class PlainLayer(Layer):
    """Nothing is quantized."""

    def forward(self, *values: Tensor) -> Results:
        """The function on floats or integers."""
        return self.finished(self.on_floats(values))


class CodesLayer(Layer):
    """Stored integers are moved or compared."""

    def forward(self, *values: Tensor) -> Results:
        """The function on codes."""
        assert self.row.codes is not None
        grids = [*self.grids_of_operands(), *self.grids_of_results()]
        return self.finished(as_list(self.row.codes(self.properties, grids, *values)))


class FloatsLayer(Layer):
    """Dequantize, op, quantize.

    Sums of products are taken in doubles and rounded once to f32: the same on every machine.
    """

    def forward(self, *values: Tensor) -> Results:
        """Codes of the results."""
        grids = self.grids_of_operands()
        floats = [
            value if grid is None else grid.dequantize(value)
            for value, grid in zip(values, grids, strict=True)
        ]
        results = [
            value if grid is None else grid.quantize(value, self.rounding)
            for value, grid in zip(self.on_floats(floats), self.grids_of_results(), strict=True)
        ]
        return self.finished(results)


class SummedLayer(FloatsLayer):
    """A layer in floats whose sums are taken in doubles."""

    def on_floats(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The function in doubles, rounded to f32."""
        kind = torch.promote_types(values[0].dtype, torch.float32)
        doubles = [value.double() for value in values]
        return [value.to(kind) for value in as_list(self.row.floats(self.properties, *doubles))]


class RealsLayer(Layer):
    """The op in real arithmetic, rounded once."""

    def forward(self, *values: Tensor) -> Results:
        """Codes, or the nearest floats."""
        numbers = [
            _number(value, grid)
            for value, grid in zip(values, self.grids_of_operands(), strict=True)
        ]
        if self.row.numbers is not None:
            reals = [self.row.numbers(self.properties, *numbers)]
        else:
            doubles = [
                n.approximate if v.is_floating_point() or n.grid else v
                for n, v in zip(numbers, values, strict=True)
            ]
            reals = [Exact.of(v) for v in as_list(self.row.floats(self.properties, *doubles))]
        kinds, grids = self.properties.kinds, self.grids_of_results()
        results = [
            self._stored(real, grid, kind)
            for real, grid, kind in zip(reals, grids, kinds, strict=True)
        ]
        return self.finished(results)

    def _stored(self, real: Exact | Tensor, grid: Grid | None, kind: torch.dtype) -> Tensor:
        if isinstance(real, Tensor):
            return real
        return real.to_float(kind) if grid is None else grid.store(real, self.rounding)


class TrainableLayer(Layer):
    """All values are floats; those of quantized types are numbers of the grid."""

    def forward(self, *values: Tensor) -> Results:
        """Floats, on the grid of each result."""
        results = self.on_floats(values)
        if not self.row.moves:
            results = [
                value if grid is None else grid.fake_quantize(value, self.rounding)
                for value, grid in zip(results, self.grids_of_results(), strict=True)
            ]
        return self.finished(results)


class TrainableTable(TrainableLayer):
    """A lookup: its gradient is the slope between the entries around."""

    def forward(self, *values: Tensor) -> Results:
        """The entries, as numbers."""
        x, entries = values
        source, _ = self.grids_of_operands()
        (target,) = self.grids_of_results()
        assert source is not None
        places = source.quantize(x.detach()).to(torch.int64) - source.qparams.storage.full_range[0]
        numbers = entries.reshape(-1)
        if target is not None:
            numbers = target.dequantize(numbers) if target.is_per_tensor else numbers
        after = (places + 1).clamp(max=numbers.numel() - 1)
        before = (places - 1).clamp(min=0)
        scales = source.scales(x.shape).to(x.dtype)
        slope = (numbers[after] - numbers[before]) / ((after - before) * scales)
        return self.finished([numbers[places] + slope * (x - x.detach())])


def _number(value: Tensor, grid: Grid | None) -> Number:
    if grid is None:
        one = torch.ones((1,) * value.dim(), dtype=torch.float64, device=value.device)
        return Number(value.to(torch.float64), one)
    return Number(grid.offsets(value), grid.scales(value.shape), grid)


def as_list(results: Results) -> list[Tensor]:
    """One result or several, as a list."""
    return [results] if isinstance(results, Tensor) else list(results)
