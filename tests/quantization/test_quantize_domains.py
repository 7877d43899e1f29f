"""Quantization inside the domains that a target states, on random networks and strange targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import Attribute, Operation

import qdialect as qd
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.domains import Domain
from qdialect.ir.behaviors import Comparison, Computation, Contraction, Movement, OrderPreserving
from qdialect.ir.context import new_context
from qdialect.ir.ops import constant_of, shape_of
from qdialect.ir.ops.registry import names_of
from qdialect.ir.quant import DCastOp, QCastOp, quant_element
from qdialect.passes.rule_pass import dequantized
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.quantizer.probed import probed_domains
from qdialect.quantizer.profile.file import save_profile
from qdialect.quantizer.profile.nearest import qparams_inside
from qdialect.quantizer.profile.ranges import Range
from qdialect.quantizer.profile.scheme import Scheme
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.workflows.model import Model, run_passes
from tests.generators.float_networks import random_network

ON_CODES = names_of(Movement, OrderPreserving, Comparison, Computation)


def target(
    values: str,
    weights: str,
    results: str = "",
    *,
    tensors: Sequence[str] = (),
    values2: str = "",
    sums: str = "i32",
    bias: str = "i32 per-axis",
) -> Target:
    """Ops on codes of `values`, products with `weights`."""
    tied = (Kernel((values, values2 or values), (values,)),)
    products = (Kernel((values, weights, bias), (results or values,), sums),)
    storages = frozenset(tensors or ("i4", "i8", "u8", "i16", "i32"))
    return Target(
        "strange",
        "a strange target",
        storages=storages,
        activations=values.split("|")[0].split()[0].split("<")[0],
        kernels={
            "nn.constant": (Kernel(),),
            "quant.rescale": (Kernel((f"{values.split()[0]}|i32 per-axis",), ("*",)),),
            **dict.fromkeys(ON_CODES, tied),
            **dict.fromkeys(names_of(Contraction), products),
        },
        runs_others=False,
    )


TARGETS = {
    "shifts": target("i8 zero=0|-128 scale=2^n", "i8<-127:127> zero=0 scale=2^n"),
    "one-sided": target("u8 zero=0", "i8 per-axis zero=0"),
    "16-bit": target("i16 zero=0", "i16 zero=0", tensors=("i16", "i32"), sums="i40"),
    "sums": target("i8", "i8 per-axis", "i32 per-axis"),
    "per-tensor sums": target("i8 scale=2^n", "i8", "i32"),
    "multiples": target("u8 scale=n*0.015625", "i8 per-axis scale=m6*2^n"),
    "few scales": target("i8 scale=1/64|1/32|1/16|1/8|1/4|1/2", "i8 per-axis"),
    "4-bit weights": target("u8", "i4 per-axis"),
    "equal operands": target("i8", "i8 per-axis", values2="i8 as=0"),
    "short biases": target("i8", "i8 per-axis", bias="i32<-2000:2000> per-axis"),
    "narrow": target("i8<-100:100> zero=-100..50", "i8<-64:63> zero=0 per-axis"),
}


def calibrated(seed: int, chosen: Target, folder: Path) -> tuple[Model, Path]:
    ctx = new_context()
    ctx.target = chosen
    module = read_module(random_network(seed), ctx)
    verify_module(module, ctx)
    model = Model(module, ctx)
    shape = shape_of(model.function().body.block.args[0])
    array = np.random.default_rng(seed).normal(size=(6, *shape)).astype(np.float32)
    np.savez(folder / "data.npz", x=array)
    save_profile(qd.calibrate(model, folder / "data.npz"), folder / "p.json")
    return model, folder / "p.json"


def types(op: Operation) -> Iterator[QParams]:
    if op.name == "nn.constant" and all(
        isinstance(u.operation, DCastOp) for u in op.results[0].uses
    ):
        return  # weights of the float network, some of which are in codes
    for value in (*op.operands, *op.results):
        if (element := quant_element(value.type)) is not None:
            yield element.qparams


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_made_that_the_target_refuses(name: str, seed: int, tmp_path: Path) -> None:
    chosen = TARGETS[name]
    model, profile = calibrated(seed, chosen, tmp_path)
    recipe = f"file={profile} activations={chosen.activations} max-steps=inf"
    result = run_passes(
        model, f"apply-profile{{{recipe}}},integerize{{numerics=ties}},canonicalize,cse,dce"
    )
    for op in result.module.walk():
        if isinstance(op, QCastOp | DCastOp) or not any(types(op)):
            continue
        assert chosen.refuses(op, op.operand_types, op.result_types) is None, op


@pytest.mark.parametrize("name", TARGETS)
def test_a_domain_makes_ops_run_on_codes(name: str, tmp_path: Path) -> None:
    """Each target gets the products of most networks, and a result that is near."""
    chosen, products, on_codes = TARGETS[name], 0, 0
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        model, profile = calibrated(seed, chosen, folder)
        recipe = f"file={profile} activations={chosen.activations} max-steps=inf"
        result = run_passes(
            model, f"apply-profile{{{recipe}}},integerize{{numerics=ties}},canonicalize,dce"
        )
        found = [op for op in result.module.walk() if op.name in ("nn.conv2d", "nn.matmul")]
        products += len(found)
        on_codes += sum(any(types(op)) for op in found)
    assert on_codes > 0.7 * products, (on_codes, products)


class Hooked(Target):
    """A vendor who states restrictions in code, not as domains."""

    def refuses(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> str | None:
        for kind in (*operands, *results):
            element = quant_element(kind)
            if element is None:
                continue
            if any(math.frexp(scale)[0] != 0.5 for scale in element.qparams.scale_list()):
                return "rescales are shifts"
            if not {0, -128}.issuperset(element.qparams.zero_point_list()):
                return "zero points are 0 or -128"
        return super().refuses(op, operands, results)


def test_what_a_hook_refuses_is_found_by_asking(tmp_path: Path) -> None:
    chosen = Hooked("hooked", "restricted by code", activations="i8", per_axis=False)
    assert {str(domain) for domain in probed_domains(chosen)} == {
        "i8 per-axis per-block zero=0|-128 scale=2^n",
        "u8 per-axis per-block zero=0 scale=2^n",
        "i16 per-axis per-block zero=0 scale=2^n",
    }
    assert probed_domains(Target("free", "takes anything")) == ()
    products = on_codes = 0
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        model, profile = calibrated(seed, chosen, folder)
        recipe = f"file={profile} activations=i8 per-channel=false"
        result = run_passes(
            model, f"apply-profile{{{recipe} max-steps=inf}},integerize{{numerics=ties}},dce"
        )
        found = [op for op in result.module.walk() if op.name in ("nn.conv2d", "nn.matmul")]
        products += len(found)
        on_codes += sum(any(types(op)) for op in found)
        for op in result.module.walk():
            if any(types(op)) and not isinstance(op, DCastOp):  # of weights that are given
                assert chosen.refuses(op, op.operand_types, op.result_types) is None, op
    assert on_codes > 0.7 * products, (on_codes, products)


def test_regrid_on_random_networks(tmp_path: Path) -> None:
    """What was quantized for anything becomes what a target of shifts takes."""
    chosen, left, all_ops = TARGETS["shifts"], 0, 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        free = Target("free", "takes anything", activations="i8")
        model, profile = calibrated(seed, free, folder)
        recipe = f"file={profile} activations=i8 max-steps=inf"
        foreign = run_passes(model, f"apply-profile{{{recipe}}}")
        foreign.ctx.target = chosen
        pipeline = "regrid{numerics=relaxed},integerize{numerics=ties},canonicalize,dce"
        result = run_passes(foreign, pipeline)
        for op in result.module.walk():
            if isinstance(op, QCastOp | DCastOp) or not any(types(op)):
                continue
            all_ops += 1
            left += chosen.refuses(op, op.operand_types, op.result_types) is not None
    assert all_ops > 20 and left == 0


RANGES = [Range(-1.0, 3.0), Range(0.0, 6.0), Range(-0.3, 0.0), Range(-100.0, 90.0)]


@pytest.mark.parametrize("found", RANGES)
@pytest.mark.parametrize(
    "text",
    [
        "i8 zero=0|-128 scale=2^n",
        "u8 zero=0|128",
        "i8 scale=2^n",
        "i8 zero=-10..10",
        "u8 scale=n*1/8",
    ],
)
def test_the_nearest_of_a_domain(found: Range, text: str) -> None:
    """No scale beside the chosen one, with any zero point of the domain, has less error on evenly
    spread numbers."""
    domain = Domain.parse(text)
    storage = domain.storages[0]
    scheme = Scheme.of(storage.spelling)
    chosen = qparams_inside(found, scheme, [domain])
    assert chosen is not None and domain.refuses(chosen) is None
    numbers = np.linspace(found.low, found.high, 4001)

    def error(scale: float, zero: int) -> float:
        codes = np.clip(np.rint(numbers / scale) + zero, storage.min, storage.max)
        return float(np.square((codes - zero) * scale - numbers).mean())

    scales = {chosen.scale * factor for factor in (0.25, 0.5, 1.0, 2.0, 4.0)}
    if "n*" in text:
        scales = {0.125 * n for n in range(1, 20)}
    zeros = domain.zero_points(storage) or [chosen.zero_point]
    if "2^n" in text or "n*" in text:
        least = min(error(scale, zero) for scale in scales for zero in zeros)
        assert error(chosen.scale, chosen.zero_point) <= least * 1.1 + 1e-12
    else:
        whole = (found.high - found.low) / 255
        assert error(chosen.scale, chosen.zero_point) <= (2 * whole) ** 2


def test_weights_of_powers_of_two_by_recipe(tmp_path: Path) -> None:
    free = Target("free", "takes anything")
    model, profile = calibrated(1, free, tmp_path)
    result = run_passes(model, f"apply-profile{{file={profile} scheme=power-of-two max-steps=inf}}")
    products = [op for op in result.module.walk() if op.name in ("nn.conv2d", "nn.matmul")]
    weights = [constant_of(cast.input) for op in products if (cast := dequantized(op.operands[1]))]
    assert any(weights)
    for constant in filter(None, weights):
        element = quant_element(constant.result.type)
        assert element is not None
        assert all(math.frexp(scale)[0] == 0.5 for scale in element.qparams.scale_list())


def test_a_sum_that_no_rescale_takes_is_left_float(tmp_path: Path) -> None:
    kernels = {**TARGETS["sums"].kernels, "quant.rescale": ()}
    chosen = replace(TARGETS["sums"], kernels=kernels)
    model, profile = calibrated(0, chosen, tmp_path)
    result = run_passes(model, f"apply-profile{{file={profile} activations=i8 max-steps=inf}}")
    reasons = [r.reason for r in result.ctx.remarks.remarks if r.code == "target"]
    assert any("no rescale takes its sums" in reason for reason in reasons)
