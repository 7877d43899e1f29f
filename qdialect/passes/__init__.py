"""The table of passes by name; a pass is imported when it is first used.

`--help` and `--list-passes` read this table only, so it must not import a pass; a test compares it
with the pass classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.passes import ModulePass
    from xdsl.pattern_rewriter import RewritePattern


Option = tuple[str, str, str, str]
"""Name, type or values, default, help."""


class PassEntry(NamedTuple):
    """Name, one line of help, `module:Class`, and options."""

    name: str
    summary: str
    where: str
    options: tuple[Option, ...] = ()


_BOUNDARY = "preserve|maximize-integer|minimize-conversions"
_INTEGER_OPS = "preserve: integer ops stay integer; minimize-conversions: where casts cost least"
_NUMERICS = ("numerics", "str", "exact", "weakest contract class that may fire")
_WHERE = ("where", "target|all", "target", "where the target is faster so, or everywhere")
_LOWERED = "tosa|linalg|quant|iree|stablehlo|tflite|tflite-bounded"
_RULES = (
    _NUMERICS,
    ("assume", "nothing|profile", "nothing", "which ranges stated on the IR are believed"),
)


def _entry(
    place: str, summary: str, options: tuple[Option, ...] = _RULES, kind: str = ""
) -> PassEntry:
    """A pass of a file in this folder or of a plug-in: `casts.move_casts` has `move-casts`, of
    class `MoveCasts` unless `kind` is another one."""
    words = place.rpartition(".")[2].split("_")
    kind = kind or "".join(map(str.capitalize, words))
    home = "qdialect" if place.startswith("plugins.") else __name__
    return PassEntry("-".join(words), summary, f"{home}.{place}:{kind}", options)


def _entries() -> tuple[PassEntry, ...]:
    return (
        _entry("casts.integerize", "turn dequantize -> op -> quantize into the quantized op"),
        _entry(
            "plugins.onnx.passes.pin_unrounded",
            "pin ops on floats that ONNX Runtime computes in a wider type than they have",
            (),
        ),
        _entry(
            "casts.divide_by_scale",
            "divide by scales where a model multiplies by their rounded reciprocals",
        ),
        _entry(
            "rescale.fold_rescale",
            "fold rescales: identity, pairs, constants, quantize of dequantize",
            (*_RULES, ("boundary", "preserve|minimize-conversions", "preserve", _INTEGER_OPS)),
        ),
        _entry(
            "folding.fold_constants",
            "evaluate ops on constants, qparams, names and keys kept",
            (
                *_RULES,
                ("max_growth", "float", "4.0", "largest growth in elements of a folded constant"),
                ("dequantize", "bool", "false", "also fold dequantize of constants"),
                ("most", "int", "0", "elements that a dequantized constant may have; 0: any"),
            ),
        ),
        _entry("rescale.sink_rescale", "move rescales below movement and order-preserving ops"),
        _entry("rescale.hoist_rescale", "move rescales above movement and order-preserving ops"),
        _entry(
            "rescale.place_rescales",
            "put every rescale where it costs least, with a lower bound",
            (
                _NUMERICS,
                ("boundary", _BOUNDARY, "preserve", _INTEGER_OPS),
                ("solver", "bool", "true", "use HiGHS, where installed, on hard components"),
                ("accuracy", "float", "1.0", "price of a bit lost per element, under relaxed"),
            ),
        ),
        _entry(
            "casts.move_casts",
            "choose where quantize and dequantize stand among movement ops",
            (*_RULES, ("boundary", _BOUNDARY, "preserve", _INTEGER_OPS)),
        ),
        _entry(
            "casts.fold_interface",
            "let functions take and give codes where they quantize and dequantize",
            (
                ("arguments", "bool", "true", "change float arguments"),
                ("results", "bool", "true", "change float results"),
                ("caches", "bool", "false", "those that are caches only"),
            ),
        ),
        _entry("rescale.combine_rescale", "absorb rescales into the requantizing ops next to them"),
        _entry(
            "folding.fold_affine",
            "fold multiplication, division and addition by constants into scales",
        ),
        _entry(
            "tables.form_tables",
            "turn elementwise chains on codes of at most 8 bits into lookup tables",
        ),
        _entry(
            "tables.form_depthwise",
            "write affine functions per channel of codes as depthwise convolutions",
        ),
        _entry(
            "rescale.split_rescale",
            "take rescales out of requantizing ops, which leaves 32-bit integer arithmetic",
            (("ops", "all|sums", "all", "sums: what adds many numbers"), *_RULES),
        ),
        _entry(
            "lowering.lower_float_regions",
            "compute float regions in 32-bit integers, for targets without floats",
        ),
        _entry(
            "tables.form_softmax_tables",
            "write softmax of codes as lookups, a sum and one division of integers",
        ),
        _entry(
            "casts.type_accumulators",
            "give contractions of codes with a float result their integer accumulator",
        ),
        _entry(
            "lowering.lower_composites",
            "write composites as pieces with component qparams (lower-lstm: nn.lstm only, ...)",
            (
                *_RULES,
                ("ops", "str", "all", "which composites, joined by +; default all"),
                ("refused", "bool", "false", "only those on codes that the target refuses"),
            ),
        ),
        _entry(
            "lowering.lower_division",
            "write divisions of floats as products with reciprocals, which tables do",
            kind="LowerDivisions",
        ),
        _entry(
            "cleanup.merge_shuffles",
            "one gather for reshapes and a transpose that reorder a dimension",
        ),
        _entry(
            "lowering.lower_transposed",
            "write transposed convolutions on codes as convolutions and depth_to_space",
        ),
        _entry(
            "plugins.tflite.passes.form_delegated",
            "write functions of codes and float islands as what XNNPACK in LiteRT runs fastest",
        ),
        _entry(
            "plugins.onnx.passes.release_kernels",
            "let ops be real functions that are rounded once where they name LiteRT's kernels",
            (_NUMERICS,),
        ),
        _entry(
            "plugins.onnx.passes.form_floats",
            "write ops on codes as ops on floats between casts, where a target is faster so",
            (_WHERE, *_RULES),
        ),
        _entry(
            "plugins.onnx.passes.dequantize_at_load",
            "let a runtime dequantize constant weights of float products when it loads a model",
            (_WHERE, *_RULES),
        ),
        _entry(
            "plugins.onnx.passes.part_biases",
            "add float biases alone where they keep products of codes from integer kernels",
            (_WHERE, *_RULES),
        ),
        _entry(
            "lowering.form_prelu",
            "write PReLU on codes as a product and a maximum of floats between casts",
            kind="FormPRelu",
        ),
        _entry(
            "plugins.onnx.passes.softmax_last",
            "write softmax along an inner dimension as one along the last, between transposes",
            (_WHERE, *_RULES),
        ),
        _entry(
            "plugins.onnx.passes.channels_last",
            "write depth_to_space and nearest upsampling as transposes and copies of whole pixels",
            (_WHERE, *_RULES),
        ),
        _entry(
            "plugins.onnx.passes.widen_channels",
            "widen convolutions to numbers of channels that a target's kernel is made for",
            (("multiple", "int", "0", "of what; default 0: the target says which"), *_RULES),
        ),
        _entry(
            "plugins.onnx.passes.finer_weights",
            "write weights of few bits as multiples of a power of two, for a bias of finer steps",
            kind="FinerWeightsPass",
        ),
        _entry(
            "lowering.fit_sums",
            "round weights again whose sums may leave what the target adds them up in",
            kind="FitSumsPass",
        ),
        _entry(
            "importing.raise_composites",
            "make composite ops of their pieces: biases, swish, gelu, softmax, layer norm",
        ),
        _entry(
            "folding.fold_into_weights",
            "fold what is done to each channel of a float contraction into its weights",
            kind="FoldIntoWeightsPass",
        ),
        _entry(
            "plugins.onnx.passes.raise_dynamic",
            "make one op of a product that quantizes its input as it runs",
            kind="RaiseDynamicProducts",
        ),
        _entry(
            "plugins.onnx.passes.lower_dynamic",
            "write such ops in pieces, or as float products of dequantized weights",
            (*_RULES, ("to", "pieces|floats", "pieces", "floats is relaxed")),
            kind="LowerDynamicProducts",
        ),
        _entry(
            "casts.quantization_boundary",
            "list where integers become floats and back, as remarks B1 to B7",
            (),
        ),
        _entry(
            "casts.reencode_storage",
            "change 8-bit storage between signed and unsigned, exactly",
            (
                ("activations", "str", "u8", "i8, u8 or keep"),
                ("weights", "str", "i8", "i8, u8 or keep"),
                _NUMERICS,
            ),
        ),
        _entry(
            "rescale.convert_rescale",
            "change rescales between the real and the (multiplier, shift) form",
            (
                ("form", "fixed|real", "fixed", "the form to write"),
                (
                    "bits",
                    "int",
                    "0",
                    "bits of the multiplier, 2 to 32; default 0: of the target",
                ),
                ("rounding", "str", "keep", "rounding of the result"),
                *_RULES,
            ),
        ),
        PassEntry(
            "raise-tosa",
            "turn TOSA into nn and quant, bit by bit; what has no counterpart stays",
            "qdialect.plugins.tosa.raising.convert:RaiseTosa",
        ),
        PassEntry(
            "raise-tflite",
            "turn TFLite and Circle into nn and quant, as an engine of LiteRT computes them",
            "qdialect.plugins.tflite.raising.convert:RaiseTflite",
            (
                (
                    "kernels",
                    "litert-xnn|litert-ref|litert-opt",
                    "litert-xnn",
                    "whose arithmetic the ops have: XNNPACK's with the optimized kernels for the "
                    "rest (LiteRT's default), the reference kernels', or the optimized ones'",
                ),
            ),
        ),
        PassEntry(
            "raise-stablehlo",
            "turn StableHLO into nn and quant; what has no counterpart stays",
            "qdialect.plugins.stablehlo.raising.convert:RaiseStablehlo",
            (_NUMERICS,),
        ),
        PassEntry(
            "compute-in-floats",
            "compute in floats, between casts, what a dialect has no exact integers for",
            "qdialect.plugins.common.lowering.compute_in_floats:ComputeInFloats",
            (
                ("to", _LOWERED, "tosa", "the export it is for"),
                *_RULES,
            ),
        ),
        PassEntry(
            "require-integers",
            "refuse floats and what has no exact integers in a dialect, with all reasons",
            "qdialect.plugins.common.lowering.require_integers:RequireIntegers",
            (("to", _LOWERED, "tosa", "the export it is for"),),
        ),
        PassEntry(
            "convert-nn-to-tosa",
            "write networks in TOSA: integers bit for bit, floats in the profile of floats",
            "qdialect.plugins.tosa.lowering.convert:ConvertNnToTosa",
        ),
        PassEntry(
            "convert-nn-to-linalg",
            "write networks in linalg, arith, math and tensor: integers bit for bit, and floats",
            "qdialect.plugins.linalg.lowering.convert:ConvertNnToLinalg",
            (("casts", "arith|quant|iree", "arith", "how casts of floats are written"),),
        ),
        PassEntry(
            "convert-nn-to-stablehlo",
            "write networks in StableHLO, with quantized types and floats",
            "qdialect.plugins.stablehlo.lowering.convert:ConvertNnToStablehlo",
        ),
        PassEntry(
            "convert-nn-to-tflite",
            "write networks as the ops of TFLite files, as XNNPACK in LiteRT computes them",
            "qdialect.plugins.tflite.lowering.convert:ConvertNnToTflite",
            (("numerics", "str", "ties", "how far a kernel may be from an op: ties or bounded"),),
        ),
        _entry(
            "rescale.expand_rescale",
            "write rescales in upstream's ops, so that nothing of ours is left",
            (("to", "arith|casts", "arith", "integers, or casts (dcast, qcast)"), *_RULES),
        ),
        _entry(
            "plugins.mlir.passes.lower_quant_ops",
            "write quantize and dequantize in arith, rounding and saturating",
            (),
        ),
        _entry(
            "plugins.mlir.passes.strip_func_quant_types",
            "make functions and blocks pass stored integers",
            (),
        ),
        _entry(
            "plugins.mlir.passes.normalize_quant_types",
            "write block grids per tensor or per axis where they are that",
            (),
        ),
        _entry(
            "plugins.mlir.passes.preflight",
            "list what an upstream tool would change, reject or crash on (with --remarks)",
            (("tool", "mlir-opt-22|iree-3.13|all", "all", "the tool, or all"),),
        ),
        _entry(
            "cleanup.canonicalize",
            "remove what does nothing: redundant clamps, identity and paired movements",
            (
                *_RULES,
                ("top_down", "bool", "true", "visit ops from the top (false: not supported)"),
                (
                    "region_simplify",
                    "disabled|normal|aggressive",
                    "normal",
                    "what is done to regions: nothing (aggressive: not supported)",
                ),
                ("max_iterations", "int", "10", "10 or -1: there are none to count"),
                ("max_num_rewrites", "int", "-1", "rewrites after which to stop; -1: any"),
                ("test_convergence", "bool", "false", "fail if it stopped before it was done"),
                ("disable_patterns", "tuple[str, ...]", "()", "patterns that must not fire"),
                ("enable_patterns", "tuple[str, ...]", "()", "the only patterns that may fire"),
            ),
        ),
        PassEntry(
            "regrid",
            "quantize again what has qparams that the target refuses, to the nearest it takes",
            "qdialect.quantizer.regrid:Regrid",
            (_NUMERICS,),
        ),
        PassEntry(
            "equalize-channels",
            "factors of channels, from weights alone, such that rounding loses less",
            "qdialect.quantizer.float_rewrites.equalize_channels:EqualizeChannels",
            (
                ("activations", "str", "u8", "storage of values: u8, i8, u16 or i16"),
                ("weights", "str", "i8", "integers of weights: i8, u8, i4, u4, i3, u3 or i16"),
                ("per_channel", "bool", "false", "a scale for each channel of weights"),
            ),
        ),
        PassEntry(
            "apply-profile",
            "quantize a float module from a calibration profile",
            "qdialect.quantizer.apply_profile:ApplyProfile",
            (
                ("file", "str", "", "the profile; required"),
                ("activations", "str", "u8", "storage of values: u8, i8, u16 or i16"),
                (
                    "weights",
                    "str",
                    "i8",
                    "integers of weights: i8, u8, i4, u4, i3, u3, i16; in blocks only: i2, u2, "
                    "nf4, mxint8 or mxfp4",
                ),
                ("scheme", "str", "asymmetric", "asymmetric, symmetric or power-of-two"),
                ("per_channel", "bool", "true", "a scale for each channel of weights"),
                ("block", "int", "0", "matrices in blocks of so many numbers, products float"),
                (
                    "scale_type",
                    "str",
                    "f32",
                    "scales of weights in blocks: f32, f16, f8E4M3FN or f8E8M0FNU",
                ),
                ("tables", "str", "i8", "tables of which rows are picked: i8, i4 or u4"),
                (
                    "dynamic",
                    "tuple[str, ...]",
                    "()",
                    "products that quantize their input as they run, as keep-float, or all",
                ),
                (
                    "weights_only",
                    "tuple[str, ...]",
                    "()",
                    "products of which only weights are codes, as keep-float, or all",
                ),
                ("caches", "bool", "false", "caches on codes from argument to result"),
                (
                    "calibration",
                    "str",
                    "minmax",
                    "ranges of values: minmax, percentile, average, mse or entropy",
                ),
                ("percentile", "float", "99.99", "share of the data to keep, in percent"),
                ("weight_ranges", "str", "mse", "ranges of weights: mse or minmax"),
                ("max_steps", "float", "16.0", "largest amplification of a step by an op"),
                (
                    "keep_float",
                    "tuple[str, ...]",
                    "()",
                    "ops to leave float, by key, kind or place",
                ),
                ("require_all", "bool", "false", "an op left float is an error"),
                (
                    "profile_of_another_model",
                    "bool",
                    "false",
                    "use what matches of the profile by key and shape, whatever model it is of",
                ),
            ),
        ),
        PassEntry(
            "assert-all-quantized",
            "fail if an op is left float, and say why",
            "qdialect.quantizer.assert_all_quantized:AssertAllQuantized",
        ),
        _entry("cleanup.cse", "merge equal pure ops", ()),
        _entry("cleanup.dce", "erase pure ops whose results are unused", ()),
    )


PASSES: Mapping[str, PassEntry] = {entry.name: entry for entry in _entries()}


def load(name: str) -> Callable[[], type[ModulePass]]:
    """A function that imports the pass class when it is first needed."""

    def factory() -> type[ModulePass]:
        module, _, attribute = PASSES[name].where.partition(":")
        return getattr(import_module(module), attribute)

    return factory


def patterns(name: str, ctx: Context, **options: Any) -> list[RewritePattern]:
    """The rules of pass `name` with these options, as patterns that a walker of xDSL runs on
    modules of `ctx`. KeyError if there is no such pass, AttributeError if it is no `RulePass`."""
    return cast("Any", load(name)())(**options).patterns(ctx)
