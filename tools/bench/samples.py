"""Inputs for the networks of the corpus: made here, from a seed, never fetched, unless there is
other material (`material.py`)."""

# pyright: basic
from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tools.bench.material import GIVEN
from tools.bench.text_images import classifier_input, text_line, text_lines

Feeds = dict[str, np.ndarray]
Sampler = Callable[[int, int], list[Feeds]]
"""From a count and a seed to inputs."""

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def _as_tensor(pixels: np.ndarray) -> np.ndarray:
    """Pixels as the image networks take them: planes, standardized per channel."""
    scaled = (pixels.astype(np.float32) / np.float32(255) - MEAN) / DEVIATION
    return scaled.transpose(2, 0, 1)[None]


def scene(random: np.random.Generator, size: int) -> np.ndarray:
    """Clouds with the spectrum of photographs, and a few shapes with edges; a picture where some
    are given."""
    if given := GIVEN.get().scene:
        return given(random, size)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None])
    frequency[0, 0] = 1.0
    noise = random.normal(size=(3, size, size // 2 + 1, 2)) @ np.array([1, 1j])
    clouds = np.fft.irfft2(noise / frequency**1.2, s=(size, size)).transpose(1, 2, 0)
    clouds = 128 + 60 * (clouds - clouds.mean()) / clouds.std()
    image = Image.fromarray(np.clip(clouds, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(random.integers(2, 7)):
        x, y, width, height = (int(v) for v in random.integers(5, size // 2, size=4))
        shape = draw.ellipse if random.random() < 0.5 else draw.rectangle
        shape((x, y, x + width, y + height), fill=tuple(map(int, random.integers(0, 256, size=3))))
    return np.asarray(image)


def images(name: str, height: int = 224, width: int = 224) -> Sampler:
    """Photograph-like images for the input `name`."""

    def sample(count: int, seed: int) -> list[Feeds]:
        random, size = np.random.default_rng(seed), max(height, width)
        scenes = (_as_tensor(scene(random, size)) for _ in range(count))
        return [{name: np.ascontiguousarray(one[:, :, :height, :width])} for one in scenes]

    return sample


def directions(count: int, seed: int) -> list[Feeds]:
    """Lines of text for the text-direction classifier."""
    return [{"x": classifier_input(line)} for line in text_lines(count, seed)]


def lines(count: int, seed: int) -> list[Feeds]:
    """Upright lines of text, 320 wide, for the recogniser."""
    random = np.random.default_rng(seed)
    made: list[Feeds] = []
    while len(made) < count:
        line = text_line(random)
        if not line.rotated:
            made.append({"x": classifier_input(line, 320)})
    return made


def pages(count: int, seed: int, size: int = 320) -> list[Feeds]:
    """Pages with several lines of text, for the detector."""
    random = np.random.default_rng(seed)
    made: list[Feeds] = []
    for _ in range(count):
        page = Image.new("RGB", (size, size), tuple(map(int, random.integers(170, 256, size=3))))
        draw = ImageDraw.Draw(page)
        y = int(random.integers(5, 40))
        while y < size - 30:
            height = int(random.integers(10, 30))
            font = ImageFont.load_default(size=height)
            number = int(random.integers(1, 6))
            words = " ".join(f"{random.integers(1 << 20):x}" for _ in range(number))
            if given := GIVEN.get().words:
                words = given(random)
            ink = tuple(map(int, random.integers(0, 100, size=3)))
            draw.text((int(random.integers(4, 60)), y), words, font=font, fill=ink)
            y += height + int(random.integers(6, 30))
        made.append({"x": _as_tensor(np.asarray(page)[:, :, ::-1])})
    return made


def files(count: int, seed: int) -> list[Feeds]:
    """First and last 1 024 bytes of made-up files: text, tables, code, binary, compressed; of files
    where some are given."""
    random, given = np.random.default_rng(seed), GIVEN.get().content
    made: list[Feeds] = []
    for index in range(count):
        content = (given or _KINDS[index % len(_KINDS)])(random).strip()
        padding = [256] * max(0, 1024 - len(content))
        begin = [*content[:1024], *padding]
        end = [*padding, *content[-1024:]]
        made.append({"bytes": np.array([begin + end], dtype=np.int32)})
    return made


def _prose(random: np.random.Generator) -> bytes:
    words = b"the a of quantized network runs on small devices and keeps its answers".split()
    return b" ".join(
        words[i] for i in random.integers(0, len(words), size=random.integers(50, 400))
    )


def _code(random: np.random.Generator) -> bytes:
    body = (f"def f{i}(x, y):\n    return x * {i} + y\n\n" for i in random.integers(0, 999, 40))
    return ("import math\n\n" + "".join(body)).encode()


def _csv(random: np.random.Generator) -> bytes:
    rows = (",".join(map(str, row)) for row in random.integers(0, 10_000, size=(80, 6)))
    return ("id,a,b,c,d,e\n" + "\n".join(rows)).encode()


def _json(random: np.random.Generator) -> bytes:
    rows = (f'{{"id": {i}, "name": "n{i}", "ok": true}}' for i in random.integers(0, 9999, 60))
    return f"[{', '.join(rows)}]".encode()


def _binary(random: np.random.Generator) -> bytes:
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQ", 3, 62, 1, 4096)
    return header + random.integers(0, 256, size=4000, dtype=np.uint8).tobytes() + b"\x01"


def _compressed(random: np.random.Generator) -> bytes:
    return gzip.compress(_prose(random) * 20, mtime=0) + b"\x01"


_KINDS = (_prose, _code, _csv, _json, _binary, _compressed)


def sound(random: np.random.Generator, seconds: float = 2.0, rate: int = 16_000) -> np.ndarray:
    """Gliding harmonics in bursts over noise, in 16-bit units: as lively as speech."""
    time = np.arange(int(seconds * rate)) / rate
    signal = random.normal(0.0, 30.0, len(time))
    for _ in range(random.integers(2, 7)):
        start, length = random.uniform(0, seconds), random.uniform(0.1, 0.7)
        envelope = np.exp(-(((time - start) / length) ** 2))
        pitch = random.uniform(90, 400) * (1 + random.uniform(-0.3, 0.3) * time)
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voices = sum(np.sin(k * phase) / k for k in range(1, int(random.integers(3, 12))))
        signal += random.uniform(500, 6000) * envelope * voices
    return np.clip(signal, -32768, 32767).astype(np.float32)
