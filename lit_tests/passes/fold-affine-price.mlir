// RUN: qopt-opt %s --target onnxruntime -p fold-affine --remarks --verify-diagnostics | filecheck %s

// Along a dimension ONNX Runtime has kernels on codes for nothing but casts: one link is
// cheaper as it is, two are not.

!two = tensor<2x1xf32>
!x = tensor<2x40000x!quant.uniform<u8:f32, 0.5:3>>
!m = tensor<2x40000x!quant.uniform<u8:f32, 1.0:3>>
!y = tensor<2x40000x!quant.uniform<u8:f32, 2.0>>

// CHECK-LABEL: func.func @one(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK: nn.mul [[X]]
func.func @one(%x: !x) -> !y {
  %c = nn.constant dense<[[2.0], [4.0]]> : !two : !two
  // expected-remark@+1 {{affine-of-codes refused [price]: onnxruntime: costs 1, what it replaces 0.}}
  %0 = nn.mul %x, %c : (!x, !two) -> !y
  return %0 : !y
}

// CHECK-LABEL: func.func @two(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]]
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]]
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]]
// CHECK-NEXT: return [[V2]]
func.func @two(%x: !x) -> !y {
  %c = nn.constant dense<[[2.0], [4.0]]> : !two : !two
  %d = nn.constant dense<[[2.0], [4.0]]> : !two : !two
  %0 = nn.mul %x, %c : (!x, !two) -> !m
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %1 = nn.mul %0, %d : (!m, !two) -> !y
  return %1 : !y
}
