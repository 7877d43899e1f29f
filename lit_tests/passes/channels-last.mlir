// RUN: qopt-opt %s -p "channels-last{where=all}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "channels-last{where=all}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "channels-last{where=all}" > %t && qopt-opt %t -p "channels-last{where=all}" > %t.2 && diff %t %t.2

// Pixels are moved with channels last.

!x = tensor<1x8x3x5x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x6x10x!quant.uniform<u8:f32, 0.5:3>>
!pixels = tensor<1x3x5x8x!quant.uniform<u8:f32, 0.5:3>>
!blocks = tensor<1x3x5x2x4x!quant.uniform<u8:f32, 0.5:3>>
!rows = tensor<1x3x2x5x4x!quant.uniform<u8:f32, 0.5:3>>
!image = tensor<1x6x10x2x!quant.uniform<u8:f32, 0.5:3>>
!large = tensor<1x8x6x15x!quant.uniform<u8:f32, 0.5:3>>
!any = tensor<?x8x3x5x!quant.uniform<u8:f32, 0.5:3>>
!any_y = tensor<?x2x6x10x!quant.uniform<u8:f32, 0.5:3>>

// CHECK-LABEL: func.func @depth_to_space(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [0, 2, 3, 1]
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[V0]]
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.transpose [[V1]] perm [0, 1, 3, 2, 4]
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.reshape [[V2]]
// CHECK-NEXT: [[V4:%[a-z0-9_]+]] = nn.transpose [[V3]] perm [0, 3, 1, 2]
// CHECK-NEXT: return [[V4]], [[V4]]
func.func @depth_to_space(%x: !x) -> (!y, !y) {
  // expected-remark@+1 {{pixels-moved fired, exact}}
  %0 = nn.depth_to_space %x block 2 : (!x) -> !y
  return %0, %0 : !y, !y
}

// CHECK-LABEL: func.func @example(
// CHECK: nn.transpose
func.func @example(%x: !x) -> !y {
  // DOC-BEFORE
  // expected-remark@+1 {{pixels-moved fired, exact}}
  %0 = nn.depth_to_space %x block 2 : (!x) -> !y
  // DOC-AFTER
  //   %1 = nn.transpose %x perm [0, 2, 3, 1] : (!x) -> !pixels
  //   %2 = nn.reshape %1 : (!pixels) -> !blocks
  //   %3 = nn.transpose %2 perm [0, 1, 3, 2, 4] : (!blocks) -> !rows
  //   %4 = nn.reshape %3 : (!rows) -> !image
  //   %0 = nn.transpose %4 perm [0, 3, 1, 2] : (!image) -> !y
  // DOC-END
  return %0 : !y
}

// CHECK-LABEL: func.func @resize(
// CHECK: nn.reshape {{.*}} -> tensor<1x3x1x5x8x
// CHECK-NEXT: nn.tile {{.*}} repeats [1, 1, 2, 1, 3]
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<1x6x15x8x
// CHECK: nn.tile {{.*}} repeats [1, 1, 2, 1, 3]
func.func @resize(%x: !x) -> (!large, !large) {
  // expected-remark@+1 {{pixels-moved fired, exact}}
  %0 = nn.resize_nearest %x scales [1.0, 1.0, 2.0, 3.0] coordinates asymmetric nearest floor : (!x) -> !large
  // expected-remark@+1 {{pixels-moved fired, exact}}
  %1 = nn.resize_nearest %x sizes [1, 8, 6, 15] : (!x) -> !large
  return %0, %1 : !large, !large
}

// CHECK-LABEL: func.func @refused(
// CHECK-NOT: nn.transpose
func.func @refused(%x: !x, %any: !any) -> (!y, !large, !any_y) {
  // expected-remark@+1 {{pixels-moved refused [mode]: pixels of a block are not side by side}}
  %0 = nn.depth_to_space %x block 2 mode CRD : (!x) -> !y
  // expected-remark@+1 {{pixels-moved refused [factor]: not every pixel is repeated so often along a dimension}}
  %1 = nn.resize_nearest %x sizes [1, 8, 6, 15] coordinates asymmetric nearest ceil : (!x) -> !large
  // expected-remark@+1 {{pixels-moved refused [shape]: the extents of its pixels are not known}}
  %2 = nn.depth_to_space %any block 2 : (!any) -> !any_y
  return %0, %1, %2 : !y, !large, !any_y
}
