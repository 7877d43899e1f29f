// RUN: qopt-opt %s -p 'release-kernels{numerics=bounded}' --remarks=%t | filecheck %s
// RUN: qopt-opt %s -p release-kernels --remarks=%t2 | filecheck %s --check-prefix=EXACT
// RUN: filecheck %s --check-prefix=WHY --input-file=%t2

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:-3>>
!w = tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.25, 0.125}>>
!f = tensor<1x2x4x4xf32>

// CHECK-LABEL: @network
// CHECK: [[Q:%[0-9]+]] = quant.qcast %arg0 {quant.rounding = "reciprocal"}
// CHECK-NEXT: [[C:%[0-9]+]] = nn.conv2d [[Q]], %arg1 {nn.kernel}
// CHECK-NEXT: [[A:%[0-9]+]] = nn.add [[C]], [[Q]] : (
// CHECK-NEXT: quant.dcast [[A]] : tensor
// EXACT-LABEL: @network
// EXACT: quant.qcast %arg0 {quant.rounding = "reciprocal"}
// EXACT-NEXT: nn.conv2d {{.*}} {nn.kernel}
// EXACT-NEXT: nn.add {{.*}} {nn.kernel = "litert-xnn"}
// WHY: "reason": "would be bounded(1) (the kernels of litert-xnn round in ways of their own), but only exact is allowed"
func.func @network(%f: !f, %w: !w) -> !f {
  %0 = quant.qcast %f {nn.kernel = "litert-xnn"} : !f to !x
  %1 = nn.conv2d %0, %w {nn.kernel = "litert-xnn"} : (!x, !w) -> !x
  %2 = nn.add %1, %0 {nn.kernel = "litert-xnn"} : (!x, !x) -> !x
  %3 = quant.dcast %2 {nn.kernel = "litert-xnn"} : !x to !f
  return %3 : !f
}

// The optimized kernels dequantize as q * s - z * s.
// CHECK-LABEL: @others
// CHECK-NEXT: quant.dcast %arg0 : tensor
// EXACT-LABEL: @others
// EXACT-NEXT: quant.dcast %arg0 {nn.kernel = "litert-opt"}
func.func @others(%x: !x) -> !f {
  %0 = quant.dcast %x {nn.kernel = "litert-opt"} : !x to !f
  return %0 : !f
}
