"""Reading MLIR text: what stock xDSL gets wrong, positions, and hostile input."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    ModuleOp,
    StringAttr,
)
from xdsl.parser import Parser

import qdialect as qd
from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.ir.weights import BlobStore
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.read.parser import OVERRIDDEN
from qdialect.plugins.mlir.write import module_text


def read(text: str):
    ctx = new_context()
    return read_module(text, ctx, "x.mlir"), ctx


def refuse(text: str) -> InputError:
    def read_and_verify() -> None:
        verify_module(*read(text))

    with pytest.raises(InputError) as caught:
        read_and_verify()
    return caught.value


def constant(text: str) -> DenseIntOrFPElementsAttr:
    module, _ = read(f"%0 = arith.constant {text}")
    value = next(iter(module.ops)).properties["value"]
    assert isinstance(value, DenseIntOrFPElementsAttr)
    return value


def test_private_names_exist() -> None:
    assert [name for name in OVERRIDDEN if not hasattr(Parser, name)] == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("dense<0x3F800000> : tensor<2xf32>", (1.0, 1.0)),
        ("dense<[0x7F800000, 2.5]> : tensor<2xf32>", (float("inf"), 2.5)),
        ("dense<[0x3C00, 0xFC00]> : tensor<2xf16>", (1.0, float("-inf"))),
        ("dense<0x3FF0000000000000> : tensor<1xf64>", (1.0,)),
        ("dense<[0x3F80, 1.0]> : tensor<2xbf16>", (1.0, 1.0)),
        ("dense<[0x10, -0x10]> : tensor<2xi32>", (16, -16)),
    ],
)
def test_hexadecimal_literals_in_dense(text: str, values: tuple[float, ...]) -> None:
    assert constant(text).get_values() == values


def test_hexadecimal_literal_errors() -> None:
    wide = refuse("%0 = arith.constant dense<0x1FFFFFFFF> : tensor<1xf32>")
    assert "out of range" in wide.message
    negative = refuse("%0 = arith.constant dense<-0x3F800000> : tensor<1xf32>")
    assert "leading minus" in negative.message


def test_hexadecimal_literals_in_array() -> None:
    module, _ = read("module attributes {a = array<f32: 1.0, 0x7F800000>} {}")
    array = module.attributes["a"]
    assert isinstance(array, DenseArrayBase)
    assert array.get_values() == (1.0, float("inf"))


def test_truncation_flags_round_trip() -> None:
    text = "%0 = arith.constant 5 : i32\n%1 = arith.trunci %0 overflow<nsw> : i32 to i8"
    module, ctx = read(text)
    verify_module(module, ctx)
    printed = module_text(module, ctx)
    assert "arith.trunci %0 overflow<nsw> : i32 to i8" in printed
    generic = module_text(module, ctx, generic=True)
    assert module_text(*read(generic)) == printed


def test_location_aliases_after_their_use() -> None:
    text = """\
%0 = arith.constant 1 : i32 loc(#loc2)
%1 = arith.constant 1 : i32 loc(#loc1)
#loc = loc(unknown)
#loc1 = loc("a.py":1:2)
#loc2 = loc("name"(#loc1))
"""
    module, ctx = read(text)
    printed = module_text(module, ctx, debuginfo=True)
    assert 'loc("name"("a.py":1:2))' in printed
    assert module_text(*read(printed), debuginfo=True) == printed


def test_aliases_that_need_themselves() -> None:
    assert refuse("%0 = arith.constant 1 : i32 loc(#a)\n#a = loc(fused[#a])").where is not None
    assert "undefined symbol alias" in refuse("%0 = arith.constant 1 : i32 loc(#a)").message


def test_resources_belong_to_the_session() -> None:
    def text(data: str) -> str:
        return (
            "%0 = arith.constant dense_resource<w> : tensor<1xf32>\n"
            f'{{-# dialect_resources: {{ builtin: {{ w: "{data}" }} }} #-}}\n'
        )

    first, second = "0x040000000000803F", "0x0400000000000040"
    one, two = read(text(first)), read(text(second))
    assert first in module_text(*one)
    assert second in module_text(*two)
    assert "dense_resource<w>" in module_text(*two)
    module, ctx = one
    again = read_module(text(first), ctx)
    assert first in module_text(again, ctx)
    assert first in module_text(module, ctx)


RESOURCES = """\
module {
  func.func @f() -> (tensor<2xi8>, tensor<1xf32>) {
    %cst = arith.constant dense_resource<"v w"> : tensor<2xi8>
    %cst_1 = arith.constant dense_resource<x> : tensor<1xf32>
    return %cst, %cst_1 : tensor<2xi8>, tensor<1xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      "v w": "0x010000000102",
      x: "0x040000000000803F"
    }
  },
  external_resources: {
    "a tool": {
      "b c": "d\\22e",
      t: true
    },
    mlir_reproducer: {
      foo: "bar",
      verify_each: false
    }
  }
#-}
"""


def test_resources_come_back() -> None:
    module, ctx = read(RESOURCES)
    assert module_text(module, ctx.clone()).rstrip() == RESOURCES.rstrip()
    assert "resources" not in module_text(*read("module {}"))


def test_resources_of_a_file_are_kept(tmp_path: Path) -> None:
    path, copy = tmp_path / "in.mlir", tmp_path / "out.mlir"
    path.write_text(RESOURCES)
    qd.save(qd.run_passes(qd.load(path), "canonicalize"), copy)
    assert copy.read_text()[copy.read_text().index("{-#") :].rstrip() in RESOURCES


def test_every_op_knows_its_place() -> None:
    module, _ = read("func.func @f(%x: i32) {\n  %0 = arith.constant 1 : i32\n  return\n}")
    function = next(iter(module.ops))
    location = next(iter(function.regions[0].block.ops)).location
    assert isinstance(location, FileLineColLoc)
    assert (location.filename.data, location.line.data, location.column.data) == ("x.mlir", 2, 8)
    argument = function.regions[0].block.args[0].location
    assert isinstance(argument, FileLineColLoc)
    assert argument.column.data == 14


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("%0 = nn.relu %x", "x.mlir:1:"),
        ("\n  foo.bar", "x.mlir:2:"),
        ("func.func @f(%x: tensor<2x!quant.uniform<i8:f32, 0.0>>) {", "x.mlir:1:"),
        ("%0 = arith.constant dense<[1, 2]> : tensor<3xi32>", "x.mlir:1:"),
        ('"', "x.mlir:1:1"),
        ("}", "x.mlir:1:1"),
        ("\x00", "x.mlir:1:1"),
        ("module attributes {a = 0x1FFFFFFFFF : f32} {}", "x.mlir:1:"),
        ("%0 = arith.constant -1.0 : i32", "x.mlir:1:"),
        ("{-# external_resources: 3 #-}", "x.mlir:1:"),
        ("func.func @f(%x: tensor<99999999999999999999xi8>) { return }", "x.mlir:1:18: "),
        ("func.func @f(%x: i8) { return }\nfunc.func @f() { return }", "x.mlir:2:1: error"),
    ],
)
def test_errors_have_a_place(text: str, place: str) -> None:
    assert str(refuse(text)).startswith(place)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    depth = 20_000
    assert "nested too deeply" in refuse("module {" * depth + "}" * depth).message
    assert refuse("module attributes {a = " + "[" * depth + "]" * depth + "} {}").where


ATTRIBUTE = "module attributes {{x.a = {0}}} {{}}\n"
DEEP = {
    "any": "any(" * 3000 + "i8" + ")" * 3000,
    "arrays": "[" * 100_000 + "]" * 100_000,
    "dictionaries": "{a = " * 3000 + "1" + "}" * 3000,
    "tuples": "tuple<" * 3000 + "i8" + ">" * 3000,
    "tensors": "tensor<1x" * 3000 + "i8" + ">" * 3000,
    "functions": "() -> (" * 3000 + "i8" + ")" * 3000,
    "literals": "dense<" + "[" * 3000 + "1" + "]" * 3000 + "> : tensor<1xi8>",
    "scales": "!quant.uniform<i8:f32:{0:1,1:1}, " + "{" * 3000 + "0.1" + "}" * 3000 + ">",
    "affine": "affine_map<(d0) -> (" + "(" * 3000 + "d0" + ")" * 3000 + ")>",
    "negations": "affine_map<(d0) -> (" + "-" * 50_000 + "d0)>",
    "sums": "affine_map<(d0) -> (d0" + " + d0 * 3" * 3000 + ")>",
    "constraints": "affine_set<(d0) : (d0" + " + d0 * 3" * 3000 + " >= 0)>",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_deep_attributes_are_an_error_with_a_place(text: str) -> None:
    error = refuse(ATTRIBUTE.format(text))
    assert error.message in ("nested too deeply", "expected attribute")
    assert error.where is not None and error.where.line == 1


@pytest.mark.parametrize("text", ['fused["a"', 'callsite("a" at "b"', '"a"("b"'])
def test_deep_locations_and_regions_are_an_error(text: str) -> None:
    opened = text[: max(text.rfind("["), text.rfind("("), text.rfind("at ") + 2) + 1]
    closed = "]" if "[" in text else ")"
    deep = f'module {{}} loc({opened * 3000}"a"{closed * 3000})\n'
    assert "nested too deeply" in refuse(deep).message
    regions = '"builtin.module"() ({ ' * 3000 + "^a: " + "}) : () -> ()\n" * 3000
    assert "nested too deeply" in refuse(regions).message


@pytest.mark.parametrize(
    "text",
    [
        "9" * 100_000 + " : i64",
        "0x" + "F" * 100_000 + " : i64",
        "1 : i" + "9" * 5000,
        "tensor<" + "9" * 5000 + "xi8>",
        "array<i64: " + "9" * 5000 + ">",
        "dense<" + "9" * 5000 + "> : tensor<1xi8>",
        "9" * 30 + " : i64",
    ],
)
def test_integers_too_large_to_read(text: str) -> None:
    error = refuse(ATTRIBUTE.format(text))
    assert "digits" not in error.message
    assert error.where is not None and error.where.line == 1


def written(text: str) -> str:
    module, ctx = read(text)
    verify_module(module, ctx)
    return module_text(module, ctx)


def test_long_lists_are_read() -> None:
    """Extents and names that take a token each; quadratic time would not end here."""
    rank = "1x?x0x" * 20_000
    assert f"tensor<{rank}f32>" in written(f"func.func private @f(tensor<{rank}f32>)\n")
    names = "@a" + "::@b.c$1" * 100_000 + '::@"d e"'
    assert names in written(ATTRIBUTE.format(names))
    dims = ", ".join(f"d{i}" for i in range(10_000))
    assert f"({dims}) -> ({dims})" in written(ATTRIBUTE.format(f"affine_map<({dims}) -> ({dims})>"))


def test_extents_are_read_as_tokens_would_be() -> None:
    for shape, same in (("0x10", "0x10"), ("2x 3", "2x3"), ("?x4", "?x4"), ("2x3x /* */ 4", None)):
        text = f"func.func private @f(tensor<{shape}xf32>)\n"
        if same is None:
            refuse(text)
        else:
            assert f"tensor<{same}xf32>" in written(text)
    assert "symbol name" in refuse(ATTRIBUTE.format("@a::")).message


SPLATS = (
    "dense<1.000000e+00> : tensor<1000000000000xf32>",
    "dense<true> : tensor<1000000x1000000xi1>",
    "dense<(1,2)> : tensor<1000000000000xcomplex<i32>>",
    'dense<"0x01"> : tensor<1000000000000xi8>',
    'dense<"0x01"> : !t',
    "dense<7> : !t",
    'dense<"0xFF"> : tensor<1000000000000xi1>',
)


@pytest.mark.parametrize("splat", SPLATS)
def test_one_value_for_many_elements_is_never_packed(splat: str) -> None:
    alias = "!t = tensor<1000000000000xi8>\n"
    same = splat.replace("!t", "tensor<1000000000000xi8>")
    for op in (ATTRIBUTE.format(splat), f"%0 = arith.constant {splat}\n"):
        assert same in written(alias + op)
    error = refuse(f"{alias}%0 = nn.constant {splat} : {same.partition(' : ')[2]}\n")
    assert error.where is not None and error.where.line == 2


@pytest.mark.parametrize(
    "wrong",
    [
        "dense<1.5> : tensor<1000000000000xi8>",
        "dense<300> : tensor<1000000000000xi8>",
        "dense<[1, 2]> : tensor<1000000000000xi8>",
        'dense<"0x0102"> : tensor<1000000000000xi8>',
        'dense<"0x010"> : tensor<1xi8>',
        "dense<> : tensor<1000000000000xi8>",
    ],
)
def test_literals_that_lie_about_their_size(wrong: str) -> None:
    error = refuse(ATTRIBUTE.format(wrong))
    assert error.where is not None and error.where.line == 1
    assert "MemoryError" not in error.message


def test_resources_that_lie_about_their_size(tmp_path: Path) -> None:
    path = tmp_path / "x.mlir"
    path.write_text(
        "func.func @f() -> tensor<1000000000000xf32> {\n"
        '  %c = "tosa.const"() <{values = dense_resource<r> : tensor<1000000000000xf32>}> : () -> '
        "tensor<1000000000000xf32>\n  return %c : tensor<1000000000000xf32>\n}\n"
        '{-# dialect_resources: { builtin: { r: "0x0400000001020304" } } #-}\n'
    )
    with pytest.raises(InputError, match="resource 'r' has 1 elements, not 1000000000000") as error:
        qd.load(path)
    assert error.value.where is not None and error.value.where.line == 2


def test_an_open_quote_takes_no_time() -> None:
    began = time.perf_counter()
    refuse('module attributes {a = "' + "x" * 100_000 + "\n} {}")
    assert time.perf_counter() - began < 2.0


def test_uses_before_definitions() -> None:
    text = """\
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = nn.relu %1 : (tensor<3xf32>) -> tensor<3xf32>
  %1 = nn.relu %x : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
    error = refuse(text)
    assert error.message == "'nn.relu' op operand #0 does not dominate this use"
    assert str(error.where) == "x.mlir:2:8"


def test_values_of_other_functions_are_out_of_sight() -> None:
    ctx = new_context()
    text = "func.func @f(%x: f32) { return }\nfunc.func @g(%y: f32) { return }"
    module = read_module(text, ctx)
    f, g = module.ops
    terminator = g.regions[0].block.last_op
    assert terminator is not None
    terminator.operands = [f.regions[0].block.args[0]]
    with pytest.raises(InputError, match=r"not defined before this use|return"):
        verify_module(module, ctx)


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.mlir"
    path.write_bytes(b"module {\n \xff}")
    with pytest.raises(InputError, match="UTF-8") as caught:
        read_module(path, new_context())
    assert str(caught.value.where) == f"{path}:2:2"


@pytest.mark.parametrize("name", ["../w.safetensors", "/etc/passwd", "a/../../w", "C:\\w", "", "."])
def test_weights_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.mlir"
    escaped = name.replace("\\", "\\\\")
    path.write_text(f'module attributes {{nn.blobs = "{escaped}"}} {{}}')
    with pytest.raises(InputError) as caught:
        read_module(path, new_context())
    assert caught.value.code == "bad-weight-store"


@pytest.mark.parametrize("name", ["a\\00b", "." + "a" * 5000 + "/b", "circle/w", "./"])
def test_names_of_weights_that_are_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.mlir"
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    path.write_text(f'module attributes {{nn.blobs = "{name}"}} {{}}')
    with pytest.raises(InputError) as caught:
        read_module(path, new_context())
    assert str(tmp_path) in str(caught.value)


STORE = {"dtype": "I8", "shape": [2], "data_offsets": [0, 2]}


@pytest.mark.parametrize(
    "entry",
    [
        STORE | {"dtype": "I7"},
        STORE | {"dtype": None},
        STORE | {"shape": [float("inf")]},
        STORE | {"shape": [2.0]},
        STORE | {"shape": ["2"]},
        STORE | {"shape": [True, 2]},
        STORE | {"shape": [-1, -2]},
        STORE | {"shape": [0, 2**62, 4], "data_offsets": [0, 0]},
        STORE | {"shape": [1] * 33 + [2]},
        STORE | {"data_offsets": [0, float("inf")]},
        STORE | {"data_offsets": [-2, 0]},
        STORE | {"data_offsets": [1, 3]},
        STORE | {"data_offsets": [0]},
        STORE | {"data_offsets": 3},
        [],
        None,
    ],
)
def test_headers_of_stores_that_promise_too_much(tmp_path: Path, entry: object) -> None:
    path = tmp_path / "w.safetensors"
    header = json.dumps({"w": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\1\2")
    with pytest.raises(InputError, match="not a weight store") as caught:
        BlobStore().open(path)
    assert caught.value.code == "bad-weight-store"


def test_a_link_out_of_the_folder_is_outside(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "w.safetensors").write_bytes(b"")
    (inner / "w.safetensors").symlink_to(tmp_path / "w.safetensors")
    (inner / "x.mlir").write_text('module attributes {nn.blobs = "w.safetensors"} {}')
    with pytest.raises(InputError, match="outside the folder"):
        read_module(inner / "x.mlir", new_context())


@pytest.mark.parametrize("key", ["日本", 'ü"q\\', "tab\there", "a\nb", "\u00e9" * 3])
def test_text_beyond_ascii_is_read_as_text(key: str) -> None:
    ctx = new_context()
    module = ModuleOp([], {"test.key": StringAttr(key), "test.keys": ArrayAttr([StringAttr(key)])})
    again = read_module(module_text(module, ctx), new_context())
    assert again.attributes == module.attributes
