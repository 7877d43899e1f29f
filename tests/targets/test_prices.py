"""Price tables: the one that is shipped, those of users, and what they decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import qdialect as qd
from qdialect.cli.forms import cheapest_form
from qdialect.errors import InputError, UsageError
from qdialect.frontends.mlir import read_module
from qdialect.targets.price_table import PriceTable, parse_prices, read_prices, shipped_prices

GOOD: dict[str, Any] = {
    "version": 1,
    "target": "onnxruntime",
    "runtime": "1.31",
    "elements": 10,
    "unit_ns": 0.5,
    "codes": {"nn.add": 1},
    "floats": {"nn.exp": 2.5},
    "forms": {"nn.add": [2, 1]},
}


def test_the_shipped_table_says_where_it_is_from() -> None:
    table = shipped_prices("onnxruntime")
    assert table.runtime.startswith("1.") and table.unit_ns > 0
    assert {"quant.rescale", "nn.table", "nn.add"} <= table.codes.keys()
    assert table.forms["nn.add"][0] > 0


def test_what_is_written_is_read() -> None:
    table = parse_prices(json.dumps(GOOD))
    assert parse_prices(table.to_json()) == table
    assert table.forms == {"nn.add": (2.0, 1.0)}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "version 2, not 1"),
        ({"target": None}, "'target' is missing or no str"),
        ({"codes": []}, "'codes' is no JSON object"),
        ({"codes": {"nn.add": "1"}}, "the price of 'nn.add' is '1'"),
        ({"codes": {"nn.add": True}}, "the price of 'nn.add' is True"),
        ({"floats": {"nn.add": float("nan")}}, "the price of 'nn.add' is nan"),
        ({"forms": {"nn.add": [1]}}, "'forms' of 'nn.add' are not two prices"),
        ({"unit_ns": -1}, "the price of 'unit_ns' is -1"),
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
    table = PriceTable("onnxruntime", "1", 1, 1.0, forms={"nn.add": prices})
    assert cheapest_form(module, qd.get_target("onnxruntime").with_prices(table)) == form
    assert cheapest_form(module, qd.get_target("generic")) == "qdq"


@pytest.mark.parametrize(
    ("reader", "form"), [("sigmoid", "qoperator"), ("reshape", "qdq"), ("relu", "qdq")]
)
def test_a_rescale_that_the_runtime_would_drop_takes_kernels(reader: str, form: str) -> None:
    x, y = (f"tensor<4x!quant.uniform<u8:f32, {scale}>>" for scale in (0.1, 0.07))
    read = {"sigmoid": "nn.sigmoid %1", "reshape": "nn.reshape %1 shape [4]", "relu": "nn.relu %1"}
    module = read_module(
        f"func.func @main(%x: {x}) -> {y} {{\n"
        f"  %0 = nn.sigmoid %x : ({x}) -> {x}\n"
        f"  %1 = quant.rescale %0 : {x} to {y}\n"
        f"  %2 = {read[reader]} : ({y}) -> {y}\n"
        f"  func.return %2 : {y}\n}}",
        qd.new_context(),
    )
    assert cheapest_form(module, qd.get_target("onnxruntime")) == form
    assert cheapest_form(module, qd.get_target("generic")) == "qdq"
