"""The cache of verified ops hides no error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.algebra.qparams.parameters import QParams, pack_f64, pack_i64
from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.ir.ops import ConstantOp, GatherOp, ReluOp
from qdialect.ir.quant import UniformType, quant_element, with_element
from qdialect.ir.verify.cache import VerifiedOps
from qdialect.ir.verify.verifier import verification_errors
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text
from tests.generators.programs import random_program
from tests.generators.sized import FORMS, GRAPHS


def _texts(errors: Iterator[InputError]) -> list[tuple[object, ...]]:
    return [(error.message, error.where, error.code, error.notes) for error in errors]


def _uncached(module: ModuleOp) -> list[tuple[object, ...]]:
    """The errors that are found without the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VerifiedOps, "key", lambda self, op: None)  # type: ignore[misc]
        return _texts(verification_errors(module))


def _other_field(params: QParams, chance: random.Random) -> QParams:
    """`params` with another scale or zero point, or more of them."""
    scales, zeros = params.scale_list(), params.zero_point_list()
    where = chance.randrange(len(scales))
    if chance.random() < 0.5:
        scales[where] *= chance.choice([0.5, 3.0, 1e60, -1.0])
    else:
        zeros[where] += chance.choice([-1, 1, 1000])
    if chance.random() < 0.2:
        return QParams.per_axis(params.storage, 0, scales * 2, zeros * 2, params.expressed)
    return replace(params, scales=pack_f64(scales), zero_points=pack_i64(zeros))


def _spoil(op: Operation, others: list[Operation], chance: random.Random) -> None:
    """Make `op` an op that is most likely wrong."""
    other = chance.choice(others)
    kind = chance.randrange(9)
    values: list[SSAValue] = [*op.results, *op.operands]
    theirs: list[SSAValue] = [*other.results, *other.operands]
    if kind <= 1 and values and theirs:
        value = chance.choice(values)
        Rewriter.replace_value_with_new_type(value, chance.choice(theirs).type)
    elif kind >= 7 and values:
        value = chance.choice(values)
        element = quant_element(value.type)
        if element is not None:
            new = with_element(value.type, UniformType(_other_field(element.qparams, chance)))
            Rewriter.replace_value_with_new_type(value, new)
    elif kind == 2 and op.operands and other.results:
        op.operands[chance.randrange(len(op.operands))] = other.results[0]
    elif kind == 3 and op.operands:
        op.operands = list(op.operands)[:-1]
    elif kind == 4 and op.properties:
        del op.properties[chance.choice(sorted(op.properties))]
    elif kind == 5:
        known: list[tuple[str, Attribute]] = sorted(other.properties.items())
        name, held = chance.choice([*known, ("axis", IntegerAttr(77, i64))])
        op.properties[name] = held
    else:
        op.attributes[chance.choice(["nn.key", "nn.qparams", "quant.rounding", "x"])] = StringAttr(
            "?"
        )


@pytest.mark.parametrize("part", range(4))
def test_spoiled_ops_of_random_programs(part: int) -> None:
    chance = random.Random(part)
    wrong = 0
    for seed in range(part * 25, part * 25 + 25):
        module, ctx = random_program(seed, 8)
        text = module_text(module, ctx)
        for _ in range(4):
            verified = VerifiedOps()
            again = read_module(text, new_context(allow_unregistered=True))
            assert _texts(verification_errors(again, verified=verified)) == []
            ops = [op for op in again.walk() if not op.regions]
            _spoil(chance.choice(ops), ops, chance)
            expected = _uncached(again)
            wrong += bool(expected)
            assert _texts(verification_errors(again, verified=verified)) == expected
            assert _texts(verification_errors(again, verified=verified)) == expected
    assert wrong > 20


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_spoiled_networks(graph: str, form: str) -> None:
    chance = random.Random(graph)
    verified = VerifiedOps()
    for _ in range(6):
        module = GRAPHS[graph](60, form)
        assert _texts(verification_errors(module, verified=verified)) == []
        ops = [op for op in module.walk() if not op.regions]
        _spoil(chance.choice(ops), ops, chance)
        assert _texts(verification_errors(module, verified=verified)) == _uncached(module)


def test_ops_with_the_same_key_are_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        + "".join(
            f'  %{i + 1} = nn.relu %{i or "x"} {{nn.key = "{i}"}} '
            ": (tensor<4xf32>) -> tensor<4xf32>\n"
            for i in range(20)
        )
        + "  return %20 : tensor<4xf32>\n}\n"
    )
    seen: list[Operation] = []
    plain = ReluOp.verify_

    def verify(op: ReluOp) -> None:
        seen.append(op)
        plain(op)

    monkeypatch.setattr(ReluOp, "verify_", verify)
    verified = VerifiedOps()
    module = read_module(text, new_context())
    assert list(verification_errors(module, verified=verified)) == []
    assert len(seen) == 1
    assert list(verification_errors(module, verified=verified)) == []
    assert len(seen) == 1


def test_scales_are_in_the_key_where_the_verifier_reads_them() -> None:
    text = """
!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, SCALE>
!w = !quant.uniform<i8:f32:0, {0.25,0.125}>
!bias = !quant.uniform<i32:f32:0, {BIAS,0.0625}>
func.func @f(%x: tensor<2x2x!a>, %w: tensor<2x2x!w>, %c: tensor<2x!bias>) -> tensor<2x2x!b> {
  %a = nn.relu %x : (tensor<2x2x!a>) -> tensor<2x2x!b>
  %b = nn.fully_connected %x, %w, %c
      : (tensor<2x2x!a>, tensor<2x2x!w>, tensor<2x!bias>) -> tensor<2x2x!b>
  return %a : tensor<2x2x!b>
}
"""
    verified = VerifiedOps()
    for scale, bias, wrong in (
        ("0.5", "0.125", ""),
        ("0.5", "0.25", "bias must have the scale"),
        ("0.75", "0.125", "result must be quantized as"),
        ("0.5", "0.125", ""),
    ):
        module = read_module(text.replace("SCALE", scale).replace("BIAS", bias), new_context())
        errors = [error.message for error in verification_errors(module, verified=verified)]
        assert [wrong in error for error in errors] == [True] * bool(wrong)


def test_an_op_whose_verifier_reads_more_than_types_has_no_key() -> None:
    text = """
func.func @f(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %i = nn.constant dense<[0, 1]> : tensor<2xi64> : tensor<2xi64>
  %j = nn.constant dense<[0, 9]> : tensor<2xi64> : tensor<2xi64>
  %a = nn.gather %x, %i : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  %b = nn.gather %x, INDICES : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}
"""
    verified = VerifiedOps()
    good = read_module(text.replace("INDICES", "%i"), new_context())
    assert list(verification_errors(good, verified=verified)) == []
    assert not GatherOp.VERIFIES_TYPES_ONLY
    assert ConstantOp.VERIFIES_TYPES_ONLY
    bad = read_module(text.replace("INDICES", "%j"), new_context())
    (error,) = verification_errors(bad, verified=verified)
    assert "outside" in error.message or "range" in error.message
