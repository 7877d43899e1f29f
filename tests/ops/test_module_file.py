"""`.qmod` files: what goes in comes out, and bad ones are errors."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32

import qdialect as qd
from qdialect.cli.opt import main as opt
from qdialect.cli.qopt import main as qopt
from qdialect.context import QContext, new_context
from qdialect.dialects.module_format import HEADER, MAGIC, VERSION, checksum
from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.formats.mlir.read import load_module, read_module
from qdialect.formats.mlir.write import module_text, save_module
from qdialect.formats.qmod.read import module_of
from qdialect.formats.qmod.write import module_bytes
from qdialect.ops import make_constant
from tests.generators.programs import random_program
from tests.generators.sized import GRAPHS

ROOT = Path(__file__).parents[2]
START = struct.calcsize(HEADER)
LOOP = """
func.func @f(%a: tensor<4xf32>, %n: i1) -> tensor<4xf32> {
  cf.br ^first(%a : tensor<4xf32>)
^first(%x: tensor<4xf32>):
  %y = nn.relu %x {nn.key = "r"} : (tensor<4xf32>) -> tensor<4xf32>
  cf.cond_br %n, ^first(%y : tensor<4xf32>), ^last
^last:
  return %y : tensor<4xf32>
}
"""


def _text(module: ModuleOp, ctx: QContext) -> str:
    return module_text(module, ctx, generic=True, debuginfo=True, text_version="v24")


def _again(module: ModuleOp, ctx: QContext) -> None:
    data = module_bytes(module, ctx)
    read = module_of(data, ctx, "x.qmod")
    assert _text(read, ctx) == _text(module, ctx)
    assert module_bytes(read, ctx) == data


def test_files_of_the_tests() -> None:
    """Everything that can be read as text."""
    done = 0
    for path in sorted(ROOT.glob("lit_tests/**/*.mlir")):
        for piece in path.read_text(encoding="utf-8").split("// -----\n"):
            ctx = new_context(allow_unregistered=True)
            try:
                module = read_module(piece, ctx)
            except QError:
                continue
            if "dense_resource" in piece:
                with pytest.raises(UnsupportedError):
                    module_bytes(module, ctx)
                continue
            _again(module, ctx)
            done += 1
    assert done > 200


@pytest.mark.parametrize("graph", GRAPHS)
def test_networks(graph: str) -> None:
    _again(GRAPHS[graph](100, "quantized"), new_context())


def test_random_programs() -> None:
    for seed in range(25):
        module, ctx = random_program(seed, 8)
        _again(module, ctx)


def test_branches_and_names() -> None:
    ctx = new_context()
    _again(read_module(LOOP, ctx), ctx)


def test_uses_before_definitions() -> None:
    ctx = new_context(allow_unregistered=True)
    text = '"a.graph"() ({\n  %0 = "a.b"(%1) : (i1) -> i1\n  %1 = "a.b"(%0) : (i1) -> i1\n})'
    _again(read_module(f"{text} : () -> ()", ctx), ctx)


@pytest.mark.parametrize("inline", [False, True])
def test_weights(tmp_path: Path, inline: bool) -> None:
    ctx = new_context()
    array = np.arange(1000, dtype=np.float32)
    module = ModuleOp([make_constant(array, f32, ctx.blobs)])
    path = tmp_path / "w.qmod"
    save_module(module, ctx, path, inline_weights=inline)
    assert (tmp_path / "w.safetensors").exists() != inline
    session = new_context()
    read = load_module(path, session)
    wanted = module_text(module, ctx, inline_weights=True)
    assert module_text(read, session, inline_weights=True) == wanted


def test_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, file, back = (tmp_path / name for name in ("a.mlir", "b.qmod", "c.mlir"))
    text.write_text(LOOP, encoding="utf-8")
    assert opt([str(text), "-o", str(file)]) == 0
    assert file.read_bytes().startswith(MAGIC)
    assert opt([str(file), "-o", str(back)]) == 0
    assert opt([str(text)]) == 0
    assert back.read_text(encoding="utf-8").rstrip() == capsys.readouterr().out.rstrip()
    assert qopt(["inspect", str(file)]) == 0
    assert opt([str(file), "-p", "canonicalize", "-o", str(tmp_path / "d.qmod")]) == 0


def test_api(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(LOOP, encoding="utf-8")
    model = qd.load(path)
    qd.save(model, tmp_path / "m.qmod")
    assert str(qd.load(tmp_path / "m.qmod")) == str(model)


def _error(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        module_of(data, new_context(), "bad.qmod")
    assert caught.value.code == "bad-module-file"
    assert str(caught.value.where) == "bad.qmod"
    return caught.value.message


def _signed(data: bytes) -> bytes:
    """`data` with a checksum that fits."""
    return data[:12] + checksum(data[28:]) + data[28:]


def test_bad_files_are_told() -> None:
    data = module_bytes(read_module(LOOP, new_context()), new_context())
    assert "begin" in _error(b"")
    assert "begin" in _error(b"module {}")
    assert "header" in _error(data[:20])
    assert "bytes are missing" in _error(data[:-7])
    assert "checksum" in _error(data + b"x")
    assert "checksum" in _error(data[:-1] + bytes([data[-1] ^ 1]))
    assert f"version {VERSION + 1}" in _error(MAGIC + struct.pack("<I", VERSION + 1) + data[12:])


def test_hostile_files() -> None:
    """Whatever is in a file that is whole: an error, or a module."""
    chance = random.Random(10)
    data = module_bytes(GRAPHS["residual"](12, "quantized"), new_context())
    other = module_bytes(read_module(LOOP, new_context()), new_context())
    errors = 0
    for turn in range(300):
        changed = bytearray(data if turn % 2 else other)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(START, len(changed))
            changed[place] = chance.choice([0, 1, 2, 255, chance.randrange(256)])
        try:
            module_of(_signed(bytes(changed)), new_context(), "bad.qmod")
        except InputError:
            errors += 1
    assert errors > 100


TYPES = """
func.func @f(%a: tensor<?x3xf32>, %b: tensor<4x!quant.uniform<i8:f32, 0.1:3>>,
             %c: tensor<4x!quant.uniform<i8:f32, 1.0>>, %d: tensor<4xi8, "e">,
             %e: tensor<4x!quant.uniform<i8<-5:5>:f16:0, {0.5,0.25,0.1:2,0.3}>>,
             %f: tensor<4x!quant.uniform<u8:f64, 4.9E-324:9>>, %g: tensor<0xindex>,
             %h: !quant.uniform<i8:f32, 0.30000000000000004>) {
  return
}
"""


def test_types() -> None:
    ctx = new_context()
    module = read_module(TYPES, ctx)
    _again(module, ctx)
    read = module_of(module_bytes(module, ctx), new_context(), "x.qmod")
    for ours, theirs in zip(module.walk(), read.walk(), strict=True):
        assert ours.properties == theirs.properties


@pytest.mark.parametrize(
    "entry",
    [
        '["q",0,NaN,0]',
        '["q",0,0.0,0]',
        '["q",0,-1.0,0]',
        '["q",0,1e300,0]',
        '["q",0,1,0]',
        '["q",0,0.5,0.5]',
        '["q",0,0.5,9223372036854775808]',
        '["q",0,0.5,true]',
        '["q",1,0.5,0]',
        '["q",9,0.5,0]',
        '["q",0,0.5]',
        '["s",0,-2]',
        '["s",0,true]',
        '["s",0,9223372036854775808]',
        '["s",1,4]',
        '["s",2,4]',
        '["s",-1,4]',
        '["s"]',
        '"\\ud800"',
        '["a","@\\ud800"]',
    ],
)
def test_types_that_are_none(entry: str) -> None:
    tables = (
        f'{{"strings":[],"dictionaries":[],"attributes":[["t","!quant.uniform<i8:f32, 1.0>"],'
        f'["t","tensor<4xi8>"],"text",{entry}]}}'
    ).encode()
    data = struct.pack("<QQQ", len(tables), 0, 0) + tables
    whole = struct.pack(HEADER, MAGIC, VERSION, checksum(data), 0, 0, 0)[:28] + data
    assert "not a module file" in _error(whole)
