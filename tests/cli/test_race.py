"""What could be written, as the runtime executes it, and the race between them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from time import thread_time_ns
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdialect import errors
from qdialect.cli.command_optimize import race_seconds
from qdialect.errors import UsageError
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.plugins.onnx.write.executed import count, optimized_engine
from qdialect.plugins.onnx.write.unrounded import model_without_rounding
from qdialect.workflows import optimize_file
from qdialect.workflows import race as racing
from qdialect.workflows.optimize_file import FEWER
from qdialect.workflows.race import (
    Candidate,
    Lap,
    Race,
    Reference,
    Selection,
    race,
    signal_to_noise,
    winner,
)
from tests.support.commands import call, qopt
from tests.support.qdq_models import conv_relu


def kinds(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


# -- the race -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"), [("3s", 3.0), ("500ms", 0.5), ("0", 0.0), (".5", 0.5), ("1.25", 1.25)]
)
def test_times(text: str, seconds: float) -> None:
    assert race_seconds(text) == seconds


@pytest.mark.parametrize("text", ["soon", "3 s", "-1", "1h", ""])
def test_what_is_no_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOPT_RACE", "never")
    with pytest.raises(UsageError, match="a race takes a time"):
        race_seconds(text or None)


def lap(ratio: float, spread: float = 0.0, turns: int = 100) -> Lap:
    return Lap(ratio, ratio, ratio - spread / 2, ratio + spread / 2, turns)


@pytest.mark.parametrize(
    ("ratios", "chosen"),
    [
        ({"input": 1.0, "qdq": 0.8, "kernels": 0.7}, "kernels"),
        ({"input": 1.0, "qdq": 0.705, "kernels": 0.7}, "qdq"),  # within the noise: preferred
        ({"input": 1.0, "qdq": 1.1, "kernels": 1.2}, "input"),
        ({"input": 1.0, "qdq": 1.005, "kernels": 1.2}, "qdq"),
    ],
)
def test_the_first_of_the_fastest_wins(ratios: Mapping[str, float], chosen: str) -> None:
    laps = {name: lap(ratio) for name, ratio in ratios.items()}
    assert winner(laps, ("qdq", "kernels", "input")) == chosen


def test_noise_falls_with_turns() -> None:
    assert lap(0.9, 0.2, 25).noise == pytest.approx(2 * lap(0.9, 0.2, 100).noise)
    assert lap(0.9).noise > 0


def test_only_what_wins_beyond_the_quartiles_is_chosen() -> None:
    assert winner({"a": lap(1.0), "b": lap(0.97, 0.2)}, ("a", "b")) == "a"
    assert winner({"a": lap(1.0, 0.1), "b": lap(0.8, 0.1)}, ("a", "b")) == "b"
    assert winner({"a": lap(1.0, 0.3), "b": lap(0.8, 0.3)}, ("a", "b")) == "a"
    # Neither is beaten by the other, and both are by the third.
    assert winner({"a": lap(1.0, 0.1), "b": lap(0.99, 0.1), "c": lap(0.5)}, "abc") == "c"


class Busy:
    """An engine that takes a known time."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def nanoseconds(self, inputs: Mapping[str, Any]) -> list[int]:
        began = thread_time_ns()
        sum(range(self.rounds))
        return [thread_time_ns() - began]


def test_times_are_over_the_first_in_the_same_turn() -> None:
    engines: Any = {"slow": Busy(40_000), "fast": Busy(10_000)}
    laps = race(engines, {name: {} for name in engines}, 0.3).laps
    assert laps["slow"].ratio == 1.0 and 0.1 < laps["fast"].ratio < 0.6
    assert laps["fast"].turns == laps["slow"].turns >= 5
    text = str(
        Race(
            laps,
        )
    )
    assert "slow" in text and "of the input" in text


@pytest.mark.parametrize(
    ("ratios", "written"),
    [
        ({"qdq": 0.5, "qoperator": 0.6}, "qdq"),
        ({"qdq": 0.6, "qoperator": 0.5}, "qoperator"),
        ({"qdq": 0.7, "qoperator": 0.6, FEWER: 0.5}, FEWER),
        ({"qdq": 1.5, "qoperator": 1.6, FEWER: 1.5}, "the input"),
    ],
)
def test_the_winner_is_written(
    net: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ratios: Mapping[str, float],
    written: str,
) -> None:
    def run(engines: Mapping[str, Any], inputs: Any, seconds: float) -> Race:
        assert next(iter(engines)) == "the input" and seconds == 2
        return Race({name: lap(ratios.get(name, 1.0)) for name in engines})

    monkeypatch.setattr(racing, "race", run)
    out = tmp_path / "o.onnx"
    arguments = ["optimize", str(net), "-o", str(out), "--race=2", "--numerics=ties", "--json"]
    result = call(qopt, *arguments)
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert told["written"] == written and set(told["race"]) >= {"the input", "qdq", "qoperator"}
    if written == "the input":
        assert out.read_bytes() == net.read_bytes()
        assert "fired" not in told and not any("same bits" in note for note in told["notes"])
    else:
        assert ("QLinearConv" in kinds(out)) == (written == "qoperator")


def test_what_is_slower_is_said_last(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    from qdialect.plugins.tflite.race import LitertSelection

    def raced(self: Any, *_: Any) -> Race:
        return Race({name: lap(1.0 if name == "the input" else 1.88, 0.1) for name in self._timed})

    monkeypatch.setattr(LitertSelection, "_raced", raced)
    out = net.with_suffix(".tflite")
    result = call(qopt, "optimize", str(net), "-o", str(out), "--race=1")
    assert result.code == 0
    assert result.err.endswith(f"warning: {out} takes 1.88 times as long as the input\n")


def test_a_real_race_at_exact_has_no_integer_kernels(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.onnx"
    result = call(qopt, "optimize", str(net), "-o", str(out), "--race=50ms")
    assert result.code == 0, result.err
    assert "raced in ONNX Runtime, one thread, " in result.err and "ms a run" in result.err
    assert "qoperator" not in result.err and "QLinearConv" not in kinds(out)


def test_the_float_model_takes_part(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "float.onnx", tmp_path / "o.onnx"
    onnx.save(model_without_rounding(net), path)
    monkeypatch.setattr(
        racing,
        "race",
        lambda engines, *_: Race({n: lap(0.1 if "float" in n else 1.0) for n in engines}),
    )
    arguments = ["optimize", str(net), "-o", str(out), "--race=1", "--float", str(path)]
    result = call(qopt, *arguments)
    assert result.code == 0 and "the float model is faster" in result.err, result.err
    assert out.read_bytes() == path.read_bytes()
    # Nothing is said of the results that were not written.
    for text in ("same bits", "rewrites fired", "may be off"):
        assert text not in result.err
    (db,) = re.findall(r"on \d+ inputs it is (\S+) dB from what the input gives", result.err)
    assert 10 < float(db) < 80
    other = tmp_path / "other.onnx"
    model = onnx.load(path)
    model.graph.output[0].name = model.graph.node[-1].output[0] = "other"
    onnx.save(model, other)
    result = call(qopt, *arguments[:-1], str(other))
    assert result.code == 1 and "the outputs of the float model are other, " in result.err


# -- what is executed -----------------------------------------------------------------------


def test_what_is_executed_is_counted(net: Path) -> None:
    _, quantized = optimized_engine(net)
    assert quantized.floats == {"Relu": 1}  # a zero point of 100: it is not idle
    assert quantized.nodes > quantized.casts >= 2
    _, float_ = optimized_engine(model_without_rounding(net))
    assert float_.casts <= 1 and float_.float_nodes >= 1
    assert any("Conv" in kind for kind in float_.floats)
    assert float_.kinds(1).split()[0] in float_.floats


def test_nodes_of_bodies_are_counted() -> None:
    def branch(kind: str) -> onnx.GraphProto:
        made = helper.make_tensor_value_info(kind, TensorProto.FLOAT, [2])
        return helper.make_graph([helper.make_node(kind, ["x"], [kind])], kind, [], [made])

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")
    )
    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    choice = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph([node], "g", [types[0], choice], [types[1]])
    found = count(graph)
    assert found.nodes == 3 and found.floats == {"If": 1, "Relu": 1, "Neg": 1}


def test_float_results_of_kinds_that_state_no_type() -> None:
    nodes = [
        helper.make_node("QLinearAdd", list("abcdefgh"), ["q"], domain="com.microsoft"),
        helper.make_node("Relu", ["q"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["f"]),
        helper.make_node("HardSigmoid", ["f"], ["g"]),
        helper.make_node("Cast", ["g"], ["i"], to=TensorProto.INT32),
    ]
    found = count(helper.make_graph(nodes, "g", [], []))
    assert found.floats == {"HardSigmoid": 1} and found.casts == 1 and found.nodes == 5


# -- the noise --------------------------------------------------------------------------------


def test_signal_to_noise() -> None:
    one = [[np.array([3.0, 4.0], np.float32)], [np.array([0.0, 0.0], np.float32)]]
    other = [[np.array([3.0, 4.5], np.float32)], [np.array([0.0, 0.0], np.float32)]]
    assert signal_to_noise(one, other) == pytest.approx(20.0)
    assert signal_to_noise(one, one) == np.inf


def judged(given: bool, *errors: float) -> tuple[bool, str]:
    """Whether a candidate may be written, and what is said: the input is 20 dB from the float model
    on each sample, the candidate has its errors times the factors."""
    count = len(errors)
    exact = [[np.full(100, 10.0)] for _ in range(count)]
    executed = [[y[0] + 1.0] for y in exact]
    other = [[y[0] + error] for y, error in zip(exact, errors, strict=True)]
    selection = Selection(None, [({}, one) for one in executed], Reference("floats", exact), given)
    selection.candidates += [
        Candidate("the input", Path("a"), None, None, cast("Any", None), executed),
        Candidate("qdq", Path("b"), None, None, cast("Any", None), other),
    ]
    return "qdq" in selection._sound(), "; ".join(selection.notes)  # pyright: ignore


def test_a_little_more_noise_on_random_inputs_is_a_remark() -> None:
    taken, said = judged(False, 1.07, 1.07)
    assert taken and "-i X.npz" in said
    assert not judged(False, 1.3, 1.3)[0]
    # On given inputs 0.6 dB on each count, and where samples disagree they do not.
    assert judged(True, 1.07, 1.07, 1.07, 1.07)[0] is False
    assert judged(True, 0.9, 1.3, 0.9, 1.3)[0] is True
    assert "-i X.npz" not in judged(True, 1.01, 1.01)[1]


def test_rounding_is_taken_out_and_clamps_stay(net: Path, tmp_path: Path) -> None:
    model = model_without_rounding(net)
    assert [n.op_type for n in model.graph.node].count("Clip") == 3
    x = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32) * 30
    rounded = next(iter(OrtEngine(net, optimize=False).run({"x": x}).values()))
    smooth = next(iter(OrtEngine(model, optimize=False).run({"x": x}).values()))
    low, high = np.float32(-10.0), np.float32(15.5)
    assert smooth.min() >= low - 1e-5 and smooth.max() <= high + 1e-5
    assert 0 < np.abs(rounded - smooth).max() < 1.5


def test_a_result_that_is_executed_with_more_noise_is_not_written(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = OrtEngine.run

    def noisy(self: OrtEngine, inputs: Any) -> Any:
        found = sound(self, inputs)
        if getattr(self, "noisy", False):
            found = {k: v + np.float32(3) for k, v in found.items()}
        return found

    init = OrtEngine.__init__

    def made(self: OrtEngine, model: Any, optimize: bool, **more: Any) -> None:
        init(self, model, optimize, **more)
        self.noisy = optimize and not isinstance(model, Path)  # pyright: ignore

    monkeypatch.setattr(OrtEngine, "run", noisy)
    monkeypatch.setattr(OrtEngine, "__init__", made)
    out = tmp_path / "o.onnx"
    result = call(qopt, "optimize", str(net), "-o", str(out))
    assert result.code == 0 and "qdq is no candidate: with the runtime's optim" in result.err
    assert out.read_bytes() == net.read_bytes()


def test_a_model_that_we_fail_to_read_is_copied_with_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise IndexError("nobody home")

    monkeypatch.setattr(optimize_file, "load", fails)
    monkeypatch.setattr(errors, "_OURS", errors._OURS | {__name__})  # pyright: ignore
    folder = tmp_path / "in"
    folder.mkdir()
    path, out = folder / "m.onnx", tmp_path / "o.onnx"
    model = conv_relu([1, 3, 8, 8])
    onnx.save_model(model, path, save_as_external_data=True, size_threshold=0, location="w.bin")
    result = call(qopt, "optimize", str(path), "-o", str(out))
    assert result.code == 0 and "the original is what was written" in result.err, result.err
    assert "IndexError: nobody home (a defect of qdialect; details are in /" in result.err
    x = {"x": np.ones((1, 3, 8, 8), np.float32)}
    (one,), (other,) = (OrtEngine(p, optimize=False).run(x).values() for p in (path, out))
    assert np.array_equal(one, other)


def test_bounds_that_no_float_holds_are_infinite() -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
    steps = [
        numpy_helper.from_array(np.float32(1e37), "s"),
        numpy_helper.from_array(np.int8(0), "z"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], steps))
    (clip,) = model_without_rounding(model).graph.node
    bounds = {
        t.name: numpy_helper.to_array(t) for t in model_without_rounding(model).graph.initializer
    }
    assert [float(bounds[name]) for name in clip.input[1:]] == [-np.inf, np.inf]


def test_conditions_are_no_floats_and_a_product_without_a_scale_is() -> None:
    """Where gives what it chooses from; a QGemm of seven operands gives floats, of nine codes."""
    kinds = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"}
    nodes = [
        helper.make_node("Greater", ["x", "y"], ["c"]),
        helper.make_node("Where", ["c", "x", "y"], ["w"]),
        helper.make_node("QGemm", list("abcdefg"), ["f"], domain="com.microsoft"),
        helper.make_node("QGemm", list("abcdefghi"), ["q"], domain="com.microsoft"),
    ]
    found = count(helper.make_graph(nodes, "g", list(kinds.values()), []))
    assert found.floats == {"Where": 1, "QGemm": 1} and found.nodes == 4
