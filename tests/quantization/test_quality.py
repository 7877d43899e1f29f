"""How outputs are judged, on arrays whose answer is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from qdialect.quantizer.output_parts import Part, whole_outputs
from qdialect.quantizer.quality import Judge, Quality
from qdialect.workflows.quality import unfit

RANDOM = np.random.default_rng(0)


def judged(expected: Any, actual: Any, part: Part | None = None) -> Quality:
    """Samples of one output `y`, judged as one part."""
    samples = [{"y": np.asarray(x)} for x in expected]
    parts = [part] if part else whole_outputs(samples[0])
    return Judge(parts, samples).judge([{"y": np.asarray(y)} for y in actual])


def test_data_to_calibrate_on_differs() -> None:
    random = np.random.default_rng(1)
    drawn = [{"x": random.normal(size=(2, 3)), "scale": np.float32(2)} for _ in range(4)]
    assert unfit([], 16) == unfit(drawn, 20) == unfit(drawn[:1], 16) == []
    assert unfit(drawn, 15) == [
        "15 samples are too few to hold some out (16 are needed): the loss on others is not known"
    ]
    assert unfit(drawn[:1] * 4, 16) == [
        "all samples that were looked at are equal: ranges of others will be larger"
    ]
    zeros = [{**each, "mask": np.zeros((1, 3), np.float32)} for each in drawn]
    assert unfit(zeros, 16) == ["input 'mask' is 0 everywhere: its range is of one number"]
    codes = [{**each, "mask": np.zeros((1, 3), np.int64)} for each in drawn]
    assert unfit(codes, 16) == []


def test_decibels_over_all_samples_and_their_mean() -> None:
    loud, quiet = np.full((1, 2, 3), 100.0), np.full((1, 2, 3), 1.0)
    quality = judged([loud, quiet], [loud * 1.1, quiet * 1.01])
    (part,) = quality.parts
    noise = 6 * (10.0**2 + 0.01**2)
    assert part.sqnr_db == pytest.approx(10 * math.log10(6 * (100.0**2 + 1) / noise))
    assert part.mean_db == pytest.approx((20 + 40) / 2)
    assert quality.worst_db == part.sqnr_db


def test_what_is_the_same_is_exact() -> None:
    x = RANDOM.normal(size=(1, 4))
    quality = judged([x], [x])
    assert quality.worst_db == quality.worst_channel_db == math.inf
    assert quality.parts[0].agreement == 1.0
    assert quality.as_json()["parts"][0]["exact"] is True
    assert quality.as_json()["parts"][0]["sqnr_db"] is None


def test_boxes_do_not_hide_scores() -> None:
    boxes = RANDOM.uniform(0, 322, size=(1, 4, 50))
    scores = RANDOM.uniform(0, 0.6, size=(1, 3, 50))
    x = np.concatenate([boxes, scores], 1)
    y = np.round(x / 1.27) * 1.27
    parts = [
        Part("y", (slice(None), slice(0, 4), slice(None)), 1),
        Part("y", (slice(None), slice(4, 7), slice(None)), 1),
    ]
    quality = Judge(parts, [{"y": x}]).judge([{"y": y}])
    assert quality.parts[0].sqnr_db > 40
    assert quality.worst_db == pytest.approx(0.0)
    assert [str(dead) for dead in quality.dead] == ["y[:, 4:7]"]
    assert judged([x], [y]).worst_db > 40


def test_a_dead_channel_is_named() -> None:
    x = RANDOM.normal(size=(2, 5, 30))
    y = x.copy()
    y[:, 3] = 0.25
    quality = judged([x], [y])
    assert [str(dead) for dead in quality.dead] == ["y, channel 3"]
    assert quality.parts[0].worst_channel == 3


def test_a_channel_over_samples() -> None:
    x = [RANDOM.normal(size=(1, 3)) for _ in range(4)]
    y = [one * [[1, 0, 1]] for one in x]
    assert judged(x, y).parts[0].dead == [1]
    assert judged(x[:1], y[:1]).dead == [], "one number each says nothing"


def test_what_was_no_more_than_a_step_is_not_dead() -> None:
    x = RANDOM.uniform(size=(1, 5, 30))
    x[:, 2] /= 100
    y = x.copy()
    y[:, 2] = 0
    assert judged([x], [y]).dead == []
    constant = 1 + 1e-6 * RANDOM.uniform(size=(1, 5, 30))
    assert judged([constant], [np.ones_like(constant)]).dead == []


def test_a_channel_without_signal_is_not_the_worst() -> None:
    x = RANDOM.normal(size=(1, 3, 100))
    x[:, 1] *= 1e-3
    quality = judged([x], [x + 1e-2])
    assert quality.parts[0].channels[1] is None
    assert quality.parts[0].worst_channel in (0, 2)


def test_same_winners() -> None:
    x = np.eye(4)[:, None]
    y = x.copy()
    y[2] = x[1]
    assert judged(x, y).parts[0].agreement == 0.75


def test_not_finite_numbers() -> None:
    x = RANDOM.normal(size=(1, 2, 4))
    y = x.copy()
    y[0, 0, 0] = math.nan
    assert judged([x], [y]).worst_db == -math.inf
    assert judged([y], [y]).worst_db == math.inf, "where the float model has none, none is compared"


def test_integers_count_what_is_the_same() -> None:
    (part,) = judged([np.arange(4)], [np.array([0, 1, 2, 9])]).parts
    assert (part.agreement, part.is_real) == (0.75, False)


def test_shapes_that_differ_are_not_compared() -> None:
    boxes = [RANDOM.normal(size=(1, n, 4)) for n in (3, 2)]
    quality = judged(boxes, [boxes[0], boxes[1][:, :1]])
    assert (quality.parts[0].not_compared, quality.worst_db) == (1, math.inf)
    nothing = judged(boxes, [boxes[0][:, :1], boxes[1][:, :1]])
    assert (nothing.worst, nothing.worst_db) == (None, -math.inf)


def test_as_many_channels_as_there_happen_to_be() -> None:
    x = [RANDOM.normal(size=(1, n, 4)) for n in (3, 5, 2)]
    quality = judged(x, [one * 1.1 for one in x])
    assert quality.worst_db == pytest.approx(20)
    assert not quality.parts[0].channels


def test_a_long_table_shows_the_worst() -> None:
    x = {f"y{n}": RANDOM.normal(size=(1, 3)) for n in range(20)}
    y = {name: array * (1 + 10.0 ** -(n / 2)) for n, (name, array) in enumerate(x.items())}
    rows = Judge(whole_outputs(x), [x]).judge([y]).rows(3)
    assert [row[0] for row in rows[1:]] == ["y0", "y1", "y2"]


def test_nothing_finite_is_not_exact() -> None:
    x = np.full((1, 2, 4), math.nan)
    quality = judged([x], [x])
    assert (quality.worst, quality.worst_db) == (None, -math.inf)
    assert Judge([], [{"y": x}]).no_number() == "y"


def test_scores_near_0_are_judged_by_what_a_user_tells_from_0() -> None:
    near = [np.linspace(0, 2e-3, 169)[None, :, None]]
    other = [np.zeros((1, 169, 1))]
    (one,) = judged(near, other, Part("y", shares=True)).parts
    assert one.sqnr_db == pytest.approx(0.0) and not one.is_dead
    # 0.01 beside a mean square of (0.002)² / 3.
    assert one.is_faint and one.judged_db == pytest.approx(10 * math.log10(1e-4 / (4e-6 / 3)), 0.02)
    # Of other numbers they are a signal like any other, which is lost; as are scores of some size.
    assert judged(near, other, Part("y")).dead
    (large,) = judged([near[0] * 300], other, Part("y", shares=True)).parts
    assert large.is_dead and large.judged_db == pytest.approx(0.0)
