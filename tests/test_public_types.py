"""What `qdialect.__all__` names, and what backends build on, has a type for every checker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

import qdialect

EXTENDED = ("api", "behaviors", "context", "errors", "qparams", "rewrite", "targets", "pipeline")
"""Modules that a vendor's package imports (docs/howto/add-an-op-or-a-target.md)."""


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
    public = tuple(f"qdialect.{name}" for name in (*qdialect.__all__, *EXTENDED))
    judged = [s for s in symbols if s["isExported"] and _is_in(s["name"], public)]
    assert len(judged) > 400
    assert [s["name"] for s in judged if not s["isTypeKnown"] or s["isTypeAmbiguous"]] == []


def _is_in(name: str, public: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in public)
