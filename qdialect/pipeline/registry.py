"""Find pass classes by name: qdialect's passes, those of plug-ins, then xDSL's own.

`lower-NAME` of a composite op `nn.NAME` is short for `lower-composites{ops=nn.NAME}`: every
composite has such a pass, from the table of composites (`lower-lstm`, `lower-conv2d`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from qdialect.errors import UsageError, did_you_mean
from qdialect.passes import PASSES, PassEntry
from qdialect.pipeline.options import instantiate
from qdialect.pipeline.text import ANY

ON_MODULES = frozenset(("inline", "strip-func-quant-types", "symbol-dce", "symbol-privatize"))
"""Passes that change functions and what calls them, and so need the module of both."""

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from qdialect.pipeline.text import PassSpec


class PassRegistry:
    """The passes one session knows."""

    def __init__(self, entries: Mapping[str, PassEntry] = PASSES) -> None:
        self._entries = dict(entries)
        self._factories: dict[str, Callable[[], type[ModulePass]]] = {}

    def add(self, name: str, factory: Callable[[], type[ModulePass]]) -> None:
        """Add a plug-in's pass; UsageError (`bad-plugin`) when the name is taken."""
        if name in self._entries or name in self._factories:
            raise UsageError(f"there is already a pass '{name}'", code="bad-plugin")
        self._factories[name] = factory

    def entries(self) -> list[PassEntry]:
        """The passes with a line of help; those of plug-ins last."""
        plugged = [PassEntry(name, "(from a plug-in)", "") for name in sorted(self._factories)]
        return [*self._entries.values(), *plugged]

    def knows(self, name: str) -> bool:
        """Whether there is a pass `name`, or it is short for one."""
        from qdialect.pipeline.text import PassSpec

        try:
            self.load(self._spelled_out(PassSpec(name)).name)
        except UsageError:
            return False
        return True

    def load(self, name: str) -> type[ModulePass]:
        """The class of pass `name`; UsageError (`unknown-pass`) if there is none."""
        if name in self._entries:
            module, _, attribute = self._entries[name].where.partition(":")
            return getattr(import_module(module), attribute)
        if name in self._factories:
            return self._factories[name]()
        from xdsl.transforms import get_all_passes

        stock = get_all_passes()
        if name in stock:
            return stock[name]()
        known = [*self._entries, *self._factories]
        hint = did_you_mean(name, known) or did_you_mean(name, stock)
        raise UsageError(
            f"'{name}' does not refer to a registered pass or pass pipeline{hint}",
            code="unknown-pass",
            notes=("--list-passes lists the passes",),
        )

    def build(self, specs: Iterable[PassSpec]) -> list[tuple[PassSpec, ModulePass]]:
        """The passes of a pipeline, ready to run; UsageError for a bad one."""
        built: list[tuple[PassSpec, ModulePass]] = []
        for spec in map(self._spelled_out, specs):
            try:
                built.append((spec, self._built(spec)))
            except UsageError as error:
                error.where = error.where or spec.where
                raise
        return built

    def _built(self, spec: PassSpec) -> ModulePass:
        instance = instantiate(self.load(spec.name), spec)
        if not spec.anchors:
            return instance
        if spec.name in ON_MODULES and spec.anchors[-1] not in ("builtin.module", ANY):
            raise UsageError(
                f"unable to schedule pass '{spec.name}' on a PassManager intended to run on "
                f"'{spec.anchors[-1]}'!",
                code="bad-pipeline",
            )
        from qdialect.pipeline.anchors import AnchoredPass

        return AnchoredPass(instance, spec.anchors)

    def _spelled_out(self, spec: PassSpec) -> PassSpec:
        """The pass that a short name stands for, if it is one."""
        prefix, _, name = spec.name.partition("-")
        if prefix != "lower" or spec.name in self._entries or spec.name in self._factories:
            return spec
        from qdialect.ir.ops import default_components

        op = f"nn.{name.replace('-', '_')}"
        if op not in default_components():
            return spec
        if any(key == "ops" for key, _ in spec.options):
            raise UsageError(f"pass '{spec.name}' has no option 'ops'", code="bad-option")
        return replace(spec, name="lower-composites", options=(("ops", (op,)), *spec.options))
