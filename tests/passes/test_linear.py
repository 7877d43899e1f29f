"""Long chains and wide ops: what is done for a model grows no faster than its ops.

Work is counted in calls of functions, which are the same in every run on any machine.
"""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import pytest

from qdialect import api
from qdialect.ir.context import new_context
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import write_model
from tests.generators.chains import MODELS
from tests.generators.rescale_chains import CHAINS as RESCALES

SMALL, TIMES = 60, 4
SLACK = 1.15


def _calls(model: Any) -> list[int]:
    """How many functions are called to import, to optimize and to export."""
    found = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    counts: list[int] = []
    ctx = new_context()
    before = sys.getprofile()
    gc.disable()  # what a collection calls depends on what was left before
    sys.setprofile(count)
    try:
        module = import_model(model, ctx)
        counts.append(found)
        optimized = api.optimize(api.Model(module, ctx))
        counts.append(found - sum(counts))
        write_model(optimized.module, optimized.ctx)
        counts.append(found - sum(counts))
    finally:
        sys.setprofile(before)
        gc.enable()
    return counts


@pytest.mark.parametrize(
    "name",
    [
        "Relu float",  # each takes the place of the next, and its key
        "Identity float",  # one value of many names
        "Clip float",
        "Sigmoid qdq",
        "Transpose float",
        "Add earlier qdq",
        "Conv qdq",
        "casts qdq",
        "users of one value, Max qdq",
        "results of one op qdq",
        "inputs and results float",
    ],
)
def test_work_is_linear(name: str) -> None:
    kind, _, form = name.rpartition(" ")
    _calls(MODELS[kind](SMALL, form))  # fills what is cached for the process
    small = _calls(MODELS[kind](SMALL, form))
    large = _calls(MODELS[kind](SMALL * TIMES, form))
    for less, more in zip(small, large, strict=True):
        assert more <= less * TIMES * SLACK


GREEDY = (
    "sink-rescale",
    "hoist-rescale",
    "combine-rescale{numerics=saturation}",
    "fold-rescale",
    "move-casts{boundary=maximize-integer}",
    "move-casts{boundary=minimize-conversions}",
    "integerize{numerics=ties}",
    "canonicalize",
    "form-tables{numerics=ties}",
    "fold-affine{numerics=ties}",
)


def _calls_of(text: str, pipeline: str) -> int:
    """How many functions are called by passes on the text, reading apart."""
    found = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    ctx = new_context()
    module = read_module(text, ctx)
    passes = [instance for _, instance in PassRegistry().build(parse_pipeline(pipeline))]
    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        for each in passes:
            each.apply(ctx, module)
    finally:
        sys.setprofile(before)
        gc.enable()
    return found


# Whether a rescale passes these clips depends on what is known of the codes at each: step by step.
STEPWISE = {"rescale, clip, flip": {"sink-rescale", "hoist-rescale"}}


@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        (kind, pipeline)
        for kind in RESCALES
        for pipeline in GREEDY
        if pipeline not in STEPWISE.get(kind, ())
    ],
)
def test_moves_past_many_ops_are_linear(kind: str, pipeline: str) -> None:
    _calls_of(RESCALES[kind](20), pipeline)  # fills what is cached for the process
    small, large = (_calls_of(RESCALES[kind](20 * times), pipeline) for times in (1, TIMES))
    assert large <= small * TIMES * SLACK


def test_one_op_that_took_the_place_of_many_has_their_keys_once() -> None:
    optimized = api.optimize(_model("Relu", 50, "float"))
    (relu,) = (op for op in optimized.module.walk() if op.name == "nn.relu")
    keys = [key.data for key in relu.attributes["nn.key"]]
    assert keys == [f"n{number}" for number in range(2, 52)]


def test_other_names_of_a_value_are_kept() -> None:
    model = _model("Identity", 50, "float")
    (sigmoid,) = (op for op in model.module.walk() if op.name == "nn.sigmoid")
    names = [name.data for name in sigmoid.attributes["nn.aliases"]]
    assert names == [f"v{number}" for number in range(2, 52)]


def _model(kind: str, steps: int, form: str) -> api.Model:
    ctx = new_context()
    return api.Model(import_model(MODELS[kind](steps, form), ctx), ctx)
