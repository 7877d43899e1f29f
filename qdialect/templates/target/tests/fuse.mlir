// RUN: qopt-opt %s -p acme-fuse --target acme --verify-numerics=4 | filecheck %s
// RUN: qopt-opt %s -p acme-fuse --target acme --remarks -o %t 2>&1 \
// RUN:   | filecheck %s --check-prefix=REMARK

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:-128>>
!w = tensor<3x2x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125}>>
!y = tensor<1x3x4x4x!quant.uniform<i8:f32, 1.0>>
!u = tensor<1x3x4x4x!quant.uniform<i8:f32, 1.0:-128>>
!v = tensor<3x2x5x5x!quant.uniform<i8:f32, 0.5>>
!z = tensor<1x3x4x4x!quant.uniform<i8:f32, 0.3>>
!n = tensor<?x2x4x4x!quant.uniform<i8:f32, 0.5:-128>>
!m = tensor<?x3x4x4x!quant.uniform<i8:f32, 1.0>>

// CHECK-LABEL: @a_scale_for_each_channel
// CHECK-NEXT: acme.conv_relu %{{.*}}, %{{.*}} strides [1, 1] pads [1, 1, 1, 1]
// CHECK-NEXT: return
func.func @a_scale_for_each_channel(%x: !x, %w: !w) -> !y {
  %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!x, !w) -> !y
  %1 = nn.relu %0 : (!y) -> !y
  func.return %1 : !y
}

// CHECK-LABEL: @any_number_of_images
// CHECK-NEXT: acme.conv_relu
func.func @any_number_of_images(%x: !n, %w: !w) -> !m {
  %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!n, !w) -> !m
  %1 = nn.relu %0 : (!m) -> !m
  func.return %1 : !m
}

// CHECK-LABEL: @no_code_below_zero
// CHECK-NEXT: acme.conv_relu
// CHECK-NEXT: return
func.func @no_code_below_zero(%x: !x, %w: !w) -> !u {
  %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!x, !w) -> !u
  func.return %0 : !u
}

// CHECK-LABEL: @used_twice
// CHECK-NEXT: nn.conv2d
func.func @used_twice(%x: !x, %w: !w) -> (!y, !y) {
  %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!x, !w) -> !y
  %1 = nn.relu %0 : (!y) -> !y
  func.return %0, %1 : !y, !y
}

// CHECK-LABEL: @too_large_a_window
// CHECK-NEXT: nn.conv2d
func.func @too_large_a_window(%x: !x, %v: !v) -> !y {
  %0 = nn.conv2d %x, %v pads [2, 2, 2, 2] : (!x, !v) -> !y
  %1 = nn.relu %0 : (!y) -> !y
  func.return %1 : !y
}

// CHECK-LABEL: @a_scale_that_is_no_power_of_two
// CHECK-NEXT: nn.conv2d
func.func @a_scale_that_is_no_power_of_two(%x: !x, %w: !w) -> !z {
  %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!x, !w) -> !z
  %1 = nn.relu %0 : (!z) -> !z
  func.return %1 : !z
}

// REMARK-COUNT-3: fired, exact
// REMARK: refused [multi-use]: the convolution is also used as it is
// REMARK: refused [target]: acme: window 5 is not 1..3
// REMARK: refused [target]: acme: scale 0.3 is not 2^n
