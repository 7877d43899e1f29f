"""Rendered lines of text, upright and upside down, as a text-direction classifier sees them.

Everything follows from the seed: the words, the colours, the size, the noise. The font is
the one that ships inside Pillow.
"""

# pyright: basic
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tools.bench.material import GIVEN

HEIGHT, WIDTH = 48, 192

_WORDS = """
    account address amount April August balance bank bill building card cash centre city code
    company contract copy country customer date December delivery department discount district
    east email exit expiry factory February fee fragile Friday from gate gross hotel hundred
    inspection insurance invoice January July June keep kilogram label lane leave left limit
    litre March market member Monday month net north notice November number October office
    open order owner package page paid park payment phone please post price product quantity
    railway receipt refund register return right road Saturday school serial service shipping
    signature south station store street Sunday table tax thousand ticket total tower train
    Tuesday unit update upper valid village warning water Wednesday week weight west year
    """
WORDS = tuple(_WORDS.split())


class TextLine(NamedTuple):
    """An image of shape (height, width, 3), and whether it was turned by 180 degrees."""

    pixels: np.ndarray
    rotated: bool


def _text(random: np.random.Generator) -> str:
    if given := GIVEN.get().words:
        return given(random)
    words = [str(random.choice(WORDS)) for _ in range(random.integers(1, 4))]
    if random.random() < 0.4:
        words.append(str(random.integers(10, 99_999)))
    text = " ".join(words)
    return text.upper() if random.random() < 0.3 else text


def _colours(random: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Paper and ink, far enough apart in brightness to be read."""
    paper = random.integers(150, 256, size=3)
    ink = random.integers(0, 90, size=3)
    if random.random() < 0.25:
        paper, ink = ink, paper
    return tuple(map(int, paper)), tuple(map(int, ink))


def text_line(random: np.random.Generator) -> TextLine:
    """One rendered line, cropped as a detector would crop it."""
    text = _text(random)
    font = ImageFont.load_default(size=int(random.integers(18, 44)))
    paper, ink = _colours(random)
    left, top, right, bottom = font.getbbox(text)
    margin = int(random.integers(2, 9))
    size = (math.ceil(right - left) + 2 * margin, math.ceil(bottom - top) + 2 * margin)
    image = Image.new("RGB", size, paper)
    ImageDraw.Draw(image).text((margin - left, margin - top), text, font=font, fill=ink)
    image = image.rotate(
        float(random.uniform(-2.0, 2.0)), Image.Resampling.BILINEAR, fillcolor=paper
    )
    rotated = bool(random.random() < 0.5)
    if rotated:
        image = image.transpose(Image.Transpose.ROTATE_180)
    noise = random.normal(0.0, random.uniform(0.0, 12.0), size=(image.height, image.width, 3))
    pixels = np.clip(np.asarray(image, dtype=np.float64) + noise, 0, 255).astype(np.uint8)
    return TextLine(pixels, rotated)


def text_lines(count: int, seed: int) -> list[TextLine]:
    """`count` lines, the same ones for the same seed."""
    random = np.random.default_rng(seed)
    return [text_line(random) for _ in range(count)]


def classifier_input(line: TextLine, limit: int = WIDTH) -> np.ndarray:
    """What PP-OCR's classifier takes: 48 high, at most `limit` wide, in [-1, 1], zero padded."""
    height, width, _ = line.pixels.shape
    scaled = min(limit, math.ceil(HEIGHT * width / height))
    image = Image.fromarray(line.pixels).resize((scaled, HEIGHT), Image.Resampling.BILINEAR)
    values = np.asarray(image, dtype=np.float32)[:, :, ::-1].transpose(2, 0, 1)
    tensor = np.zeros((1, 3, HEIGHT, limit), dtype=np.float32)
    tensor[0, :, :, :scaled] = (values / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    return tensor
