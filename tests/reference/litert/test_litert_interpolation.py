"""Bilinear resizes of random codes as LiteRT computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qdialect.ir import ops as nn
from tests.reference.litert.one_op import engine_of, in_litert, interpreted

MODES = ("half_pixel", "align_corners", "asymmetric")


@pytest.mark.parametrize("resolver", ["ref", "opt", "xnn"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_random_codes(dtype: Any, resolver: str) -> None:
    rng = np.random.default_rng(4)
    limits = np.iinfo(dtype)
    for _ in range(60):
        h, w, channels = (int(rng.choice(n)) for n in (range(1, 9), range(1, 9), (1, 3, 8, 16)))
        sizes = [int(n) for n in rng.integers(1, 20, 2)]
        if rng.random() < 0.4:
            factor = int(rng.choice([2, 3, 4, 8]))
            sizes = [h * factor, w * factor]
        mode = str(rng.choice(MODES))
        codes = rng.integers(limits.min, limits.max + 1, (1, h, w, channels)).astype(dtype)
        options = {
            "align_corners": mode == "align_corners",
            "half_pixel_centers": mode == "half_pixel",
        }
        to = (dtype, 0.1, 0)
        expected, delegated = in_litert(
            *("RESIZE_BILINEAR", [(codes, (0.1, 0))], to, resolver, options),
            shape=(1, *sizes, channels),
            constants=[np.array(sizes, np.int32)],
        )
        found = interpreted(
            *(nn.ResizeLinearOp, [(codes.transpose(0, 3, 1, 2), (0.1, 0))], to),
            engine_of(resolver, delegated),
            sizes=(1, channels, *sizes),
            coordinates=mode,
        )
        assert np.array_equal(found.transpose(0, 2, 3, 1), expected), (codes.shape, sizes, mode)
