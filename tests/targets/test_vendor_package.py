"""A vendor's package, installed by pip: its ops, pass and target take part in everything.

The package is in tests/vendor_package; it imports qdialect and edits nothing of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.vendors import CAN_BUILD, NEEDS, ROOT, call, install

pytestmark = pytest.mark.skipif(not CAN_BUILD, reason=NEEDS)

TYPES = """
!f = tensor<1x2x2x2xf32>
!a = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25:-5>>
!h = tensor<1x2x2x2x!quant.uniform<i8:f32, 1.0:0>>
!u = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:131>>
!wide = tensor<1x2x2x2x!quant.uniform<i16:f32, 0.25:0>>
!w = tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!wf = tensor<2x2x1x1xf32>
"""
WEIGHT = """
  %w = nn.constant dense<[[[[3]], [[-2]]], [[[1]], [[4]]]]> : tensor<2x2x1x1xi8> : !w"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in it."""
    return install(ROOT / "tests" / "vendor_package", tmp_path_factory.mktemp("acme"))


def opt(site: Path, body: str, pipeline: str, *flags: str) -> tuple[str, str]:
    """Ops and types that are left, and what was said; the numerics are verified."""
    arguments = ["qdialect.cli.opt", "-p", pipeline, "--target=acme_npu", "--remarks"]
    done = call(site, [*arguments, "--verify-numerics=6", *flags], TYPES + body)
    assert done.returncode == 0, done.stderr
    assert "not compared" not in done.stderr
    names = re.findall(r"(?:^|\s)((?:acme|quant|nn)\.\w+) ", done.stdout)
    return " ".join(n for n in names if n != "nn.constant"), done.stdout + done.stderr


def test_it_is_found(site: Path) -> None:
    listed = call(site, ["qdialect.cli.opt", "--list-targets"])
    assert re.search(r"^acme_npu +Acme NPU: fused", listed.stdout, re.M)
    shown = call(site, ["qdialect.cli.opt", "--show-target=acme_npu"]).stdout
    assert re.search(r"^declares nn.avg_pool2d +for this target$", shown, re.M)
    assert re.search(r"^kept whole +nn.hard_swish$", shown, re.M)


BELOW = """
func.func @main(%x: !a) -> !b {{
  %0 = quant.rescale %x : !a to !b
  %1 = acme.{op} %0 {floor}: (!b) -> !b
  func.return %1 : !b
}}"""
ABOVE = """
func.func @main(%x: !a) -> !b {{
  %0 = acme.{op} %x {floor}: (!a) -> !a
  %1 = quant.rescale %0 : !a to !b
  func.return %1 : !b
}}"""
OPS = [("rotate", ""), ("splat_max", "floor -1.5 : f32 ")]


@pytest.mark.parametrize(("op", "floor"), OPS)
def test_rescales_sink_and_hoist_through_its_ops(site: Path, op: str, floor: str) -> None:
    sunk, _ = opt(site, BELOW.format(op=op, floor=floor), "sink-rescale")
    assert sunk == f"acme.{op} quant.rescale"
    hoisted, _ = opt(site, ABOVE.format(op=op, floor=floor), "hoist-rescale")
    assert hoisted == f"quant.rescale acme.{op}"


def test_placement_prices_its_ops(site: Path) -> None:
    body = """
func.func @main(%x: !a) -> tensor<1x2x1x1x!quant.uniform<i8:f32, 0.25:-5>> {
  %0 = quant.rescale %x : !a to !b
  %1 = acme.rotate %0 : (!b) -> !b
  %2 = acme.splat_max %1 floor -1.5 : f32 : (!b) -> !b
  %3 = nn.max_pool2d %2 kernel [2, 2] : (!b) -> tensor<1x2x1x1x!quant.uniform<i8:f32, 0.25:-5>>
  func.return %3 : tensor<1x2x1x1x!quant.uniform<i8:f32, 0.25:-5>>
}"""
    left, _ = opt(site, body, "place-rescales")
    assert left == "acme.rotate acme.splat_max nn.max_pool2d quant.rescale"
    above = (
        ABOVE.format(op="rotate", floor="")
        .replace("!b", "!u")
        .replace("@main(%x: !a)", "@main(%x: !a, %w: !w)")
    )
    above = above.replace("acme.rotate %x : (!a) -> !a", "acme.conv_relu %x, %w : (!a, !w) -> !a")
    left, _ = opt(site, above, "place-rescales")
    assert left == "acme.conv_relu"


def test_its_ops_become_tosa(site: Path) -> None:
    body = """
func.func @main(%x: !a) -> !a {
  %0 = acme.rotate %x : (!a) -> !a
  %1 = acme.splat_max %0 floor -1.5 : f32 : (!a) -> !a
  func.return %1 : !a
}"""
    command = ["qdialect.cli.opt", "-p", "convert-nn-to-tosa", "--target=acme_npu"]
    done = call(site, command, TYPES + body)
    assert done.returncode == 0, done.stderr
    # By its declared index map, and by the lowering that the plug-in registers.
    assert re.search(r"tosa.reverse.*tosa.rescale.*tosa.maximum.*tosa.rescale", done.stdout, re.S)
    refused = call(site, command, TYPES + body.replace("-1.5", "-1.3"))
    assert refused.returncode == 1
    assert "'acme.splat_max' cannot become TOSA: no code stands for its floor" in refused.stderr


def test_a_floor_without_a_code_lets_nothing_pass(site: Path) -> None:
    # -1.1 is -1.0 on both grids, so nothing differs on any code; -1.3 is -1.25 or -1.5.
    body = BELOW.format(op="splat_max", floor="floor -1.1 : f32 ")
    assert opt(site, body, "sink-rescale")[0] == "acme.splat_max quant.rescale"
    body = BELOW.format(op="splat_max", floor="floor -1.3 : f32 ")
    left, told = opt(site, body, "sink-rescale")
    assert left == "quant.rescale acme.splat_max"
    assert "refused [levels]" in told


def test_its_convolution_absorbs_rescales_and_its_bias_is_derived(site: Path) -> None:
    body = f"""
func.func @main(%x: !a) -> !h {{{WEIGHT}
  %b = nn.constant dense<[40, -30]> : tensor<2xi32>
      : tensor<2x!quant.uniform<i32:f32:0, {{0.125, 0.0625}}>>
  %0 = quant.rescale %x : !a to !wide
  %1 = acme.conv_relu %0, %w, %b
      : (!wide, !w, tensor<2x!quant.uniform<i32:f32:0, {{0.125, 0.0625}}>>) -> !b
  %2 = quant.rescale %1 : !b to !h
  func.return %2 : !h
}}"""
    left, told = opt(site, body, "combine-rescale")
    assert left == "acme.conv_relu quant.rescale"
    assert "combine-down fired, exact" in told
    # 40 * 0.125 = 20 * 0.25 and -30 * 0.0625 = -15 * 0.125
    assert "dense<[20, -15]>" in told
    left, told = opt(site, body, "combine-rescale{numerics=saturation}")
    assert left == "acme.conv_relu"
    assert "combine-up fired, saturation" in told


def test_its_ops_on_constants_fold(site: Path) -> None:
    body = """
func.func @main() -> tensor<2x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = nn.constant dense<[1, 2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  %1 = acme.rotate %0
      : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  func.return %1 : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
}"""
    left, told = opt(site, body, "fold-constants,dce")
    assert left == "" and "dense<[2, 1]>" in told


REGION = f"""
func.func @main(%x: !a) -> !b {{{WEIGHT}
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %w : !w to !wf
  %2 = acme.rotate %0 : (!f) -> !f
  %3 = acme.conv_relu %2, %1 : (!f, !wf) -> !f
  %4 = acme.splat_max %3 floor 1.5 : f32 : (!f) -> !f
  %5 = quant.qcast %4 : !f to !b
  func.return %5 : !b
}}"""


def test_its_ops_become_integer(site: Path) -> None:
    left, _ = opt(site, REGION, "integerize,dce")
    assert left == "acme.rotate acme.conv_relu acme.splat_max"


FUSED = f"""
func.func @main(%x: !f) -> !f {{{WEIGHT}
  %0 = quant.qcast %x : !f to !a
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
    source.write_text(TYPES + FUSED)
    arguments = ["qdialect.cli.qopt", "optimize", str(source), "-o", str(result)]
    done = call(site, [*arguments, "--target=acme_npu"])
    assert done.returncode == 0, done.stderr
    text = result.read_text()
    assert "acme.conv_relu" in text and "nn.conv2d" not in text and "nn.relu" not in text
    left, _ = opt(site, FUSED, "integerize,acme-fuse,dce")
    assert left == "quant.qcast acme.conv_relu quant.dcast"


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
    assert "acme_npu: operand #0 is u8, not i8" in told
    left, _ = opt(
        site, pool.replace("u8", "i8").replace("!u", "!a").replace(":131", ":3"), "integerize"
    )
    assert left == "nn.max_pool2d"


def test_its_declaration_of_our_average_pool(site: Path) -> None:
    pool = """
!p = tensor<1x2x1x1x!quant.uniform<i8:f32, 0.5:3>>
!r = tensor<1x2x1x1x!quant.uniform<i8:f32, 1.0:0>>
func.func @main(%x: !a) -> !r {
  %0 = nn.avg_pool2d %x kernel [2, 2] : (!a) -> !p
  %1 = quant.rescale %0 : !p to !r
  func.return %1 : !r
}"""
    pipeline = "combine-rescale{numerics=relaxed},sink-rescale,hoist-rescale"
    left, _ = opt(site, pool, pipeline)
    assert left == "nn.avg_pool2d quant.rescale"
    left, _ = opt(site, pool, pipeline, "--target=generic")
    assert left == "nn.avg_pool2d"


def test_its_ops_are_verified(site: Path) -> None:
    body = """
func.func @main(%x: !a) -> !b {
  %0 = acme.rotate %x : (!a) -> !b
  func.return %0 : !b
}"""
    done = call(site, ["qdialect.cli.opt"], TYPES + body)
    assert done.returncode == 1
    assert "'acme.rotate' op result must be quantized as !quant.uniform<i8:f32, " in done.stderr
