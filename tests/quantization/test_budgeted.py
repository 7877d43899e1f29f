"""`qopt quantize` with a metric, budgets and a front, on a small network in ONNX Runtime."""

# pyright: basic

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdialect.cli.qopt import main
from qdialect.workflows.quality import held_out

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_network(tmp_path / "net.onnx")
    random = np.random.default_rng(4)
    np.savez(tmp_path / "x.npz", x=random.standard_normal((16, 3, 20, 20)).astype("f4"))
    return tmp_path


def write_network(path: Path) -> None:
    """Convolutions that are large enough to be faster on codes, the last with large outliers."""
    rng = np.random.default_rng(1)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def weight(name: str, *shape: int) -> str:
        array = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        array.reshape(-1)[:2] *= 40 if name == "w3" else 1
        weights.append(numpy_helper.from_array(array.astype("f4"), name))
        return name

    value, channels = "x", 3
    for n in range(5):
        inputs = [value, weight(f"w{n}", 64, channels, 3, 3)]
        nodes.append(helper.make_node("Conv", inputs, [f"c{n}"], f"c{n}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{n}"], [f"r{n}"], f"r{n}"))
        value, channels = f"r{n}", 64
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["mean"], "mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], "flat"))
    nodes.append(helper.make_node("Gemm", ["flat", weight("wf", 64, 4)], ["y"], "fc"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 20, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


ARGUMENTS = ["quantize", "net.onnx", "--data=x.npz", "-o", "q.onnx", "--time=100ms", "--force"]
ARGUMENTS += ["--calibration=minmax", "--no-bias-correction"]


@pytest.fixture
def run(net: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*flags: str) -> dict[str, Any]:
        assert main([*ARGUMENTS, "--json", *flags]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return command


def sqnr(path: str, samples: Sequence[int] = range(16)) -> float:
    """Of a model's output on these samples, as ONNX Runtime executes it by default, in dB."""
    data = np.load("x.npz")["x"][list(samples)]
    signal, other = (
        np.stack([ort.InferenceSession(each).run(None, {"x": x[None]})[0] for x in data])
        for each in ("net.onnx", path)
    )
    noise = ((signal - other) ** 2).sum()
    return 10 * np.log10((signal**2).sum() / noise) if noise else np.inf


def test_a_budget_of_noise(run: Run) -> None:
    plain = run("--budget=sqnr>=-99")
    chosen = plain["asked"]["candidates"][plain["candidates"]["chosen"]]
    assert plain["asked"]["unmet"] == [] and chosen["ratio"] <= 1.05
    fast = [each["sqnr_db"] for each in plain["asked"]["candidates"].values()]
    most = max(db for db in fast if db is not None and db < 100)
    before = sqnr("q.onnx")
    # More than whatever is quantized without thinking of it.
    found = run(f"--budget=sqnr>={most + 3}", "--allow-float")
    asked, name = found["asked"], found["candidates"]["chosen"]
    assert any(each.startswith("plan") for each in asked["candidates"])
    reached = asked["candidates"][name]["sqnr_db"]
    assert reached is None or reached >= most + 3
    assert sqnr("q.onnx") > before


def test_a_metric_and_the_front(run: Run, net: Path) -> None:
    found = run(
        "--metric=classify",
        "--budget=metric>=0.9*float",
        "--front=front",
        "--state=state",
        "--report=r.html",
    )
    asked = found["asked"]
    assert "'y', 4 classes" in asked["metric_takes"] and asked["candidates"]["float"]["metric"] == 1
    assert asked["candidates"][found["candidates"]["chosen"]]["metric"] >= 0.9
    (plot,) = re.findall(r'"plot":(\[.*?\])', (net / "r.html").read_text(encoding="utf-8"))
    points = json.loads(plot)
    assert {point["name"] for point in points} == asked["candidates"].keys()
    assert [p["name"] for p in points if p["chosen"]] == [found["candidates"]["chosen"]]
    front = json.loads((net / "front" / "front.json").read_text())["models"]
    assert [each["name"] for each in front.values()] == asked["front"]
    ratios = [each["ratio"] for each in front.values()]
    losses = [each["sqnr_db"] or np.inf for each in front.values()]
    assert ratios == sorted(ratios) and losses == sorted(losses)
    for name, loss in zip(front, losses, strict=True):
        assert sqnr(f"front/{name}", held_out(16)) == pytest.approx(loss, abs=0.01)
    for name, each in asked["candidates"].items():
        dominated = any(
            ratio <= each["ratio"] and loss >= (each["sqnr_db"] or np.inf)
            for ratio, loss in zip(ratios, losses, strict=True)
        )
        assert dominated, name
    (state,) = (net / "state").iterdir()
    lines = state.read_text().splitlines()
    run("--metric=classify", "--budget=metric>=0.9*float", "--state=state", "--losses=measured")
    assert state.read_text().splitlines() == lines and len(lines) >= 5
    run("--metric=classify", "--budget=metric>=0.9*float", "--losses=estimated")


def test_a_budget_that_nothing_meets(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--budget=latency<=0.0001*float", "--budget=sqnr>=10"]
    assert main([*ARGUMENTS, *flags]) == 1
    said = capsys.readouterr().err
    assert "nothing that was found meets latency<=0.0001*float, sqnr>=10: the nearest is" in said
    assert "--best-effort" in said and not (net / "q.onnx").exists()
    assert main([*ARGUMENTS, *flags, "--best-effort"]) == 0
    assert "nothing meets latency<=0.0001*float: the nearest was taken" in capsys.readouterr().err
    assert (net / "q.onnx").exists()


def test_a_budget_of_latency_takes_what_loses_least(run: Run) -> None:
    found = run("--budget=latency<=1000*float", "--allow-float")
    assert found["candidates"]["chosen"] == "float" and sqnr("q.onnx") == np.inf
    candidates = run("--budget=latency<=1000*float")["candidates"]
    raced, chosen = candidates["raced"], candidates["chosen"]
    losses = {n: each["worst_db"] for n, each in raced.items() if not n.startswith("float")}
    assert losses[chosen] == max(losses.values())


def test_a_function_of_the_user(run: Run, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (net / "mine.py").write_text(
        "import numpy as np\n"
        "def near(feeds, expected, actual):\n"
        "    return 1 / (1 + max(abs(a['y'] - b['y']).max() for a, b in zip(expected, actual)))\n"
        "def broken(feeds, expected, actual):\n"
        "    return expected[0]['nobody']\n"
        "def constant(feeds, expected, actual):\n"
        "    return 0.5\n"
    )
    found = run("--metric=mine.py:near", "--budget=metric>=0.5*float")
    assert found["asked"]["metric_takes"] == "all outputs"
    for name, said in (("broken", "failed: KeyError: 'nobody' (line 5"), ("constant", "for zeros")):
        (net / "q.onnx").unlink(missing_ok=True)
        assert main([*ARGUMENTS, f"--metric=mine.py:{name}"]) == 1
        assert said in capsys.readouterr().err and not (net / "q.onnx").exists()


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--budget=speed>=3"], 2, "is none of these"),
        (["--budget=metric>=0.9"], 2, "takes one: --metric"),
        (["--metric=accuracy"], 2, "takes detect, classify, embed, text"),
        (["--metric=detect"], 1, "takes boxes and scores of YOLO or SSD"),
        (["--front=x.npz"], 2, "takes a folder, and 'x.npz' is a file"),
        (["--budget=sqnr>=20", "--time=0"], 2, "take data, ONNX Runtime and time"),
        (["--budget=sqnr>=20", "--workers=nowhere:x"], 1, "no scheduler at 'nowhere:x'"),
        (["--budget=sqnr>=20", "--state=x.npz"], 1, "cannot keep state here"),
    ],
)
def test_requests_that_cannot_be(
    net: Path, flags: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ARGUMENTS, *flags]) == code
    assert said in capsys.readouterr().err and not (net / "q.onnx").exists()


def test_what_is_asked_takes_data(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "net.onnx", "--data=x.npz", "-o", "p.json", "-q"]) == 0
    flags = ["quantize", "net.onnx", "--profile=p.json", "-o", "q.onnx", "--budget=sqnr>=20"]
    assert main(flags) == 2
    assert "take --data" in capsys.readouterr().err
