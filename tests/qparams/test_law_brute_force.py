"""The law against brute force: sound, coarsest and complete, on random cases.

`pytest tests/qparams -s` prints the number of cases per operation and outcome.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from qparams_oracle import (
    check_pull,
    check_push,
    check_structural,
    expand,
    moved,
    random_field,
)
from random_maps import BIJECTIVE, GENERATORS

from qdialect.algebra.qparams import DYNAMIC, Illegal, Layout, ParameterField, Shape
from qdialect.algebra.qparams.maps import Broadcast, IndexMap, Reshape

PULLS = 1200
PUSHES = 500
FILLED = ("pad_constant", "im2col")
"""Maps with elements of their own: pull of push is not the wanted field there."""
LIMITS = (None, None, None, Layout.TENSOR, Layout.AXIS, Layout.BLOCK, Layout.BLOCK)


def operands(rng: random.Random, shapes: list[Shape], ragged: bool = False) -> list[ParameterField]:
    """Random fields, often of one layout or even equal, since most refusals need a mismatch."""
    layout = rng.choice((*Layout, None))
    fields = [random_field(rng, shape, layout, ragged) for shape in shapes]
    if rng.random() < 0.3:
        fields = [fields[0] if f.shape == fields[0].shape else f for f in fields]
    return fields


@pytest.mark.parametrize("name", GENERATORS)
def test_pull_is_sound_coarsest_and_complete(name: str) -> None:
    rng = random.Random(f"pull {name}")
    for case in range(PULLS):
        index_map, shapes = GENERATORS[name](rng)
        fields = operands(rng, shapes)
        layout = rng.choice(LIMITS)
        check_pull(index_map, fields, layout, rng)
        if case % 4 == 0 and not getattr(index_map, "value", 0.0):
            check_structural(index_map, fields, layout)


@pytest.mark.parametrize("name", GENERATORS)
def test_pull_of_ragged_blocks_is_sound(name: str) -> None:
    rng = random.Random(f"ragged {name}")
    for _ in range(PULLS // 8):
        index_map, shapes = GENERATORS[name](rng)
        fields = [random_field(rng, shape, Layout.BLOCK, ragged=True) for shape in shapes]
        check_pull(index_map, fields, Layout.BLOCK, rng)


@pytest.mark.parametrize("name", [n for n in GENERATORS if n not in FILLED])
def test_pull_of_push_is_the_wanted_field(name: str) -> None:
    rng = random.Random(f"push {name}")
    for _ in range(PUSHES):
        index_map, shapes = GENERATORS[name](rng)
        out_shape = index_map.output_shape(shapes)
        if 0 in out_shape:
            continue
        if rng.random() < 0.5:
            out = random_field(rng, out_shape)
        else:
            pulled = index_map.pull(operands(rng, shapes), layout=Layout.BLOCK)
            if not isinstance(pulled, ParameterField):
                continue
            out = pulled
        check_push(index_map, out, shapes, rng.choice((None, Layout.BLOCK)))


@pytest.mark.parametrize("name", BIJECTIVE)
def test_push_of_pull_is_the_operand_field(name: str) -> None:
    rng = random.Random(f"back {name}")
    for _ in range(PUSHES):
        index_map, shapes = GENERATORS[name](rng)
        field = random_field(rng, shapes[0])
        out = index_map.pull([field], layout=Layout.BLOCK)
        assert isinstance(out, ParameterField)
        back = index_map.push(out, shapes, layout=Layout.BLOCK)
        assert isinstance(back, tuple)
        assert np.array_equal(expand(back[0]), expand(field))
        assert back[0].to_array().equals(field.to_array().reduced())


def _with_unknown(rng: random.Random, shape: Shape, most: int) -> Shape:
    """`shape` with up to `most` extents unknown."""
    unknown = set(rng.sample(range(len(shape)), min(len(shape), rng.randint(0, most))))
    return tuple(DYNAMIC if k in unknown else size for k, size in enumerate(shape))


def _less_known(rng: random.Random, index_map: IndexMap) -> IndexMap:
    """The map with extents of its own result unknown, where it states these."""
    if isinstance(index_map, Broadcast):
        return replace(index_map, shape=_with_unknown(rng, index_map.shape, 4))
    if isinstance(index_map, Reshape) and index_map.groups is None:
        return Reshape(_with_unknown(rng, index_map.shape, 1))
    return index_map


@pytest.mark.parametrize("name", GENERATORS)
def test_unknown_extents_are_refused_or_agree_with_known_ones(name: str) -> None:
    """Of operands and of results: parameters as with the extents that they turn out to have."""
    rng = random.Random(f"unknown {name}")
    decided = 0
    for _ in range(PUSHES):
        index_map, shapes = GENERATORS[name](rng)
        fields = operands(rng, shapes)
        less = _less_known(rng, index_map)
        unknown = [
            ParameterField.of(field.to_qparams(), _with_unknown(rng, field.shape, 4))
            if field.is_per_tensor
            else field
            for field in fields
        ]
        pairs, defined = moved(index_map, fields)
        result = less.pull(unknown)
        if isinstance(result, ParameterField):
            known = ParameterField.of(result.to_qparams(), pairs.shape[:-1])
            assert np.array_equal(expand(known)[defined], pairs[defined])
        out = random_field(rng, index_map.output_shape(shapes))
        wanted = [_with_unknown(rng, shape, 4) for shape in shapes]
        if 0 in out.shape or name in FILLED:
            continue
        pushed = less.push(out, wanted, layout=Layout.BLOCK)
        if isinstance(pushed, Illegal):
            continue
        decided += any(not field.is_per_tensor for field in pushed)
        learned = [
            ParameterField.of(field.to_qparams(), shape)
            for field, shape in zip(pushed, shapes, strict=True)
        ]
        back, defined = moved(index_map, learned)
        assert np.array_equal(back[defined], expand(out)[defined])
    assert decided or name in FILLED
