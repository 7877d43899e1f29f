"""Price tables: the one that is shipped, those of users, and what they decide."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

import qdialect as qd
from qdialect.api import Model, run_passes
from qdialect.errors import InputError, UsageError
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text
from qdialect.targets.price_table import (
    Kernels,
    Prices,
    PriceTable,
    parse_prices,
    read_prices,
    shipped_prices,
)
from qdialect.workflows.race import cheapest_form
from tests.support.price_files import table_text

SIZE: dict[str, Any] = {
    "elements": 10,
    "unit_ns": 0.5,
    "codes": {"nn.add": 1},
    "floats": {"nn.exp": 2.5},
    "forms": {"nn.add": [2, 1]},
    "transposed": {"8": [1, 2], "64": [4, 3]},
    "channels": {"nn.conv2d": [9, 5]},
}
GOOD: dict[str, Any] = {
    "version": 3,
    "target": "onnxruntime",
    "runtime": "1.31",
    "cpu": "a processor",
    "kernels": {"nn.add": {"float": {"node": 100, "element": 0.5}}},
    "sizes": [SIZE, SIZE | {"elements": 1000, "codes": {"nn.add": 3}}],
}


def sized(**change: Any) -> dict[str, Any]:
    return {"sizes": [SIZE | change]}


def test_the_shipped_table_says_where_it_is_from() -> None:
    table = shipped_prices("onnxruntime")
    assert table.runtime.startswith("1.") and table.cpu and table.unit_ns > 0
    assert len(table.sizes) > 1
    for prices in table.sizes:
        assert {"quant.rescale", "nn.table", "nn.add"} <= prices.codes.keys()
        assert prices.forms["nn.add"][0] > 0


def test_what_is_written_is_read() -> None:
    table = parse_prices(json.dumps(GOOD))
    assert parse_prices(table_text(table)) == table
    first, second = table.sizes
    assert first.forms == {"nn.add": (2.0, 1.0)} and first.transposed[64] == (4.0, 3.0)
    assert second.codes == {"nn.add": 3.0}
    assert table.kernels == {"nn.add": {"float": {"node": 100.0, "element": 0.5}}}


@pytest.mark.parametrize(
    ("elements", "found"), [(0, 10), (1, 10), (90, 10), (100, 10), (110, 1000), (10**12, 1000)]
)
def test_the_nearest_size_counts(elements: int, found: int) -> None:
    assert parse_prices(json.dumps(GOOD)).near(elements).elements == found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 1}, "version 1, not 3"),
        ({"target": None}, "'target' is missing or no str"),
        ({"cpu": 7}, "'cpu' is missing or no str"),
        ({"sizes": []}, "'sizes' is no list of prices"),
        ({"sizes": [3]}, "one of 'sizes' is no JSON object"),
        ({"sizes": [SIZE, SIZE]}, "'sizes' has one number of elements twice"),
        (sized(elements=0), "'elements' is 0, not a number of at least 1"),
        (sized(codes=[]), "'codes' is no JSON object"),
        (sized(codes={"nn.add": "1"}), "the price of 'nn.add' is '1'"),
        (sized(codes={"nn.add": True}), "the price of 'nn.add' is True"),
        (sized(floats={"nn.add": float("nan")}), "the price of 'nn.add' is nan"),
        (sized(forms={"nn.add": [1]}), "'forms' of 'nn.add' are not two prices"),
        (sized(transposed={"few": [1, 1]}), "by numbers of products, not 'few'"),
        (sized(unit_ns=-1), "the price of 'unit_ns' is -1"),
        (sized(unit_ns=0), "'unit_ns' is 0"),
        ({"kernels": []}, "'kernels' is no JSON object"),
        ({"kernels": {"nn.add": 3}}, "'nn.add' is no JSON object"),
        ({"kernels": {"nn.add": {"float": 3}}}, "'float' is no JSON object"),
        ({"kernels": {"nn.add": {"float": {"node": -1}}}}, "the price of 'node' is -1"),
        ({"target": "tosa"}, "these are prices of target 'tosa', not of 'onnxruntime'"),
    ],
)
def test_what_is_no_table(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(InputError) as caught:
        read_prices(path, "onnxruntime")
    assert reason in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[1]", b"[" * 100_000])
def test_what_is_no_json(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"prices|price table"):
        read_prices(path, "onnxruntime")


def test_a_target_without_a_table_says_so() -> None:
    with pytest.raises(UsageError, match="'generic' takes no price table"):
        qd.get_target("generic").with_prices(parse_prices(json.dumps(GOOD)))


@pytest.mark.parametrize(("prices", "form"), [((2, 1), "qoperator"), ((1, 1), "qdq")])
def test_the_form_goes_by_price(prices: tuple[float, float], form: str) -> None:
    kind = "tensor<4x!quant.uniform<u8:f32, 0.1>>"
    module = read_module(
        f"func.func @main(%x: {kind}) -> {kind} {{\n"
        f"  %0 = nn.add %x, %x : ({kind}, {kind}) -> {kind}\n  func.return %0 : {kind}\n}}",
        qd.new_context(),
    )
    table = PriceTable("onnxruntime", "1", "", (Prices(1, 1.0, forms={"nn.add": prices}),))
    assert cheapest_form(module, qd.get_target("onnxruntime").with_prices(table)) == form
    assert cheapest_form(module, qd.get_target("generic")) == "qdq"


CONV = """
!a = !quant.uniform<{0}:f32, 0.1>
!w = !quant.uniform<i8:f32, 0.01>
func.func @main(%x: tensor<1x1x4x4x{1}>) -> tensor<1x1x{2}x{2}x{1}> {{
{3}
  %w = nn.constant dense<1> : tensor<1x1x2x2xi8> : tensor<1x1x2x2x!w>
  %1 = nn.{4} %0, %w {5} : (tensor<1x1x4x4x!a>, tensor<1x1x2x2x!w>) -> tensor<1x1x{2}x{2}x!a>
{6}
}}
"""


def priced(text: str, pipeline: str, size: Prices, kernels: Kernels | None = None) -> str:
    ctx = qd.new_context()
    table = PriceTable("onnxruntime", "", "", (size,), kernels or {})
    target = qd.get_target("onnxruntime").with_prices(table)
    model = run_passes(Model(read_module(text, ctx), ctx), pipeline, target=target)
    return module_text(model.module, model.ctx)


@pytest.mark.parametrize(
    ("signed", "unsigned", "interface", "chosen"),
    [
        (1.0, 0.5, "f32", "u8"),
        (0.5, 1.0, "f32", "i8"),
        (1.0, 1.0, "f32", "i8"),  # as it is
        (1.0, 0.9, "codes", "i8"),  # renumbering 16 + 9 elements costs more than 36 * 0.1
        (100.0, 1.0, "codes", "u8"),
    ],
)
def test_codes_are_stored_in_the_way_that_costs_less(
    signed: float, unsigned: float, interface: str, chosen: str
) -> None:
    floats = interface == "f32"
    before = "  %0 = quant.qcast %x : tensor<1x1x4x4xf32> to tensor<1x1x4x4x!a>"
    after = "  %2 = quant.dcast %1 : tensor<1x1x3x3x!a> to tensor<1x1x3x3xf32>\n"
    after += "  func.return %2 : tensor<1x1x3x3xf32>"
    text = CONV.format("i8", "f32", 3, before, "conv2d", "", after)
    if not floats:
        text = CONV.format("i8", "!a", 3, "", "conv2d", "", "  func.return %1 : tensor<1x1x3x3x!a>")
        text = text.replace("%0", "%x")
    # 9 positions of 16 channels, 4 products each.
    pair = {"i8 i8": signed / 16, "u8 i8": unsigned / 16}
    kernels = {"conv image": {state: {"product": each} for state, each in pair.items()}}
    passes = "reencode-storage{activations=cheapest weights=cheapest}"
    made = priced(text, passes, Prices(1, 1.0), kernels)
    assert ("u8:f32, 1.000000e-01:128" in made) == (chosen == "u8")


@pytest.mark.parametrize(
    ("prices", "made"),
    [
        ({1: (1.0, 2.0)}, False),
        ({1: (2.0, 1.0)}, True),
        ({1: (2.0, 1.0), 64: (1.0, 2.0)}, True),
        ({}, False),
    ],
)
def test_a_transposed_convolution_is_lowered_where_that_costs_less(
    prices: dict[int, tuple[float, float]], made: bool
) -> None:
    text = CONV.format(
        "u8",
        "!a",
        8,
        "",
        "conv_transpose2d",
        "strides [2, 2]",
        "  func.return %1 : tensor<1x1x8x8x!a>",
    )
    text = text.replace("%0", "%x")
    result = priced(text, "lower-transposed{numerics=ties}", Prices(1, 1.0, transposed=prices))
    assert ("nn.depth_to_space" in result) == made


POOL = """
!x = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:3>>
func.func @main(%x: !x) -> !y {
  %0 = nn.avg_pool2d %x kernel [2, 2] strides [2, 2] : (!x) -> !y
  func.return %0 : !y
}
"""


@pytest.mark.parametrize(
    ("forms", "apart", "made"),
    [
        ({"nn.avg_pool2d": (5.0, 6.0)}, {"nn.avg_pool2d": 2.0}, True),
        ({"nn.avg_pool2d": (2.0, 6.0)}, {"nn.avg_pool2d": 2.0}, False),
        ({"nn.avg_pool2d": (6.0, 1.0)}, {"nn.avg_pool2d": 2.0}, False),
        ({"nn.avg_pool2d": (5.0, 6.0)}, {}, False),
        ({}, {"nn.avg_pool2d": 2.0}, False),
    ],
)
def test_averages_are_of_floats_where_that_costs_less(
    forms: dict[str, tuple[float, float]], apart: dict[str, float], made: bool
) -> None:
    result = priced(POOL, "form-floats", Prices(1, 1.0, forms=forms, apart=apart))
    assert ("nn.flatten" in result) == made


def test_the_runtime_does_not_put_averages_together_again() -> None:
    """What it runs of the model that is written so is a float kernel."""
    import onnx
    import onnxruntime

    prices = Prices(1, 1.0, forms={"nn.avg_pool2d": (9, 9)}, apart={"nn.avg_pool2d": 1.0})
    ctx = qd.new_context()
    target = qd.get_target("onnxruntime").with_prices(PriceTable("onnxruntime", "", "", (prices,)))
    model = Model(read_module(POOL, ctx), ctx)
    for pipeline, kernel in (("dce", "QLinearAveragePool"), ("form-floats", "AveragePool")):
        made = run_passes(model, pipeline, target=target)
        with tempfile.TemporaryDirectory() as folder:
            path, ran = Path(folder) / "m.onnx", Path(folder) / "ran.onnx"
            qd.save(made, path)
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = str(ran)
            options.log_severity_level = 3
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            kinds = {node.op_type for node in onnx.load(ran).graph.node}
        assert kernel in kinds, kinds


STEM = """
!x = tensor<1x3x4x4x!quant.uniform<u8:f32, 0.5:3>>
!w = tensor<16x3x3x3x!quant.uniform<{}:f32, 0.1>>
!y = tensor<1x16x2x2x!quant.uniform<u8:f32, 0.5:3>>
func.func @main(%x: !x) -> !y {{
  %w = nn.constant dense<2> : tensor<16x3x3x3xi8> : !w
  %0 = nn.conv2d %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}}
"""


@pytest.mark.parametrize(
    ("storage", "pair", "pad", "made"),
    [
        ("i8", (100.0, 10.0), 1.0, True),
        # 4 positions save 90 of a rescale each; 64 elements are written.
        ("i8", (100.0, 10.0), 6.0, False),
        ("i8", (10.0, 10.0), 0.0, False),
        ("u8", (100.0, 10.0), 1.0, False),
    ],
)
def test_channels_are_padded_where_that_costs_less(
    storage: str, pair: tuple[float, float], pad: float, made: bool
) -> None:
    prices = Prices(1, 1.0, codes={"nn.pad": pad}, channels={"nn.conv2d": pair})
    result = priced(STEM.format(storage), "widen-channels", prices)
    assert ("nn.pad" in result) == made
    assert ("16x4x3x3" in result) == made


def test_channels_stay_where_nothing_was_measured() -> None:
    assert "nn.pad" not in priced(STEM.format("i8"), "widen-channels", Prices(1, 1.0))


def test_few_results_are_widened_too() -> None:
    prices = Prices(1, 1.0, codes={"nn.pad": 0.1}, channels={"nn.conv2d": (100.0, 10.0)})
    text = STEM.format("i8").replace("16x3", "10x4").replace("1x3", "1x4").replace("x16x", "x10x")
    result = priced(text, "widen-channels", prices)
    assert "nn.pad" not in result and "16x4x3x3" in result and "nn.slice" in result


@pytest.mark.parametrize(
    ("inner", "turn", "made"), [((9.0, 9.0), 1.0, True), ((9.0, 9.0), 4.0, False)]
)
def test_softmax_is_turned_where_that_costs_less(
    inner: tuple[float, float], turn: float, made: bool
) -> None:
    text = POOL.replace("avg_pool2d %x kernel [2, 2] strides [2, 2]", "softmax %x axis 1")
    text = text.replace("1x2x2x2", "1x2x4x4")
    forms = {"nn.softmax": (3.0, 3.0), "nn.softmax inner": inner}
    prices = Prices(1, 1.0, codes={"nn.transpose": turn}, forms=forms)
    assert ("nn.transpose" in priced(text, "softmax-last", prices)) == made


NORM = """
!x = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.25:7>>
!c = tensor<2xf32>
func.func @main(%x: !x) -> !y {
  %s = nn.constant dense<[0.25, 0.5]> : !c : !c
  %0 = nn.batch_norm %x, %s, %s, %s, %s epsilon 0.0 : (!x, !c, !c, !c, !c) -> !y
  func.return %0 : !y
}
"""


@pytest.mark.parametrize(("turn", "made"), [(1.0, True), (0.1, False)])
def test_the_transposes_around_a_batch_norm_are_part_of_its_price(turn: float, made: bool) -> None:
    codes = {"nn.conv2d": 2.0, "nn.transpose": turn}
    prices = Prices(1, 1.0, codes=codes, floats={"nn.batch_norm": 0.25})
    result = priced(NORM, "form-depthwise{numerics=ties}", prices)
    assert ("nn.conv2d" in result) == made


def test_unknown_extents_are_priced_too() -> None:
    """A batch as one."""
    prices = Prices(1, 1.0, codes={"nn.pad": 1.0}, channels={"nn.conv2d": (100.0, 10.0)})
    text = STEM.format("i8").replace("tensor<1x3x", "tensor<?x3x").replace("<1x16", "<?x16")
    assert "nn.pad" in priced(text, "widen-channels", prices)
