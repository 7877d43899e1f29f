"""Fields: construction, canonicalisation, growth."""

from __future__ import annotations

from fractions import Fraction

import pytest

from qdialect.algebra.qparams import (
    DYNAMIC,
    Illegal,
    Layout,
    ParameterField,
    QParams,
    Storage,
)
from qdialect.algebra.qparams.parameter_field import growth, within_growth

TENSOR = QParams.per_tensor("i8", 0.5, 3)


def axis(*scales: float, at: int = 1, zeros: list[int] | None = None) -> QParams:
    return QParams.per_axis("i8", at, scales, zeros)


def test_encodings_survive_a_round_trip() -> None:
    blocks = QParams.blockwise("u8", [(0, 1), (1, 2)], (2, 2), [1.0, 2.0, 3.0, 4.0], [1, 2, 3, 4])
    for qparams, shape in ((TENSOR, (2, 4)), (axis(1.0, 2.0, at=0), (2, 4)), (blocks, (2, 4))):
        assert ParameterField.of(qparams, shape).to_qparams() == qparams


def test_storage_bounds_and_expressed_type_are_kept() -> None:
    qparams = QParams.per_axis(Storage.of("i8", -127, 127), 0, [2.0, 2.0], None, "f16")
    back = ParameterField.of(qparams, (2, 3)).to_qparams()
    assert back == QParams.per_tensor(Storage.of("i8", -127, 127), 2.0, 0, "f16")


def test_canonical_goes_from_grid_to_axis_to_tensor() -> None:
    grid = QParams.blockwise("i8", [(0, 1), (1, 1)], (2, 2), [1.0, 2.0, 1.0, 2.0])
    assert ParameterField.of(grid, (2, 2)).to_qparams() == axis(1.0, 2.0)
    same = QParams.blockwise("i8", [(0, 1), (1, 1)], (2, 2), [1.0] * 4)
    assert ParameterField.of(same, (2, 2)).to_qparams() == QParams.per_tensor("i8", 1.0)
    assert ParameterField.of(axis(4.0), (3, 1)).to_qparams() == QParams.per_tensor("i8", 4.0)


def test_canonical_compares_zero_points_and_scale_bits() -> None:
    assert not ParameterField.of(axis(1.0, 1.0, zeros=[0, 1]), (1, 2)).canonical().is_per_tensor
    assert not ParameterField.of(axis(1e-9, 2e-9), (1, 2)).canonical().is_per_tensor
    assert ParameterField.of(axis(1e-9, 1e-9), (1, 2)).canonical().is_per_tensor


def test_a_vector_constant_in_runs_stays_per_axis() -> None:
    qparams = axis(1.0, 1.0, 2.0, 2.0)
    assert ParameterField.of(qparams, (3, 4)).to_qparams() == qparams


def test_blocks_merge_to_the_coarsest() -> None:
    fine = QParams.blockwise("i8", [(0, 1), (1, 1)], (2, 4), [1.0, 1.0, 2.0, 2.0, 3, 3, 4, 4])
    field = ParameterField.of(fine, (2, 4)).canonical()
    assert (field.layout, field.blocks, field.count) == (Layout.BLOCK, (1, 2), 4)


def test_unknown_sizes() -> None:
    assert ParameterField.of(TENSOR, (DYNAMIC, 3)).is_per_tensor
    field = ParameterField.of(axis(1.0, 2.0), (DYNAMIC, DYNAMIC))
    assert field.shape == (DYNAMIC, 2)
    assert field.to_qparams() == axis(1.0, 2.0)
    grid = QParams.blockwise("i8", [(0, 1)], (2, 1), [1.0, 2.0])
    with pytest.raises(ValueError, match="unknown size"):
        ParameterField.of(grid, (DYNAMIC, 4))


@pytest.mark.parametrize(
    ("qparams", "shape"),
    [
        (axis(1.0, 2.0), (2, 3)),
        (axis(1.0, 2.0, at=2), (2, 2)),
        (QParams.blockwise("i8", [(1, 2)], (1, 2), [1.0, 2.0]), (2, 2, 4)),
        (QParams.blockwise("i8", [(1, 2)], (1, 2), [1.0, 2.0]), (2, 6)),
    ],
)
def test_parameters_that_do_not_fit_are_an_error(qparams: QParams, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"scales|axis|grid"):
        ParameterField.of(qparams, shape)


def test_growth_and_its_policy() -> None:
    small = ParameterField.of(axis(1.0, 2.0), (4, 2, 32))
    big = ParameterField.of(axis(*range(1, 17), at=0), (16, 8))
    assert growth([small], big) == Fraction(8)
    assert growth([small, small], big) == 4
    assert within_growth([big], small, constant=False) is small
    assert within_growth([small], big, constant=True, cap=8) is big
    assert within_growth(
        [small], ParameterField.of(axis(*range(1, 17), at=0), (16, 256)), constant=True
    )
    for constant in (False, True):
        refused = within_growth([small], big, constant=constant)
        assert isinstance(refused, Illegal)
        assert refused.code == "growth"
        assert str(refused).startswith("growth: 2 parameters become 16")
