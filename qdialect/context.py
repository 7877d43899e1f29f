"""The session: dialects, weights, behaviors, target and remarks of one compilation.

Everything a pass needs that is not in the IR hangs here, so two sessions in one
process never see each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.context import Context

from qdialect.weights import BlobStore

if TYPE_CHECKING:
    from qdialect.behaviors import BehaviorRegistry
    from qdialect.rewrite.remarks import RemarkLog
    from qdialect.targets.base import Target


def _default_behaviors() -> BehaviorRegistry:
    from qdialect.dialects.behaviors import default_registry

    return default_registry()


def _default_target() -> Target:
    from qdialect.targets.generic import TARGET

    return TARGET


def _new_log() -> RemarkLog:
    from qdialect.rewrite.remarks import RemarkLog

    return RemarkLog()


@dataclass
class QContext(Context):
    """An xDSL context plus what belongs to one qdialect session."""

    blobs: BlobStore = field(default_factory=BlobStore)
    behaviors: BehaviorRegistry = field(default_factory=_default_behaviors)
    target: Target = field(default_factory=_default_target)
    remarks: RemarkLog = field(default_factory=_new_log)

    def clone(self) -> QContext:
        """Same registrations, weights, behaviors and target; a fresh remark log."""
        return QContext(
            **vars(super().clone()),
            blobs=self.blobs,
            behaviors=self.behaviors,
            target=self.target,
        )


def session(ctx: Context) -> QContext:
    """`ctx` itself when it is ours, else a new session over the same dialects
    (a pass run by stock `xdsl-opt` gets no weights, the default behaviors and
    the generic target)."""
    return ctx if isinstance(ctx, QContext) else QContext(**vars(ctx.clone()))


def new_context(*, allow_unregistered: bool = False) -> QContext:
    """A session with our dialects and every dialect of xDSL registered (lazily)."""
    from xdsl.dialects import get_all_dialects

    from qdialect.dialects import DIALECTS, load

    ctx = QContext(allow_unregistered)
    for name, factory in get_all_dialects().items():
        if name not in DIALECTS:
            ctx.register_dialect(name, factory)
    for name in DIALECTS:
        ctx.register_dialect(name, load(name))
    return ctx
