// RUN: qopt-opt %s | filecheck %s --check-prefix=DEFAULT
// RUN: qopt-opt %s --quant-text=v24 | filecheck %s --check-prefix=V24
// RUN: qopt-opt %s --quant-text=v24 | qopt-opt --quant-text=v24 | filecheck %s --check-prefix=V24
// RUN: not qopt-opt %s --quant-text=v22 2>&1 | filecheck %s --check-prefix=V22

// DEFAULT: @signed(!quant.any<i8>, !quant.uniform<u8:f32, 5.000000e-01>)
// V24: @signed(!quant.any<si8>, !quant.uniform<ui8:f32, 5.000000e-01>)
func.func private @signed(!quant.any<si8>, !quant.uniform<ui8:f32, 0.5>)

// DEFAULT: @float(!quant.uniform<f8E4M3FN:f32, 5.000000e-01>)
// V24: @float(!quant.uniform<f8E4M3FN:f32, 5.000000e-01>)
// V22: text_version.mlir:14:1: error: text of MLIR 22 cannot express f8E4M3FN storage
// V22: note: text of MLIR 24 can: --quant-text=v24
func.func private @float(!quant.uniform<f8E4M3FN:f32, 0.5>)

// DEFAULT: @table(!quant.uniform<!quant.quantile<ui1:f16, {-1.000000e+00,1.000000e+00}>:f32, 5.000000e-01>)
// V24: @table(!quant.uniform<!quant.quantile<ui1:f16, {-1.000000e+00,1.000000e+00}>:f32, 5.000000e-01>)
func.func private @table(!quant.uniform<!quant.quantile<ui1:f16, {-1.0,1.0}>:f32, 0.5>)
