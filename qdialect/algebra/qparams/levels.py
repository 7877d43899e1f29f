"""Tables of levels that have a name: codes that are numbered quantiles, not evenly spaced.

A code c of `NORMAL_LEVELS` means `NF4[c]` times the scale of its block: the 16 quantiles of a
normal distribution, scaled to [-1, 1], 0 among them (Dettmers et al., QLoRA, 2023).
"""

from __future__ import annotations

from qdialect.algebra.qparams.parameters import Quantile, Storage, pack_f64

NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The levels by code, as floats of four bytes: those that ONNX Runtime's MatMulBnb4 has."""

NORMAL_LEVELS = Storage.of("ui4", quantile=Quantile("f32", pack_f64(NF4)))
"""Codes of four bits that name these levels."""
