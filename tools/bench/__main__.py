"""Measure: what the compiler costs, and what it gains."""

import sys

from tools.command import Subcommand, run

COMMANDS = {
    "compiler": Subcommand("tools.bench.compiler", "time and memory, as multiples of others'"),
    "onnx": Subcommand("tools.bench.onnx", "latency of networks in ONNX Runtime, before and after"),
    "quantize": Subcommand("tools.bench.quantize", "our quantizer against those of others"),
    "rewrites": Subcommand("tools.bench.rewrites", "what rewrites of the float model are worth"),
    "calibration": Subcommand("tools.bench.calibration", "samples per second, against theirs"),
    "head-room": Subcommand("tools.bench.head_room", "ranges for samples of another kind"),
    "saturation": Subcommand("tools.bench.saturation", "sums in pairs before VNNI, simulated"),
    "placement": Subcommand("tools.bench.placement", "elements rescaled, against greedy passes"),
    "prices": Subcommand("tools.bench.prices", "measure what ops cost here, for --prices"),
    "price-accuracy": Subcommand(
        "tools.bench.price_accuracy", "prices against the runtime's times"
    ),
    "targets": Subcommand("tools.bench.targets", "what targets of others take of networks"),
    "retarget": Subcommand("tools.bench.retarget", "quantized networks, brought to other targets"),
    "components": Subcommand("tests.support.components", "what component qparams are worth, in dB"),
    "engines": Subcommand("tools.bench.engines", "networks in engines of others, bit for bit"),
    "memory": Subcommand("tests.support.large_models", "memory of models of large weights"),
    "torch": Subcommand("tools.bench.torch_nets", "networks of PyTorch, against its own engines"),
    "tico": Subcommand("tools.bench.tico", "exported programs, beside Circle files of TICO"),
    "litert-resolvers": Subcommand("tools.bench.litert_resolvers", "LiteRT's kernels, three ways"),
    "litert-nets": Subcommand("tools.bench.litert_nets", "float networks for converters to LiteRT"),
    "litert-peers": Subcommand("tools.bench.litert_peers", "files of converters, ours too"),
    "litert-onnx": Subcommand("tools.bench.litert_onnx", "quantized ONNX networks in LiteRT"),
    "litert-files": Subcommand("tools.bench.litert_files", "files of others, optimized by ours"),
    "tflite-import": Subcommand("tools.bench.tflite_import", "files read, against LiteRT"),
    "litert-index": Subcommand("tools.bench.litert_index", "what is in a folder of .tflite files"),
    "corpus": Subcommand("tools.bench.corpus", "make the quantized networks to measure on"),
}

if __name__ == "__main__":
    sys.exit(run("tools.bench", (__doc__ or "").strip(), COMMANDS))
