"""Pure arithmetic of quantization: rounding, requantization, contracts, float text; no IR.

Kinds of numbers, and what decides with them:

| kind | holds | used for |
|---|---|---|
| `rationals.Rationals` | arrays of exact rationals | folding constants |
| `ranges.Interval` | one exact interval for all elements | ranges of codes |
| `channels.Channels` | an exact interval per channel | ranges of sums |
| `reals.Reals` | rationals, or balls of arb as small as needed | the nearest code of a function |
| `float_spans.FloatSpan` | float32 from lowest to highest | what runtimes compute in float32 |
| `float_spans.DoubleSpans` | float64 intervals, outwards | functions on 2**16 codes at once |
"""
