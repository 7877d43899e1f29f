"""Law 2.3 as stated, and reshapes with unknown sizes, against brute force."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import numpy as np
import pytest
from qparams_oracle import CASES, coarsest, expand, moved, random_qparams, vector
from random_maps import factorization, random_shape

from qdialect.algebra.qparams import DYNAMIC, Illegal, Layout, ParameterField, QParams, Shape
from qdialect.algebra.qparams.maps import (
    Concat,
    DepthToSpace,
    Flatten,
    Gather,
    Im2col,
    IndexMap,
    Pad,
    Reshape,
    Slice,
    SpaceToDepth,
    Transpose,
    Unsqueeze,
)


def run_and_period(pairs: list[tuple[float, int]]) -> tuple[int, int]:
    """(g, d) of the theorem: aligned run length and minimal period of a vector."""
    size = len(pairs)
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    d = next(n for n in divisors if all(pairs[k] == pairs[k % n] for k in range(size)))
    g = max(
        n for n in divisors if d % n == 0 and all(pairs[k] == pairs[k // n * n] for k in range(d))
    )
    return g, d


def test_per_axis_reshape_is_the_theorem() -> None:
    rng = random.Random(23)
    for _ in range(4000):
        shape = random_shape(rng)
        target = factorization(rng, prod(shape))
        axis = rng.randrange(len(shape))
        scales, zeros = vector(rng, shape[axis])
        field = ParameterField.of(QParams.per_axis("i8", axis, scales, zeros), shape)
        result = Reshape(target).pull([field])
        g, d = run_and_period(list(zip(scales, zeros, strict=True)))
        inner = prod(shape[axis + 1 :])
        run, period = g * inner, d * inner
        strides = [prod(target[k + 1 :]) for k in range(len(target))]
        axes = [
            b
            for b, stride in enumerate(strides)
            if run % stride == 0 and target[b] * stride % period == 0
        ]
        if d == 1:
            assert isinstance(result, ParameterField)
            assert result.is_per_tensor
            CASES["theorem uniform"] += 1
        elif not axes:
            assert isinstance(result, Illegal)
            assert result.code in ("axis-split", "axis-merge")
            CASES["theorem refused"] += 1
        else:
            (b,) = axes
            assert isinstance(result, ParameterField)
            wanted = [scales[k * strides[b] // inner % len(scales)] for k in range(target[b])]
            assert result.to_qparams().axis == b
            assert result.to_qparams().scale_list() == wanted
            CASES["theorem legal"] += 1


def instances(source: list[int], target: list[int], k: int, j: int) -> list[tuple[Shape, Shape]]:
    """The same reshape with dimension k and j a multiple of 1, 2, 3, .."""
    result: list[tuple[Shape, Shape]] = []
    for factor in (1, 2, 3, 4, 6):
        old, new = source.copy(), target.copy()
        old[k] *= factor
        new[j] *= factor
        result.append((tuple(old), tuple(new)))
    return result


def test_reshape_with_an_unknown_size_holds_for_every_size() -> None:
    rng = random.Random(24)
    for _ in range(3000):
        source = list(random_shape(rng, 1, 4, 36))
        target = list(factorization(rng, prod(source)))
        k, j = rng.randrange(len(source)), rng.randrange(len(target))
        unknown = tuple(DYNAMIC if n == k else size for n, size in enumerate(source))
        wanted = tuple(DYNAMIC if n == j else size for n, size in enumerate(target))
        known = tuple(1 if n == k else size for n, size in enumerate(source))
        qparams = random_qparams(rng, known)
        layout = rng.choice((None, Layout.BLOCK))
        if any(axis == k for axis, _ in qparams.blocks):
            continue
        result = Reshape(wanted).pull([ParameterField.of(qparams, unknown)], layout=layout)
        expressible = 0
        for old, new in instances(source, target, k, j):
            pairs, _ = moved(Reshape(new), [ParameterField.of(qparams, old)])
            if isinstance(result, ParameterField):
                assert np.array_equal(expand(ParameterField.of(result.to_qparams(), new)), pairs)
            else:
                blocks = coarsest(pairs)
                expressible += sum(b != s for b, s in zip(blocks, new, strict=True)) <= 1
        if isinstance(result, Illegal) and result.code != "dynamic-shape":
            assert expressible < 5
        CASES[
            f"dynamic reshape {'legal' if isinstance(result, ParameterField) else result.code}"
        ] += 1


SIZED: list[tuple[IndexMap, Shape]] = [
    (Transpose((1, 0, 2, 3)), (DYNAMIC, 8, DYNAMIC, 4)),
    (Unsqueeze((0, 3)), (DYNAMIC, 8, DYNAMIC, 4)),
    (Flatten(2, 4), (DYNAMIC, 8, DYNAMIC, 4)),
    (Flatten(0, 1), (DYNAMIC, 8, DYNAMIC, 4)),
    (Slice.along(4, 1, 1, None, 2), (DYNAMIC, 8, DYNAMIC, 4)),
    (Pad((0, 1, 0, 1), (0, 0, 2, 0)), (DYNAMIC, 8, DYNAMIC, 4)),
    (Gather.of(1, [3, 1, 5]), (DYNAMIC, 8, DYNAMIC, 4)),
    (DepthToSpace(2, "DCR"), (DYNAMIC, 8, DYNAMIC, DYNAMIC)),
    (DepthToSpace(2, "CRD"), (DYNAMIC, 8, DYNAMIC, DYNAMIC)),
    (SpaceToDepth(2, "CRD"), (DYNAMIC, 8, DYNAMIC, DYNAMIC)),
    (Im2col((3, 2), (1, 2), (1, 0), (1, 0), (1, 1)), (DYNAMIC, 8, DYNAMIC, DYNAMIC)),
    (Concat(1), (DYNAMIC, 8, DYNAMIC, 4)),
]


@pytest.mark.parametrize(("index_map", "shape"), SIZED, ids=lambda x: type(x).__name__)
def test_unknown_sizes_agree_with_every_known_size(index_map: IndexMap, shape: Shape) -> None:
    rng = random.Random(25)
    legal = 0
    for _ in range(30):
        qparams = QParams.per_axis("i8", 1, *vector(rng, 8))
        operands = 2 if isinstance(index_map, Concat) else 1
        result = index_map.pull([ParameterField.of(qparams, shape)] * operands)
        for size in (2, 4, 6):
            known = tuple(size if s == DYNAMIC else s for s in shape)
            fields = [ParameterField.of(qparams, known)] * operands
            pairs, defined = moved(index_map, fields)
            if isinstance(result, ParameterField):
                got = expand(ParameterField.of(result.to_qparams(), pairs.shape[:-1]))
                assert np.array_equal(got[defined], pairs[defined])
            elif result.code != "dynamic-shape":
                assert isinstance(index_map.pull(fields), Illegal)
        legal += isinstance(result, ParameterField)
        CASES[f"dynamic {type(index_map).__name__}"] += 1
    assert legal


def _grids(shape: Shape) -> list[Shape]:
    """All block sizes that divide `shape`."""
    return list(product(*([b for b in range(1, n + 1) if n % b == 0] for n in shape)))


def _shapes(elements: int, rank: int) -> list[Shape]:
    sizes = range(1, elements + 1)
    return [s for s in product(sizes, repeat=rank) if prod(s) == elements]


@pytest.mark.parametrize("elements", [1, 4, 6, 8, 12])
def test_every_reshape_of_every_block_grid_has_the_grid_that_gives_each_element_its_scale(
    elements: int,
) -> None:
    rng = random.Random(elements)
    every = [shape for rank in (1, 2, 3) for shape in _shapes(elements, rank)]
    for source, target in product(every, every):
        for blocks in _grids(source):
            counts = [n // b for n, b in zip(source, blocks, strict=True)]
            scales, zeros = vector(rng, prod(counts))
            listed = list(enumerate(blocks))
            params = QParams.blockwise("i8", listed, counts, scales, zeros)
            field = ParameterField.of(params, source)
            wanted, _ = moved(Reshape(target), [field])
            found = coarsest(wanted)
            varying = sum(b != n for b, n in zip(found, target, strict=True))
            for limit, most in ((Layout.TENSOR, 0), (Layout.AXIS, 1), (Layout.BLOCK, 3)):
                result = Reshape(target).pull([field], layout=limit)
                assert isinstance(result, ParameterField) == (varying <= most)
                if isinstance(result, ParameterField):
                    assert np.array_equal(expand(result), wanted)
                    assert limit is not Layout.BLOCK or list(result.blocks) == found
            CASES["every block grid"] += 1


def test_a_field_gives_the_same_in_each_of_its_encodings() -> None:
    rng = random.Random(26)
    for _ in range(2000):
        shape = random_shape(rng, 1, 3, 24)
        one, other = (ParameterField.of(random_qparams(rng, shape), shape) for _ in range(2))
        finer = tuple(rng.choice(_grids((b,)))[0] for b in one.blocks)
        assert one.gives_same(one.with_array(one.to_array().refined(finer)))
        assert one.gives_same(other) == np.array_equal(expand(one), expand(other))
        CASES["encodings"] += 1
