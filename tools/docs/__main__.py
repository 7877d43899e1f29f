"""Make the documentation, and the pages that are measured or drawn."""

import sys
from pathlib import Path

from tools.command import Subcommand, run

COMMANDS = {
    "site": Subcommand("tools.docs.site", "the site, in build/site; warnings are errors"),
    "figures": Subcommand("tools.docs.figures", "the figures of the concepts"),
    "page": Subcommand("tests.support.pages", "run the commands of a page, and keep their output"),
    "conformance": Subcommand("tests.support.node_conformance", "the node tests of onnx"),
    "engine-bugs": Subcommand("tests.support.engine_bugs", "known bugs of engines, reproduced"),
    "composites": Subcommand("tests.support.composites", "composite ops whole, lowered and raised"),
    "tosa-ops": Subcommand("tosa_page", "what each op becomes in TOSA"),
    "source": Subcommand("tools.docs.source", "lines by folder, imports, words, docstrings"),
}

if __name__ == "__main__":
    # The configurations of the lowerings import each other as tests do.
    sys.path[:0] = [str(Path(__file__).parents[2] / "tests" / "lowerings")]
    sys.exit(run("tools.docs", (__doc__ or "").strip(), COMMANDS))
