"""Which ops of a network are on codes, by times that are given and by those of the runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.interpreter import Interpreter
from qdialect.ir.ops import keys_of
from qdialect.plugins.onnx.write.node_times import NodeTime, conversion_times, node_times
from qdialect.quantizer.grids import assign
from qdialect.quantizer.precision import Losses, Plan, Rate, Rates, Time, Times, corrected, plan
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.recipe import Precision, Recipe
from qdialect.quantizer.selection import Selection, select
from qdialect.quantizer.values import Values
from qdialect.targets.installed import get_target
from qdialect.workflows.budgeted import losses_of
from qdialect.workflows.candidates import Builder, attributed, conversion_rates, nearly_best
from qdialect.workflows.model import Model
from qdialect.workflows.race import Lap

FLOAT, CODES = Precision.FLOAT, Precision.CODES
DYNAMIC, WEIGHTS = Precision.DYNAMIC, Precision.WEIGHTS
CHANNELS = 8


@pytest.fixture
def network(tmp_path: Path) -> tuple[Path, Path]:
    """Three convolutions with relus between them, a mean, and data."""
    random = np.random.default_rng(3)
    weights: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []
    value = "x"
    for n in range(3):
        weights[f"w{n}"] = random.normal(size=(CHANNELS, CHANNELS, 3, 3)) / 9
        nodes.append(
            helper.make_node("Conv", [value, f"w{n}"], [f"c{n}"], f"conv{n}", pads=[1] * 4)
        )
        nodes.append(helper.make_node("Relu", [f"c{n}"], [f"r{n}"], f"relu{n}"))
        value = f"r{n}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"], "mean"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CHANNELS, 1, 1])],
        [numpy_helper.from_array(array.astype("f4"), name) for name, array in weights.items()],
    )
    path, data = tmp_path / "net.onnx", tmp_path / "data.npz"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    np.savez(data, x=random.normal(size=(12, CHANNELS, 16, 16)).astype("f4"))
    return path, data


def selected(network: tuple[Path, Path]) -> tuple[Selection, dict[str, int]]:
    """What of the network can be on codes, and the numbers of ops by key."""
    model = qd.load(network[0])
    profile = qd.calibrate(model, network[1])
    model.ctx.target = get_target("onnxruntime")
    prepare(model.module, model.ctx, frozenset())
    function = Interpreter(model.ctx, model.module).function()
    selection = select(Values(function, model.ctx, profile, Recipe(plan={})))
    assign(selection)
    ops = enumerate(selection.values.block.ops)
    return selection, {key: n for n, op in ops for key in keys_of(op)}


def planned(
    network: tuple[Path, Path],
    floats: Mapping[str, float],
    codes: Mapping[str, float],
    cast: float,
    **more: float,
) -> tuple[dict[str, Precision], Plan]:
    selection, numbers = selected(network)
    rate = Rate(cast, 0.0)
    times = Times(
        {
            FLOAT: {numbers[key]: Time(time) for key, time in floats.items()},
            CODES: {numbers[key]: Time(t, False, False) for key, t in codes.items()},
        },
        {CODES: {numbers[key] for key in numbers}},
        Rates(rate, rate, Rate(0.0, 0.0)),
    )
    losses = Losses({(numbers[key], Precision.CODES): 1.0 for key in codes})
    values = selection.values
    found = plan(values.function, values.ctx, times, losses, more.get("weight", 0.0))
    return {key: found.states[n] for key, n in numbers.items() if n in found.states}, found


CONVS = ("conv0", "conv1", "conv2")


def test_a_product_that_is_faster_on_floats_stays_float(network: tuple[Path, Path]) -> None:
    times = dict.fromkeys(CONVS, 100.0)
    states, found = planned(network, times, {"conv0": 200.0, "conv1": 20.0, "conv2": 20.0}, 5.0)
    assert [states[key] for key in CONVS] == [FLOAT, CODES, CODES]
    assert found.parts.cost == found.parts.bound


def test_casts_cost_more_than_one_product_saves(network: tuple[Path, Path]) -> None:
    times = dict.fromkeys(CONVS, 100.0)
    slow = {"conv0": 130.0, "conv1": 95.0, "conv2": 130.0}
    states, _ = planned(network, times, slow, 30.0)
    assert set(states.values()) == {FLOAT}


def test_a_loss_has_a_price(network: tuple[Path, Path]) -> None:
    times, fast = dict.fromkeys(CONVS, 100.0), dict.fromkeys(CONVS, 20.0)
    without, _ = planned(network, times, fast, 5.0)
    assert [without[key] for key in CONVS] == [CODES] * 3
    states, _ = planned(network, times, fast, 5.0, weight=1000.0)
    assert set(states.values()) == {FLOAT}


DEPTH, STEM = 64, 32


@pytest.fixture
def products(tmp_path: Path) -> tuple[Path, Path]:
    """A convolution, and two products with weights behind it of which the second has an outlier in
    its operand, which costs all of a tensor its steps."""
    random = np.random.default_rng(5)
    arrays = {
        "k": random.normal(size=(4, 1, 3, 1)) / 3,
        "w": random.normal(size=(STEM, DEPTH)) / 8,
        "spread": np.where(np.arange(DEPTH) == 3, 200.0, 1.0),
        "v": random.normal(size=(DEPTH, STEM)) / 8,
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], "conv", pads=[1, 0, 1, 0]),
        helper.make_node("MatMul", ["c", "w"], ["p"], "even"),
        helper.make_node("Relu", ["p"], ["r"], "relu"),
        helper.make_node("Mul", ["r", "spread"], ["s"], "scaled"),
        helper.make_node("Add", ["s", "spread"], ["a"], "moved"),
        helper.make_node("MatMul", ["a", "v"], ["y"], "uneven"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 16, STEM])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 16, STEM])],
        [numpy_helper.from_array(array.astype("f4"), name) for name, array in arrays.items()],
    )
    path, data = tmp_path / "products.onnx", tmp_path / "products.npz"
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    np.savez(data, x=random.normal(size=(12, 1, 16, STEM)).astype("f4"))
    return path, data


def built(network: tuple[Path, Path]) -> tuple[Builder, Selection, dict[str, int]]:
    """What makes candidates of a network, what of it can be on codes, numbers of ops by key."""
    model = qd.load(network[0])
    profile = qd.calibrate(model, network[1])
    target = get_target("onnxruntime")
    prepared = Model(model.module.clone(), model.ctx.clone())
    prepared.ctx.target = target
    prepare(prepared.module, prepared.ctx, frozenset())
    builder = Builder(prepared, profile, Recipe.of_target(target), target, "exact")
    selection = builder.selection()
    ops = enumerate(selection.values.block.ops)
    return builder, selection, {key: n for n, op in ops for key in keys_of(op)}


def test_products_can_have_their_weights_alone_in_codes(products: tuple[Path, Path]) -> None:
    """A convolution cannot; of the model in which all that can are, the outlier costs little."""
    builder, selection, numbers = built(products)
    able = builder.able(selection)
    both = {numbers["even"], numbers["uneven"]}
    assert able[DYNAMIC] == able[WEIGHTS] == both
    assert numbers["conv"] in able[CODES]
    x = np.load(products[1])["x"][:1]
    source = qd.load(products[0])
    (want,) = Interpreter(source.ctx, source.module).run({"x": x})
    noise: dict[Precision, float] = {}
    for state in (CODES, DYNAMIC, WEIGHTS):
        made = builder.extreme(state, able).model
        (got,) = Interpreter(made.ctx, made.module).run({"x": x})
        noise[state] = float(np.square(got - want).sum() / np.square(want).sum())
    assert noise[WEIGHTS] < noise[DYNAMIC] / 5
    assert noise[WEIGHTS] < 1e-4


@pytest.mark.parametrize(("weight", "state"), [(0.0, DYNAMIC), (2e4, WEIGHTS), (1e7, FLOAT)])
def test_a_loss_is_that_of_the_state(
    products: tuple[Path, Path], weight: float, state: Precision
) -> None:
    """The dearer noise is, the more time is spent on the product with the outlier."""
    _, selection, numbers = built(products)
    even, uneven = numbers["even"], numbers["uneven"]
    rate = Rate(0.0, 0.0)
    times = Times(
        {
            FLOAT: {even: Time(100.0), uneven: Time(100.0)},
            DYNAMIC: {even: Time(30.0), uneven: Time(30.0)},
            WEIGHTS: {even: Time(60.0), uneven: Time(60.0)},
        },
        {DYNAMIC: {even, uneven}, WEIGHTS: {even, uneven}},
        Rates(rate, rate, rate),
    )
    losses = Losses({(even, DYNAMIC): 1e-9, (uneven, DYNAMIC): 1e-2, (uneven, WEIGHTS): 1e-5})
    values = selection.values
    found = plan(values.function, values.ctx, times, losses, weight)
    assert found.states[uneven] is state
    assert found.states[even] is DYNAMIC


def test_what_a_product_loses_in_a_state_is_what_is_rounded_in_it() -> None:
    """Whole: operand, weights, result; kernel: weights, result."""
    names = {"p": 7.0, "kernel p": 3.0, "value p": 1.0}
    assert losses_of("p", names) == {CODES: 3.0, DYNAMIC: 6.0, WEIGHTS: 2.0}
    del names["p"]
    assert losses_of("p", names) == {CODES: 3.0, DYNAMIC: 3.0, WEIGHTS: 2.0}
    assert losses_of("p", {"value p": 1.0}) == {CODES: 1.0, DYNAMIC: 1.0, WEIGHTS: 0.0}


def test_a_product_without_a_time_on_codes_stays_float(network: tuple[Path, Path]) -> None:
    times = dict.fromkeys(CONVS, 100.0)
    states, _ = planned(network, times, {"conv0": 1.0, "conv2": 1.0}, 1.0)
    assert [states[key] for key in CONVS] == [CODES, FLOAT, CODES]


def made_times(
    numbers: Mapping[str, int], floats: Mapping[str, float], codes: Mapping[str, Time], cast: float
) -> Times:
    rate = Rate(cast, 0.0)
    ops = {
        FLOAT: {numbers[key]: Time(time) for key, time in floats.items()},
        CODES: {numbers[key]: time for key, time in codes.items()},
    }
    return Times(ops, {CODES: set(numbers.values())}, Rates(rate, rate, Rate(0.0, 0.0)))


def test_what_is_slow_beside_another_state_is_learned(network: tuple[Path, Path]) -> None:
    selection, numbers = selected(network)
    floats = {"conv0": 10.0, "conv1": 100.0, "conv2": 100.0}
    codes = {"conv0": Time(200.0), "conv1": Time(50.0), "conv2": Time(50.0)}
    quick = {
        key: replace(time, takes_floats=False, gives_floats=False) for key, time in codes.items()
    }
    times = made_times(numbers, floats, quick, 5.0)
    function, ctx = selection.values.function, selection.values.ctx
    first = plan(function, ctx, times)
    assert [first.states[numbers[key]] for key in CONVS] == [FLOAT, CODES, CODES]
    # The relu that the second takes from is on floats, as what makes its value is.
    measured = {numbers["conv1"]: Time(500.0), numbers["conv2"]: Time(45.0)}
    known = corrected(function, times, first, measured)
    second = plan(function, ctx, known)
    assert second.states[numbers["conv1"]] is FLOAT
    assert second.parts.cost > first.parts.cost
    # What was faster than it was known to be is left: a run alone may be a lucky one.
    assert known.ops[CODES][numbers["conv2"]].nanoseconds == 50.0


def test_a_pool_is_slow_where_channels_are_first(network: tuple[Path, Path]) -> None:
    selection, numbers = selected(network)
    floats = dict.fromkeys(CONVS, 100.0) | {"mean": 50.0}
    codes = {key: Time(90.0, False, False) for key in CONVS}
    fast, last = Time(1.0, False, False), Time(1.0, False, False, channels_last=True)
    function, ctx = selection.values.function, selection.values.ctx
    kept = {"conv2": Time(900.0, False, False)}
    for pool, state in ((fast, CODES), (replace(last, nanoseconds=10.0), FLOAT)):
        times = made_times(numbers, floats, {**codes, **kept, "mean": pool}, 1.0)
        states = plan(function, ctx, times).states
        assert states[numbers["conv2"]] is FLOAT
        assert states[numbers["mean"]] is state


def test_movement_is_on_floats_only_between_floats(network: tuple[Path, Path]) -> None:
    selection, numbers = selected(network)
    floats = dict.fromkeys(CONVS, 100.0) | {"relu0": 1.0}
    codes = {key: Time(20.0, False, False) for key in CONVS} | {"relu0": Time(30.0, False, False)}
    found = plan(
        selection.values.function,
        selection.values.ctx,
        made_times(numbers, floats, codes, 0.0),
    )
    assert [found.states[numbers[key]] for key in (*CONVS, "relu0")] == [CODES] * 4


def test_what_a_plan_says_is_written(network: tuple[Path, Path]) -> None:
    model = qd.load(network[0])
    _, numbers = selected(network)
    states = dict.fromkeys(numbers.values(), CODES) | {numbers["conv1"]: FLOAT}
    result = qd.quantize(model, network[1], recipe=Recipe(plan=states))
    left = {left.key: left.code for left in result.coverage.left}
    assert left["conv1"] == "faster-float"
    assert "conv0" not in left
    assert result.coverage.quantized["nn.conv2d"] == 2


def node(*names: str, kind: str = "Conv", time: float = 7.0, users: str = "") -> NodeTime:
    return NodeTime(names, tuple(users.split()), kind, time, 1, True, True, 1)


def times_of(selection: Selection, nodes: list[NodeTime]) -> dict[int, Time]:
    return attributed(selection.values.function, selection.values.ctx, nodes)


def test_times_of_fused_nodes_are_those_of_the_product(network: tuple[Path, Path]) -> None:
    selection, numbers = selected(network)
    layout = node("Reorder", kind="ReorderInput")
    found = times_of(selection, [node("relu1"), node("conv0"), layout])
    assert {n: time.nanoseconds for n, time in found.items()} == {
        numbers["conv1"]: 7.0,
        numbers["conv0"]: 7.0,
    }


def test_times_of_unnamed_nodes_are_those_of_their_users(network: tuple[Path, Path]) -> None:
    selection, numbers = selected(network)
    unnamed = node("made by the runtime", kind="DynamicQuantizeLinear", users="conv2 c2")
    found = times_of(selection, [unnamed, node("conv2", time=5.0), node("relu2", kind="Relu")])
    assert found[numbers["conv2"]].nanoseconds == 12.0
    assert found[numbers["relu2"]].nanoseconds == 7.0


def test_the_runtime_times_its_nodes(network: tuple[Path, Path]) -> None:
    inputs = {"x": np.load(network[1])["x"][:1]}
    (nodes,) = node_times([network[0]], [inputs], 0.05)
    products = [each for each in nodes if each.kind == "Conv"]
    assert len(products) == 3
    assert all(each.nanoseconds > 0 and each.takes_floats for each in products)
    # The runtime may compute more channels than there are.
    assert all(each.elements >= CHANNELS * 16 * 16 for each in products)
    rates = conversion_rates(0.05)
    assert set(conversion_times(0.05)) == {"QuantizeLinear", "DequantizeLinear", "Transpose"}
    assert rates.quantize(1 << 20) > rates.quantize(1) >= 0


def test_the_command_writes_one_of_the_candidates(
    network: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = network
    out = tmp_path / "q.onnx"
    flags = ["quantize", str(path), "-d", str(data), "-o", str(out), "--time", "300ms"]
    assert main([*flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    assert found["chosen"] in found["raced"]
    assert {"float", "by rules", "by times"} <= found["raced"].keys()
    assert found["plan"]["bound"] <= found["plan"]["cost"]
    x = np.load(data)["x"][:1]
    expected, actual = (
        ort.InferenceSession(str(file), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for file in (path, out)
    )
    assert np.square(actual - expected).sum() < 1e-2 * np.square(expected).sum()


def test_the_float_model_is_written_where_nothing_is_faster(
    network: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fastest(laps: Mapping[str, object], preferred: list[str], *_: object) -> str:
        assert preferred[0] == "float"
        return preferred[0]

    monkeypatch.setattr("qdialect.workflows.budgeted.nearly_best", fastest)
    path, data = network
    out = tmp_path / "q.onnx"
    assert (
        main(
            [
                "quantize",
                str(path),
                "-d",
                str(data),
                "-o",
                str(out),
                "--race",
                "100ms",
                "--allow-float",
            ]
        )
        == 0
    )
    kinds = {each.op_type for each in onnx.load(out).graph.node}
    assert "QuantizeLinear" not in kinds and "Conv" in kinds


@pytest.mark.parametrize(
    ("ratios", "chosen"),
    [
        ({"float": 1.0, "good": 0.39, "poor": 0.38}, "good"),  # 3 % for several dB
        ({"float": 1.0, "good": 0.41, "poor": 0.38}, "poor"),
        ({"float": 1.0, "float, optimized": 0.97, "good": 0.96, "poor": 0.95}, "good"),
        ({"float": 1.0, "float, optimized": 0.90, "good": 0.93, "poor": 1.2}, "float, optimized"),
        ({"float": 1.0, "good": 1.1, "poor": 1.02}, "float"),
    ],
)
def test_of_what_is_nearly_as_fast_the_one_that_loses_least(
    ratios: Mapping[str, float], chosen: str
) -> None:
    laps = {name: Lap(ratio, ratio, ratio, ratio, 100) for name, ratio in ratios.items()}
    assert nearly_best(laps, list(ratios)) == chosen


@pytest.mark.parametrize(
    ("worst_db", "chosen"),
    [
        ({"float": inf, "good": 22.5, "poor": 8.3}, "good"),  # 15 % of time for 14 dB
        ({"float": inf, "good": 9.0, "poor": 8.3}, "poor"),
        ({"float": inf, "good": 80.0, "poor": 39.0}, "poor"),  # both are fine
        ({"float": inf, "good": 26.0, "poor": 20.0}, "poor"),  # 15 % of time for 8 % of it
    ],
)
def test_less_noise_is_worth_time(worst_db: Mapping[str, float], chosen: str) -> None:
    ratios = {"float": 1.0, "good": 0.46, "poor": 0.4}
    laps = {name: Lap(ratio, ratio, ratio, ratio, 100) for name, ratio in ratios.items()}
    noise = {name: 10 ** (-db / 20) for name, db in worst_db.items()}
    assert nearly_best(laps, list(ratios), noise) == chosen


@pytest.mark.parametrize("noise", [{"slow": 0.0, "float": 0.0, "fast": 0.3}, {}])
def test_nothing_that_is_slower_than_float_is_written(noise: Mapping[str, float]) -> None:
    ratios = {"float": 1.0, "slow": 1.01, "fast": 0.9}
    laps = {name: Lap(ratio, ratio, ratio, ratio, 100) for name, ratio in ratios.items()}
    assert nearly_best(laps, list(ratios), noise) == "fast"


def test_noise_costs_more_who_asks_for_little() -> None:
    ratios, noise = {"good": 0.54, "poor": 0.48}, {"good": 0.01, "poor": 0.05}
    laps = {name: Lap(ratio, ratio, ratio, ratio, 100) for name, ratio in ratios.items()}
    assert nearly_best(laps, list(ratios), noise) == "poor"
    assert nearly_best(laps, list(ratios), noise, 6.0) == "good"


def test_prices_in_place_of_times(
    network: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same file each time, and more of it on floats where a product on codes takes longer."""
    path, data = network
    made: list[bytes] = []
    for n, prices in enumerate(("no-dot-products", "no-dot-products")):
        out = tmp_path / f"q{n}.onnx"
        flags = ["quantize", str(path), "-d", str(data), "-o", str(out), "--time", "0"]
        assert main([*flags, "--prices", prices, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["candidates"] is None
        made.append(out.read_bytes())
    assert made[0] == made[1]


def test_a_target_without_prices_says_so(
    network: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = network
    flags = ["quantize", str(path), "-d", str(data), "-o", str(tmp_path / "q.mlir")]
    assert main([*flags, "--target", "tosa", "--prices", "no-dot-products"]) == 2
    assert "takes no price table" in capsys.readouterr().err
