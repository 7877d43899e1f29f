"""Domains of qparams: their texts, what is inside, what is inside two, what is nearest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.qparams.domains import ANY_DOMAIN, Domain, Scales

TEXTS = (
    "i8",
    "i8|u8",
    "i8<-127:127> per-axis zero=0",
    "i8 per-axis(0) scale=2^n",
    "u8 zero=0|128",
    "u8 zero=0..255 scale=1/256",
    "i8 zero=-128|0 scale=n*0.125",
    "i8 per-axis scale=m4*2^n",
    "i4|i8 per-block(32)",
    "i16 zero=0",
    "* scale=2^n",
    "*",
)
SCALES = ("2^n", "n*0.125", "n*1/10", "1/256|1/3|3", "m4*2^n")
positive = st.floats(1e-6, 1e6)


@st.composite
def params(draw: st.DrawFn) -> QParams:
    storage = Storage.of(draw(st.sampled_from(("i8", "u8", "i16", "i4"))))
    zeros = st.one_of(
        st.sampled_from((0, storage.min, storage.max)), st.integers(storage.min, storage.max)
    )
    scales = st.one_of(positive, st.integers(-10, 10).map(lambda e: math.ldexp(1.0, e)))
    if draw(st.booleans()):
        return QParams.per_tensor(storage, draw(scales), draw(zeros))
    several = [draw(scales) for _ in range(3)]
    return QParams.per_axis(storage, draw(st.integers(0, 1)), several, [draw(zeros)] * 3)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back(text: str) -> None:
    domain = Domain.parse(text)
    assert Domain.parse(str(domain)) == domain


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is no storage"),
        ("i8 around", "'around' is no word"),
        ("q8", "not a storage type: 'q8'"),
        ("i8<-200:3>", "has no such bounds"),
        ("i8 zero=3..1", "is no range"),
        ("i8 zero=x", "invalid literal"),
        ("i8 scale=0", "a scale is above 0"),
        ("i8 scale=m40*2^n", "integers of 1 to 24 bits"),
        ("i8 as=x", "is no word"),
    ],
)
def test_a_text_that_says_nothing(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Domain.parse(text)


@pytest.mark.parametrize(
    ("text", "qparams", "why"),
    [
        ("i8", QParams.per_tensor("u8", 1.0), "u8 is not i8"),
        ("i8", QParams.per_axis("i8", 0, [1.0]), "i8 per axis is not i8"),
        ("i8 per-axis(1)", QParams.per_axis("i8", 0, [1.0]), "is not i8 per-axis"),
        ("i8<-127:127>", QParams.per_tensor("i8", 1.0), "i8 is not i8<-127:127>"),
        ("i8 zero=0|-128", QParams.per_tensor("i8", 1.0, 3), "zero point 3 is not 0|-128"),
        ("i8 scale=2^n", QParams.per_tensor("i8", 0.3), "scale 0.3 is not 2^n"),
        ("i8 scale=n*0.125", QParams.per_tensor("i8", 0.3), "scale 0.3 is not"),
        ("i8 scale=1/256", QParams.per_tensor("i8", 0.3), "scale 0.3 is not"),
        ("i8 per-axis scale=m2*2^n", QParams.per_axis("i8", 0, [1.0, 0.125]), "is not m2"),
        ("i8 zero=0|-128", QParams.per_tensor("i8", 1.0, -128), None),
        ("i8", QParams.per_tensor(Storage.of("i8", -127, 127), 1.0), None),
        ("i8 scale=2^n", QParams.per_tensor("i8", 0.25), None),
        ("i8 scale=1/256", QParams.per_tensor("i8", 1 / 256), None),
        ("i8 per-axis scale=m2*2^n", QParams.per_axis("i8", 0, [1.5, 1.0]), None),
        ("i8 per-axis(0)", QParams.per_axis("i8", 0, [1.0]), None),
        ("i4 per-block(2)", QParams.blockwise("i4", [(0, 2)], [2, 1], [1.0, 2.0]), None),
        ("i4 per-block(4)", QParams.blockwise("i4", [(0, 2)], [2, 1], [1.0, 2.0]), "is not i4"),
    ],
)
def test_inside_or_why_not(text: str, qparams: QParams, why: str | None) -> None:
    found = Domain.parse(text).refuses(qparams)
    assert (found is None) == (why is None)
    assert why is None or (found is not None and why in found)


@settings(deadline=None)
@given(params(), st.sampled_from(TEXTS), st.sampled_from(TEXTS))
def test_what_is_inside_both(qparams: QParams, first: str, second: str) -> None:
    one, other = Domain.parse(first), Domain.parse(second)
    both, turned = one.meet(other), other.meet(one)
    inside = one.refuses(qparams) is None and other.refuses(qparams) is None
    assert (both is not None and both.refuses(qparams) is None) == inside
    assert (turned is not None and turned.refuses(qparams) is None) == inside
    assert one.meet(one) == one and one.meet(ANY_DOMAIN) == one


@settings(deadline=None)
@given(positive, st.sampled_from(SCALES))
def test_the_nearest_scales_are_inside(scale: float, text: str) -> None:
    scales = Scales.parse(text)
    near = scales.near(scale)
    assert 1 <= len(near) <= 2 and list(near) == sorted(set(near))
    assert scales.holds(near[:1]) and scales.holds(near[-1:])
    if len(near) == 2:
        assert near[0] < scale < near[1]
    if scales.holds([scale]):
        assert near == (scale,)


@settings(deadline=None)
@given(st.lists(positive, min_size=1, max_size=6), st.sampled_from(("2^n", "n*0.125", "m4*2^n")))
def test_scales_together_cover(several: list[float], text: str) -> None:
    scales = Scales.parse(text)
    found = scales.together(several)
    assert scales.holds(found)
    assert all(new >= old for new, old in zip(found, several, strict=True))


def test_storages_and_zero_points_to_choose() -> None:
    def storage(text: str, preferred: str, *bounds: int) -> str:
        return str(Domain.parse(text).storage(Storage.of(preferred, *bounds)))

    assert storage("*", "u8") == "u8"
    assert storage("i8|u8", "u8") == "u8"
    assert storage("i4|i8", "u8") == "i8"
    assert storage("i16", "u8") == "i16"
    assert storage("i8<-127:127>", "i8") == storage("i8<-127:127>", "u8") == "i8<-127:127>"
    # Three bits in four.
    assert storage("i4", "i4", -4, 3) == storage("i4", "u4", 0, 7) == "i4<-4:3>"
    assert storage("i4<-7:7>", "u4", 0, 7) == "i4<-4:3>"
    assert storage("u4", "i4", -4, 3) == storage("i8|u4", "u4", 0, 7) == "u4<0:7>"
    assert storage("i8", "u4", 0, 7) == "i8"
    assert storage("f8E4M3FN", "i8") == storage("i32", "i8") == "None"

    def zeros(text: str) -> list[int] | None:
        return Domain.parse(text).zero_points(Storage.of("i8"))

    assert zeros("i8") is None and zeros("i8 zero=-128..127") is None
    assert zeros("i8 zero=0|-128") == [0, -128]
    assert zeros("i8 zero=-10..20") == [0, -10, 20]
    assert zeros("i8 zero=200") == []
