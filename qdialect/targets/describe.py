"""A description of a target for `--show-target`, from its fields."""

from __future__ import annotations

from qdialect.targets.base import Target


def description(target: Target) -> list[tuple[str, str]]:
    """The rows (property, value) that describe a target."""
    storages = "any" if target.storages is None else ", ".join(sorted(target.storages))
    others = "any types" if target.runs_others else "not on integers"
    rows = [
        ("name", target.name),
        ("summary", target.summary),
        ("storages", storages),
        ("zero point 0 for", ", ".join(sorted(target.symmetric)) or "none"),
        ("parameters", _parameters(target)),
        ("float arithmetic", "yes" if target.floats else "no"),
        ("rounding", ", ".join(r.value for r in target.roundings) or "any"),
        ("multipliers", "any" if (bits := target.multiplier_bits) is None else f"{bits} bits"),
        ("price of a rescale", _prices(target)),
        ("interface", target.interface.value),
        ("casts", target.boundary),
        ("kept whole", ", ".join(sorted(target.keep_whole)) or "none"),
        ("quantized in pieces", _in_pieces(target)),
        *((f"passes at '{p}'", ", ".join(names)) for p, names in sorted(target.extensions.items())),
        *((f"declares {b.op}", "for this target") for b in target.behaviors),
    ]
    for name, kernels in sorted(target.kernels.items()):
        rows += [(name if not n else "", str(kernel)) for n, kernel in enumerate(kernels)]
        rows += [] if kernels else [(name, "floats only")]
    return [*rows, ("other ops" if target.kernels else "ops", others)]


def _in_pieces(target: Target) -> str:
    if not target.floats:
        return "what it does not run on integers"
    return ", ".join(sorted(target.in_pieces)) or "none"


def _parameters(target: Target) -> str:
    layouts = ["per tensor"]
    if target.per_axis:
        zeros = "" if target.per_axis_zero_points else " (one zero point)"
        layouts.append(f"per axis{zeros}")
    if target.per_block:
        layouts.append("in blocks")
    return ", ".join(layouts)


def _prices(target: Target) -> str:
    if target.shift_price is None:
        return f"{target.price:g} per element"
    return f"{target.price:g} per element, by a power of two {target.shift_price:g}"
