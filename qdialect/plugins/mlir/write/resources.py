"""Prints the resources behind a module, as mlir-opt does.

{-#
  dialect_resources: {
    builtin: {
      w: "0x040000000000803F"
    }
  },
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(dce)",
      verify_each: true
    }
  }
#-}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from typing_extensions import override
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.ir import Dialect
from xdsl.printer import Printer

Resources = Mapping[str, Mapping[str, "str | bool"]]
"""Entries by group and key."""


class ResourcePrinter(Printer):
    """Prints both kinds of resources; keys that are no identifiers are in quotes."""

    @override
    def print_string_literal(self, string: str) -> None:
        """Write a string. The name of a file may not be UTF-8."""
        self.print_bytes_literal(string.encode(errors="backslashreplace"))

    @override
    def print_resource_handle(self, dialect: str, handle: str) -> None:
        """Write the name of a resource, quoted where it must be."""
        self._dialect_resources.setdefault(dialect, set()).add(handle)
        self.print_identifier_or_string_literal(handle)

    def print_resources(
        self, dialects: Iterable[Dialect], external: Resources, up_to: int | None = None
    ) -> None:
        """The resources of dialects that the module names, and the external ones; nothing if
        there are none.  Those whose text is longer than `up_to` are left out."""
        found: dict[str, dict[str, str]] = {}
        for dialect in dialects:
            handles = sorted(self._dialect_resources.get(dialect.name, ()))
            interface = dialect.get_interface(OpAsmDialectInterface) if handles else None
            if interface is not None:
                found[dialect.name] = interface.build_resources(handles)
        sections = {"dialect_resources": found, "external_resources": external}
        written = {
            name: {group: kept for group, all in groups.items() if (kept := _short(all, up_to))}
            for name, groups in sections.items()
        }
        if not any(written.values()):
            return
        self.print_string("\n\n{-#")
        self._print_entries({name: groups for name, groups in written.items() if groups}, 1)
        self.print_string("\n#-}")

    def _print_entries(self, entries: Mapping[str, object], depth: int) -> None:
        for index, (key, value) in enumerate(entries.items()):
            self.print_string(f"{',' * bool(index)}\n{'  ' * depth}")
            self.print_identifier_or_string_literal(key)
            self.print_string(": ")
            if isinstance(value, Mapping):
                self.print_string("{")
                self._print_entries(cast("Mapping[str, object]", value), depth + 1)
                self.print_string(f"\n{'  ' * depth}}}")
            elif isinstance(value, str):
                self.print_string_literal(value)
            else:
                self.print_string("true" if value else "false")


def _short(entries: Mapping[str, str | bool], up_to: int | None) -> Mapping[str, str | bool]:
    if up_to is None:
        return entries
    return {k: v for k, v in entries.items() if isinstance(v, bool) or len(v) <= up_to}
