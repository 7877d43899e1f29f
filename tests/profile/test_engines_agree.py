"""Every composite and its pieces, seen by both engines in one run of a module left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.interpreter import argument_names
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.write import module_text
from qdialect.quantizer.profile.engines import ENGINES, open_engine
from qdialect.quantizer.profile.instrument import instrument
from tests.support.components import CASES, Case, float_module


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_keys_and_ranges(case: Case) -> None:
    ctx = new_context()
    module = float_module(case, ctx)
    before = module_text(module, ctx)
    values = np.random.default_rng(3).normal(size=case.shape).astype(np.float32)
    found: list[dict[str, Any]] = []
    for name in ENGINES:
        plan = instrument(module, ctx)
        (argument,) = argument_names(plan.function)
        seen: dict[str, Any] = {}
        for keys, array in open_engine(name, plan, ctx).run({argument: values}):
            seen.update(dict.fromkeys(keys, np.array(array)))
        assert list(plan.all_keys()) == [key for key in plan.all_keys() if key in seen]
        found.append(seen)
    assert module_text(module, ctx) == before
    numpy_seen, runtime_seen = found
    assert numpy_seen.keys() == runtime_seen.keys()
    assert any(key.startswith("op/") for key in numpy_seen)
    for key, array in numpy_seen.items():
        size = float(np.abs(array).max())
        for end in (np.min, np.max):
            wanted, got = end(array), end(runtime_seen[key])
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * size, err_msg=key)
