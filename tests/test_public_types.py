"""What docs/reference/api.md lists, and what backends build on, has a type for every checker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib import import_module
from importlib.util import find_spec
from inspect import isclass, isfunction
from pathlib import Path

import pytest
from xdsl.ir import Attribute, Operation

import qdialect
from tests.support.public_names import listed

EXTENDED = ("api", "behaviors", "context", "errors", "qparams", "rewrite", "targets", "pipeline")
"""Rooms that are public as a whole; of others, what docs/reference/api.md lists."""


@pytest.mark.skipif(find_spec("pyright") is None, reason="no pyright: pip install pyright")
@pytest.mark.skipif(not os.environ.get("CI"), reason="takes half a minute: set CI=true")
def test_every_public_name_has_a_type(tmp_path: Path) -> None:
    # Named first, the folder of packages is not passed over as somebody's environment.
    places = [str(Path(qdialect.__file__).parents[1]), sysconfig.get_path("purelib")]
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(
        [*command, "--verifytypes", "qdialect", "--ignoreexternal"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        stdout=subprocess.PIPE,
        text=True,
    )
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    public = (*(f"qdialect.{name}" for name in (*qdialect.__all__, *EXTENDED)), *defined())
    judged = [s for s in symbols if s["isExported"] and _is_in(s["name"], public)]
    assert len(judged) > 400
    assert [s["name"] for s in judged if not s["isTypeKnown"] or s["isTypeAmbiguous"]] == []


def defined() -> list[str]:
    """Where the listed functions and classes are defined. Fields of xDSL's classes of ops and
    attributes have the types that its own functions give them, which checkers infer; the
    functions of `qdialect.ir.ops` are about these."""
    found = [
        getattr(import_module(module), name, None)
        for module, names in listed().items()
        for name in names
        if module != "qdialect.ir.ops"
    ]
    ours = [f for f in found if isfunction(f) or (isclass(f) and not issubclass(f, _OF_XDSL))]
    return [f"{each.__module__}.{each.__qualname__}" for each in ours]


_OF_XDSL = (Attribute, Operation)


def _is_in(name: str, public: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in public)
