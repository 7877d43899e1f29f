"""How figures look: in the colours of the page they stand on, light or dark, as SVG.

A figure names colours by their role. Its style sheet gives each role a colour for light pages
and one for dark pages, and the browser takes what the reader has chosen.
"""

from __future__ import annotations

LIGHT = {
    "ink": "#1f2328",
    "soft": "#59636e",
    "line": "#d1d9e0",
    "panel": "#f6f8fa",
    "before": "#8c959f",
    "after": "#0969da",
    "good": "#1a7f37",
    "warn": "#bc4c00",
    "third": "#8250df",
}
DARK = {
    "ink": "#e6edf3",
    "soft": "#9198a1",
    "line": "#3d444d",
    "panel": "#151b23",
    "before": "#7d8590",
    "after": "#4493f8",
    "good": "#3fb950",
    "warn": "#f0883e",
    "third": "#ab7df8",
}
ROLES = tuple(LIGHT)

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def colour(role: str) -> str:
    """How a style names the colour of a role; for readers that know no variables, the light one."""
    return f"var(--{role}, {LIGHT[role]})"


def style_sheet() -> str:
    """The colours of all roles, light and dark."""

    def roles(colours: dict[str, str]) -> str:
        return " ".join(f"--{role}: {value};" for role, value in colours.items())

    return (
        f"svg {{ {roles(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ svg {{ {roles(DARK)} }} }}"
    )
