// RUN: qopt-opt %s -p 'raise-composites{numerics=relaxed}' --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'raise-composites{numerics=ties}' | filecheck %s --check-prefix=TIES
// RUN: qopt-opt %s -p 'raise-composites{numerics=relaxed},integerize,lower-composites{numerics=relaxed}' | filecheck %s --check-prefix=AGAIN

// Pieces that are quantized and dequantized on the way, as quantizers of float models write
// them. What they were rounded to stays as component qparams, so a lowering gives them back.

!f = tensor<2x?xf32>
!x = tensor<2x?x!quant.uniform<u8:f32, 0.05:128>>
!g = tensor<2x?x!quant.uniform<u8:f32, 0.00390625>>
!y = tensor<2x?x!quant.uniform<u8:f32, 0.03:9>>
!one = tensor<2x1xf32>
!s = tensor<2x1x!quant.uniform<u8:f32, 0.5>>

// CHECK-LABEL: func.func @swish(
// CHECK: [[X:%[a-z0-9_]+]] = quant.dcast
// CHECK-NEXT: [[Y:%[a-z0-9_]+]] = nn.swish [[X]] {nn.key = "m", nn.piece_keys = {sigmoid = "s"}, nn.qparams = {sigmoid = !quant.uniform<u8:f32, 3.906250e-03>}}
// CHECK-NEXT: quant.qcast [[Y]]
// CHECK-NEXT: return
// TIES-LABEL: func.func @swish(
// TIES: nn.sigmoid
// TIES: nn.mul
// AGAIN-LABEL: func.func @swish(
// AGAIN-NEXT: [[S:%[a-z0-9_]+]] = nn.sigmoid %arg0 {nn.key = "s"} : {{.*}} -> tensor<2x?x!quant.uniform<u8:f32, 3.906250e-03>>
// AGAIN-NEXT: nn.mul %arg0, [[S]] {nn.key = "m"} : {{.*}} -> tensor<2x?x!quant.uniform<u8:f32, 3.000000e-02:9>>
// AGAIN-NEXT: return
func.func @swish(%q: !x) -> !y {
  %x = quant.dcast %q : !x to !f
  %0 = nn.sigmoid %x {nn.key = "s"} : (!f) -> !f
  %1 = quant.qcast %0 : !f to !g
  %2 = quant.dcast %1 : !g to !f
  // expected-remark@+1 {{raise-function fired, relaxed}}
  %3 = nn.mul %x, %2 {nn.key = "m"} : (!f, !f) -> !f
  %4 = quant.qcast %3 : !f to !y
  func.return %4 : !y
}

// Every piece rounded, one of them used twice.
// CHECK-LABEL: func.func @softmax(
// CHECK: nn.softmax {{.*}} nn.qparams = {exp = !quant.uniform<u8:f32, 3.906250e-03>, sub_max = !quant.uniform<u8:f32, 5.000000e-02:128>, sum = !quant.uniform<u8:f32, 5.000000e-01>}
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: return
func.func @softmax(%q: !x) -> !g {
  %x = quant.dcast %q : !x to !f
  %0 = nn.reduce_max %x axes [1] : (!f) -> !one
  %1 = nn.sub %x, %0 : (!f, !one) -> !f
  %2 = quant.qcast %1 : !f to !x
  %3 = quant.dcast %2 : !x to !f
  %4 = nn.exp %3 : (!f) -> !f
  %5 = quant.qcast %4 : !f to !g
  %6 = quant.dcast %5 : !g to !f
  %7 = nn.reduce_sum %6 axes [1] : (!f) -> !one
  %8 = quant.qcast %7 : !one to !s
  %9 = quant.dcast %8 : !s to !one
  // expected-remark@+1 {{raise-function fired, relaxed}}
  %10 = nn.div %6, %9 {nn.key = "soft"} : (!f, !one) -> !f
  %11 = quant.qcast %10 : !f to !g
  func.return %11 : !g
}

// The codes of a piece are used elsewhere.
// CHECK-LABEL: func.func @multi_use(
// CHECK: nn.sigmoid
// CHECK: nn.mul
func.func @multi_use(%x: !f) -> (!f, !g) {
  %0 = nn.sigmoid %x : (!f) -> !f
  %1 = quant.qcast %0 : !f to !g
  %2 = quant.dcast %1 : !g to !f
  // expected-remark@+1 {{[multi-use]}}
  %3 = nn.mul %x, %2 : (!f, !f) -> !f
  func.return %3, %1 : !f, !g
}

// Of two roundings of a piece neither is its qparams.
// CHECK-LABEL: func.func @two_roundings(
// CHECK: nn.softmax {{%[a-z0-9_]+}} axis 1 : (tensor<2x?xf32>) -> tensor<2x?xf32>
func.func @two_roundings(%x: !f) -> !f {
  %0 = nn.reduce_max %x axes [1] : (!f) -> !one
  %1 = nn.sub %x, %0 : (!f, !one) -> !f
  %4 = nn.exp %1 : (!f) -> !f
  %5 = quant.qcast %4 : !f to !g
  %6 = quant.dcast %5 : !g to !f
  %a = quant.qcast %4 : !f to !x
  %b = quant.dcast %a : !x to !f
  %7 = nn.reduce_sum %b axes [1] : (!f) -> !one
  // expected-remark@+1 {{raise-function fired, relaxed}}
  %10 = nn.div %6, %7 : (!f, !one) -> !f
  func.return %10 : !f
}
