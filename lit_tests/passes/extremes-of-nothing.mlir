// RUN: qopt-opt %s -p integerize --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'move-casts{boundary=maximize-integer}' --remarks 2>&1 | filecheck %s --check-prefix=WHY
// RUN: qopt-opt %s -p place-rescales | filecheck %s

// Of no elements a minimum of floats is infinite, and one of codes the largest code.

!q = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!r = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>

module attributes {quant.arithmetic = "expressed"} {
// WHY: sink-dequantize refused [empty]: of nothing it gives an infinity, which no code is
// CHECK-LABEL: func.func @of_unknown_extent(
// CHECK: quant.dcast
// CHECK: nn.reduce_min {{.*}}xf32>
func.func @of_unknown_extent(%x: !q) -> tensor<1x4xf32> {
  %0 = "quant.dcast"(%x) : (!q) -> tensor<?x4xf32>
  // expected-remark@+1 {{sink-dequantize refused}}
  %1 = nn.reduce_min %0 axes [0] : (tensor<?x4xf32>) -> tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}

// Quantized again, an infinity is the largest code.
// CHECK-LABEL: func.func @quantized_again(
// CHECK-NOT: dcast
// CHECK: nn.reduce_min
func.func @quantized_again(%x: !q) -> !r {
  %0 = "quant.dcast"(%x) : (!q) -> tensor<?x4xf32>
  %1 = nn.reduce_min %0 axes [0] : (tensor<?x4xf32>) -> tensor<1x4xf32>
  // expected-remark@+2 {{hoist-quantize fired}}
  // expected-remark@+1 {{quantize-of-dequantize fired}}
  %2 = "quant.qcast"(%1) : (tensor<1x4xf32>) -> !r
  return %2 : !r
}
}
