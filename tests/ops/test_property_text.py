"""Properties come back from the text they are written in, whatever number or word they are."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from xdsl.dialects.builtin import (
    Attribute,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
)
from xdsl.ir import Operation

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.ir.ops import NN
from qdialect.ir.ops.base import REAL, REALS, NNOp
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text

NUMBERS = (
    math.inf,
    -math.inf,
    math.nan,
    struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0],
    -0.0,
    0.0,
    5e-324,
    1e22,
    -1.7976931348623157e308,
    0.1,
    3.0,
)
WORDS = ("round_prefer_floor", "true", "", "a b", 'x"y', "3", "nan", "0x7FF0000000000000")

REAL_PROPERTIES = [
    (kind, name, prop.constr == REALS)
    for kind in NN.operations
    if issubclass(kind, NNOp)
    for name, prop in kind.get_irdl_definition().properties.items()
    if prop.constr in (REAL, REALS)
]


def bits(attribute: Attribute) -> object:
    """A number by its bits: NaN is equal to none, and zeros are equal."""
    if isinstance(attribute, FloatAttr):
        return struct.pack("<d", attribute.value.data)
    return attribute.data.data if isinstance(attribute, DenseArrayBase) else attribute


def returned(op: Operation, *, generic: bool) -> Operation:
    ctx = new_context()
    text = module_text(ModuleOp([op]), ctx, generic=generic)
    (found,) = read_module(text, ctx, "x.mlir").ops
    return found


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize(
    ("kind", "name", "several"), REAL_PROPERTIES, ids=lambda x: getattr(x, "name", x)
)
def test_real_properties(kind: type[Operation], name: str, several: bool, generic: bool) -> None:
    values: list[Attribute] = [FloatAttr(number, f64) for number in NUMBERS]
    if several:
        lists = [NUMBERS, NUMBERS[:2], (math.nan,), (1.0,), ()]
        values = [DenseArrayBase.from_list(f64, list(numbers)) for numbers in lists]
    for value in values:
        op = returned(kind.create(properties={name: value}), generic=generic)
        assert bits(op.properties[name]) == bits(value)


@pytest.mark.parametrize("word", WORDS)
def test_words(word: str) -> None:
    (kind,) = (op for op in NN.operations if op.name == "nn.depth_to_space")
    op = returned(kind.create(properties={"mode": StringAttr(word)}), generic=False)
    assert op.properties["mode"] == StringAttr(word)


def test_hexadecimal_integers_stay_integers() -> None:
    text = '%x = "a.x"() : () -> tensor<2x3xf32>\n%0 = nn.softmax %x axis 0x1 : (tensor<2x3xf32>) '
    module = read_module(f"{text}-> tensor<2x3xf32>", new_context(allow_unregistered=True))
    assert list(module.ops)[1].properties["axis"] == IntegerAttr(1, 64)


@pytest.mark.parametrize(
    "text", ["min 0x1FFF0000000000000", "min -0x7FF0000000000000", "min 0x", "min [nan]"]
)
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        read_module(f'"a.x"() : () -> ()\n%0 = nn.clip {text} : () -> ()', new_context())


def test_an_infinite_bound_of_an_onnx_model(tmp_path: Path) -> None:
    """Clip with bounds of -inf and 3 to text and back."""
    model, text = Path(__file__).with_name("clip_from_minus_infinity.onnx"), tmp_path / "c.mlir"
    assert main(["optimize", str(model), "-o", str(text), "-q"]) == 0
    assert main(["inspect", str(text)]) == 0
    (clip,) = (op for op in qd.load(text).module.walk() if op.name == "nn.clip")
    assert clip.properties["min"] == FloatAttr(-math.inf, f64)
