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
    **dict(
        sorted(
            (each for plugin in plugins() for each in plugin.engines.items()),
            key=lambda each: each[1].environment,
        )
    ),
}
"""Packages of this Python before what is in an environment of its own."""

PACKAGES: Mapping[str, tuple[str, ...]] = dict(
    sorted(each for plugin in plugins() for each in plugin.environments.items())
)
"""What `qopt engines install` installs, each in an environment of its own (their pins clash)."""
