"""How a module is written where mlir-opt leaves a choice: its printing flags."""

from __future__ import annotations

from typing import NamedTuple

HEX_ABOVE = 100
"""mlir-opt writes dense attributes with more elements than this as hexadecimal bytes."""


class Style(NamedTuple):
    """The choices; the defaults are mlir-opt's."""

    elide_above: int | None = None
    """Of dense attributes with more elements, all but splats, only the type is written."""
    hex_above: int | None = HEX_ABOVE
    """Dense attributes with more elements are hexadecimal bytes; None: none is."""
    resources_up_to: int | None = None
    """Resources with longer texts are left out."""
    skip_regions: bool = False
    """Whether `{...}` stands for each region."""
    value_users: bool = False
    """Whether comments name the ops that use a value."""
    names_by_location: bool = False
    """Whether values are called as their locations are, where these have names."""
    unique_names: bool = False
    """Whether no name is given twice, in different regions."""

    @property
    def needs_names(self) -> bool:
        """Whether names of values depend on it."""
        return self.value_users or self.names_by_location or self.unique_names


PLAIN = Style()
