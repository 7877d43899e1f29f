// RUN: qopt-opt %s -p type-accumulators --verify-numerics=4 | filecheck %s --check-prefix=SUMS
// RUN: qopt-opt %s -p integerize --verify-numerics=4 | filecheck %s --check-prefix=CODES
// RUN: qopt-opt %s -p type-accumulators,integerize,quantization-boundary --remarks -o %t 2>&1 | filecheck %s --check-prefix=FIXED

// Ops on codes with a float result, with no casts in between: what B1 and B3 name mends them.

// FIXED-NOT: [B1]
// FIXED-NOT: [B3]
// FIXED: [B7]

!x = tensor<1x2x3x3x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.25,0.5}>>
!b = tensor<2x!quant.uniform<i32:f32:0, {0.125,0.25}>>
!f = tensor<1x2x3x3xf32>

// SUMS-LABEL: func.func @sums
// SUMS: nn.conv2d {{.*}} -> tensor<1x2x3x3x!quant.uniform<i32:f32:1, {1.250000e-01,2.500000e-01}>>
// SUMS-NEXT: quant.dcast
func.func @sums(%x: !x) -> !f {
  %w = nn.constant dense<[[[[3]], [[1]]], [[[-2]], [[5]]]]> : tensor<2x2x1x1xi8> : !w
  %y = nn.conv2d %x, %w : (!x, !w) -> !f
  return %y : !f
}

// A bias of codes on the scale of the sums is summed too; a float one stays one.
// SUMS-LABEL: func.func @biases
// SUMS: nn.conv2d %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} : {{.*}} -> tensor<1x2x3x3x!quant.uniform<i32
// SUMS: nn.conv2d %{{[^,]*}}, %{{[^,]*}} : {{.*}} -> tensor<1x2x3x3x!quant.uniform<i32
// SUMS: nn.add
func.func @biases(%x: !x, %c: tensor<2xf32>) -> (!f, !f) {
  %w = nn.constant dense<[[[[3]], [[1]]], [[[-2]], [[5]]]]> : tensor<2x2x1x1xi8> : !w
  %b = nn.constant dense<[3, 4]> : tensor<2xi32> : !b
  %y = nn.conv2d %x, %w, %b : (!x, !w, !b) -> !f
  %z = nn.conv2d %x, %w, %c : (!x, !w, tensor<2xf32>) -> !f
  return %y, %z : !f, !f
}

// CODES-LABEL: func.func @quantized
// CODES: nn.conv2d {{.*}} -> tensor<1x2x3x3x!quant.uniform<i8
// CODES-NEXT: nn.add {{.*}} -> tensor<1x2x3x3x!quant.uniform<i8
// CODES-NEXT: return
func.func @quantized(%x: !x) -> !x {
  %w = nn.constant dense<[[[[3]], [[1]]], [[[-2]], [[5]]]]> : tensor<2x2x1x1xi8> : !w
  %0 = nn.conv2d %x, %w : (!x, !w) -> !f
  %1 = quant.qcast %0 : !f to !x
  %2 = nn.add %1, %x : (!x, !x) -> !f
  %3 = quant.qcast %2 : !f to !x
  return %3 : !x
}
