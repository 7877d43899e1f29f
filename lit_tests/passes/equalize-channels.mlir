// RUN: qopt-opt %s -p equalize-channels --split-input-file | filecheck %s
// RUN: qopt-opt %s -p equalize-channels --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=SAID

// Both weights get the same sizes, whatever the batch.
// CHECK-LABEL: @chain
// CHECK: nn.constant dense<{{.*}}1.000000e+00{{.*}}1.000000e+00
// CHECK-NEXT: nn.constant dense<{{.*}}1.000000e+00{{.*}}1.000000e+00
// CHECK-NEXT: nn.conv2d
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.conv2d
!x = tensor<?x2x4x4xf32>
!w = tensor<2x2x1x1xf32>
func.func @chain(%x: !x) -> !x {
  %w = nn.constant dense<[[[[4.0]], [[0.0]]], [[[0.0]], [[0.25]]]]> : !w : !w
  %v = nn.constant dense<[[[[0.25]], [[0.0]]], [[[0.0]], [[4.0]]]]> : !w : !w
  %0 = nn.conv2d %x, %w {nn.key = "first"} : (!x, !w) -> !x
  %1 = nn.relu %0 {nn.key = "relu"} : (!x) -> !x
  %2 = nn.conv2d %1, %v {nn.key = "second"} : (!x, !w) -> !x
  func.return %2 : !x
}

// -----

// All users of a value take up its factors; what the function returns has none.
// CHECK-LABEL: @users
// CHECK-COUNT-3: nn.constant dense<{{.*}}1.000000e+00{{.*}}1.000000e+00
// CHECK: nn.conv2d
!x = tensor<1x2x4x4xf32>
!w = tensor<2x2x1x1xf32>
func.func @users(%x: !x) -> !x {
  %w = nn.constant dense<[[[[4.0]], [[0.0]]], [[[0.0]], [[0.25]]]]> : !w : !w
  %v = nn.constant dense<[[[[0.25]], [[0.0]]], [[[0.0]], [[4.0]]]]> : !w : !w
  %u = nn.constant dense<[[[[0.25]], [[0.0]]], [[[0.0]], [[4.0]]]]> : !w : !w
  %0 = nn.conv2d %x, %w {nn.key = "first"} : (!x, !w) -> !x
  %1 = nn.conv2d %0, %v {nn.key = "second"} : (!x, !w) -> !x
  %2 = nn.conv2d %0, %u {nn.key = "third"} : (!x, !w) -> !x
  %3 = nn.add %1, %2 {nn.key = "sum"} : (!x, !x) -> !x
  func.return %3 : !x
}

// -----

// A gelu lets no factor pass, and no more does what is returned.
// CHECK-LABEL: @stays
// CHECK: dense<{{.*}}4.000000e+00{{.*}}2.500000e-01
// CHECK: dense<{{.*}}2.500000e-01{{.*}}4.000000e+00
!x = tensor<1x2x4x4xf32>
!w = tensor<2x2x1x1xf32>
func.func @stays(%x: !x) -> !x {
  %w = nn.constant dense<[[[[4.0]], [[0.0]]], [[[0.0]], [[0.25]]]]> : !w : !w
  %v = nn.constant dense<[[[[0.25]], [[0.0]]], [[[0.0]], [[4.0]]]]> : !w : !w
  %0 = nn.conv2d %x, %w {nn.key = "first"} : (!x, !w) -> !x
  %1 = nn.gelu %0 {nn.key = "gelu"} : (!x) -> !x
  %2 = nn.conv2d %1, %v {nn.key = "second"} : (!x, !w) -> !x
  func.return %2 : !x
}

// SAID: remark: 'module' [equalized] 2 channels in 1 groups, whose noise is
// SAID: remark: 'module' [even] no group of channels would lose less with other factors
