// RUN: qopt-opt %s -p preflight --remarks --verify-diagnostics -o /dev/null
// RUN: qopt-opt %s -p 'preflight{tool=iree-3.13}' --remarks 2>&1 | filecheck %s --check-prefix=IREE
// RUN: not qopt-opt %s -p 'preflight{tool=tvm}' 2>&1 | filecheck %s --check-prefix=TOOL

// TOOL: error: pass 'preflight': option 'tool' is one of mlir-opt-22, iree-3.13, all, not 'tvm'
// IREE: [dcast-of-qcast] iree-3.13 changes the result
// IREE-NOT: mlir-opt-22

!q = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i32:f32, 0.5>

func.func @casts(%x: tensor<2xf32>, %w: tensor<2x!w>) {
  // expected-remark@+1 {{[lowered-qcast] mlir-opt-22 changes the result: lower-quant-ops truncates and wraps}}
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!q>
  // expected-remark@+1 {{'quant.dcast' [dcast-of-qcast] mlir-opt-22, iree-3.13 changes the result: folds the pair to its input, which loses a rounding and a clip}}
  %1 = quant.dcast %0 : tensor<2x!q> to tensor<2xf32>
  %2 = quant.dcast %w : tensor<2x!w> to tensor<2xf32>
  // expected-remark@+3 {{[qcast-of-dcast] mlir-opt-22, iree-3.13 changes the result: folds the pair to its input, which is not exact here (f32 does not carry every code of i32)}}
  // expected-remark@+2 {{[rounding]}}
  // expected-remark@+1 {{[lowered-qcast]}}
  %3 = quant.qcast %2 {quant.rounding = "half_up"} : tensor<2xf32> to tensor<2x!w>
  // expected-remark@+1 {{[rescale] mlir-opt-22, iree-3.13 rejects}}
  %4 = quant.rescale %0 : tensor<2x!q> to tensor<2x!w>
  // expected-remark@+1 {{[foreign-dialect] mlir-opt-22, iree-3.13 rejects: the dialect is not registered (nn.relu)}}
  %5 = nn.relu %1 : (tensor<2xf32>) -> tensor<2xf32>
  // expected-remark@+2 {{[lowered-qcast]}}
  // expected-remark@+1 {{[qcast-of-dcast]}}
  %6 = quant.qcast %2 : tensor<2xf32> to tensor<2x!w>
  return
}

// expected-remark@+2 {{[block-zero-point] mlir-opt-22 crashes}}
// expected-remark@+1 {{[wide-blocks] mlir-opt-22 changes the result}}
func.func private @blocks(tensor<4x!quant.uniform<i8:f32:{0:2}, {1.0:-1, 2.0}>>)

// expected-remark@+2 {{[block-zero-point] mlir-opt-22 crashes}}
// expected-remark@+1 {{[block-zero-point-sign] iree-3.13 changes the result}}
func.func private @unsigned(tensor<2x!quant.uniform<u8:f32:{0:1}, {1.0:200, 2.0}>>)

// expected-remark@+4 {{[signed-keyword] mlir-opt-22 changes the result: prints si and ui storage as i and u, another type (!quant.uniform<u8:f32, 1.000000e+00>)}}
// expected-remark@+3 {{[float-storage] mlir-opt-22 rejects}}
// expected-remark@+2 {{[quantile] mlir-opt-22 rejects}}
// expected-remark@+1 {{[wide-expressed] mlir-opt-22 crashes}}
func.func private @types(!quant.uniform<ui8:f32, 1.0>, !quant.uniform<f8E5M2:f32, 1.0>, !quant.uniform<!quant.quantile<ui1:f16, {-1.0, 1.0}>:f32, 1.0>, !quant.any<i8:f80>)

// expected-remark@+1 {{[scalar-field]}}
func.func private @scalar(!quant.uniform<i8:f32:0, {1.0, 2.0}>)

// expected-remark@+1 {{[calibrated-signature] mlir-opt-22 crashes}}
func.func @calibrated(%x: !quant.calibrated<f32<0.0:1.0>>, %y: f32) {
  // expected-remark@+1 {{[cast-without-parameters] mlir-opt-22 crashes}}
  %0 = quant.qcast %y : f32 to !quant.any<i8:f32>
  return
}

// expected-remark@+1 {{[block-argument] mlir-opt-22 rejects}}
func.func @branch(%x: tensor<2x!q>) -> tensor<2x!q> {
  cf.br ^bb1(%x : tensor<2x!q>)
^bb1(%y: tensor<2x!q>):
  return %y : tensor<2x!q>
}

func.func @constant() {
  // expected-remark@+1 {{[narrow-constant] mlir-opt-22, iree-3.13 changes the result}}
  %0 = "tosa.const"() <{values = dense<[1, 2]> : tensor<2xi4>}> : () -> tensor<2x!quant.uniform<i4:f32, 1.0>>
  return
}
