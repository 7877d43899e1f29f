"""The table of engines that run models, for commands, checks and the installer.

It imports nothing that runs one, so that `--help` can list the engines.
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.plugin import Engine, plugins

EngineName = str
"""A name of `ENGINES`."""

ENGINES: Mapping[EngineName, Engine] = {
    "numpy": Engine("our interpreter: exact, from the definitions", "qdialect.engines.local:Numpy"),
    **{name: engine for plugin in plugins() for name, engine in plugin.engines.items()},
}

PACKAGES: Mapping[str, tuple[str, ...]] = {
    name: packages for plugin in plugins() for name, packages in plugin.environments.items()
}
"""What `qopt engines install` installs, each in an environment of its own (their pins clash)."""
