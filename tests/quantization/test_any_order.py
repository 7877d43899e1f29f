"""A profile means the same whatever ran before it, and outlives what ranges do not depend on.

Random networks, and networks as they are exported, are quantized by one profile: with passes before
and after it in any order, with another batch size, and with weights that are not those profiled.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qdialect as qd
from qdialect.api import Model, run_passes
from qdialect.cli.qopt import main
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.quantizer.profile.file import save_profile
from qdialect.quantizer.profile.model_identity import identify
from qdialect.quantizer.recipe import Recipe
from tests.generators.float_networks import random_network

MODELS = Path(__file__).parent / "models"
CLEANUP = [
    "canonicalize",
    "fold-constants{numerics=ties}",
    "cse",
    "dce",
    "raise-composites{numerics=ties}",
    "fold-into-weights{numerics=ties}",
]
LOWERING = ["lower-composites{numerics=ties}", "lower-attention{numerics=ties}"]
END = "canonicalize,fold-constants{numerics=ties},canonicalize,cse,dce"


def model_of(text: str) -> Model:
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return Model(module, ctx)


def written(model: Model, tmp_path: Path) -> Path:
    """Data for `model` and a profile of it, in files."""
    shape = shape_of(model.function().body.block.args[0])
    array = np.random.default_rng(7).normal(size=(3, *shape)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=array)
    path = tmp_path / "p.json"
    save_profile(qd.calibrate(model, tmp_path / "data.npz"), path)
    return path


def meaning(module: ModuleOp | Model) -> str:
    """The text without the names of values, and the keys of constants: no profile has them."""
    names: dict[str, str] = {}
    lines = [
        re.sub(r" \{nn\.key = [^}]*\}", "", line)
        if "nn.constant" in line or "quant.dcast" in line
        else line
        for line in str(module).splitlines()
    ]
    return re.sub(
        r"%[\w#]+", lambda name: names.setdefault(name[0], f"%{len(names)}"), "\n".join(lines)
    )


def orders(passes: Sequence[str], seed: int, count: int) -> list[list[str]]:
    draw = random.Random(seed)
    found = [["apply"], [*passes, "apply"], ["apply", *passes]]
    return found + [draw.sample([*passes, "apply"], len(passes) + 1) for _ in range(count)]


def quantized(model: Model, profile: Path, order: list[str], end: str) -> str:
    text = ",".join(f"apply-profile{{file={profile}}}" if p == "apply" else p for p in order)
    return meaning(run_passes(model, f"{text},{end}"))


@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_passes_makes_no_difference(seed: int, tmp_path: Path) -> None:
    """Weights per channel and all values have the qparams they have without any other pass."""
    model = model_of(random_network(seed))
    profile = written(model, tmp_path)
    first, *others = (quantized(model, profile, order, END) for order in orders(CLEANUP, seed, 3))
    assert "quant.qcast" in first
    assert all(other == first for other in others)


@pytest.mark.parametrize("seed", range(12, 20))
def test_neither_do_composites_in_pieces(seed: int, tmp_path: Path) -> None:
    """What is lowered in the end is the same, whatever was lowered before."""
    model = model_of(random_network(seed))
    profile = written(model, tmp_path)
    end = f"{LOWERING[0]},{END}"
    passes = [*CLEANUP, *LOWERING]
    first, *others = (quantized(model, profile, order, end) for order in orders(passes, seed, 3))
    assert all(other == first for other in others)


def test_weights_behind_movements_have_a_scale_per_channel(tmp_path: Path) -> None:
    """A 1x1 convolution written as fully connected."""
    model = model_of("""
        func.func @main(%x: tensor<2x3xf32> {nn.name = "x"}) -> tensor<2x4xf32> {
          %0 = nn.constant dense<[[[[1.0, 2.0, 30.0, 0.1], [4.0, 1.0, 20.0, 0.2],
                                    [-3.0, 0.5, -1.0, 0.4]]]]>
            : tensor<1x1x3x4xf32> : tensor<1x1x3x4xf32>
          %1 = nn.reshape %0 : (tensor<1x1x3x4xf32>) -> tensor<3x4xf32>
          %2 = nn.transpose %1 perm [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
          %3 = nn.fully_connected %x, %2 {nn.key = "fc"}
            : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
          return %3 : tensor<2x4xf32>
        }""")
    profile = written(model, tmp_path)
    options = f"file={profile} weight-ranges=minmax"
    (scales,) = {
        found
        for passes in (f"apply-profile{{{options}}}", f"{END},apply-profile{{{options}}}")
        for found in re.findall(r"<i8:f32:0, \{(.*?)\}>", str(run_passes(model, passes)))
    }
    expected = [4 / 127, 2 / 127, 30 / 127, 0.4 / 127]
    assert [float(scale) for scale in scales.split(",")] == pytest.approx(expected, rel=1e-6)


# -- networks as they are exported ------------------------------------------------------


@pytest.mark.parametrize("name", ["decoder_unknown_extents", "attention_unknown_extents"])
def test_an_exported_network(name: str, tmp_path: Path) -> None:
    model = qd.load(MODELS / f"{name}.onnx")
    found = qd.calibrate(model, MODELS / f"{name}.npz")
    save_profile(found, tmp_path / "p.json")
    texts = {quantized(model, tmp_path / "p.json", o, END) for o in orders(CLEANUP, 5, 3)}
    assert len(texts) == 1 and "quant.qcast" in texts.pop()
    digest = identify(model.module, model.ctx).digest
    batch = model.function().body.block.args[0]
    extent = {"decoder_unknown_extents": "batch", "attention_unknown_extents": "b"}[name]
    results: list[dict[str, list[str]]] = []
    for size in (1, 4):
        other = qd.load(MODELS / f"{name}.onnx", dims={extent: size})
        assert other.function().body.block.args[0].type != batch.type
        assert identify(other.module, other.ctx).digest == digest
        result = qd.quantize(other, profile=found, recipe=Recipe())
        assert not result.coverage.stale
        results.append(qparams_by_key(result.model))
    assert results[0] == results[1]


def qparams_by_key(model: Model) -> dict[str, list[str]]:
    return {
        str(op.attributes["nn.key"]): re.findall(
            r"quant\.uniform<.*?>", " ".join(str(v.type) for v in (*op.operands, *op.results))
        )
        for op in model.module.walk()
        if "nn.key" in op.attributes
    }


@pytest.mark.parametrize("seed", range(6))
def test_a_profile_outlives_another_batch_size(seed: int, tmp_path: Path) -> None:
    one, four = (model_of(random_network(seed, batch)) for batch in (1, 4))
    profile = written(one, tmp_path)
    results = [
        qparams_by_key(run_passes(m, f"apply-profile{{file={profile}}},{END}")) for m in (one, four)
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("seed", range(6))
def test_and_passes_with_a_file_in_between(seed: int, tmp_path: Path) -> None:
    model = model_of(random_network(seed))
    profile = written(model, tmp_path)
    wanted = quantized(model, profile, ["apply"], END)
    qd.save(run_passes(model, END), tmp_path / "clean.mlir")
    assert quantized(qd.load(tmp_path / "clean.mlir"), profile, ["apply"], END) == wanted


# -- other models -----------------------------------------------------------------------

NET = """
func.func @main(%x: tensor<2x3xf32> {{nn.name = "x"}}) -> tensor<2x{width}xf32> {{
  %0 = nn.constant dense<[[{weight}, 2.0, 3.0], [4.0, 5.0, 6.0]]>
    : tensor<2x3xf32> : tensor<2x3xf32>
  %1 = nn.fully_connected %x, %0 {{nn.key = "fc"}}
    : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %2 = nn.{function} %1 {attribute} {{nn.key = "act"}} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = nn.constant dense<{rows}> : tensor<{width}x2xf32> : tensor<{width}x2xf32>
  %4 = nn.fully_connected %2, %3 {{nn.key = "{last}"}}
    : (tensor<2x2xf32>, tensor<{width}x2xf32>) -> tensor<2x{width}xf32>
  return %4 : tensor<2x{width}xf32>
}}"""
START = {
    "weight": 1.0,
    "width": 2,
    "function": "gelu",
    "attribute": "",
    "rows": 0.5,
    "last": "last",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 1.5}, "the weights of 'fc' differ"),
        ({"rows": 0.25}, "the weights of 'last' differ"),
        ({"function": "tanh"}, "'act' was 'nn.gelu' and is 'nn.tanh'"),
        ({"attribute": "approximate tanh"}, "the attributes of 'act' differ"),
        ({"last": "new", "rows": 0.25}, "the profile knows no weights of 'new'"),
        ({"weight": 1.5, "rows": 0.25}, "the weights of 'fc' differ, and 1 more"),
    ],
)
def test_another_model_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    profile = written(model_of(NET.format(**START)), tmp_path)
    other = model_of(NET.format(**(START | change)))
    for passes in ("", f"{END},"):
        with pytest.raises(qd.QError, match="option profile-of-another-model uses what") as info:
            run_passes(other, f"{passes}apply-profile{{file={profile}}}")
        assert message in str(info.value) and "p.json" in str(info.value)
        assert info.value.code == "profile-of-another-model"


def test_what_matches_of_another_model_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By key and shape, with a report of what did not, on the command line and in remarks."""
    start = START | {"function": "relu"}
    profile = written(model_of(NET.format(**start)), tmp_path)
    text = NET.format(**(start | {"weight": 1.5, "width": 3, "rows": 0.25}))
    path = tmp_path / "other.mlir"
    path.write_text(text.replace('"act"', '"renamed"'))
    command = ["quantize", str(path), "--profile", str(profile), "-o", str(tmp_path / "q.mlir")]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert error.count("error:") == 1 and "--profile-of-another-model uses what" in error
    flags = ["--profile-of-another-model", "--force", f"--remarks={tmp_path / 'r.json'}"]
    assert main([*command, *flags]) == 0
    shown = capsys.readouterr().err
    assert "2 entries of the profile match the model" in shown
    assert main([*command, *flags, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = [
        ("act", "stale-entry", "the model has no such value"),
        ("fc", "other-op", "the weights of 'fc' differ"),
        ("last", "other-shape", "it is 2x3, and the profile saw 4 elements a sample"),
        ("renamed", "no-entry", "the profile has no such entry"),
    ]
    assert report["profile_matches"] == 2
    found = [(each["key"], each["code"], each["reason"]) for each in report["profile_unmatched"]]
    assert found == expected
    remarks: list[dict[str, str]] = json.loads((tmp_path / "r.json").read_text())["remarks"]
    seen = [(each["key"], each["code"], each["reason"]) for each in remarks]
    assert set(expected) <= set(seen)
    # The range of `fc` is that of the profile.
    assert "quant.qcast" in str(
        run_passes(qd.load(path), f"apply-profile{{file={profile} profile-of-another-model}}")
    )


def test_the_flag_takes_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.mlir").write_text(NET.format(**START))
    command = ["quantize", str(tmp_path / "n.mlir"), "--data", "d.npz", "-o", "q.mlir"]
    assert main([*command, "--profile-of-another-model"]) == 2
    assert "takes --profile" in capsys.readouterr().err
