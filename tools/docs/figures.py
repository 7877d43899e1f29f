"""The figures of the concepts pages, drawn from what the code computes.

    python -m tools.docs figures [-o docs/concepts] [NAME ...]

needs matplotlib (extra `bench`). Nothing in a figure is made up: the maps, tables and
placements are asked of `qdialect`.
"""

# pyright: basic
from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from qdialect.algebra.qparams import Illegal, ParameterField, QParams
from qdialect.algebra.qparams.maps.base import IndexMap
from qdialect.algebra.qparams.maps.dims import Flip, Slice, Transpose
from qdialect.algebra.qparams.maps.reshape import Reshape
from qdialect.algebra.requantize import QuantGrid, codes_of, requantize
from qdialect.algebra.rounding import Rounding
from qdialect.api import Model, run_passes
from qdialect.ir.context import new_context
from qdialect.ir.ops import shape_of
from qdialect.ir.quant import RescaleOp
from qdialect.plugins.mlir.read import read_module, verify_module
from tools.bench import placement as bench_placement
from tools.docs.figure_style import FONT, LIGHT, colour, style_sheet

PAGES = Path(__file__).parents[2] / "docs" / "concepts"
CHANNELS = ("after", "warn", "good", "third")

mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "qdialect",
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": LIGHT["ink"],
        "axes.labelcolor": LIGHT["soft"],
        "axes.edgecolor": LIGHT["line"],
        "axes.titlesize": 10,
        "xtick.color": LIGHT["soft"],
        "ytick.color": LIGHT["soft"],
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)


def ink(role: str) -> str:
    """The colour of a role, as it is drawn; `svg` gives it its name."""
    return LIGHT[role]


def svg(figure: Figure, title: str) -> str:
    """A figure in the reader's colours, without a background."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    for role, value in LIGHT.items():
        text = re.sub(rf"(?<=: ){value}\b", colour(role), text)
    text = re.sub(r"font: ([^;\"']*?)(?:'[^;\"]*|sans-serif[^;\"]*)", rf"font: \1{FONT}", text)
    text = re.sub(r"<\?xml.*?(?=<svg)", "", text, flags=re.S)
    start = text.index(">", text.index("<svg")) + 1
    head = f"\n<title>{title}</title>\n<style>{style_sheet()}</style>"
    return re.sub(r"[ \t]+$", "", text[:start] + head + text[start:], flags=re.M)


# -- the qparams law -------------------------------------------------------------


def grids() -> Figure:
    """A rescale between two grids of 4-bit codes, as the lines of its table."""
    a, b = QParams.per_tensor("i4", 0.5, 1), QParams.per_tensor("i4", 0.3, -2)
    froms, to = _affine(a), _affine(b)
    codes = codes_of(froms)
    made = np.asarray(requantize(codes, froms, to, Rounding.HALF_EVEN))
    figure = Figure((8.6, 2.5))
    axes = figure.add_axes((0.01, 0.04, 0.98, 0.92))
    for y, q, affine in ((1.0, a, froms), (0.0, b, to)):
        real = (codes - affine.zero) * affine.scale
        axes.plot([real[0], real[-1]], [y, y], color=ink("line"), lw=1.5, zorder=1)
        axes.scatter(real, np.full(len(real), y), s=26, color=ink("after"), zorder=3)
        for code, at in zip(codes.tolist(), real.tolist(), strict=True):
            axes.text(
                at, y + (0.13 if y else -0.13), str(code), ha="center",
                va="bottom" if y else "top", fontsize=8.5, color=ink("soft"),
            )  # fmt: skip
        axes.text(-9.4, y, _spelled(q), va="center", fontsize=9.5)
    for code, other in zip(codes.tolist(), made.tolist(), strict=True):
        ends = (code - froms.zero) * froms.scale, (other - to.zero) * to.scale
        clipped = abs(ends[0] - ends[1]) > to.scale / 2 + 1e-9
        role = "warn" if clipped else "soft"
        axes.plot(ends, [0.95, 0.05], color=ink(role), lw=1.1 if clipped else 0.9, zorder=2)
    axes.text(
        -9.4, 0.5, "rescale, rounded half to even", va="center", fontsize=9, color=ink("soft")
    )
    axes.text(2.95, 0.5, "clipped", va="center", fontsize=9, color=ink("warn"))
    axes.set(xlim=(-9.5, 4.2), ylim=(-0.45, 1.45))
    axes.axis("off")
    return figure


def _spelled(q: QParams) -> str:
    return f"!quant.uniform<i4:f32, {q.scale_list()[0]:g}:{q.zero_point_list()[0]}>"


def _affine(q: QParams) -> QuantGrid:
    return QuantGrid(q.scale_list()[0], q.zero_point_list()[0], q.storage.min, q.storage.max)


def law() -> Figure:
    """What becomes of parameters along a dimension under six movements."""
    shape = (4, 6)
    scales = (0.5, 0.25, 0.125, 1.0)
    field = ParameterField.of(QParams.per_axis("i8", 0, scales), shape)
    maps: list[tuple[str, IndexMap | None]] = [
        ("tensor<4x6>", None),
        ("transpose", Transpose((1, 0))),
        ("flip of dimension 0", Flip((0,))),
        ("slice, rows 1 to 3", Slice.along(2, 0, 1, 3)),
        ("reshape to 8x3", Reshape((8, 3))),
        ("reshape to 3x8", Reshape((3, 8))),
    ]
    figure = Figure((8.6, 4.6))
    for number, (name, index_map) in enumerate(maps):
        axes = figure.add_subplot(2, 3, number + 1)
        slots = np.repeat(np.arange(4), 6).reshape(shape)
        said, legal = _type_text(field), True
        if index_map is not None:
            slots = np.asarray(index_map.apply([slots]))
            found = index_map.pull([field])
            legal = not isinstance(found, Illegal)
            said = (
                _type_text(found) if isinstance(found, ParameterField) else f"no type: {found.code}"
            )
        _grid(axes, slots)
        axes.set_title(name, fontsize=10.5, color=ink("ink"), pad=6)
        axes.text(
            0.5, -0.07, said, transform=axes.transAxes, ha="center", va="top", fontsize=8.6,
            color=ink("soft" if legal else "warn"),
        )  # fmt: skip
    figure.subplots_adjust(0.03, 0.1, 0.97, 0.92, wspace=0.25, hspace=0.5)
    return figure


def _type_text(field: ParameterField) -> str:
    q = field.to_qparams()
    scales = [f"{scale:g}" for scale in q.scale_list()]
    if field.is_per_tensor:
        return f"i8, {scales[0]}"
    return f"i8, dimension {field.blocked[0]}: {', '.join(scales)}"


def _grid(axes: Axes, slots: np.ndarray) -> None:
    rows, columns = slots.shape
    for (row, column), slot in np.ndenumerate(slots):
        face = ink(CHANNELS[int(slot)])
        axes.add_patch(Rectangle((column + 0.06, row + 0.06), 0.88, 0.88, color=face, lw=0))
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal")
    axes.axis("off")


# -- contracts -------------------------------------------------------------------


def contracts() -> Figure:
    """A rewrite of each class: its difference in steps, on every code."""
    fine, half, coarse = (QuantGrid(s, 0, -128, 127) for s in (0.1, 0.2, 0.3))
    even, up = Rounding.HALF_EVEN, Rounding.HALF_UP
    codes = codes_of(fine)

    def chain(*steps: QuantGrid) -> np.ndarray:
        now = codes
        for a, b in pairwise(steps):
            now = np.asarray(requantize(now, a, b, even))
        return now

    narrow = QuantGrid(0.1, 0, -50, 50)
    lossless = QuantGrid(0.05, 0, -256, 255)
    once, rough, clipped = chain(fine, half), chain(fine, coarse, half), chain(fine, narrow, half)
    panels = [
        ("exact", "two rescales, the middle\nfiner: into one", chain(fine, lossless, half), once),
        ("ties", "half to even\nas half up", once, np.asarray(requantize(codes, fine, half, up))),
        ("bounded(1.75)", "two rescales, the middle\ncoarser: into one", rough, once),
        ("saturation", "two rescales, the middle\nclips: into one", clipped, once),
        ("relaxed", "dequantize of quantize:\ninto nothing", chain(fine, coarse) * 3.0, codes),
    ]  # fmt: skip
    figure = Figure((8.6, 2.7))
    for number, (name, what, before, after) in enumerate(panels):
        axes = figure.add_subplot(1, 5, number + 1)
        steps = after.astype(float) - before
        role = "good" if not steps.any() else "after" if abs(steps).max() <= 2 else "warn"
        axes.axhline(0, color=ink("line"), lw=1)
        axes.plot(*_stems(codes, steps), color=ink(role), lw=0.55)
        axes.plot(*_tips(codes, steps), color=ink(role), lw=1.6)
        top = max(2.0, float(abs(steps).max()) * 1.1)
        axes.set(xlim=(-134, 133), ylim=(-top, top), xticks=[-128, 0, 127])
        axes.tick_params(labelsize=8, length=2)
        axes.set_title(name, fontsize=10.5, color=ink("ink"))
        axes.set_xlabel(what, fontsize=8.4)
        differing = int((steps != 0).sum())
        axes.text(
            0.5, 0.97, f"{differing} of {len(codes)}", transform=axes.transAxes, ha="center",
            va="top", fontsize=8, color=ink("soft"),
        )  # fmt: skip
    figure.axes[0].set_ylabel("steps of the result", fontsize=8.4)
    figure.subplots_adjust(0.065, 0.27, 0.995, 0.88, wspace=0.38)
    return figure


def _stems(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lines from 0 to each y, as one line with gaps."""
    gap = np.full(len(x), np.nan)
    return np.stack([x, x, gap], 1).ravel(), np.stack([0 * y, y, gap], 1).ravel()


def _tips(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A dash at each y, as one line with gaps."""
    gap = np.full(len(x), np.nan)
    return np.stack([x - 0.5, x + 0.5, gap], 1).ravel(), np.stack([y, y, gap], 1).ravel()


# -- placement -------------------------------------------------------------------

BETWEEN = """
!large_a = tensor<16x16x!quant.uniform<i8:f32, 0.5>>
!small_a = tensor<1x4x!quant.uniform<i8:f32, 0.5>>
!large_b = tensor<16x16x!quant.uniform<i8:f32, 0.25:3>>
!small_b = tensor<1x4x!quant.uniform<i8:f32, 0.25:3>>
!wide_b = tensor<8x32x!quant.uniform<i8:f32, 0.25:3>>
func.func @between(%x: !large_a) -> !wide_b {
  %0 = quant.rescale %x : !large_a to !large_b
  %1 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (!large_b) -> !small_b
  %2 = nn.tile %1 repeats [8, 8] : (!small_b) -> !wide_b
  func.return %2 : !wide_b
}
"""


def pipe() -> Figure:
    """One rescale as written, sunk as far as it goes, and placed: how much it works on."""
    ways = (
        ("as written", ""),
        ("sink-rescale", "sink-rescale"),
        ("place-rescales", "place-rescales"),
    )
    figure = Figure((8.6, 2.5))
    for number, (name, passes) in enumerate(ways):
        axes = figure.add_subplot(1, 3, number + 1)
        _pipe(axes, name, passes)
    figure.subplots_adjust(0.01, 0.02, 0.99, 0.9, wspace=0.06)
    return figure


def _pipe(axes: Axes, name: str, passes: str) -> None:
    ctx = new_context()
    module = read_module(BETWEEN, ctx)
    verify_module(module, ctx)
    model = run_passes(Model(module, ctx), passes) if passes else Model(module, ctx)
    ops = [op for op in model.module.walk() if op.results]
    x, cost = 0.0, 0
    value = ops[0].operands[0]
    for op in [None, *ops]:
        out = value if op is None else op.results[0]
        size = int(np.prod(shape_of(out)))
        width = 0.16 + 0.15 * np.log2(size) / 2
        if isinstance(op, RescaleOp):
            cost = size
            box = FancyBboxPatch(
                (x - 0.35, -width / 2 - 0.12), 0.3, width + 0.24,
                boxstyle="round,pad=0,rounding_size=0.1", color=ink("warn"), lw=0,
            )  # fmt: skip
            axes.add_patch(box)
            axes.text(
                x - 0.2, width / 2 + 0.2, "rescale", ha="center", fontsize=9, color=ink("warn")
            )
        else:
            if op is not None:
                label = op.name.removeprefix("nn.")
                axes.text(x - 0.2, -1.12, label, ha="center", fontsize=9, color=ink("ink"))
                axes.plot([x - 0.2] * 2, [-0.92, 0.55], color=ink("line"), lw=1, ls=":")
        box = Rectangle((x, -width / 2), 1.0, width, color=ink("after"), alpha=0.45, lw=0)
        axes.add_patch(box)
        axes.text(x + 0.5, 0, str(size), ha="center", va="center", fontsize=9)
        x += 1.4
    axes.set_title(f"{name}: {cost} elements", fontsize=10.5, color=ink("ink"))
    axes.set(xlim=(-0.2, 5.4), ylim=(-1.3, 1.15))
    axes.axis("off")


def placed() -> Figure:
    """Elements rescaled on generated networks: before, greedily, placed, and the bound."""
    figure = Figure((8.6, 3.3))
    axes = figure.add_axes((0.1, 0.1, 0.88, 0.8))
    names = ("residual", "concat", "dense", "inception", "attention")
    most = 100.0
    for row, name in enumerate(names):
        found = bench_placement.measure(bench_placement.Case(name, 300, "saturation"))
        before = found.before.elements
        bars = (
            ("greedy", found.greedy.elements if found.greedy else None, "before"),
            ("placed", found.placed.elements, "after"),
        )
        for offset, (_, elements, role) in zip((-0.19, 0.19), bars, strict=True):
            if elements is None:
                axes.text(1, row + offset, "gave up", va="center", fontsize=8.5, color=ink("soft"))
                continue
            share = 100 * elements / before
            most = max(most, share)
            axes.barh(row + offset, share, 0.34, color=ink(role), lw=0)
            axes.text(share + 1, row + offset, f"{share:.0f} %", va="center", fontsize=8.5)
        if found.bound is not None:
            at = 100 * found.bound / before
            axes.plot([at, at], [row - 0.42, row + 0.42], color=ink("warn"), lw=2)
    axes.set(
        yticks=range(len(names)),
        yticklabels=names,
        xlim=(0, 1.1 * most),
        ylim=(len(names) - 0.5, -0.6),
    )
    axes.tick_params(length=0, labelsize=9.5)
    axes.tick_params(axis="y", labelcolor=ink("ink"))
    figure.text(0.1, 0.95, "elements rescaled, of those before:", fontsize=9.5, color=ink("soft"))
    legend = (
        (0.4, "greedy", "before"),
        (0.5, "place-rescales", "after"),
        (0.67, "least that is possible", "warn"),
    )
    for x, text, role in legend:
        figure.text(x, 0.95, text, fontsize=9.5, color=ink(role), weight="bold")
    return figure


FIGURES: dict[str, tuple[Callable[[], Figure], str]] = {
    "grids": (grids, "A rescale between two grids of codes"),
    "law": (law, "Parameters along a dimension under six movements"),
    "contracts": (contracts, "A rewrite of each contract class and its difference on every code"),
    "pipe": (pipe, "One rescale as written, sunk, and placed"),
    "placed": (placed, "Elements rescaled on generated networks"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draw the figures of the concepts pages.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("-o", "--output", type=Path, default=PAGES)
    options = parser.parse_args(argv)
    for name in options.names or FIGURES:
        draw, title = FIGURES[name]
        path = options.output / f"{name}.svg"
        path.write_text(svg(draw(), title), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
