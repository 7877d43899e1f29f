"""Reading with templates gives what the parser gives: the same ops, or the same error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir import read as mlir
from qdialect.plugins.mlir.read import parser as mlir_parser
from qdialect.plugins.mlir.read.line_templates import LineTemplates
from qdialect.plugins.mlir.read.parser import MLIRParser
from qdialect.plugins.mlir.write import module_text
from tests.generators.programs import random_program
from tests.generators.sized import FORMS, GRAPHS

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _short_texts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir_parser, "TEMPLATES_ABOVE", 0)


def _read(text: str, use_templates: bool) -> ModuleOp | tuple[object, ...]:
    """The module, or all that is told of the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "MLIRParser", partial(MLIRParser, use_templates=use_templates))
        try:
            return mlir.read_module(text, new_context(allow_unregistered=True), "in.mlir")
        except QError as error:
            return type(error), error.message, error.code, error.where, error.notes


def _facts(module: ModuleOp) -> Iterator[object]:
    """All there is to know of a module, in the order of its ops."""
    numbers: dict[SSAValue, int] = {}
    for op in module.walk():
        for region in op.regions:
            for block in region.blocks:
                for value in block.args:
                    numbers.setdefault(value, len(numbers))
                    yield str(value.type), value.name_hint, value.location
        for value in op.results:
            numbers.setdefault(value, len(numbers))
    for op in module.walk():
        yield op.name, op.location, len(op.regions), len(op.successors)
        for table in (op.properties, op.attributes):
            yield [(name, type(held).__name__, str(held)) for name, held in table.items()]
        yield [numbers[operand] for operand in op.operands]
        yield [(str(value.type), value.name_hint, value.index) for value in op.results]
        for operand in op.operands:
            assert any(use.operation is op for use in operand.uses)


def _compare(text: str) -> bool:
    """Whether `text` is a module; fails where templates change what is read."""
    plain, fast = _read(text, use_templates=False), _read(text, use_templates=True)
    if not isinstance(plain, ModuleOp) or not isinstance(fast, ModuleOp):
        assert fast == plain, text
        return False
    for ours, theirs in zip(_facts(fast), _facts(plain), strict=True):
        assert ours == theirs, text
    return True


def _corrupted(text: str, chance: random.Random) -> str:
    """`text` with one thing wrong, most of the time."""
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    kind = chance.randrange(7)
    if kind == 0:
        lines.insert(chance.randrange(len(lines)), lines[at])
    elif kind == 1:
        del lines[at]
    elif kind == 2:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines[at] += chance.choice([" // note", " loc(unknown)", "\n  loc(unknown)", " {x}", " ,"])
    else:
        place = chance.randrange(len(text))
        new = chance.choice(["", "%", "0", "x", '"', ">", "<", "{", ")", "\n", " ", "é", "//", "!"])
        return text[:place] + new + text[place + (kind != 4) :]
    return "\n".join(lines)


def _texts() -> list[Path]:
    return sorted([*ROOT.glob("lit_tests/**/*.mlir"), *ROOT.glob("tests/**/*.mlir")])


@pytest.mark.parametrize("part", range(4))
def test_files_of_the_tests(part: int) -> None:
    assert len(_texts()) > 100
    chance = random.Random(part)
    for path in _texts()[part::4]:
        for piece in path.read_text(encoding="utf-8", errors="replace").split("// -----\n"):
            if len(piece) < 40_000 and _compare(piece):
                for _ in range(3):
                    _compare(_corrupted(piece, chance))


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_random_programs_and_broken_ones(generic: bool) -> None:
    chance = random.Random(int(generic))
    for seed in range(20):
        module, ctx = random_program(seed, 8)
        names = seed % 3 == 0
        text = module_text(module, ctx, generic=generic, keep_names=names, debuginfo=seed % 5 == 4)
        assert _compare(text)
        for _ in range(6):
            _compare(_corrupted(text, chance))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ops were made of lines, each time lines were read."""
    counts: list[int] = []
    plain = LineTemplates.read

    def read(self: LineTemplates, *arguments: object) -> object:
        ops, end = plain(self, *arguments)  # type: ignore[arg-type]
        counts.append(len(ops))
        return ops, end

    monkeypatch.setattr(LineTemplates, "read", read)
    return counts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_networks_are_read_with_templates(
    graph: str, form: str, generic: bool, made: list[int]
) -> None:
    """Most ops of a network do not go through the parser."""
    module = GRAPHS[graph](200, form)
    text = module_text(module, new_context(), generic=generic)
    assert _compare(text)
    assert sum(made) > 0.8 * sum(1 for _ in module.walk())
    chance = random.Random(graph)
    for _ in range(4):
        _compare(_corrupted(text, chance))


HEAD = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
LINE = '  %0 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n'
TAIL = "  return %0 : tensor<4xf32>\n}\n"


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        '  %1 = nn.relu %y {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<5xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "a"} : tensor<4xf32> -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> (tensor<4xf32>)\n',
        '  %1 = nn.relu %x {nn.key = "a", nn.key = "b"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "\\41"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1:1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32> loc("a":1:2)\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n  loc("a":1:2)\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) ->\n  tensor<4xf32>\n',
        '  %1 = nn.relu %x#0 {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x, %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<4x!q>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<99999999999999999999xf32>\n',
        '  %1a = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %a_1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = nn.relu %0 {nn.key = "a // b"} : (tensor<4xf32>) -> tensor<4xf32> // : (T) -> T\n',
        '  nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = "nn.relu"(%x) {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n',
        '  %1 = "nn.relu"(%x) {nn.key = "a"} : (tensor<4xf32>) -> (tensor<4xf32>)\n',
        '  %1 = "nn.relu"(%x) {nn.key = "a"} : (tensor<4xf32>) -> ()\n',
        '  %1 = "x.y"(%x) {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n' * 2,
    ],
)
def test_lines_that_are_nearly_usual(line: str) -> None:
    _compare(HEAD + LINE + LINE.replace("%0", "%9") + line + TAIL)
    _compare(HEAD + LINE + line + line.replace("%1", "%2").replace("%a", "%b") + TAIL)


T = "tensor<4xf32>"
BLOB = "1df0d6b3d3a9a0e9"
REPEATED = {
    "several results": f'%N:2 = nn.split %x sizes [2, 2] {{nn.key = "kN"}} : ({T}) -> '
    "(tensor<2xf32>, tensor<2xf32>)",
    "a place": f'%N = nn.relu %x {{nn.key = "kN"}} : ({T}) -> {T} loc("a.onnx":N:3)',
    "a name": f'%N = nn.relu %x {{nn.key = "kN"}} : ({T}) -> {T} loc("nN"("a.onnx":N:0))',
    "names": f'%N = nn.relu %x : ({T}) -> {T} loc(fused["a", "bN"])',
    "no place": f"%N = nn.relu %x : ({T}) -> {T} loc(unknown)",
    "an alias": f"%N = nn.relu %x : ({T}) -> {T} loc(#loc7)",
    "a generic op": f'%N = "nn.relu"(%x) {{nn.key = "kN"}} : ({T}) -> {T} loc("a":N:3)',
    "a weight": f'%N = nn.constant #nn.blob<"{BLOB}N" : {T}> {{nn.key = "kN"}} : {T}',
    "a generic weight": f'%N = "nn.constant"() <{{value = #nn.blob<"{BLOB}N" : {T}>}}> : () -> {T}',
    "a small constant": f"%N = nn.constant dense<1.0> : {T} : {T}",
    "arith": f"%N = arith.addf %x, %x : {T}",
    "arith with a place": f'%N = arith.addf %x, %x fastmath<fast> : {T} loc("a.mlir":N:9)',
    "arith with a key": f'%N = arith.addf %x, %x {{nn.key = "kN"}} : {T}',
    "a cast": f"%N = tensor.cast %x : {T} to tensor<?xf32>",
    "an empty one": f"%N = tensor.empty() : {T}",
    "tosa": f'%N = "tosa.abs"(%x) : ({T}) -> {T}',
    "a scalar": "%N = arith.constant 3 : i32",
    "codes": "%N = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.1N:N>>",
}


def _repeated(line: str, count: int = 24) -> str:
    lines = "".join(f"  {line.replace('N', str(number))}\n" for number in range(10, 10 + count))
    return f'#loc7 = loc("a":1:2)\n{HEAD}{lines}  return %x : {T}\n}}\n'


@pytest.mark.parametrize("line", REPEATED.values(), ids=REPEATED)
def test_lines_of_all_kinds(line: str, made: list[int]) -> None:
    text = _repeated(line)
    assert _compare(text)
    # The second element of the types of casts to codes is not yet known.
    assert sum(made) >= 22
    chance = random.Random(line)
    for _ in range(12):
        _compare(_corrupted(text, chance))


def test_operands_among_several_results() -> None:
    line = "  %N = nn.add USE, %0#1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n"
    head = f"{HEAD}  %0:2 = nn.split %x sizes [2, 2] : ({T}) -> (tensor<2xf32>, tensor<2xf32>)\n"
    for use in ("%0#0", "%0", "%0#2", "%0#00", "%1#0", "%9"):
        lines = line.replace("N", "1").replace("USE", "%0#1") + line.replace("N", "2").replace(
            "USE", use
        )
        _compare(f"{head}{lines}  return %x : {T}\n}}\n")


def test_types_that_are_nearly_usual() -> None:
    kinds = [
        "tensor<0x4xf32>",
        "tensor<04xf32>",
        "tensor<4x",
        "f32>",
        "tensor<4xf32,1>",
        "tensor<f32>",
        "tensor<?x?xf32>",
        "tensor<-1xf32>",
        "tensor<4xf33>",
        "tensor<4xnone>",
        "tensor<*xf32>",
        "tensor<xf32>",
        "tensor<4x4>",
        "tensor<4x!quant.uniform<i8:f32,0.1>>",
        "tensor<4x!quant.uniform<i8:f32,0.5:-3>>",
        "tensor<4x!quant.uniform<i8:f32,0.0>>",
        "tensor<4x!quant.uniform<i8:f32,1.0e-50>>",
        "tensor<4x!quant.uniform<i33:f32,0.1>>",
        "tensor<4x!quant.uniform<i0:f32,0.1>>",
        "tensor<4x!quant.uniform<u8:f64,0.1>>",
        "tensor<4x!quant.uniform<si8:f32,0.1:-0>>",
        "tensor<4x!quant.uniform<i8:bf16,0.1>>",
        "tensor<4x!quant.uniform<i08:f32,0.1>>",
        "tensor<4x!quant.uniform<i8:f32,1>>",
        "tensor<4x!quant.uniform<i8:f32,99999999999.0>>",
        "tensor<4x!quant.uniform<i8:f32,0.1:999999999999999999>>",
        "tensor<1000000000000000000xf32>",
        "tensor<9223372036854775808xf32>",
    ]
    first = '  "test.op"() : () -> (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5>>)\n'
    for kind in kinds:
        spaced = kind.replace("f32,", "f32, ").replace("f64,", "f64, ").replace("f16,", "f16, ")
        for one in {kind, spaced}:
            use = f'  %0 = "test.op"() : () -> {one}\n  %1 = "test.op"() : () -> {one}\n'
            _compare(f"{HEAD}{first}{use}  return %x : {T}\n}}\n")
