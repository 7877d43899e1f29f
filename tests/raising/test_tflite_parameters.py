"""What `litert_requirements` states of the parameters of codes is what LiteRT does: every op on u8,
i8 and i16, with equal parameters and with those of each tensor changed, in each engine.

What LiteRT refuses is not raised, and what is raised gives LiteRT's codes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from xdsl.dialects.builtin import ModuleOp

from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.ir.context import QContext
from qdialect.pipeline.plugins import Plugins
from qdialect.plugins.tflite.dialect import TfliteNodeOp
from qdialect.plugins.tflite.file.read import read_bytes
from qdialect.plugins.tflite.file.to_module import read_module
from qdialect.plugins.tflite.raising import contraction
from qdialect.plugins.tflite.raising.convert import RaiseTflite, handlers
from qdialect.plugins.tflite.target_requirements import ALL, STATEMENTS, breaches
from tests.support.commands import call, qopt
from tests.support.tflite_cases import DRAWN
from tests.support.tflite_models import LitertError, model, op, run_litert, tensor
from tests.support.tflite_parameters import STORAGES, Change, changed, changes, drawn

EVERY = bool(os.environ.get("QDIALECT_SWEEPS"))
"""Whether scales and zero points are changed alone, too, and types, in three drawings: 7 minutes
on two cores."""
SEEDS = range(3) if EVERY else range(1)
KEPT = {"no-counterpart", "type", "dynamic-shape", "hybrid", "qparams", "invalid"}
"""Why what LiteRT runs is not raised."""


def module_of(data: bytes) -> tuple[ModuleOp, QContext]:
    ctx = Plugins().session(allow_unregistered=True)
    return read_module(read_bytes(data), ctx), ctx


def in_litert(data: bytes, values: Sequence[Any], engine: str) -> list[np.ndarray] | None:
    try:
        return run_litert(data, values, engine)
    except LitertError:
        return None


def test_every_op_that_is_raised_is_stated() -> None:
    assert {*handlers(), *contraction.CUSTOM} == set(STATEMENTS)
    # What has no operands of codes is drawn on codes as well.
    assert set(STATEMENTS) - set(DRAWN) == {"Convolution2DTransposeBias"}


@pytest.mark.parametrize("name", sorted(set(DRAWN) - {"UNIDIRECTIONAL_SEQUENCE_LSTM"}))
def test_an_op_does_with_parameters_what_is_stated(name: str) -> None:
    wrong: list[Any] = []
    for seed in SEEDS:
        for kind in STORAGES:
            for change in (None, *changes(drawn(name, kind, seed), every=EVERY)):
                found = mistakes(name, kind, change, seed)
                wrong += [(kind, seed, change, mistake) for mistake in found]
    assert wrong == []


@cache
def as_drawn(name: str, kind: str, engine: str, seed: int) -> list[np.ndarray] | None:
    """What LiteRT gives for the file that nothing was changed in."""
    maker = drawn(name, kind, seed)
    return in_litert(maker.case().data, maker.values, engine)


def mistakes(name: str, kind: str, change: Change | None, seed: int = 0) -> list[Any]:
    """By engine, what is stated or raised and what LiteRT does."""
    maker = changed(name, kind, change, seed)
    data = maker.case().data
    (node,) = (o for o in module_of(data)[0].walk() if o.name == "tflite.node")
    found = breaches(node)
    wrong: list[Any] = []
    for engine in ALL:
        codes = in_litert(data, maker.values, engine)
        refused = any(engine in breach.refuse for breach in found)
        unknown = any(engine in breach.wrong for breach in found)
        if refused != (codes is None) and not unknown:
            wrong.append((engine, "refused" if codes is None else "runs", found))
        same = codes is not None and all(
            map(np.array_equal, codes, as_drawn(name, kind, engine, seed) or ())
        )
        ignored = any(engine in breach.ignore for breach in found)
        if ignored and not (refused or same) and not _is_border(name, change):
            wrong.append((engine, "does not copy"))
        wrong += [(engine, w) for w in _raised(data, maker.values, engine, codes)]
    return wrong


def _is_border(name: str, change: Change | None) -> bool:
    """Whether the zero point of the result is what is padded with."""
    return name == "PAD" and change is not None and change.tensor == "y"


def _raised(
    data: bytes, values: Sequence[Any], engine: str, codes: list[np.ndarray] | None
) -> list[str]:
    module, ctx = module_of(data)
    RaiseTflite(f"litert-{engine}").apply(ctx, module)  # pyright: ignore[reportArgumentType]
    kept = any(isinstance(o, TfliteNodeOp) for o in module.walk())
    if kept and codes is None:
        return []
    if codes is None:
        return ["is raised, and LiteRT refuses it"]
    if kept:
        reasons = {remark.code for remark in ctx.remarks.remarks if remark.kind == "refused"}
        stated = {breach.code for o in module.walk() for breach in breaches(o) if breach.wrong}
        return [f"is kept: {reason}" for reason in reasons - KEPT - stated]
    found = Interpreter(ctx, module, functions=KEPT_NODES).run(list(values))
    pairs = list(zip(found, codes, strict=True))
    if all(a.dtype == b.dtype and _same(a, b) for a, b in pairs):
        return []
    return ["gives other codes"]


@pytest.mark.parametrize("kind", ["f32", "i8"])
@pytest.mark.parametrize(
    ("name", "activation"),
    [
        ("CONCATENATION", "RELU"),
        *((n, a) for n in ("CONV_2D", "ADD", "DIV", "MAX_POOL_2D") for a in ("TANH", "SIGN_BIT")),
    ],
)
def test_an_activation_that_a_kernel_does_not_read_is_none(
    name: str, activation: str, kind: str
) -> None:
    maker = drawn(name, kind)
    maker.ops[0]["options"]["fused_activation_function"] = activation
    data = maker.case().data
    for engine in ALL:
        codes = in_litert(data, maker.values, engine)
        assert [e for e in _raised(data, maker.values, engine, codes) if "kept" not in e] == []


def test_u8_codes_are_joined_as_the_kernel_rounds_them() -> None:
    rng = np.random.default_rng(5)
    every = np.arange(256, dtype=np.uint8)[None]
    for _ in range(40):
        scales, zeros = 2.0 ** rng.uniform(-7, 2, 2), rng.integers(0, 256, 2)
        if rng.integers(2):  # ratios with ties
            scales[1] = scales[0] * rng.choice([0.5, 2.0, 0.25, 1.5, 0.1])
        x, y = (
            tensor(n, (1, w), "UINT8", s, int(z))
            for n, w, s, z in zip("xy", (256, 512), scales, zeros, strict=True)
        )
        v = tensor("v", (1, 256), "UINT8", scales[1], int(zeros[1]))
        data = model([x, v], [y], [op("CONCATENATION", ["x", "v"], ["y"], {"axis": 1})])
        for engine in ALL:
            codes = in_litert(data, [every, every], engine)
            assert codes is not None
            assert _raised(data, [every, every], engine, codes) == []


def test_joined_u8_codes_are_written_again(tmp_path: Path) -> None:
    """Also where the kernel rounds ties up that a rescale rounds to even, as CONCATENATION."""
    x, y = (tensor(n, (1, w), "UINT8", s, 3) for n, w, s in (("x", 256, 0.5), ("y", 512, 1.0)))
    v = tensor("v", (1, 256), "UINT8", 1.0, 3)
    nodes = [op("CONCATENATION", ["x", "v"], ["y"], {"axis": 1})]
    (tmp_path / "m.tflite").write_bytes(model([x, v], [y], nodes))
    done = call(qopt, "optimize", str(tmp_path / "m.tflite"), "-o", str(tmp_path / "o.tflite"))
    assert done.code == 0 and "left out" not in done.out + done.err
    every = np.arange(256, dtype=np.uint8)[None]
    one, two = (
        run_litert((tmp_path / name).read_bytes(), [every, every], ALL[0])[0]
        for name in ("m.tflite", "o.tflite")
    )
    assert np.array_equal(one, two)


def _same(a: Any, b: Any) -> bool:
    if b.dtype.kind != "f":
        return np.array_equal(a, b)
    return np.allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())
