"""The release that quant types are spelled for: commands, API, and iree-opt (LLVM 24)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from _pytest.capture import CaptureFixture
from generate import Features, TypeGenerator
from quant_support import find_iree_opt

from qdialect import api
from qdialect.cli import opt, translate
from qdialect.errors import InputError, UsageError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text

SIGNED = "func.func private @f(!quant.any<si8>)\n"
FLOAT = "func.func private @g(tensor<2x!quant.any<f8E5M2:f32>>)\n"
TABLE = "func.func private @h(!quant.quantile<ui1:f16, {-1.0,1.0}>)\n"


ENTRIES = "{-1.0,0.25,-0.5, 1.5}"
TABLES = [
    f"quantile<ui2:f16, {ENTRIES}>",
    "quantile<i1:i8, {0.1234567891234, 7.0e+29}>",
    f"any<!quant.quantile<si2:f32, {ENTRIES}>:f32>",
    f"uniform<!quant.quantile<i2:f16, {ENTRIES}>:f32:1, {{0.1:3,2.0}}>",
    "uniform<!quant.quantile<i4:f16, {-1.0,0.25}, <-3:-2>>:bf16, 0.1:3>",
    "uniform<!quant.quantile<f4E2M1FN:f16, {0.5,0.25,-4.0}, <-1:1>>:f32, 0.1>",
]


def written(path: Path, *flags: str) -> str:
    result = path.with_suffix(".out.mlir")
    assert opt.main([str(path), *flags, "-o", str(result)]) == 0
    return result.read_text()


def source(folder: Path, text: str) -> Path:
    path = folder / "x.mlir"
    path.write_text(text)
    return path


def test_signed_keywords_are_kept_for_24_only(tmp_path: Path) -> None:
    path = source(tmp_path, SIGNED)
    assert "<i8>" in written(path)
    assert "<i8>" in written(path, "--quant-text=v22")
    assert "<si8>" in written(path, "--quant-text", "v24")


@pytest.mark.parametrize("text", [FLOAT, TABLE])
def test_types_22_does_not_know(text: str, tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    path = source(tmp_path, SIGNED + text)
    assert opt.main([str(path), "--quant-text=v22"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{path}:2:1: error: text of MLIR 22 cannot express" in told.err
    result = tmp_path / "y.mlir"
    assert opt.main([str(path), "--quant-text=v22", "-o", str(result)]) == 1
    assert not result.exists()
    assert written(path) == written(path, "--quant-text=v24").replace("si8", "i8")


def test_dumps_are_spelled_alike(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    path = source(tmp_path, SIGNED)
    flags = ["-p", "canonicalize", "--mlir-print-ir-before-all"]
    assert opt.main([str(path), *flags, "--quant-text=v24"]) == 0
    assert "<si8>" in capsys.readouterr().err


def test_api(tmp_path: Path) -> None:
    model = api.load(source(tmp_path, SIGNED + FLOAT))
    path = tmp_path / "y.mlir"
    api.save(model, path, text_version="v24")
    assert path.read_text() == model.text("v24")
    assert "<si8>" in model.text("v24")
    assert model.text() == str(model) == model.text("v24").replace("si8", "i8")
    for write in (lambda: model.text("v22"), lambda: api.save(model, path, text_version="v22")):
        with pytest.raises(InputError, match="f8E5M2 storage") as caught:
            write()
        assert caught.value.where and caught.value.where.line == 2
    wrong: Any = "v23"
    with pytest.raises(UsageError, match="v22 or v24"):
        model.text(wrong)


def test_translate_takes_the_flag(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    onnx = tmp_path / "m.onnx"
    path = source(
        tmp_path,
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = nn.relu %x : (tensor<2xf32>) -> tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}\n",
    )
    assert translate.main(["--export-onnx", str(path), "-o", str(onnx)]) == 0
    for version in ("v22", "v24"):
        assert translate.main(["--import-onnx", str(onnx), f"--quant-text={version}"]) == 0
        assert "nn.relu" in capsys.readouterr().out


def test_iree_opt_prints_what_we_print_for_24() -> None:
    tool = find_iree_opt()
    if tool is None:
        pytest.skip("no iree-opt: set QDIALECT_IREE_OPT, or install qdialect[iree]")
    generator = TypeGenerator(17, Features())
    types = [generator.type() for _ in range(400)]
    # It crashes on a table under a block grid, prints some scales of blocks as bits, and
    # the entries of a table in another type with six digits (ours: all they have).
    texts = [t for t in types if ":{" not in t.replace(" ", "") and "quantile" not in t]
    texts += [f"!quant.{t}" for t in TABLES]
    lines = "".join(f"func.func private @f{i}({text})\n" for i, text in enumerate(texts))
    done = subprocess.run([tool], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:600]
    ours = printed(lines)
    assert ours.splitlines() == done.stdout.rstrip().splitlines()


def printed(text: str) -> str:
    ctx = new_context()
    return module_text(read_module(text, ctx), ctx, text_version="v24").rstrip()
