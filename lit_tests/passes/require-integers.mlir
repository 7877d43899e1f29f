// RUN: not qopt-opt %s -p require-integers 2>&1 | filecheck %s

// One error lists all floats, and why sums are no 32-bit integers.

!x = tensor<1x200000x!quant.uniform<i8:f32, 0.05:3>>
!w = tensor<4x200000x!quant.uniform<i8:f32, 0.01>>
!p = tensor<4x200000x!quant.uniform<i8:f32, 0.01>>
!y = tensor<1x4x!quant.uniform<i8:f32, 0.5>>
!f = tensor<1x4xf32>

// CHECK: error: 5 ops cannot become TOSA integers
// CHECK: note: 'nn.fully_connected': overflow: a sum of products may leave 32 bits
// CHECK-NEXT: note: 'quant.dcast': it is between codes and floats that are computed with
// CHECK-NEXT: note: 'nn.gelu': it computes floats
// CHECK-NEXT: note: 'nn.tanh': it computes floats
// CHECK-NEXT: note: 'quant.qcast': it is between codes and floats that are computed with
func.func @main(%x: !x, %w: !w) -> !y {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  %1 = quant.dcast %0 : !y to !f
  %2 = nn.gelu %1 : (!f) -> !f
  %3 = nn.tanh %2 : (!f) -> !f
  %4 = quant.qcast %3 : !f to !y
  func.return %4 : !y
}
