// RUN: qopt-opt %s -p 'fold-rescale{numerics=relaxed}' --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'place-rescales{numerics=relaxed}' | filecheck %s --check-prefix=PLACED

// Codes that end at 0 clip what is below: that is a ReLU, and stays at every level.

!f = tensor<4xf32>
!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!relu = tensor<4x!quant.uniform<u8:f32, 0.5>>
!top = tensor<4x!quant.uniform<i8:f32, 0.5:127>>

// CHECK-LABEL: func.func @both_sides(
// CHECK-NEXT: return %arg0
// PLACED-LABEL: func.func @both_sides(
// PLACED-NEXT: return %arg0
func.func @both_sides(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !q
  // expected-remark@+1 {{dequantize-of-quantize fired, relaxed}}
  %1 = quant.dcast %0 : !q to !f
  func.return %1 : !f
}

// CHECK-LABEL: func.func @below(
// CHECK: quant.qcast
// PLACED-LABEL: func.func @below(
// PLACED: quant.qcast
func.func @below(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !relu
  // expected-remark@+1 {{dequantize-of-quantize refused [clips]: a clip at 0 computes a ReLU}}
  %1 = quant.dcast %0 : !relu to !f
  func.return %1 : !f
}

// CHECK-LABEL: func.func @above(
// CHECK: quant.qcast
func.func @above(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !top
  // expected-remark@+1 {{dequantize-of-quantize refused [clips]: a clip at 0 computes a ReLU}}
  %1 = quant.dcast %0 : !top to !f
  func.return %1 : !f
}

// What is never below 0 loses nothing but a rounding and what is rare.

// CHECK-LABEL: func.func @never_below(
// CHECK-NEXT: nn.relu
// CHECK-NEXT: return
func.func @never_below(%x: !f) -> !f {
  %0 = nn.relu %x : (!f) -> !f
  %1 = quant.qcast %0 : !f to !relu
  // expected-remark@+1 {{dequantize-of-quantize fired, relaxed}}
  %2 = quant.dcast %1 : !relu to !f
  func.return %2 : !f
}

// CHECK-LABEL: func.func @rescaled(
// CHECK-NEXT: quant.rescale
// PLACED-LABEL: func.func @rescaled(
// PLACED-NEXT: quant.rescale
func.func @rescaled(%x: !q) -> !f {
  %0 = quant.rescale %x : !q to !relu
  // expected-remark@+1 {{dequantize-of-rescale refused [clips]: the clip at 0 computes a ReLU}}
  %1 = quant.dcast %0 : !relu to !f
  func.return %1 : !f
}
