"""Which products ONNX Runtime makes integer kernels of, asked of the runtime that is installed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import qdialect as qd
from qdialect.plugins.onnx.target_casts import PRODUCTS, runs_on_codes, takes_bias_alone
from tests.formats.onnx.test_layouts import INTEGER_KERNELS, executed
from tests.generators.layouts import Layout, layout_model

NAMES = ("conv", "point", "depthwise", "transposed", "gemm", "matmul", "batched")


def products(path: Path) -> list[tuple[bool, bool]]:
    """Of each product, whether it runs on codes, and whether it would but for its bias."""
    block = qd.load(path).function().body.block
    found = [op for op in block.ops if isinstance(op, PRODUCTS)]
    return [(runs_on_codes(op), takes_bias_alone(op)) for op in found]


@pytest.mark.parametrize("layout", ["input", "output", "both"])
@pytest.mark.parametrize("bias", ["none", "float", "sums", "i8"])
@pytest.mark.parametrize("product", NAMES)
def test_the_table_is_what_the_runtime_does(
    tmp_path: Path, product: str, bias: str, layout: str
) -> None:
    if layout == "both" and bias == "i8":
        bias = "float"  # what the passes make of a bias of another kind
    source = tmp_path / "i.onnx"
    kind = Layout(layout, product, "HardSwish", bias, "codes", True, "u8")
    onnx.save(layout_model(kind, 1), source)
    integer = sum(op in INTEGER_KERNELS for op in executed(source))
    assert sum(runs for runs, _ in products(source)) == integer


def test_only_a_bias_is_in_the_way(tmp_path: Path) -> None:
    for product in NAMES:
        source = tmp_path / "i.onnx"
        kind = Layout("input", product, "HardSwish", "float", "codes", True, "u8")
        onnx.save(layout_model(kind, 1), source)
        parted = product in ("gemm", "matmul", "batched")
        assert products(source) == [(False, parted)] * 2


def test_a_bias_on_another_scale_is_no_bias_of_sums(tmp_path: Path) -> None:
    """The runtime would add it to the sums all the same."""
    source = tmp_path / "i.onnx"
    onnx.save(layout_model(Layout("input", "gemm", "Relu", "i32", "codes", True, "u8"), 1), source)
    assert products(source)[1] == (False, True)
