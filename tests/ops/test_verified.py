"""What was verified before does not hide what is wrong now, and quick checks see all of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.context import new_context
from qdialect.errors import InputError
from qdialect.formats.mlir.read import read_module
from qdialect.formats.mlir.write import module_text
from qdialect.ops import ConstantOp, GatherOp, ReluOp
from qdialect.qparams.parameters import QParams, pack_f64, pack_i64
from qdialect.quant import UniformType, quant_element, with_element
from qdialect.verify.quick_check import Quick
from qdialect.verify.remembered import Verified
from qdialect.verify.verifier import verification_errors
from tests.generators.programs import random_program
from tests.generators.sized import FORMS, GRAPHS


def _told(errors: Iterator[InputError]) -> list[tuple[object, ...]]:
    return [(error.message, error.where, error.code, error.notes) for error in errors]


def _plainly(module: ModuleOp) -> list[tuple[object, ...]]:
    """The errors as xDSL's own verification of each op finds them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Quick, "verify", lambda self, op: op.verify_())  # type: ignore[misc]
        patch.setattr(Verified, "look", lambda self, op: None)  # type: ignore[misc]
        return _told(verification_errors(module))


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
            known = Verified()
            again = read_module(text, new_context(allow_unregistered=True))
            assert _told(verification_errors(again, known=known)) == []
            ops = [op for op in again.walk() if not op.regions]
            _spoil(chance.choice(ops), ops, chance)
            expected = _plainly(again)
            wrong += bool(expected)
            assert _told(verification_errors(again, known=known)) == expected
            assert _told(verification_errors(again, known=known)) == expected
    assert wrong > 20


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_spoiled_networks(graph: str, form: str) -> None:
    chance = random.Random(graph)
    known = Verified()
    for _ in range(6):
        module = GRAPHS[graph](60, form)
        assert _told(verification_errors(module, known=known)) == []
        ops = [op for op in module.walk() if not op.regions]
        _spoil(chance.choice(ops), ops, chance)
        assert _told(verification_errors(module, known=known)) == _plainly(module)


def test_an_op_is_verified_once_for_its_looks(monkeypatch: pytest.MonkeyPatch) -> None:
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
    plain = Quick.verify

    def verify(self: Quick, op: Operation) -> None:
        seen.append(op)
        plain(self, op)

    monkeypatch.setattr(Quick, "verify", verify)
    known = Verified()
    module = read_module(text, new_context())
    assert list(verification_errors(module, known=known)) == []
    assert sum(isinstance(op, ReluOp) for op in seen) == 1
    assert list(verification_errors(module, known=known)) == []
    assert sum(isinstance(op, ReluOp) for op in seen) == 1


def test_scales_are_looked_at_where_they_matter() -> None:
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
    known = Verified()
    for scale, bias, wrong in (
        ("0.5", "0.125", ""),
        ("0.5", "0.25", "bias must have the scale"),
        ("0.75", "0.125", "result must be quantized as"),
        ("0.5", "0.125", ""),
    ):
        module = read_module(text.replace("SCALE", scale).replace("BIAS", bias), new_context())
        errors = [error.message for error in verification_errors(module, known=known)]
        assert [wrong in error for error in errors] == [True] * bool(wrong)


def test_what_a_verifier_sees_beyond_types_is_looked_at_again() -> None:
    text = """
func.func @f(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %i = nn.constant dense<[0, 1]> : tensor<2xi64> : tensor<2xi64>
  %j = nn.constant dense<[0, 9]> : tensor<2xi64> : tensor<2xi64>
  %a = nn.gather %x, %i : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  %b = nn.gather %x, INDICES : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}
"""
    known = Verified()
    good = read_module(text.replace("INDICES", "%i"), new_context())
    assert list(verification_errors(good, known=known)) == []
    assert not GatherOp.TOLD_BY_TYPES
    assert ConstantOp.TOLD_BY_TYPES
    bad = read_module(text.replace("INDICES", "%j"), new_context())
    (error,) = verification_errors(bad, known=known)
    assert "outside" in error.message or "range" in error.message
