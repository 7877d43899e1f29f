"""Building an op from what it does not take is one error that says what it takes."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, TensorType, UnitAttr, f32, i32
from xdsl.irdl import OptOperandDef, VarOperandDef
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from qdialect.ir import ops as nn
from qdialect.ir.ops.registry import all_ops
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp

TENSOR = TensorType(f32, [1, 2, 4, 4])
VALUE = create_ssa_value(TENSOR)
PAIR = test.TestOp.create(result_types=[TENSOR, TENSOR])
EVERY: list[Any] = [*all_ops(), nn.ConstantOp, QCastOp, DCastOp, SCastOp, RescaleOp]
OPERANDS = {kind: [d for _, d in kind.get_irdl_definition().operands] for kind in EVERY}


def names(kinds: list[Any]) -> Any:
    return pytest.mark.parametrize("kind", kinds, ids=[kind.name for kind in kinds])


@names([kind for kind in EVERY if VarOperandDef not in map(type, OPERANDS[kind])])
def test_too_many_operands(kind: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{kind.name} takes \d.* operands?.*, but got \("):
        kind(*[VALUE] * (len(OPERANDS[kind]) + 1))


@names([kind for kind in EVERY if OPERANDS[kind] and type(OPERANDS[kind][0]) is not VarOperandDef])
@pytest.mark.parametrize("wrong", [(), (None,), (3,), (PAIR,), ([VALUE],)], ids=range(5))
def test_no_operand_or_no_value(kind: Any, wrong: tuple[Any, ...]) -> None:
    needed = sum(not isinstance(d, VarOperandDef) for d in OPERANDS[kind])
    with pytest.raises(TypeError, match=f"^{kind.name} takes {needed}"):
        kind(*wrong, *[VALUE] * (needed - 1))


@names(list(all_ops()))
def test_a_property_it_does_not_have(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"^{kind.name} takes .*twist"):
        kind(VALUE, twist=1)


PROPERTIES = [(kind, name) for kind in all_ops() for name in kind.get_irdl_definition().properties]


@pytest.mark.parametrize(("kind", "name"), PROPERTIES, ids=lambda of: getattr(of, "name", of))
def test_a_property_of_a_wrong_type(kind: Any, name: str) -> None:
    values = [VALUE] * sum(not isinstance(d, VarOperandDef) for d in OPERANDS[kind])
    with pytest.raises(TypeError, match=f"^{kind.name} takes .*{name}"):
        kind(*values, **{name: UnitAttr()})


def test_what_is_wrong_is_said() -> None:
    weight = create_ssa_value(TensorType(f32, [3, 2, 1, 1]))
    cases: list[tuple[Any, str]] = [
        (lambda: nn.ReluOp(VALUE, VALUE), "takes 1 operand .input., .*number of operands is wrong"),
        (lambda: nn.Conv2DOp(VALUE, None, weight), "operand #1 is not one value"),
        (lambda: nn.Conv2DOp(VALUE, weight, strides=[1.5, 1.0]), "'strides': .* i64 but got f64"),
        (lambda: nn.Conv2DOp(VALUE, weight, pads=DenseArrayBase.from_list(i32, [0] * 4)), "'pads'"),
        (lambda: nn.TransposeOp(VALUE), "it needs the property 'perm'"),
        (lambda: nn.SelectOp(VALUE, VALUE), "'rhs'"),
        (lambda: nn.ReluOp(VALUE, element=VALUE), "is not a type"),  # pyright: ignore
        (lambda: QCastOp(VALUE), "'result_type'"),  # pyright: ignore
        (lambda: QCastOp(VALUE, VALUE), "is not a type"),  # pyright: ignore
        (lambda: nn.ConstantOp(StringAttr("3")), "nn.constant takes 0 operands"),  # pyright: ignore
    ]
    for build, message in cases:
        with pytest.raises(TypeError, match=message):
            build()


def test_shapes_that_do_not_fit_are_the_verifiers() -> None:
    with pytest.raises(VerifyException, match=r"'nn.conv2d' op input has 2 channels"):
        nn.Conv2DOp(VALUE, create_ssa_value(TensorType(f32, [3, 5, 1, 1])))


def test_optional_operands_may_be_left_out_or_be_none() -> None:
    weight, bias = (create_ssa_value(TensorType(f32, s)) for s in ([3, 2, 1, 1], [3]))
    assert isinstance(OPERANDS[nn.Conv2DOp][2], OptOperandDef)
    for operands in ((weight,), (weight, None), (weight, bias)):
        nn.Conv2DOp(VALUE, *operands).verify()
