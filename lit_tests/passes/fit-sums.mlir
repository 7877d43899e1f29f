// RUN: qopt-opt %s -p "fit-sums{numerics=relaxed}" --target=x86-without-vnni | filecheck %s
// RUN: qopt-opt %s -p "fit-sums{numerics=relaxed}" --target=x86-without-vnni --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: qopt-opt %s -p "fit-sums{numerics=relaxed}" --target=x86-without-vnni --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "fit-sums{numerics=relaxed}" --target=x86-without-vnni > %t && qopt-opt %t -p "fit-sums{numerics=relaxed}" --target=x86-without-vnni > %t.2 && diff %t %t.2
// RUN: qopt-opt %s -p "fit-sums" --target=x86-without-vnni > %t && qopt-opt %s -p "dce" > %t.2 && diff %t %t.2
// RUN: qopt-opt %s -p "fit-sums" --target=x86-without-vnni --remarks 2>&1 | filecheck %s --check-prefix=EXACT
// RUN: qopt-opt %s -p "fit-sums{numerics=relaxed}" --target=generic > %t && qopt-opt %s -p "dce" > %t.2 && diff %t %t.2

// Products of u8 and i8 are added in pairs in i16: 255 (a + b) <= 32767 for any two weights of a row.

!x = tensor<2x3x!quant.uniform<u8:f32, 0.5:10>>
!y = tensor<2x2x!quant.uniform<u8:f32, 8.0:128>>
!w = tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!fit = tensor<2x3x!quant.uniform<i8:f32:0, {0.78125, 0.25}>>
!one = tensor<2x3x!quant.uniform<i8:f32, 0.5>>
!b = tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.125}>>
!seven = tensor<2x3x!quant.uniform<u8<0:127>:f32, 0.5:10>>
!any = tensor<?x3x!quant.uniform<u8:f32, 0.5:10>>
!any_y = tensor<?x2x!quant.uniform<u8:f32, 8.0:128>>
!sums = tensor<2x2x!quant.uniform<i32:f32:1, {0.25, 0.125}>>
!f = tensor<2x2xf32>
!fx = tensor<2x3xf32>

// EXACT: 'nn.fully_connected' fit-sums refused [numerics]: would be relaxed (sums of 1 of 2 channels may leave i32 pairs=i16: scales of weights up to 1.56 times as large, results off by at most 1 steps), but only exact is allowed
// EXACT: 'builtin.module' [sums] sums of 10 of 12 convolutions and products may leave i32 pairs=i16

// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: dense<{{\[\[}}64, 64, 64], [100, 20, -3]]> {{.*}} tensor<2x3x!quant.uniform<i8:f32:0, {7.812500e-01,2.500000e-01}>>
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: return
// REMARK: 'nn.fully_connected' fit-sums fired, relaxed
func.func @per_axis(%x: !x) -> !y {
  // DOC-BEFORE
  %w = nn.constant dense<[[100, 100, 100], [100, 20, -3]]> : tensor<2x3xi8> : !w
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  // DOC-AFTER
  // %1 = nn.constant dense<[[64, 64, 64], [100, 20, -3]]> : tensor<2x3xi8> : !fit
  // %0 = nn.fully_connected %x, %1 : (!x, !fit) -> !y
  // DOC-END
  func.return %0 : !y
}

// The bias is rounded to the product of the new scales.
// CHECK-LABEL: func.func @bias(
// CHECK-NEXT: dense<{{\[\[}}64, 64, 64], [100, 20, -3]]>
// CHECK-NEXT: dense<[26, -30]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {3.906250e-01,1.250000e-01}>>
func.func @bias(%x: !x) -> !y {
  %w = nn.constant dense<[[100, 100, 100], [100, 20, -3]]> : tensor<2x3xi8> : !w
  %b = nn.constant dense<[40, -30]> : tensor<2xi32> : !b
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, !b) -> !y
  func.return %0 : !y
}

// One scale becomes one per channel where the kernel takes that.
// CHECK-LABEL: func.func @per_tensor(
// CHECK-NEXT: dense<{{\[\[}}-64, -64, 3], [100, 20, -3]]> {{.*}}<i8:f32:0, {9.375000e-01,5.000000e-01}>>
func.func @per_tensor(%x: !x) -> !y {
  %w = nn.constant dense<[[-120, -120, 5], [100, 20, -3]]> : tensor<2x3xi8> : !one
  %0 = nn.fully_connected %x, %w : (!x, !one) -> !y
  func.return %0 : !y
}

// CHECK-LABEL: func.func @fits(
// CHECK-NEXT: dense<{{\[\[}}64, 64, 64], [-64, -64, -64]]>
func.func @fits(%x: !x) -> !y {
  %w = nn.constant dense<[[64, 64, 64], [-64, -64, -64]]> : tensor<2x3xi8> : !w
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

// Each user gets weights that fit; those that activations of 7 bits meet do already.
// CHECK-LABEL: func.func @several_users(
// CHECK: dense<{{\[\[}}64, 64, 64], [100, 20, -3]]>
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: dense<{{\[\[}}64, 64, 64], [100, 20, -3]]>
// CHECK-NEXT: nn.fully_connected
// CHECK: quant.qcast
// CHECK-NEXT: nn.fully_connected {{.*}}<u8<0:127>:f32, {{.*}}{5.000000e-01,2.500000e-01}
func.func @several_users(%x: !x, %y: !x, %f: !fx) -> (!y, !y, !y) {
  %w = nn.constant dense<[[100, 100, 100], [100, 20, -3]]> : tensor<2x3xi8> : !w
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  %1 = nn.fully_connected %y, %w : (!x, !w) -> !y
  %s = quant.qcast %f : !fx to !seven
  %2 = nn.fully_connected %s, %w : (!seven, !w) -> !y
  func.return %0, %1, %2 : !y, !y, !y
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: dense<{{\[\[}}64, 64, 64], [100, 20, -3]]>
func.func @dynamic(%x: !any) -> !any_y {
  %w = nn.constant dense<[[100, 100, 100], [100, 20, -3]]> : tensor<2x3xi8> : !w
  %0 = nn.fully_connected %x, %w : (!any, !w) -> !any_y
  func.return %0 : !any_y
}

// Sums that are a result have new scales.
// CHECK-LABEL: func.func @sums(
// CHECK: quant.dcast {{.*}}<i32:f32:1, {3.906250e-01,1.250000e-01}>> to tensor<2x2xf32>
// CHECK-NEXT: quant.rescale {{.*}}<i32:f32:1, {3.906250e-01,1.250000e-01}>> to tensor<2x2x!quant.uniform<u8:f32, 8.000000e+00:128>>
func.func @sums(%x: !x) -> (!f, !y) {
  %w = nn.constant dense<[[100, 100, 100], [100, 20, -3]]> : tensor<2x3xi8> : !w
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !sums
  %1 = quant.dcast %0 : !sums to !f
  %2 = quant.rescale %0 : !sums to !y
  func.return %1, %2 : !f, !y
}

// REMARK: refused [users]: 'func.return' takes the sums on their old scales
// CHECK-LABEL: func.func @sums_returned(
// CHECK-NEXT: dense<{{\[\[}}100, 100, 100], [100, 20, -3]]>
func.func @sums_returned(%x: !x) -> !sums {
  %w = nn.constant dense<[[100, 100, 100], [100, 20, -3]]> : tensor<2x3xi8> : !w
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !sums
  func.return %0 : !sums
}

// REMARK: refused [runtime]: sums may leave i32 pairs=i16, and weights are not constant
func.func @not_constant(%x: !x, %w: !w) -> !y {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

// REMARK: refused [unknown]: sums may leave i32 pairs=i16: the bias is not constant
// REMARK: 'builtin.module' [sums] sums of 3 of 12 convolutions and products may leave i32 pairs=i16
func.func @bias_not_constant(%x: !x, %b: !b) -> !y {
  %w = nn.constant dense<[[1, 1, 1], [1, 2, -3]]> : tensor<2x3xi8> : !w
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, !b) -> !y
  func.return %0 : !y
}
