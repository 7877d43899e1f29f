// RUN: qopt-opt %s -p place-rescales --target onnxruntime | filecheck %s
// RUN: qopt-opt %s -p combine-rescale --target onnxruntime | filecheck %s
// RUN: qopt-opt %s -p place-rescales | filecheck %s --check-prefix=ANY

// Of an op on u8 and i8 at once ONNX Runtime makes casts around the op on floats.

!s = tensor<1x8x4x4x!quant.uniform<i8:f32, 0.5:3>>
!u = tensor<1x8x4x4x!quant.uniform<u8:f32, 0.5:131>>
!w = tensor<8x8x1x1x!quant.uniform<i8:f32, 0.01>>

// CHECK-LABEL: func.func @below(
// CHECK: nn.conv2d {{.*}} -> tensor<1x8x4x4x!quant.uniform<u8
// CHECK-NEXT: quant.rescale
// ANY-LABEL: func.func @below(
// ANY: nn.conv2d {{.*}} -> tensor<1x8x4x4x!quant.uniform<i8
// ANY-NOT: quant.rescale
func.func @below(%x: !u) -> !s {
  %w = nn.constant dense<3> : tensor<8x8x1x1xi8> : !w
  %0 = nn.conv2d %x, %w : (!u, !w) -> !u
  %1 = quant.rescale %0 : !u to !s
  func.return %1 : !s
}

// CHECK-LABEL: func.func @above(
// CHECK-NEXT: quant.rescale
// CHECK: nn.add {{.*}}u8{{.*}}u8{{.*}}u8
// ANY-LABEL: func.func @above(
// ANY-NOT: quant.rescale
func.func @above(%x: !s, %y: !u) -> !u {
  %0 = quant.rescale %x : !s to !u
  %1 = nn.add %0, %y : (!u, !u) -> !u
  func.return %1 : !u
}

!i16 = tensor<1x8x4x4x!quant.uniform<i16:f32, 0.5>>

// What has one kind only may read it, and what has both already may have others.
// CHECK-LABEL: func.func @either(
// CHECK-NOT: quant.rescale
func.func @either(%x: !s, %y: !i16) -> (!i16, !u) {
  %0 = quant.rescale %x : !s to !u
  %1 = nn.sub %0, %y : (!u, !i16) -> !i16
  %2 = nn.mul %0, %x : (!u, !s) -> !u
  func.return %1, %2 : !i16, !u
}
