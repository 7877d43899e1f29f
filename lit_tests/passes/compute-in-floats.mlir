// RUN: qopt-opt %s -p "compute-in-floats{to=stablehlo numerics=ties}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "compute-in-floats{to=stablehlo numerics=ties}" > %t && qopt-opt %t -p "compute-in-floats{to=stablehlo numerics=ties}" > %t.2 && diff %t %t.2
// RUN: qopt-opt %s -p "compute-in-floats{to=tosa}" | filecheck %s --check-prefix=EXACT

// What a dialect has no exact integers for is computed in floats, between casts.

!x = tensor<1x4x!quant.uniform<i8:f32, 0.05:3>>
!y = tensor<1x4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
!f = tensor<1x4xf32>

// CHECK-LABEL: func.func @sigmoid(
// CHECK-NEXT: [[F:%[a-z0-9_]+]] = quant.dcast
// CHECK-NEXT: [[S:%[a-z0-9_]+]] = nn.sigmoid [[F]] {nn.key = "gate"} : (tensor<1x4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: [[Q:%[a-z0-9_]+]] = quant.qcast [[S]]
// CHECK-NEXT: return [[Q]]
// EXACT-LABEL: func.func @sigmoid(
// EXACT-NEXT: nn.sigmoid %{{.*}} : (tensor<1x4x!quant.uniform
func.func @sigmoid(%x: !x) -> !y {
  // DOC-BEFORE
  // expected-remark@+1 {{unlowered-to-floats fired, ties}}
  %0 = nn.sigmoid %x {nn.key = "gate"} : (!x) -> !y
  // DOC-AFTER
  //   %1 = quant.dcast %x : !x to !f
  //   %2 = nn.sigmoid %1 {nn.key = "gate"} : (!f) -> !f
  //   %0 = quant.qcast %2 : !f to !y
  // DOC-END
  func.return %0 : !y
}

// What has integers stays.
// CHECK-LABEL: func.func @relu(
// CHECK-NEXT: nn.relu %{{.*}} : (tensor<1x4x!quant.uniform
func.func @relu(%x: !x) -> !x {
  %0 = nn.relu %x : (!x) -> !x
  func.return %0 : !x
}
