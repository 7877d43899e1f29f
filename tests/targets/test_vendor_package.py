"""The package that `qopt new-target` writes, installed by pip: its own tests pass, and its op,
pass and target take part in everything. It imports qdialect and edits nothing of it.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from qdialect.cli.command_new_target import write_package
from tests.support.page_models import float_model
from tests.support.vendors import CAN_BUILD, NEEDS, ROOT, call, install

NAME = "my_npu"

pytestmark = pytest.mark.skipif(not CAN_BUILD, reason=NEEDS)

TYPES = """
!f = tensor<1x2x2x2xf32>
!a = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:-128>>
!b = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>
!h = tensor<1x2x2x2x!quant.uniform<i8:f32, 1.0>>
!u = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:131>>
!w = tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!wf = tensor<2x2x1x1xf32>
!bias = tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.125}>>
"""
WEIGHT = """
  %w = nn.constant dense<[[[[3]], [[-2]]], [[[1]], [[4]]]]> : tensor<2x2x1x1xi8> : !w"""
BIAS = """
  %b = nn.constant dense<[40, -30]> : tensor<2xi32> : !bias"""
FUSED = "my_npu.conv_relu %x, %w strides [1, 1] pads [0, 0, 0, 0]"
BIASED = FUSED.replace("%w", "%w, %b")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `qopt new-target` writes, in an empty folder."""
    folder = tmp_path_factory.mktemp("empty")
    command = [sys.executable, "-m", "qdialect", "new-target", NAME]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert f"{NAME}/{NAME}/target.py" in done.stdout
    return folder / NAME


@pytest.fixture(scope="module")
def site(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in it, as pip installs it from a copy of its source."""
    return install(source, tmp_path_factory.mktemp("site"))


def opt(site: Path, body: str, pipeline: str, target: str = NAME) -> tuple[str, str]:
    """Ops and types that are left, and what was said; the numerics are verified."""
    arguments = ["qdialect.cli.opt", "-p", pipeline, f"--target={target}", "--remarks"]
    done = call(site, [*arguments, "--verify-numerics=6"], TYPES + body)
    assert done.returncode == 0, done.stderr
    assert "not compared" not in done.stderr
    names = re.findall(r"(?:^|\s)((?:my_npu|quant|nn)\.\w+) ", done.stdout)
    return " ".join(n for n in names if n != "nn.constant"), done.stdout + done.stderr


# -- the package ------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("filecheck") is None, reason="its lit tests need filecheck")
def test_its_own_tests_pass(site: Path, source: Path) -> None:
    done = call(site, ["pytest", "-q", "-p", "no:cacheprovider"], folder=source)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b[3-9] passed", done.stdout) and "skipped" not in done.stdout


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]], ids=" ".join)
@pytest.mark.parametrize("name", ["x", NAME, "a_name_so_long_1"])
def test_it_is_in_the_style_that_it_asks_for(
    name: str, arguments: list[str], tmp_path: Path
) -> None:
    if find_spec("ruff") is None:
        pytest.skip("no ruff: pip install ruff")
    write_package(name, tmp_path / name)
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(find_spec("pyright") is None, reason="no pyright: pip install pyright")
@pytest.mark.skipif(not os.environ.get("CI"), reason="takes half a minute: set CI=true")
def test_it_has_types(site: Path, source: Path) -> None:
    command = ["pyright", "--pythonpath", sys.executable, NAME, "tests"]
    done = call(site, command, folder=source)
    assert done.returncode == 0, done.stdout


def test_it_is_found(site: Path) -> None:
    listed = call(site, ["qdialect.cli.opt", "--list-targets"])
    assert re.search(rf"^{NAME} +8-bit convolutions", listed.stdout, re.M)
    shown = call(site, ["qdialect.cli.opt", f"--show-target={NAME}"]).stdout
    assert re.search(r"^storages +i32 zero=0, i8 zero=0\|-128 scale=2\^n$", shown, re.M)
    assert re.search(r"^kept whole +my_npu.conv_relu$", shown, re.M)


# -- its op -----------------------------------------------------------------------------


def test_its_op_absorbs_rescales_and_its_bias_is_derived(site: Path) -> None:
    body = f"""
func.func @main(%y: !b) -> !h {{{WEIGHT}
  %b = nn.constant dense<[40, -30]> : tensor<2xi32>
      : tensor<2x!quant.uniform<i32:f32:0, {{0.0625, 0.03125}}>>
  %x = quant.rescale %y : !b to tensor<1x2x2x2x!quant.uniform<i8:f32, 0.125>>
  %1 = {BIASED}
      : (tensor<1x2x2x2x!quant.uniform<i8:f32, 0.125>>, !w,
         tensor<2x!quant.uniform<i32:f32:0, {{0.0625, 0.03125}}>>) -> !b
  %2 = quant.rescale %1 : !b to !h
  func.return %2 : !h
}}"""
    left, told = opt(site, body, "combine-rescale{numerics=relaxed}")
    assert left == "my_npu.conv_relu"
    # 40 * 0.0625 = 20 * 0.125 and -30 * 0.03125 = -15 * 0.0625
    assert "dense<[20, -15]>" in told


REGION = f"""
func.func @main(%q: !a) -> !b {{{WEIGHT}{BIAS}
  %x = quant.dcast %q : !a to !f
  %1 = quant.dcast %w : !w to !wf
  %2 = quant.dcast %b : !bias to tensor<2xf32>
  %3 = {BIASED.replace("%w, %b", "%1, %2")} : (!f, !wf, tensor<2xf32>) -> !f
  %5 = quant.qcast %3 : !f to !b
  func.return %5 : !b
}}"""


def test_its_op_becomes_integer(site: Path) -> None:
    assert opt(site, REGION, "integerize,dce")[0] == "my_npu.conv_relu"


def test_its_op_is_defined_in_floats_where_the_model_is(site: Path, tmp_path: Path) -> None:
    # Odd sums are half a step of 0.06 from a code: floats and reals round them differently.
    body = """
module attributes {quant.arithmetic = "expressed"} {
  func.func @main(
      %x: tensor<1x16x2x2x!quant.uniform<i8:f32, 0.1:7>>,
      %w: tensor<2x16x1x1x!quant.uniform<i8:f32, 0.3>>)
      -> tensor<1x2x2x2x!quant.uniform<i16:f32, 0.06>> {
    %0 = nn.conv2d %x, %w
        : (tensor<1x16x2x2x!quant.uniform<i8:f32, 0.1:7>>,
           tensor<2x16x1x1x!quant.uniform<i8:f32, 0.3>>)
        -> tensor<1x2x2x2x!quant.uniform<i16:f32, 0.06>>
    %1 = nn.relu %0
        : (tensor<1x2x2x2x!quant.uniform<i16:f32, 0.06>>)
        -> tensor<1x2x2x2x!quant.uniform<i16:f32, 0.06>>
    func.return %1 : tensor<1x2x2x2x!quant.uniform<i16:f32, 0.06>>
  }
}"""
    before, after = tmp_path / "before.mlir", tmp_path / "after.mlir"
    before.write_text(body)
    command = ["qdialect.cli.opt", str(before), "-p", f"{NAME}-fuse", "-o", str(after)]
    assert call(site, command).returncode == 0 and f"{NAME}.conv_relu" in after.read_text()
    same = call(site, ["qdialect", "diff", str(before), str(after), "--samples=16"])
    assert same.returncode == 0, same.stdout


def test_its_sums_are_typed_and_split(site: Path) -> None:
    assert "quant.dcast" in opt(site, REGION, "type-accumulators,dce", "generic")[0]
    body = f"""
func.func @main(%x: !a) -> !b {{{WEIGHT}{BIAS}
  %0 = {BIASED} : (!a, !w, !bias) -> !b
  func.return %0 : !b
}}"""
    left, told = opt(site, body, "split-rescale,convert-rescale{form=fixed}", "generic")
    assert left == "my_npu.conv_relu quant.rescale" and "fix-rescale fired, exact" in told
    left, _ = opt(site, body, "lower-composites{numerics=ties},dce", "tosa")
    assert left == "nn.conv2d nn.relu"
    refused = call(site, ["qdialect.cli.opt", "-p", "convert-nn-to-tosa"], TYPES + body)
    assert "note: nearest form: its pieces (lower-composites)" in refused.stderr


def test_its_activation_keeps_numbers_behind_it_out(site: Path) -> None:
    body = """
func.func @main(%x: !f) -> !f {
  %w = nn.constant dense<0.25> : tensor<2x2x1x1xf32> : !wf
  %0 = my_npu.conv_relu %x, %w strides [1, 1] pads [0, 0, 0, 0] : (!f, !wf) -> !f
  %m = nn.constant dense<-2.0> : tensor<f32> : tensor<f32>
  %1 = nn.mul %0, %m : (!f, tensor<f32>) -> !f
  func.return %1 : !f
}"""
    # relu(w x) * -2 is not relu(-2 w x)
    assert opt(site, body, "fold-into-weights{numerics=ties}")[0] == "my_npu.conv_relu nn.mul"
    body = f"""
func.func @main(%q: !a, %b: tensor<2xf32>) -> !f {{{WEIGHT}
  %x = quant.dcast %q : !a to !f
  %1 = quant.dcast %w : !w to !wf
  %2 = {BIASED.replace("%w", "%1")} : (!f, !wf, tensor<2xf32>) -> !f
  func.return %2 : !f
}}"""
    _, told = opt(site, body, "type-accumulators", "generic")
    assert "refused [activation]: the bias would be added after the activation" in told


# -- its pass and target ----------------------------------------------------------------

NETWORK = f"""
func.func @main(%q: !f) -> !f {{{WEIGHT}
  %0 = quant.qcast %q : !f to !a
  %1 = quant.dcast %0 : !a to !f
  %2 = quant.dcast %w : !w to !wf
  %3 = nn.conv2d %1, %2 : (!f, !wf) -> !f
  %4 = nn.relu %3 : (!f) -> !f
  %5 = quant.qcast %4 : !f to !b
  %6 = quant.dcast %5 : !b to !f
  func.return %6 : !f
}}"""


def test_its_pass_runs_where_its_target_says(site: Path, tmp_path: Path) -> None:
    source, result = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(TYPES + NETWORK)
    arguments = ["qdialect.cli.qopt", "optimize", str(source), "-o", str(result)]
    done = call(site, [*arguments, f"--target={NAME}"])
    assert done.returncode == 0, done.stderr
    text = result.read_text()
    assert "my_npu.conv_relu" in text and "nn.conv2d" not in text and "nn.relu" not in text


def test_a_float_network_gets_qparams_that_it_takes(site: Path, tmp_path: Path) -> None:
    float_model(tmp_path / "float.onnx", softmax=False)
    images = np.random.default_rng(0).standard_normal((8, 3, 8, 8)).astype("f4")
    np.savez(tmp_path / "images.npz", allow_pickle=False, x=images)
    arguments = ["qdialect", "quantize", "float.onnx", "--data", "images.npz", "-o", "q.mlir"]
    done = call(site, [*arguments, f"--target={NAME}"], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "q.mlir").read_text("utf-8")
    assert text.count(f"{NAME}.conv_relu") == 3
    # Constants and results of the op, and the casts at both ends.
    types = re.findall(r"quant\.uniform<i(?:8|32):f32(?::0)?, \{?([^>}]+)\}?>", text)
    assert len(types) > 10
    for scale, _, zero in (each.partition(":") for kind in types for each in kind.split(",")):
        assert zero in ("", "-128") and math.frexp(float(scale))[0] == 0.5


def test_its_restrictions_on_our_ops(site: Path) -> None:
    pool = """
func.func @main(%x: !u) -> tensor<1x2x1x1x!quant.uniform<u8:f32, 0.5:131>> {
  %0 = quant.dcast %x : !u to !f
  %1 = nn.max_pool2d %0 kernel [2, 2] : (!f) -> tensor<1x2x1x1xf32>
  %2 = quant.qcast %1 : tensor<1x2x1x1xf32> to tensor<1x2x1x1x!quant.uniform<u8:f32, 0.5:131>>
  func.return %2 : tensor<1x2x1x1x!quant.uniform<u8:f32, 0.5:131>>
}"""
    left, told = opt(site, pool, "integerize")
    assert left == "quant.dcast nn.max_pool2d quant.qcast"
    assert f"{NAME}: has no u8 tensors" in told
    signed = pool.replace("u8", "i8").replace("!u", "!a").replace(":131", ":-128")
    assert opt(site, signed, "integerize")[0] == "nn.max_pool2d"


def test_its_ops_are_verified(site: Path) -> None:
    body = f"""
func.func @main(%x: !a, %w: !w) -> !b {{
  %b = nn.constant dense<[40, -30]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
  %0 = {BIASED} : (!a, !w, tensor<2x!quant.uniform<i32:f32, 0.5>>) -> !b
  func.return %0 : !b
}}"""
    done = call(site, ["qdialect.cli.opt"], TYPES + body)
    assert done.returncode == 1
    assert f"'{NAME}.conv_relu' op bias must have the scale" in done.stderr
