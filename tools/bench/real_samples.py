"""Real inputs in place of made ones: photographs, and sentences that people wrote.

Each network of the comparison (`quantize --data real`) takes them as it takes the made ones: what
is cut, scaled and numbered is the sampler's own.  There are two parts that share no picture and no
document: networks are calibrated on `CALIBRATION` and judged on `TESTS`.

- pictures: those of scikit-image's wheel, every other one in each part, cut at random;
- sentences: of the documentation of Python's standard library to calibrate on; of scikit-image's
  own, and of what scikit-learn says of its data sets, to judge on;
- pages and lines of text: words of such sentences;
- faces: those of scikit-image's wheel, every other one in each part (`trained_nets.py`);
- files: those of scikit-image's wheel to calibrate on, of scikit-learn's to judge on; each kind by
  its ending is as likely.

Sound is made, of other seeds: no wheel of those that are pinned here has any.
"""

# pyright: basic
from __future__ import annotations

import ast
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from tools.bench import corpus, samples
from tools.bench.material import GIVEN, Material

SCIKIT_IMAGE = "scikit-image==0.26.0"
SCIKIT_LEARN = "scikit-learn==1.9.1"
PHOTOGRAPHS = (
    *("astronaut", "brick", "camera", "cell", "chelsea", "clock_motion", "coffee", "coins"),
    *("color", "grass", "gravel", "horse", "ihc", "moon", "motorcycle_left", "page"),
    *("phantom", "text", "rocket", "retina", "hubble_deep_field"),
)
CALIBRATION, TESTS = 0, 1
"""The parts."""


@cache
def photographs() -> list[Image.Image]:
    """Pictures of scikit-image's wheel."""
    found = []
    with zipfile.ZipFile(corpus.fetch_wheel(SCIKIT_IMAGE)) as wheel:
        names = set(wheel.namelist())
        for name in PHOTOGRAPHS:
            stem = f"skimage/data/{name}"
            file = next(stem + end for end in (".png", ".jpg") if stem + end in names)
            found.append(Image.open(io.BytesIO(wheel.read(file))).convert("RGB"))
    return found


def cut(random: np.random.Generator, picture: Image.Image, size: int) -> np.ndarray:
    """A part of a picture, between half and all of it, mirrored or not, brighter or darker:
    floats [size, size, 3] in 0 to 255."""
    side = int(min(picture.size) * random.uniform(0.5, 1.0))
    left, top = (int(random.integers(0, extent - side + 1)) for extent in picture.size)
    part = picture.crop((left, top, left + side, top + side)).resize((size, size))
    pixels = np.asarray(part, dtype=np.float32)
    if random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return np.clip(pixels * random.uniform(0.8, 1.2), 0, 255)


def photograph(part: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    """What stands for `samples.scene`: pixels [size, size, 3], u8, of pictures of a part."""

    def scene(random: np.random.Generator, size: int) -> np.ndarray:
        pictures = photographs()[part::2]
        return cut(random, pictures[int(random.integers(len(pictures)))], size).astype(np.uint8)

    return scene


def split(text: str) -> set[str]:
    """The sentences of 30 to 300 characters in a text."""
    whole = re.sub(r"\s+", " ", text)
    return {s for s in re.split(r"(?<=[.?!]) ", whole) if 30 <= len(s) <= 300}


def documented(code: bytes) -> Iterator[str]:
    """The docstrings of a module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""


@cache
def documents(part: int) -> list[str]:
    """The sentences of a part, in order."""
    texts: list[str] = []
    if part == CALIBRATION:
        for path in sorted(Path(os.__file__).parent.glob("*.py")):
            texts += documented(path.read_bytes())
    else:
        for requirement, ending in ((SCIKIT_IMAGE, ".py"), (SCIKIT_LEARN, ".rst")):
            with zipfile.ZipFile(corpus.fetch_wheel(requirement)) as wheel:
                for name in sorted(n for n in wheel.namelist() if n.endswith(ending)):
                    content = wheel.read(name)
                    texts += documented(content) if ending == ".py" else [content.decode()]
    found = set().union(*map(split, texts))
    return sorted(s for s in found if not re.search(r"::|--|==|>>>|:math:|\*\*", s))


def sentences(part: int) -> Callable[[int, int], list[str]]:
    """What gives `count` sentences of a part by a seed."""

    def chosen(count: int, seed: int) -> list[str]:
        random, found = np.random.default_rng(seed), documents(part)
        return [found[i] for i in random.choice(len(found), count, replace=count > len(found))]

    return chosen


def _words(part: int) -> Callable[[np.random.Generator], str]:
    def words(random: np.random.Generator) -> str:
        found = documents(part)
        text = found[int(random.integers(len(found)))].split()
        start = int(random.integers(max(1, len(text) - 3)))
        return " ".join(text[start : start + int(random.integers(1, 4))])

    return words


@cache
def _files(part: int) -> dict[str, list[bytes]]:
    """The files of a wheel of up to a megabyte, by their endings."""
    found: dict[str, list[bytes]] = {}
    requirement = SCIKIT_IMAGE if part == CALIBRATION else SCIKIT_LEARN
    with zipfile.ZipFile(corpus.fetch_wheel(requirement)) as wheel:
        for entry in sorted(wheel.infolist(), key=lambda entry: entry.filename):
            if 64 <= entry.file_size <= 1_000_000:
                ending = Path(entry.filename).suffix
                found.setdefault(ending, []).append(wheel.read(entry))
    return found


def content(part: int) -> Callable[[np.random.Generator], bytes]:
    """What gives a file of a part."""

    def chosen(random: np.random.Generator) -> bytes:
        kinds = list(_files(part).values())
        files = kinds[int(random.integers(len(kinds)))]
        return files[int(random.integers(len(files)))]

    return chosen


def real(source: corpus.Source, part: int) -> samples.Sampler:
    """A sampler of real inputs of a part for a network, its own where there are none."""
    material = Material(photograph(part), _words(part), sentences(part), content(part), part)

    def sample(count: int, seed: int) -> list[samples.Feeds]:
        before = GIVEN.set(material)
        try:
            return source.samples(count, seed)
        finally:
            GIVEN.reset(before)

    return sample
