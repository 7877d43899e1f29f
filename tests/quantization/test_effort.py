"""`--effort`: what is tried, what is kept, and what is said of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.errors import UsageError
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.installed import get_target
from qdialect.workflows.quantize import Quantization
from tests.quantization.quantize_support import sqnr
from tests.support.commands import call, qopt

SAMPLES = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose channels differ by a factor of 1 000 between two convolutions, and data."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("effort")
    sizes = np.exp2(random.uniform(-5, 5, 16)).astype(np.float32)
    first = random.normal(0, 0.3, (16, 3, 3, 3)).astype(np.float32) * sizes[:, None, None, None]
    second = random.normal(0, 0.1, (8, 16, 3, 3)).astype(np.float32) / sizes[:, None, None]
    arrays = {"a": first, "b": random.normal(0, 0.1, 16).astype(np.float32) * sizes, "c": second}
    nodes = [
        helper.make_node("Conv", ["x", "a", "b"], ["first"], "first"),
        helper.make_node("Relu", ["first"], ["relu"], "relu"),
        helper.make_node("Conv", ["relu", "c"], ["y"], "second"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 3, 12, 12)), ("y", (1, 8, 8, 8)))
    )
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path / "net.onnx")
    data = random.normal(0, 1, (SAMPLES, 1, 3, 12, 12)).astype(np.float32)
    np.savez(path / "data.npz", x=data)
    return path


def test_what_data_confirms_is_kept(folder: Path) -> None:
    model, data = qd.load(folder / "net.onnx"), folder / "data.npz"
    plain = qd.quantize(model, data)
    careful = qd.quantize(model, data, effort=1)
    assert plain.steps == ()
    gains = {step.name: step.gain for step in careful.steps if step.kept}
    assert gains and all(gain is not None and gain > 0 for gain in gains.values())
    before, after = (sqnr(model, each.model, data) for each in (plain, careful))
    assert after > before + 6
    # The same ops, of which only the constants are others.
    names = [[op.name for op in each.model.function().body.block.ops] for each in (plain, careful)]
    assert sorted(set(names[0])) == sorted(set(names[1]))


def test_weights_that_lose_little_are_not_rounded_again(folder: Path) -> None:
    """Of 16 bits they lose next to nothing of what values of 8 bits do; of 4 bits most of it."""
    model, data = qd.load(folder / "net.onnx"), folder / "data.npz"
    for weights, tried in (("i16", False), ("i4", True)):
        recipe = Recipe(weights=weights)
        steps = qd.quantize(model, data, recipe=recipe, target="generic", effort=1).steps
        (found,) = (step for step in steps if step.name == "gptq")
        assert (found.gain is not None) == tried
        assert tried or found.why == "no more than 0.0 dB are lost to weights"


def test_blocks_take_pytorch_and_say_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    model, recipe = qd.load(folder / "net.onnx"), Recipe(weights="i4")
    made = qd.quantize(model, folder / "data.npz", recipe=recipe, target="generic", effort=2)
    (blocks,) = (step for step in made.steps if step.name == "blocks")
    assert blocks.gain is None and not blocks.kept
    assert blocks.why.startswith("this needs the Python package 'torch'")


def test_nothing_is_started_that_would_take_too_long(folder: Path) -> None:
    model, target = qd.load(folder / "net.onnx"), get_target("onnxruntime")
    work = Quantization(
        model, Recipe.of_target(target), target, data=folder / "data.npz",
        effort=2, effort_seconds=0.0,
    )  # fmt: skip
    found = work.run()
    assert found.steps and not any(step.kept for step in found.steps)
    assert {step.why for step in found.steps} <= {"there was no time", "nothing to gain"}
    plain = Quantization(model, Recipe.of_target(target), target, data=folder / "data.npz").run()
    assert sqnr(model, found.model, folder / "data.npz") == pytest.approx(
        sqnr(model, plain.model, folder / "data.npz")
    )


def test_the_command_says_what_each_step_brought(folder: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "q.onnx", tmp_path / "q.html"
    arguments = [str(folder / "net.onnx"), f"--data={folder / 'data.npz'}", "-o", str(out)]
    result = call(qopt, "quantize", *arguments, "--time=0", "--effort=1", f"--report={page}")
    assert result.code == 0, result.err
    assert "tried" in result.err and "gptq" in result.err
    assert "What was tried for accuracy" in page.read_text(encoding="utf-8")
    result = call(qopt, "quantize", *arguments, "--time=0", "--effort=1", "--json", "--force")
    assert result.code == 0, result.err
    steps = json.loads(result.out)["effort"]
    assert [step["step"] for step in steps if step["kept"]]
    assert all(step["why"] or step["gain_db"] is not None for step in steps)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile=p.json", "--effort=1"), "--effort takes --data"),
        (("--data=DATA", "--effort=3"), "0, 1, 2"),
        (("--data=DATA", "--effort-time=5m"), "--effort-time takes --effort"),
        (("--data=DATA", "--effort=1", "--effort-time=soon"), "takes a time (90s, 5m, 1h)"),
    ],
)
def test_errors(folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    given = [each.replace("DATA", str(folder / "data.npz")) for each in arguments]
    out = tmp_path / "q.onnx"
    result = call(qopt, "quantize", str(folder / "net.onnx"), "-o", str(out), *given)
    assert result.code == 2 and message in result.err and not out.exists()


def test_one_sample_is_too_few(folder: Path, tmp_path: Path) -> None:
    with np.load(folder / "data.npz") as arrays:
        np.savez(tmp_path / "one.npz", x=arrays["x"][:1])
    with pytest.raises(UsageError, match="two samples"):
        qd.quantize(qd.load(folder / "net.onnx"), tmp_path / "one.npz", effort=1)
