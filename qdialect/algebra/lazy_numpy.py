"""`np`: numpy, which is imported when something of it is first used.

Importing numpy takes a third of the time a small input takes, and few of the passes that
could compute something do on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Later:
        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _Later()

__all__ = ["np"]
