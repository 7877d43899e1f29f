"""MLIR bytecode: what goes in comes out, in every version and with weights."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp, f32

import qdialect as qd
from qdialect.cli.opt import main as opt
from qdialect.cli.qopt import main as qopt
from qdialect.cli.translate import main as translate
from qdialect.errors import InputError, QError
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import make_constant
from qdialect.plugins.mlir.bytecode.layout import MAGIC
from qdialect.plugins.mlir.read import bytecode_module, load_module, read_module
from qdialect.plugins.mlir.write import bytecode, module_text, save_module
from tests.generators.programs import random_program
from tests.generators.sized import GRAPHS

ROOT = Path(__file__).parents[3]
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
ATTRIBUTES = r"""
"t.op"() {a = [1, -2 : i8, true, 5 : index, 255 : ui8, -1 : si16, 1.5 : f16, -0.0 : f64],
  b = array<i1: true, false>, c = array<f32: 1.0, -2.0>,
  d = dense<[true, false, true]> : tensor<3xi1>,
  e = dense<true> : tensor<9xi1>, f = dense<[[-1, 7]]> : tensor<1x2xi4>,
  g = dense<-3> : tensor<2x3xi64>,
  h = dense<[1, -2]> : tensor<2xi17>, i = dense<[(1.0, 2.0)]> : tensor<1xcomplex<f32>>, j = unit,
  k = @a::@b::@c, l = affine_map<(d0)[s0] -> (d0 + s0)>, m = dense<> : tensor<0xf32>, n = "\09\22",
  o = 340282366920938463463374607431768211455 : i129, p = 0x7FC00001 : f32,
  q = tensor<?x3xf32, "e">,
  r = memref<4x?xf32, strided<[1, ?], offset: 3>, 2>, s = memref<*xi8>, t = vector<[4]x2xi8>,
  u = (i1, none) -> tuple<index, complex<f64>>, v = tensor<*xbf16>, w = 1.0 : f8E4M3FN, x = {},
  y = sparse<[[0, 0], [1, 2]], [1, 5]> : tensor<3x4xi32>, z = distinct[0]<42 : i32>,
  zz = loc("model.py":1:2 to 3:4)}
  : () -> () loc(fused<"m">["a.py":1:2, callsite("f"("b.py":3:4) at unknown)])
"""
TYPES = """
func.func @f(%a: tensor<?x3xf32>, %b: tensor<4x!quant.uniform<i8:f32, 0.1:3>>,
             %c: tensor<4x!quant.uniform<i8:f32, 1.0>>, %d: tensor<4xi8, "e">,
             %e: tensor<4x!quant.uniform<i8<-5:5>:f16:0, {0.5,0.25,0.1:2,0.3}>>,
             %f: tensor<4x!quant.uniform<u8:f64, 4.9E-324:9>>, %g: tensor<0xindex>,
             %h: !quant.uniform<i8:f32, 0.30000000000000004>, %i: !quant.any<i8<-8:7>:f32>,
             %j: !quant.any<u16>, %k: !quant.calibrated<f32<-0.998:1.2321>>,
             %l: tensor<4x4x!quant.uniform<u8:f32:{0:2, 1:2}, {{0.1:-8, 0.2}, {0.5:1, 0.25}}>>) {
  return
}
"""


def _text(module: ModuleOp, ctx: QContext) -> str:
    for op in module.walk():
        for region in op.regions:
            for block in region.blocks:
                block.name_hint = None
    return module_text(module, ctx, generic=True, debuginfo=True, keep_names=False)


def _data(module: ModuleOp, ctx: QContext, version: int = 4) -> bytes:
    return b"".join(bytes(piece) for piece in bytecode(module, ctx, version=version))


def _again(module: ModuleOp, ctx: QContext, version: int = 4) -> None:
    data = _data(module, ctx, version)
    session = new_context(allow_unregistered=True)
    read = bytecode_module(data, session, "x.mlirbc")
    assert _text(read, session) == _text(module, ctx)
    assert _data(read, session, version) == data


def test_files_of_the_tests() -> None:
    """What can be read as text, of every fourth file."""
    done = 0
    files = (p for p in ROOT.glob("lit_tests/**/*.mlir") if "invalid" not in p.name)
    for index, path in enumerate(sorted(files)[::4]):
        for piece in path.read_text(encoding="utf-8").split("// -----\n"):
            ctx = new_context(allow_unregistered=True)
            try:
                module = read_module(piece, ctx)
            except QError:
                continue
            if not (ctx.blobs or "#nn.blob" in piece or "expected-error" in piece):
                _again(module, ctx, index % 7)
                done += 1
    assert done > 40


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("text", [LOOP, TYPES, ATTRIBUTES])
def test_versions(text: str, version: int) -> None:
    ctx = new_context(allow_unregistered=True)
    _again(read_module(text, ctx), ctx, version)


@pytest.mark.parametrize("graph", GRAPHS)
def test_networks(graph: str) -> None:
    _again(GRAPHS[graph](100, "quantized"), new_context())


def test_random_programs() -> None:
    for seed in range(10):
        module, ctx = random_program(seed, 8)
        data = _data(module, ctx)
        session = new_context()
        read = bytecode_module(data, session, "x.mlirbc")
        inline = {"generic": True, "inline_weights": True, "keep_names": False}
        assert module_text(read, session, **inline) == module_text(module, ctx, **inline)


def test_uses_before_definitions() -> None:
    ctx = new_context(allow_unregistered=True)
    text = '"a.graph"() ({\n  %0 = "a.b"(%1) : (i1) -> i1\n  %1 = "a.b"(%0) : (i1) -> i1\n})'
    _again(read_module(f"{text} : () -> ()", ctx), ctx)


def _uses(module: ModuleOp) -> list[list[tuple[str, int]]]:
    values = [result for op in module.walk() for result in op.results]
    return [[(use.operation.name, use.index) for use in value.uses] for value in values]


def test_orders_of_uses() -> None:
    """They come back, whatever they are."""
    ctx = new_context(allow_unregistered=True)
    text = '%0 = "a.a"() : () -> i1\n"a.b"(%0, %0, %0) : (i1, i1, i1) -> ()\n'
    module = read_module(text, ctx)
    (value,) = next(iter(module.body.block.ops)).results
    for order in ((2, 0, 1), (0, 1, 2), (1, 0, 2)):
        uses = sorted(value.uses, key=lambda use: order[use.index])
        for use in uses:
            value.remove_use(use)
            value.add_use(use)
        read = bytecode_module(_data(module, ctx), new_context(allow_unregistered=True), "x")
        assert _uses(read) == _uses(module)


@pytest.mark.parametrize("inline", [False, True])
def test_weights(tmp_path: Path, inline: bool) -> None:
    ctx = new_context()
    arrays = np.arange(1000, dtype=np.float32), (np.arange(100, dtype=np.int8) % 15) - 7
    constants = [make_constant(arrays[0], f32, ctx.blobs)]
    constants.append(make_constant(arrays[1], IntegerType(4), ctx.blobs))
    module = ModuleOp(constants)
    path = tmp_path / "w.mlirbc"
    save_module(module, ctx, path, inline_weights=inline)
    assert [file.name for file in tmp_path.iterdir()] == ["w.mlirbc"]
    session = new_context()
    read = load_module(path, session)
    assert len(session.blobs) == (0 if inline else 1)
    wanted = module_text(module, ctx, inline_weights=True)
    assert module_text(read, session, inline_weights=True) == wanted
    assert path.read_bytes().find(arrays[0].tobytes()) % 16 == 0 or inline


def test_resources_of_a_text_come_back() -> None:
    ctx = new_context(allow_unregistered=True)
    text = (
        '"t.op"() {a = dense_resource<w> : tensor<1xf32>} : () -> ()\n{-#\n  dialect_resources: '
        '{builtin: {w: "0x040000000000803F"}},\n  external_resources: {m: {p: "dce", v: true}}\n#-}'
    )
    module = read_module(text, ctx)
    _again(module, ctx)
    assert "0x040000000000803F" in _text(module, ctx)


def test_weights_of_other_tools_are_ours() -> None:
    """What a constant holds is in the store, whatever the text calls it."""
    ctx = new_context()
    text = (
        "%0 = nn.constant dense_resource<w> : tensor<2xf32> : tensor<2xf32>\n"
        '{-# dialect_resources: {builtin: {w: "0x040000000000803F00000040"}} #-}'
    )
    read_module(text, ctx).verify()
    assert ctx.blobs.get("w").array().tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="resource 'w' is 8 bytes long, not 12"):
        read_module(text.replace("tensor<2x", "tensor<3x"), new_context())


def test_commands_take_it(tmp_path: Path) -> None:
    text, file, back = (tmp_path / name for name in ("a.mlir", "b.mlirbc", "c.mlir"))
    text.write_text(LOOP, encoding="utf-8")
    assert opt([str(text), "-o", str(file)]) == 0
    assert file.read_bytes().startswith(MAGIC)
    assert opt([str(file), "-o", str(back)]) == 0
    assert "cf.cond_br %arg1, ^bb1" in back.read_text(encoding="utf-8")
    assert qopt(["inspect", str(file)]) == 0
    assert opt([str(file), "-p", "canonicalize", "-o", str(tmp_path / "d.mlirbc")]) == 0
    assert translate(["--export-onnx", str(file), "-o", str(tmp_path / "e.onnx")]) == 1


def test_standard_input_and_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    ctx = new_context()
    data = _data(read_module(LOOP, ctx), ctx)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert opt(["--emit-bytecode", "--emit-bytecode-version=6"]) == 0
    written = capfdbinary.readouterr().out
    assert written.startswith(MAGIC + bytes((6 << 1 | 1,)))
    assert _text(bytecode_module(written, new_context(), "x"), ctx) == _text(
        bytecode_module(data, new_context(), "x"), ctx
    )


def test_api(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(LOOP, encoding="utf-8")
    model = qd.load(path)
    qd.save(model, tmp_path / "m.mlirbc")
    read = qd.load(tmp_path / "m.mlirbc")
    assert _text(read.module, read.ctx) == _text(model.module, model.ctx)


def test_files_of_the_old_format(tmp_path: Path) -> None:
    path = tmp_path / "m.qmod"
    path.write_bytes(b"\x89QMOD\r\n\x1a" + bytes(60))
    with pytest.raises(InputError, match="which is read no more") as caught:
        load_module(path, new_context())
    assert "-o x.mlir" in caught.value.notes[0]


def test_values_from_around() -> None:
    """Regions of ops that nobody knows see them; those of isolated ops do not."""
    ctx = new_context(allow_unregistered=True)
    inner = '"t.op"() ({\n  "t.use"(%0) : (i1) -> ()\n}) : () -> ()\n'
    module = read_module(f'%0 = "t.a"() : () -> i1\n{inner}', ctx)
    _again(module, ctx)
    module = read_module(f'%0 = "t.a"() : () -> i1\nmodule {{\n{inner}}}', ctx)
    with pytest.raises(QError, match=r"'t\.use' op uses a value that is not defined"):
        _data(module, ctx)


def test_version_that_keeps_properties() -> None:
    """Of ops that nobody knows version 4 cannot tell them from attributes."""
    ctx = new_context(allow_unregistered=True)
    module = read_module('"t.op"() <{a = 1 : i8}> {b = 2 : i8} : () -> ()', ctx)
    data = b"".join(bytes(piece) for piece in bytecode(module, ctx))
    assert data[4] == 6 << 1 | 1
    read = bytecode_module(data, new_context(allow_unregistered=True), "x")
    assert _text(read, ctx) == _text(module, ctx)


def test_properties_that_nobody_knows() -> None:
    """Of an op that is not in the tables they cannot be written in the encoding of its dialect."""
    ctx = new_context(allow_unregistered=True)
    text = '%0 = "llvm.mlir.constant"() <{value = 1 : i32}> : () -> i32'
    with pytest.raises(QError, match=r"'llvm.mlir.constant' .* not known here") as caught:
        _data(read_module(text, ctx), ctx, 6)
    assert "--emit-bytecode-version=4" in caught.value.notes[0]
