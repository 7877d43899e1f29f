"""Random types: our text is a fixed point, and mlir-opt agrees with all of it."""

from __future__ import annotations

import subprocess

import pytest
from generate import MLIR_22, Features, TypeGenerator
from quant_support import context, find_mlir_opt
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser

from qdialect.ir.quant import TextVersion, printing_for

BATCH = 250
BATCHES = 12
KNOWN_DIFFERENT = (
    "mlir-opt prints some sub-channel scales in a form it does not accept: bits of an f32, "
    "or six digits just outside the range of the expressed type; ours prints them readably"
)


@pytest.mark.parametrize("version", list(TextVersion))
def test_printed_type_parses_to_itself(version: TextVersion):
    generator = TypeGenerator(3, Features(v24=version is TextVersion.V24))
    ctx = context()
    with printing_for(version):
        for _ in range(1500):
            source = generator.type()
            parsed = Parser(ctx, source).parse_type()
            text = str(parsed)
            assert Parser(ctx, text).parse_type() == parsed, source
            assert str(Parser(ctx, text).parse_type()) == text, source


def run(tool: str, source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool], input=source, capture_output=True, text=True, check=False)


def declarations(types: list[str]) -> str:
    return "".join(f"func.func private @f{i}({t})\n" for i, t in enumerate(types))


def declared(text: str) -> list[Attribute]:
    module = Parser(context(), text).parse_module()
    return [
        op.function_type.inputs.data[0] for op in module.body.block.ops if isinstance(op, FuncOp)
    ]


@pytest.mark.parametrize("seed", range(BATCHES))
def test_mlir_opt_agrees(seed: int):
    tool = find_mlir_opt()
    if tool is None:
        pytest.skip("no mlir-opt: set QDIALECT_MLIR_OPT, or install qdialect[mlir]")
    generator = TypeGenerator(seed, MLIR_22)
    sources = [generator.type() for _ in range(BATCH)]
    ours = declared(declarations(sources))
    text = declarations([str(t) for t in ours])

    def mlir_opt(source: str) -> str:
        return subprocess.run(
            [tool], input=source, capture_output=True, text=True, check=True
        ).stdout

    from_source, from_ours = mlir_opt(declarations(sources)), mlir_opt(text)
    assert from_ours == from_source
    assert declared(from_ours) == ours
    printed = [
        line.split("(", 1)[1].rsplit(")", 1)[0] for line in from_ours.splitlines() if "@f" in line
    ]
    different = [(a, str(b)) for a, b in zip(printed, ours, strict=True) if a != str(b)]
    for theirs, mine in different:
        assert ":{" in theirs, mine  # KNOWN_DIFFERENT
        assert run(tool, declarations([theirs])).returncode != 0, KNOWN_DIFFERENT
