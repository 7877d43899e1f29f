"""Brute force for the qparams law: every field expanded to one pair per element."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.qparams import Illegal, Layout, ParameterField, QParams, Shape
from qdialect.algebra.qparams.maps import Im2col, IndexMap, Pad

Pairs = NDArray[np.int64]
"""Shape of the tensor plus (2,): bits of the scale, zero point."""

CASES: Counter[str] = Counter()
"""Oracle cases so far, per "operation outcome"."""

RICHNESS = {Layout.TENSOR: 0, Layout.AXIS: 1, Layout.BLOCK: 2}


def expand(field: ParameterField) -> Pairs:
    """The pair of every element, from the definition (law 2.1)."""
    scales = np.frombuffer(field.scales, np.int64).reshape(field.grid)
    zeros = np.frombuffer(field.zero_points, np.int64).reshape(field.grid)
    cell = np.ix_(*(np.arange(s) // b for s, b in zip(field.shape, field.blocks, strict=True)))
    return np.stack([scales[cell], zeros[cell]], axis=-1)


def dequantize(integers: NDArray[np.int64], pairs: Pairs) -> NDArray[np.float64]:
    scales = np.array(pairs[..., 0]).view(np.float64)
    return (integers - pairs[..., 1]) * scales


def coarsest(pairs: Pairs) -> list[int]:
    """Per dimension the largest block size dividing it on whose blocks `pairs` is constant."""
    blocks: list[int] = []
    for k, size in enumerate(pairs.shape[:-1]):
        rows = np.moveaxis(pairs, k, 0)
        blocks.append(
            max(
                b
                for b in range(1, size + 1)
                if size % b == 0 and np.array_equal(rows, rows[np.arange(size) // b * b])
            )
        )
    return blocks


# -- random fields -------------------------------------------------------------


def vector(rng: random.Random, count: int) -> tuple[list[float], list[int]]:
    """Distinct, uniform, periodic, run-constant or two-valued pairs."""
    kind = rng.choice(("distinct", "uniform", "periodic", "runs", "two"))
    divisors = [d for d in range(1, count + 1) if count % d == 0]
    part = rng.choice(divisors)
    code = {
        "distinct": list(range(count)),
        "uniform": [0] * count,
        "periodic": [k % part for k in range(count)],
        "runs": [k // part for k in range(count)],
        "two": [rng.randrange(2) for _ in range(count)],
    }[kind]
    vary = rng.choice(("scale", "zero", "both"))
    scales = [0.5 * (c + 1) if vary != "zero" else 0.25 for c in code]
    zeros = [c - 3 if vary != "scale" else 1 for c in code]
    return scales, zeros


def random_qparams(
    rng: random.Random, shape: Shape, layout: Layout | None = None, ragged: bool = False
) -> QParams:
    layout = layout or rng.choice(tuple(Layout))
    if layout is Layout.TENSOR or not shape or 0 in shape:
        scales, zeros = vector(rng, rng.choice((1, 2, 3)))
        return QParams.per_tensor("i8", scales[-1], zeros[-1])
    if layout is Layout.AXIS:
        axis = rng.randrange(len(shape))
        return QParams.per_axis("i8", axis, *vector(rng, shape[axis]))
    blocks = [rng.choice([b for b in range(1, s + 1) if ragged or s % b == 0]) for s in shape]
    grid = [-(-s // b) for s, b in zip(shape, blocks, strict=True)]
    listed = [(k, b) for k, b in enumerate(blocks) if b != shape[k] or rng.random() < 0.3]
    return QParams.blockwise("i8", listed, grid, *vector(rng, prod(grid)))


def random_field(
    rng: random.Random, shape: Shape, layout: Layout | None = None, ragged: bool = False
) -> ParameterField:
    return ParameterField.of(random_qparams(rng, shape, layout, ragged), shape)


def distinct_like(fields: Sequence[ParameterField]) -> list[ParameterField]:
    """The same layouts with pairwise different pairs, across all fields too."""
    result: list[ParameterField] = []
    start = 0
    for field in fields:
        values = np.arange(start, start + field.count, dtype=np.float64) + 1.0
        zeros = np.zeros(field.count, np.int64).tobytes()
        result.append(
            ParameterField(
                field.storage,
                field.expressed,
                field.shape,
                field.blocks,
                values.tobytes(),
                zeros,
            )
        )
        start += field.count
    return result


# -- checks --------------------------------------------------------------------


def moved(index_map: IndexMap, fields: Sequence[ParameterField]) -> tuple[Pairs, NDArray[np.bool_]]:
    """sigma o phi per element, and where phi is defined (zeros elsewhere)."""
    operand, flat = index_map.gather_index([field.shape for field in fields])
    pairs = np.zeros((*operand.shape, 2), np.int64)
    for number, field in enumerate(fields):
        here = operand == number
        pairs[here] = expand(field).reshape(-1, 2)[flat[here]]
    return pairs, operand >= 0


def check_pull(
    index_map: IndexMap, fields: Sequence[ParameterField], layout: Layout | None, rng: random.Random
) -> ParameterField | Illegal:
    """Soundness, coarseness and completeness of one pull."""
    result = index_map.pull(fields, layout=layout)
    limit = layout or max((Layout.AXIS, *(f.layout for f in fields)), key=RICHNESS.__getitem__)
    pairs, defined = moved(index_map, fields)
    if isinstance(result, Illegal):
        _justify_pull(index_map, fields, result, limit, pairs, defined)
    else:
        assert result.shape == pairs.shape[:-1] == index_map.output_shape([f.shape for f in fields])
        assert RICHNESS[result.layout] <= RICHNESS[limit]
        assert result == result.canonical()
        got = expand(result)
        assert np.array_equal(got[defined], pairs[defined])
        _check_values(index_map, fields, got, defined, rng)
        ragged = any(f.to_array().ragged(k) for f in fields for k in f.blocked)
        if defined.all() and defined.size and not ragged:
            best = coarsest(got)
            if limit is Layout.BLOCK:
                assert list(result.blocks) == best
            else:
                varying = [k for k, b in enumerate(best) if b != result.shape[k]]
                assert list(result.blocked) == varying
    outcome = result.code if isinstance(result, Illegal) else "legal"
    CASES[f"{type(index_map).__name__} pull {outcome}"] += 1
    return result


def _check_values(
    index_map: IndexMap,
    fields: Sequence[ParameterField],
    got: Pairs,
    defined: NDArray[np.bool_],
    rng: random.Random,
) -> None:
    """deq o f = f o deq on random integers."""
    generator = np.random.default_rng(rng.randrange(1 << 30))
    integers = [generator.integers(-128, 128, field.shape) for field in fields]
    real = [dequantize(q, expand(f)) for q, f in zip(integers, fields, strict=True)]
    after = dequantize(index_map.apply(integers, 0), got)
    assert np.array_equal(after[defined], index_map.apply(real, 0.0)[defined])


def _justify_pull(
    index_map: IndexMap,
    fields: Sequence[ParameterField],
    refusal: Illegal,
    limit: Layout,
    pairs: Pairs,
    defined: NDArray[np.bool_],
) -> None:
    """No encoding that `limit` allows expresses sigma o phi."""
    shape = pairs.shape[:-1]
    if refusal.code == "empty":
        assert 0 in shape or any(0 in field.shape for field in fields)
        return
    if refusal.code == "select-params":
        spread = [np.broadcast_to(expand(field), (*shape, 2)) for field in fields]
        assert not np.array_equal(*spread)
        return
    if refusal.code == "pad-value":
        border = index_map if isinstance(index_map, Pad) else index_map.border
        _justify_pad(border, fields[0])
        return
    sample = pairs if defined.all() else expand(fields[0])
    dims = [k for k, b in enumerate(coarsest(sample)) if b != sample.shape[k]]
    if isinstance(index_map, Im2col) and not defined.all():
        # The border between the patches would need parameters of its own.
        assert any(k >= 2 for k in dims) or len(dims) > RICHNESS[limit]
        return
    varying = len(dims)
    assert varying > RICHNESS[limit], refusal
    assert limit is not Layout.BLOCK, refusal


def _justify_pad(pad: Pad, field: ParameterField) -> None:
    """Some border element has settled parameters that cannot hold the value, or none can."""
    pairs = expand(field)
    widths = list(zip(pad.low, pad.high, strict=True))
    edges = np.pad(pairs, [*widths, (0, 0)], "edge")
    inside = np.pad(np.ones(field.shape, np.bool_), widths)
    bad = np.array(
        [
            not edge_inside and not representable(pad.value, pair)
            for pair, edge_inside in zip(edges.reshape(-1, 2), inside.ravel(), strict=True)
        ]
    ).reshape(inside.shape)
    settled = np.ones(inside.shape, np.bool_)
    for k, block in enumerate(coarsest(pairs)):
        if block != field.shape[k]:
            position = np.arange(inside.shape[k])
            along = [-1 if d == k else 1 for d in range(inside.ndim)]
            kept = (position >= pad.low[k]) & (position < pad.low[k] + field.shape[k])
            settled &= kept.reshape(along)
    unit = np.array([np.float64(1.0).view(np.int64), 0])
    assert (bad & settled).any() or (bad.any() and not representable(pad.value, unit))


def representable(value: float, pair: NDArray[np.int64]) -> bool:
    """Whether one of the 256 codes of i8 stands for `value`: a whole number of steps from zero."""
    steps = Fraction(value) / Fraction(float(pair[:1].view(np.float64)[0]))
    return steps.denominator == 1 and -128 <= steps + int(pair[1]) < 128


def check_structural(
    index_map: IndexMap, fields: Sequence[ParameterField], layout: Layout | None
) -> None:
    """Structural legality is value legality for all-different parameters."""
    result = index_map.pull(fields, structural=True, layout=layout)
    other = index_map.pull(distinct_like(fields), layout=layout)
    name = type(index_map).__name__
    if isinstance(result, Illegal):
        assert isinstance(other, Illegal)
        CASES[f"{name} structural refused"] += 1
        return
    assert isinstance(other, ParameterField)
    assert result.blocks == other.blocks
    pairs, defined = moved(index_map, fields)
    assert np.array_equal(expand(result)[defined], pairs[defined])
    CASES[f"{name} structural legal"] += 1


def check_push(
    index_map: IndexMap, out: ParameterField, shapes: Sequence[Shape], layout: Layout | None
) -> None:
    """Pull of push is the wanted field; a refusal means the operands' are not determined."""
    result = index_map.push(out, shapes, layout=layout)
    name = type(index_map).__name__
    if isinstance(result, Illegal):
        CASES[f"{name} push {result.code}"] += 1
        if layout is Layout.BLOCK:
            _justify_push(index_map, out, shapes)
        return
    CASES[f"{name} push legal"] += 1
    assert [field.shape for field in result] == list(shapes)
    pulled = index_map.pull(result, layout=Layout.BLOCK)
    assert isinstance(pulled, ParameterField), pulled
    assert np.array_equal(expand(pulled), expand(out))


def _justify_push(index_map: IndexMap, out: ParameterField, shapes: Sequence[Shape]) -> None:
    operand, flat = index_map.gather_index(shapes)
    read = set(zip(operand.ravel().tolist(), flat.ravel().tolist(), strict=True))
    unread = len(read - {(-1, -1)}) < sum(prod(shape) for shape in shapes)
    wanted: dict[tuple[int, int], tuple[int, int]] = {}
    clash = (-1, -1) in read
    pairs = expand(out).reshape(-1, 2).tolist()
    for at, pair in zip(
        zip(operand.ravel().tolist(), flat.ravel().tolist(), strict=True), pairs, strict=True
    ):
        clash |= wanted.setdefault(at, tuple(pair)) != tuple(pair)
    assert unread or clash
