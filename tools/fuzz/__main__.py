"""Look for inputs on which something is wrong, and make them small."""

import sys
from pathlib import Path

from tools.command import Subcommand, run

COMMANDS = {
    "programs": Subcommand("tools.fuzz.programs", "every pass, on random programs"),
    "placement": Subcommand("tools.fuzz.placement", "place-rescales, against its greedy rules"),
    "graphs": Subcommand("tools.fuzz.graphs", "qd.optimize, on random ONNX graphs and networks"),
    "readers": Subcommand("tools.fuzz.readers", "what reads files, on damaged ones"),
    "torch-ops": Subcommand("tools.fuzz.torch_ops", "PyTorch's own calls of its ops, imported"),
    "tflite-files": Subcommand("tools.fuzz.tflite_files", "damaged copies of TFLite files"),
    "commands": Subcommand("tests.support.damaged_models", "qopt optimize, on damaged models"),
    "twice": Subcommand("tools.fuzz.twice", "every pass and pipeline twice, on random programs"),
    "contracts": Subcommand("contract_proofs", "every rule, on all its programs"),
}

if __name__ == "__main__":
    # Families of programs import each other as tests do.
    sys.path[:0] = [str(Path(__file__).parents[2] / "tests" / "passes")]
    sys.exit(run("tools.fuzz", (__doc__ or "").strip(), COMMANDS))
