"""Metrics: the ready-made ones on outputs that are known, and those of users, good and bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.errors import InputError, UsageError
from qdialect.workflows.metric import metric_on

Array = NDArray[Any]
Samples = list[dict[str, Array]]


def samples(name: str, arrays: Sequence[Array]) -> Samples:
    return [{name: array} for array in arrays]


RANDOM = np.random.default_rng(5)
IMAGES = samples("images", [np.zeros((1, 3, 64, 64), "f4") for _ in range(3)])


def boxes(count: int, seed: int) -> Array:
    """Boxes that do not overlap, by middles and sizes, in pixels, and one class each."""
    random = np.random.default_rng(seed)
    cells = random.choice(36, size=count, replace=False)
    middles = np.stack([cells % 6, cells // 6], axis=1) * 10 + 5.0
    return np.concatenate([middles, random.uniform(5, 9, (count, 2))], axis=1)


def yolov8(count: int, seed: int, classes: int = 4) -> Array:
    """[1, 4 + classes, 20]: `count` boxes that are seen, others below the score."""
    random = np.random.default_rng(seed)
    scores = np.full((20, classes), 0.1)
    scores[np.arange(count), random.integers(0, classes, count)] = 0.9
    rows = np.concatenate([boxes(20, seed), scores], axis=1)
    return rows.T[None].astype("f4")


def yolox(count: int, seed: int, classes: int = 4) -> Array:
    """[1, 84, 5 + classes] on the grid of an image of 64 x 64, in cells, with an objectness."""
    random = np.random.default_rng(seed)
    rows = np.zeros((84, 5 + classes))
    rows[:, :2] = 0.5
    rows[:, 2:4] = -0.5
    seen = random.choice(64, size=count, replace=False)
    rows[seen, 4] = 0.95
    rows[seen, 5 + random.integers(0, classes, count)] = 0.9
    return rows[None].astype("f4")


def ssd(count: int, seed: int) -> dict[str, Array]:
    whole = yolov8(count, seed)[0].T
    corners = np.concatenate(
        [whole[:, :2] - whole[:, 2:4] / 2, whole[:, :2] + whole[:, 2:4] / 2], 1
    )
    return {"boxes": corners[None], "scores": whole[None, :, 4:]}


def dropped(sample: Array, index: int, axis: int, score: int) -> Array:
    """A detection less."""
    found = np.moveaxis(sample.copy(), axis, 1)
    found[0, index, score:] = 0
    return np.moveaxis(found, 1, axis)


@pytest.mark.parametrize("kind", ["yolov8", "yolox", "ssd"])
def test_detections(kind: str) -> None:
    make: dict[str, Callable[[int, int], dict[str, Array]]] = {
        "yolov8": lambda n, seed: {"out": yolov8(n, seed)},
        "yolox": lambda n, seed: {"out": yolox(n, seed)},
        "ssd": ssd,
    }
    expected = [make[kind](5, seed) for seed in range(3)]
    metric = metric_on("detect", IMAGES, expected)
    assert metric.of_float == 1.0 and "15 detections" in metric.takes
    assert metric([{k: v + np.float32(1e-3) for k, v in each.items()} for each in expected]) == 1.0
    # Other detections altogether, and none.
    assert metric([make[kind](5, seed + 10) for seed in range(3)]) < 0.5
    assert metric([{k: v * 0 for k, v in each.items()} for each in expected]) == 0.0
    # Of 15 detections one is gone: 2 * 14 / (15 + 14).
    fewer = [dict(each) for each in expected]
    if kind == "yolov8":
        fewer[0]["out"] = dropped(fewer[0]["out"], 0, 2, 4)
    elif kind == "ssd":
        fewer[0]["scores"] = dropped(fewer[0]["scores"], 0, 1, 0)
    else:
        seen = int(fewer[0]["out"][0, :, 4].argmax())
        fewer[0]["out"] = dropped(fewer[0]["out"], seen, 1, 4)
    assert metric(fewer) == pytest.approx(28 / 29)


def test_boxes_of_one_class_that_overlap_are_one_detection() -> None:
    sample = yolov8(2, 1)
    sample[0, :4, 2] = sample[0, :4, 0] + 0.1
    sample[0, 4:, 2] = sample[0, 4:, 0] * 0.9
    assert "2 detections" in metric_on("detect", IMAGES[:1], [{"out": sample}]).takes


def test_scores_that_are_no_probabilities() -> None:
    sample = yolov8(3, 2)
    chances = np.clip(sample[:, 4:], 1e-6, 1 - 1e-6)
    sample[:, 4:] = np.log(chances / (1 - chances))
    assert "3 detections" in metric_on("detect", IMAGES[:1], [{"out": sample}]).takes


def test_classes() -> None:
    logits = RANDOM.normal(size=(40, 1, 10)).astype("f4") * 3
    expected = samples("y", list(logits))
    metric = metric_on("classify", samples("x", list(logits)), expected)
    assert metric.of_float == 1.0 and "10 classes, 40 rows" in metric.takes
    swapped = logits.copy()
    # What leads least counts least.
    order = np.sort(logits[:, 0], axis=1)
    least = int((order[:, -1] - order[:, -2]).argmin())
    swapped[least, 0] = -swapped[least, 0]
    assert 1 - 1 / 40 < metric(samples("y", list(swapped))) < 1
    assert metric(samples("y", list(-logits))) == 0.0
    assert metric(samples("y", [np.full_like(each, np.nan) for each in logits])) == 0.0
    images = [each.reshape(1, 10, 1, 1) for each in logits]
    assert metric_on("classify", expected, samples("y", images))(samples("y", images)) == 1.0


def test_classes_are_those_of_probabilities() -> None:
    boxes = [RANDOM.normal(size=(1, 4)) for _ in range(6)]
    powers = [np.exp(RANDOM.normal(size=(1, 3))) for _ in range(6)]
    shares = [each / each.sum() for each in powers]
    rows = [{"boxes": a, "shares": b} for a, b in zip(boxes, shares, strict=True)]
    metric = metric_on("classify", samples("x", boxes), rows)
    assert "'shares', 3 classes" in metric.takes
    assert metric([each | {"boxes": -each["boxes"]} for each in rows]) == 1.0


def test_embeddings() -> None:
    tokens = RANDOM.normal(size=(6, 1, 5, 16)).astype("f4")
    feeds = [{"mask": np.array([[1, 1, 1, 0, 0]])} for _ in tokens]
    metric = metric_on("embed", feeds, samples("h", list(tokens)))
    assert metric.of_float == pytest.approx(1.0) and "mean over tokens" in metric.takes
    masked = tokens.copy()
    masked[:, :, 3:] = 99
    assert metric(samples("h", list(masked))) == pytest.approx(1.0)
    near = metric(samples("h", list(tokens + 0.1 * RANDOM.normal(size=tokens.shape))))
    far = metric(samples("h", list(RANDOM.normal(size=tokens.shape))))
    assert far < 0.6 < near < 1
    vectors = [each[:, 0] for each in tokens]
    flat = metric_on("embed", feeds, samples("h", vectors))
    for shape in ((1, 1, 1, 16), (1, 16, 1, 1)):  # of images, not pooled to a row
        wide = samples("h", [each.reshape(shape) for each in vectors])
        assert metric_on("embed", feeds, wide).takes == flat.takes
        noisy = [each + 0.1 for each in vectors]
        assert metric_on("embed", feeds, wide)(
            samples("h", [each.reshape(shape) for each in noisy])
        ) == pytest.approx(flat(samples("h", noisy)))


def one_hot(path: Sequence[int], symbols: int = 6) -> Array:
    return np.eye(symbols, dtype="f4")[list(path)][None]


def test_strings() -> None:
    feeds = samples("x", [np.zeros((1, 3, 4, 4), "f4")] * 2)
    expected = samples("y", [one_hot([0, 1, 1, 0, 1, 2, 0]), one_hot([0, 0, 3, 4, 0, 0, 0])])
    metric = metric_on("text", feeds, expected)
    assert metric.of_float == 1.0 and "blank 0" in metric.takes
    # Of 1 1 2 one of three symbols is another; 3 4 is read alike at other steps.
    others = samples("y", [one_hot([1, 0, 1, 5, 5, 0, 0]), one_hot([3, 3, 0, 4, 0, 0, 0])])
    assert metric(others) == pytest.approx((2 / 3 + 1) / 2)
    steps_first = [{"y": np.swapaxes(each["y"], 0, 1)} for each in expected]
    assert "2 rows" in metric_on("text", feeds, steps_first).takes
    last = samples("y", [one_hot([5, 1, 1, 5, 1, 2, 5]), one_hot([5, 5, 3, 4, 5, 5, 5])])
    assert "blank 5" in metric_on("text", feeds, last).takes


def test_next_tokens() -> None:
    feeds = [{"ids": np.arange(4)[None], "attention_mask": np.array([[1, 1, 1, 0]])}]
    metric = metric_on("text", feeds, samples("y", [one_hot([1, 2, 3, 4])]))
    assert "3 positions" in metric.takes
    assert metric(samples("y", [one_hot([1, 2, 5, 5])])) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("name", "outputs", "said"),
    [
        ("classify", [np.zeros((1, 3, 4, 4), "f4")], "takes an output of shape \\[n, classes\\]"),
        ("classify", [np.zeros((1, 4), "f4")], "no entry of 'y' leads"),
        ("detect", [np.zeros((1, 10), "f4")], "boxes and scores of YOLO or SSD.*'y' \\[1, 10\\]"),
        ("detect", [np.zeros((1, 9, 20), "f4")], "detects nothing with a score of 0.25"),
        ("detect", [np.full((1, 20, 9), -1.0, "f4")], "does not know the boxes of 'y'"),
        ("embed", [np.zeros((1, 3, 4, 4), "f4")], "takes an output of shape"),
        ("embed", [RANDOM.normal(size=(2, 8))], "2 embeddings have no similarities"),
        ("text", [np.zeros((1, 10), "f4")], "takes an output of shape \\[n, steps, symbols\\]"),
        ("text", [one_hot([0, 0, 0])], "reads no symbols"),
    ],
)
def test_models_that_a_metric_is_not_for(name: str, outputs: list[Array], said: str) -> None:
    with pytest.raises(InputError, match=said):
        metric_on(name, IMAGES[:1], samples("y", outputs))


GOOD = """
import numpy as np

def near(feeds, expected, actual):
    assert len(feeds) == len(expected) == len(actual)
    errors = [np.abs(a["y"] - b["y"]).mean() for a, b in zip(expected, actual)]
    return -np.mean(errors)
"""


def test_a_function_in_a_file_and_in_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_metrics.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    expected = samples("y", [np.ones(3), np.ones(3)])
    for name in (f"{tmp_path}/my_metrics.py:near", "my_metrics.py:near", "my_metrics:near"):
        metric = metric_on(name, expected, expected)
        assert metric.of_float == 0 and metric(samples("y", [np.zeros(3), np.ones(3)])) == -0.5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no labels')", "failed: ValueError: no labels \\(line 2 of .*bad.py\\)"),
        ("return expected[0]['other']", "failed: KeyError: 'other'"),
        ("return None", "gives None, which is no number"),
        ("return 'good'", "gives 'good', which is no number"),
        ("return expected[0]['y']", "gives an object of type ndarray|gives array"),
        ("return True", "gives True, which is no number"),
        ("return float('nan')", "gives nan"),
        ("return float('inf')", "gives inf"),
        ("return 0.75", "gives 0.75 for the float model's outputs and for zeros"),
        ("return actual[0]['y'].shape[0]", "does not judge outputs"),
    ],
)
def test_metrics_that_do_not_judge(tmp_path: Path, body: str, said: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(f"def metric(feeds, expected, actual):\n    {body}\n")
    expected = samples("y", [np.ones(3)])
    with pytest.raises(InputError, match=said):
        metric_on(f"{path}:metric", expected, expected)


def test_names_of_nothing(tmp_path: Path) -> None:
    expected = samples("y", [np.ones(3)])
    with pytest.raises(UsageError, match="takes detect, classify, embed, text, module:function"):
        metric_on("accuracy", expected, expected)
    (tmp_path / "broken.py").write_text("def metric(:\n")
    for name, said in (
        ("no_such_module:f", "cannot be imported: ModuleNotFoundError"),
        (f"{tmp_path}/no.py:f", "no such file"),
        (f"{tmp_path}/broken.py:metric", "SyntaxError"),
        ("math:no_such", "has no function 'no_such'"),
        ("math:pi", "has no function 'pi'"),
    ):
        with pytest.raises(InputError, match=said):
            metric_on(name, expected, expected)
