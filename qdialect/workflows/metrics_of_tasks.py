"""Metrics that are ready made: detections, classes, embeddings, text.

Each compares another model with the float model, which is taken to be right: 1 is what the float
model gets, 0 nothing of it.  Each says which outputs it takes, and refuses a model whose outputs
are something else, or samples on which the float model shows nothing to compare.

| name | takes | gives |
|---|---|---|
| `detect` | boxes and scores of YOLO or SSD | F1 of detections, matched by class at IoU 0.5 |
| `classify` | [n, classes] | share with the same winner, weighted by its lead |
| `embed` | [n, (tokens,) size] | mean of cosine and rank correlation of similarities |
| `text` | [n, steps, symbols] | similarity of what CTC reads, or share of equal next tokens |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Arrays = Mapping[str, NDArray[Any]]

SCORE = 0.25
"""Detections below this score are none."""
OVERLAP = 0.5
"""Boxes of one class that overlap more are one object, by intersection over union."""
STRIDES = (8, 16, 32)
MOST_BOXES = 300


@dataclass(frozen=True)
class Task:
    """A metric on some samples; `takes` says which outputs it looks at."""

    takes: str
    judge: Callable[[Sequence[Arrays]], float]


def classify(feeds: Sequence[Arrays], expected: Sequence[Arrays]) -> Task:
    """The share of rows whose largest entry is that of the float model; a row counts by how far
    its largest probability is above the second.  Of several outputs it is the first of
    probabilities, else the first."""
    names = [name for name in _floats(expected) if _is_rows(expected[0][name])]
    if not names:
        raise _refused("classify", "an output of shape [n, classes]", expected)
    tables = {name: np.concatenate([_rows(each[name]) for each in expected]) for name in names}
    name = next((name for name in names if _are_probabilities(tables[name])), names[0])
    rows = tables[name]
    top = np.sort(_probabilities(rows), axis=1)
    weights = top[:, -1] - top[:, -2]
    if not weights.sum() > 0:
        raise _unseen("classify", f"no entry of '{name}' leads")

    def judge(actual: Sequence[Arrays]) -> float:
        others = np.concatenate([_rows(each[name]) for each in actual])
        agree = rows.argmax(axis=1) == np.nan_to_num(others, nan=-np.inf).argmax(axis=1)
        # Where all entries are the same, there is no winner.
        agree &= np.ptp(others, axis=1) > 0
        return float((weights * agree).sum() / weights.sum())

    return Task(f"'{name}', {rows.shape[1]} classes, {len(rows)} rows", judge)


def embed(feeds: Sequence[Arrays], expected: Sequence[Arrays]) -> Task:
    """The mean of two numbers: the mean cosine of embeddings with those of the float model, and the
    rank correlation of all pairwise similarities.  An output [n, 1, 1, size] is one [n, size]."""
    shapes = {name: _without_ones(expected[0][name]).shape for name in _floats(expected)}
    named = {name: len(shape) for name, shape in shapes.items() if shape and shape[-1] > 1}
    names = sorted((name for name, rank in named.items() if rank in (2, 3)), key=lambda n: named[n])
    if not names:
        raise _refused("embed", "an output of shape [n, size] or [n, tokens, size]", expected)
    name = names[0]
    rows = _embeddings(feeds, expected, name)
    if len(rows) < 3:
        raise _unseen("embed", f"{len(rows)} embeddings have no similarities to rank")
    ranks = _ranks(_similarities(rows))
    if not ranks.std() > 0:
        raise _unseen("embed", "all embeddings of the float model are alike")

    def judge(actual: Sequence[Arrays]) -> float:
        others = _embeddings(feeds, actual, name)
        cosines = (rows * others).sum(axis=1)
        other_ranks = _ranks(_similarities(others))
        both = float(ranks.std() * other_ranks.std())
        covariance = float(((ranks - ranks.mean()) * (other_ranks - other_ranks.mean())).mean())
        return (float(cosines.mean()) + (covariance / both if both else 0.0)) / 2

    how = ", mean over tokens" if named[name] == 3 else ""
    return Task(f"'{name}'{how}, {len(rows)} embeddings of {rows.shape[1]}", judge)


def text(feeds: Sequence[Arrays], expected: Sequence[Arrays]) -> Task:
    """Of a model that takes tokens, the share of positions with the same next token; of another the
    mean similarity (1 less edits over length) of the strings that greedy CTC reads.

    The blank of CTC is the first or the last symbol: the one that the float model gives more."""
    names = [name for name in _floats(expected) if expected[0][name].ndim == 3]
    names = [name for name in names if expected[0][name].shape[-1] > 2]
    if not names:
        raise _refused("text", "an output of shape [n, steps, symbols]", expected)
    name = max(names, key=lambda n: expected[0][n].shape[-1])
    shape = expected[0][name].shape
    tokens = [key for key, array in feeds[0].items() if array.dtype.kind in "iu"]
    if any(feeds[0][key].shape == shape[:2] for key in tokens):
        mask = [_mask(each, shape[:2]) for each in feeds]
        reference = [each[name].argmax(axis=-1) for each in expected]
        count = sum(int(each.sum()) for each in mask)

        def agreement(actual: Sequence[Arrays]) -> float:
            found = [each[name].argmax(axis=-1) for each in actual]
            same = zip(mask, reference, found, strict=True)
            return sum(int((m & (a == b)).sum()) for m, a, b in same) / count

        if not count:
            raise _unseen("text", "there are no tokens that are not masked")
        return Task(f"next tokens of '{name}', {count} positions", agreement)
    paths = [list(_paths(feed, each[name])) for feed, each in zip(feeds, expected, strict=True)]
    counts = np.bincount(np.concatenate([row for each in paths for row in each]), minlength=2)
    last = shape[-1] - 1
    blank = last if len(counts) > last and counts[last] > counts[0] else 0
    strings = [_read(row, blank) for each in paths for row in each]
    if not any(strings):
        raise _unseen("text", f"the float model reads no symbols in '{name}'")

    def similarity(actual: Sequence[Arrays]) -> float:
        pairs = zip(feeds, actual, strict=True)
        found = [_read(row, blank) for feed, each in pairs for row in _paths(feed, each[name])]
        return float(np.mean([_alike(a, b) for a, b in zip(strings, found, strict=True)]))

    return Task(f"strings of '{name}', blank {blank}, {len(strings)} rows", similarity)


def detect(feeds: Sequence[Arrays], expected: Sequence[Arrays]) -> Task:
    """F1 of detections against those of the float model: 2 matches / (detections of both).

    Boxes are those of one output [n, 4 + classes, boxes] (YOLOv8) or [n, boxes, 5 + classes] with
    an objectness (YOLOv5, YOLOX with or without its grid), or of two outputs [n, boxes, 4] and
    [n, boxes, classes] (SSD)."""
    take, takes = _detector(feeds, expected)
    reference = [_suppressed(*each) for sample in take(expected) for each in sample]
    count = sum(len(scores) for _, scores, _ in reference)
    if not count:
        raise _unseen("detect", f"the float model detects nothing with a score of {SCORE:g}")

    def judge(actual: Sequence[Arrays]) -> float:
        found = [_suppressed(*each) for sample in take(actual) for each in sample]
        matched = sum(_matches(a, b) for a, b in zip(reference, found, strict=True))
        return 2 * matched / (count + sum(len(scores) for _, scores, _ in found))

    return Task(f"{takes}, {count} detections of the float model", judge)


TASKS: Mapping[str, Callable[[Sequence[Arrays], Sequence[Arrays]], Task]] = {
    "detect": detect,
    "classify": classify,
    "embed": embed,
    "text": text,
}

Boxes = tuple["Array", "Array", "Array"]
"""Boxes by their corners [k, 4], scores [k] and classes [k]."""
Raw = tuple["Array", "Array"]
"""Boxes by their corners [k, 4] and scores [k, classes] of one image."""


def _detector(
    feeds: Sequence[Arrays], expected: Sequence[Arrays]
) -> tuple[Callable[[Sequence[Arrays]], Iterator[list[Raw]]], str]:
    """What takes the boxes and scores of each image from outputs."""
    shapes = {name: expected[0][name].shape for name in _floats(expected)}
    cubes = {name: shape for name, shape in shapes.items() if len(shape) == 3}
    for boxes, a in cubes.items():
        for scores, b in cubes.items():
            if boxes != scores and a[-1] == 4 and a[:2] == b[:2] and a[1] > 4:
                return _two_outputs(expected, boxes, scores)
    for name, shape in cubes.items():
        if 5 <= shape[1] < shape[2] or 6 <= shape[2] < shape[1]:
            return _one_output(feeds, expected, name, channels_first=shape[1] < shape[2])
    raise _refused("detect", "boxes and scores of YOLO or SSD", expected)


def _two_outputs(
    expected: Sequence[Arrays], boxes: str, scores: str
) -> tuple[Callable[[Sequence[Arrays]], Iterator[list[Raw]]], str]:
    corners = _are_corners(expected, boxes)
    chance = _to_chances([each[scores] for each in expected])

    def take(outputs: Sequence[Arrays]) -> Iterator[list[Raw]]:
        for each in outputs:
            found = each[boxes] if corners else _corners(each[boxes])
            yield list(zip(found, chance(each[scores]), strict=True))

    return take, f"boxes '{boxes}' and scores '{scores}'"


def _one_output(
    feeds: Sequence[Arrays], expected: Sequence[Arrays], name: str, *, channels_first: bool
) -> tuple[Callable[[Sequence[Arrays]], Iterator[list[Raw]]], str]:
    grid = None if channels_first else _grid(feeds[0], expected, name)
    chance = _to_chances([_split(each[name], channels_first)[1] for each in expected])

    def take(outputs: Sequence[Arrays]) -> Iterator[list[Raw]]:
        for each in outputs:
            boxes, scores = _split(each[name], channels_first)
            found = chance(scores)
            if not channels_first:
                found = found[..., :1] * found[..., 1:]
            yield list(zip(_corners(_placed(boxes, grid)), found, strict=True))

    kind = "YOLOv8" if channels_first else "YOLOX, on its grid" if grid is not None else "YOLOv5"
    return take, f"boxes and scores of '{name}' (as {kind} has them)"


def _split(array: Array, channels_first: bool) -> tuple[Array, Array]:
    rows = np.swapaxes(array, 1, 2) if channels_first else array
    return rows[..., :4].astype("f8"), rows[..., 4:].astype("f8")


def _to_chances(scores: Sequence[Array]) -> Callable[[Array], Array]:
    """Scores as they are where all are between 0 and 1, else through a sigmoid."""
    low = min(float(each.min(initial=0.0)) for each in scores)
    high = max(float(each.max(initial=0.0)) for each in scores)
    if low >= -0.01 and high <= 1.01:
        return lambda array: array
    return lambda array: 1 / (1 + np.exp(-np.clip(array, -60, 60)))


def _are_corners(expected: Sequence[Arrays], name: str) -> bool:
    boxes = np.concatenate([each[name].reshape(-1, 4) for each in expected])
    return bool((boxes[:, 2:] >= boxes[:, :2]).mean() > 0.99)


def _corners(boxes: Array) -> Array:
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return np.concatenate([middle - half, middle + half], axis=-1)


def _grid(feed: Arrays, expected: Sequence[Arrays], name: str) -> tuple[Array, Array] | None:
    """Of boxes that are offsets in the cells of a pyramid, the places of the cells and their sizes;
    None where sizes are sizes already."""
    sizes = np.concatenate([each[name][..., 2:4].reshape(-1) for each in expected])
    if (sizes >= 0).mean() > 0.99:
        return None
    images = [array for array in feed.values() if array.ndim == 4]
    for image in images:
        for extents in (image.shape[2:], image.shape[1:3]):
            levels = [[-(-extent // stride) for extent in extents] for stride in STRIDES]
            if sum(rows * columns for rows, columns in levels) != expected[0][name].shape[1]:
                continue
            places: list[Array] = []
            steps: list[Array] = []
            for stride, (rows, columns) in zip(STRIDES, levels, strict=True):
                y, x = np.mgrid[:rows, :columns]
                places.append(np.stack([x, y], axis=-1).reshape(-1, 2))
                steps.append(np.full((rows * columns, 1), stride))
            return np.concatenate(places), np.concatenate(steps)
    raise InputError(
        f"the metric detect does not know the boxes of '{name}': sizes are below 0, and the boxes "
        f"are not those of cells of {', '.join(map(str, STRIDES))} pixels",
        code="bad-metric",
    )


def _placed(boxes: Array, grid: tuple[Array, Array] | None) -> Array:
    if grid is None:
        return boxes
    places, steps = grid
    sizes = np.exp(np.clip(boxes[..., 2:], -20, 20)) * steps
    return np.concatenate([(boxes[..., :2] + places) * steps, sizes], axis=-1)


def _suppressed(boxes: Array, scores: Array) -> Boxes:
    """The best boxes of each class that do not overlap a better one."""
    scores = np.nan_to_num(scores)
    classes, best = scores.argmax(axis=1), scores.max(axis=1)
    order = np.argsort(-best, kind="stable")
    order = order[best[order] >= SCORE]
    kept: list[int] = []
    for index in order[: 10 * MOST_BOXES]:
        same = [other for other in kept if classes[other] == classes[index]]
        if not same or _overlap(boxes[index], boxes[same]).max() <= OVERLAP:
            kept.append(int(index))
        if len(kept) == MOST_BOXES:
            break
    return boxes[kept], best[kept], classes[kept]


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others, all by their corners."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(axis=1)
    areas = [
        np.clip(each[..., 2:] - each[..., :2], 0, None).prod(axis=-1) for each in (box, others)
    ]
    return common / np.maximum(areas[0] + areas[1] - common, 1e-12)


def _matches(reference: Boxes, found: Boxes) -> int:
    """How many boxes have one of the same class on them, each taken once, the best first."""
    free = set(range(len(reference[1])))
    count = 0
    for index in np.argsort(-found[1], kind="stable"):
        same = [n for n in free if reference[2][n] == found[2][index]]
        if not same:
            continue
        overlaps = _overlap(found[0][index], reference[0][same])
        if overlaps.max() >= OVERLAP:
            free.remove(same[int(overlaps.argmax())])
            count += 1
    return count


def _is_rows(array: Array) -> bool:
    """Whether an array is [n, classes], or that with extents of 1 behind."""
    return array.ndim >= 2 and array.shape[1] > 1 and array.size == array.shape[0] * array.shape[1]


def _rows(array: Array) -> Array:
    return array.reshape(array.shape[:2]).astype("f8")


def _are_probabilities(rows: Array) -> bool:
    return bool(rows.min() >= 0 and np.allclose(rows.sum(axis=1), 1, atol=1e-2))


def _probabilities(rows: Array) -> Array:
    """Rows as they are where they are probabilities, else their softmax."""
    if _are_probabilities(rows):
        return rows
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _without_ones(array: Array) -> Array:
    """A batch of vectors [n, 1, 1, size], whichever extents are 1, as [n, size]; others as is."""
    wide = [extent for extent in array.shape[1:] if extent > 1]
    return array.reshape(len(array), wide[0]) if array.ndim > 3 and len(wide) == 1 else array


def _embeddings(feeds: Sequence[Arrays], outputs: Sequence[Arrays], name: str) -> Array:
    """Rows of length 1, of tokens the mean over those that are not masked."""
    found: list[Array] = []
    for feed, each in zip(feeds, outputs, strict=True):
        array = np.nan_to_num(_without_ones(each[name]).astype("f8"))
        if array.ndim == 3:
            mask = _mask(feed, array.shape[:2])[..., None]
            array = (array * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        found.append(array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-30))
    return np.concatenate(found)


def _mask(feed: Arrays, shape: Sequence[int]) -> Array:
    for name, array in feed.items():
        if "mask" in name.lower() and array.shape == tuple(shape):
            return array != 0
    return np.ones(tuple(shape), bool)


def _similarities(rows: Array) -> Array:
    return np.array([float(rows[a] @ rows[b]) for a, b in combinations(range(len(rows)), 2)])


def _ranks(values: Array) -> Array:
    unique, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    assert len(unique) == len(counts)
    return ((ends - counts) + (ends - 1))[where] / 2


def _paths(feed: Arrays, array: Array) -> Iterator[Array]:
    """The most likely symbol of each step, row by row; steps may come first."""
    batch = next((each.shape[0] for each in feed.values() if each.ndim), 1)
    best = np.nan_to_num(array).argmax(axis=-1)
    yield from best.T if best.shape[0] != batch and best.shape[1] == batch else best


def _read(path: Array, blank: int) -> list[int]:
    """The symbols of a path, repeated ones once, blanks left out."""
    changes = [int(b) for n, b in enumerate(path) if n == 0 or b != path[n - 1]]
    return [symbol for symbol in changes if symbol != blank]


def _alike(a: Sequence[int], b: Sequence[int]) -> float:
    """1 less the edits (Levenshtein, 1966) that make one of the other, over the longer."""
    row = list(range(len(b) + 1))
    for n, one in enumerate(a):
        before, row = row, [n + 1]
        for m, other in enumerate(b):
            row.append(min(before[m + 1] + 1, row[m] + 1, before[m] + (one != other)))
    longest = max(len(a), len(b))
    return 1 - row[-1] / longest if longest else 1.0


def _floats(expected: Sequence[Arrays]) -> list[str]:
    return [name for name, array in expected[0].items() if array.dtype.kind == "f"]


def _refused(name: str, needs: str, expected: Sequence[Arrays]) -> InputError:
    has = ", ".join(f"'{key}' {list(array.shape)}" for key, array in expected[0].items())
    return InputError(
        f"the metric {name} takes {needs}, and the model gives {has}", code="bad-metric"
    )


def _unseen(name: str, problem: str) -> InputError:
    return InputError(
        f"the metric {name} has nothing to compare on these samples: {problem}", code="bad-metric"
    )
