"""The law against brute force: sound, coarsest and complete, on random cases.

`pytest tests/qparams -s` prints the number of cases per operation and outcome.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from qparams_oracle import (
    check_pull,
    check_push,
    check_structural,
    expand,
    random_field,
)
from random_maps import BIJECTIVE, GENERATORS

from qdialect.qparams import Layout, ParameterField, Shape

PULLS = 1200
PUSHES = 500
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


@pytest.mark.parametrize("name", [n for n in GENERATORS if n not in ("pad_constant", "im2col")])
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
