// RUN: qopt-opt %s -p dce --allow-unregistered-dialect | filecheck %s

!q = tensor<?x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<?xf32>

// CHECK-LABEL: func.func @a_chain(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @a_chain(%x: !q) -> !q {
  // DOC-BEFORE
  %0 = quant.dcast %x : !q to !f
  %1 = nn.relu %0 : (!f) -> !f
  func.return %x : !q
  // DOC-AFTER
  //   func.return %x : !q
  // DOC-END
}

// CHECK-LABEL: func.func @partly_used(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<?xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<?xf32>
// CHECK-NEXT: return [[V1]]
func.func @partly_used(%x: !q) -> !f {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.relu %0 : (!f) -> !f
  %2 = nn.tanh %0 : (!f) -> !f
  %c = nn.constant dense<1.0> : tensor<4xf32> : tensor<4xf32>
  func.return %2 : !f
}

// What an op of no known dialect does is not known: it stays, and keeps its operands.
// CHECK-LABEL: func.func @unknown(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<?xf32>
// CHECK-NEXT: "vendor.print"([[V0]]) : {{.*}} -> tensor<?xf32>
// CHECK-NEXT: return
func.func @unknown(%x: !q) {
  %0 = quant.dcast %x : !q to !f
  %1 = "vendor.print"(%0) : (!f) -> !f
  func.return
}
