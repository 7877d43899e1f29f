"""The target that runs everything: for tests and for people without a backend yet."""

from __future__ import annotations

from qdialect.targets.base import Target

TARGET = Target("generic", "runs every op on every qparams; all rescales cost the same")
