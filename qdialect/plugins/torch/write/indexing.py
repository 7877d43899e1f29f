"""Rows of ops that read or write elements by index: gather, select, insert and lookups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from qdialect.ir import ops as nn
from qdialect.plugins.torch.write.grid import Grid
from qdialect.plugins.torch.write.rows import Properties, Row, movement


def gather(p: Properties, x: Tensor, indices: Tensor) -> Tensor:
    """Negative indices count from the end; torch refuses what is outside."""
    axis: int = p["axis"] % x.dim()
    flat = indices.reshape(-1).to(torch.int64)
    places = torch.where(flat < 0, flat + x.shape[axis], flat)
    taken = x.index_select(axis, places)
    return taken.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _select(p: Properties, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(condition, a, b)


def _insert(p: Properties, x: Tensor, update: Tensor) -> Tensor:
    places = [
        start + step * torch.arange(count, device=x.device)
        for count, start, step in zip(update.shape, p["starts"], p["steps"], strict=True)
    ]
    where = [at.reshape(-1, *(1,) * (len(places) - 1 - d)) for d, at in enumerate(places)]
    return x.index_put(tuple(where), update.to(x.dtype)) if where else update


def _table(p: Properties, x: Tensor, entries: Tensor) -> Tensor:
    raise NotImplementedError  # a lookup is of codes: `TrainableTable` has it on floats


def _table_codes(p: Properties, grids: Sequence[Grid | None], x: Tensor, entries: Tensor) -> Tensor:
    """One entry per element, by the number of its code from the lowest one up."""
    grid = grids[0]
    assert grid is not None
    return entries.reshape(-1)[x.to(torch.int64) - lowest_code(grid)]


def lowest_code(grid: Grid) -> int:
    """The code of the first entry of a table."""
    return grid.qparams.storage.full_range[0]


ROWS: Mapping[str, Row] = {
    nn.GatherOp.name: movement(gather),
    nn.SelectOp.name: movement(_select),
    nn.InsertOp.name: movement(_insert),
    nn.TableOp.name: Row(_table, codes=_table_codes, wide=False),
}
