// RUN: qopt-opt %s -p strip-func-quant-types --split-input-file --verify-diagnostics | filecheck %s

!q = !quant.uniform<i8:f32, 2.0:3>

// CHECK: func.func private @declared(tensor<4xi8>) -> i4
func.func private @declared(tensor<4x!q>) -> !quant.any<i4>

// CHECK-LABEL: func.func @caller(
// CHECK-SAME: %[[X:.*]]: tensor<4xi8>) -> tensor<4xi8> {
func.func @caller(%x: tensor<4x!q>) -> tensor<4x!q> {
  // CHECK-NEXT: %[[Q:.*]] = quant.scast %[[X]] : tensor<4xi8> to
  // CHECK-NEXT: %[[S:.*]] = quant.scast %[[Q]] : {{.*}} to tensor<4xi8>
  // CHECK-NEXT: %[[C:.*]] = call @caller(%[[S]]) : (tensor<4xi8>) -> tensor<4xi8>
  // CHECK-NEXT: %[[R:.*]] = quant.scast %[[C]] : tensor<4xi8> to
  // CHECK-NEXT: %[[T:.*]] = quant.scast %[[R]] : {{.*}} to tensor<4xi8>
  // CHECK-NEXT: return %[[T]] : tensor<4xi8>
  %0 = call @caller(%x) : (tensor<4x!q>) -> tensor<4x!q>
  return %0 : tensor<4x!q>
}

// Upstream: failed to legalize operation 'func.func'.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%c: i1, %x: tensor<4x!q>) -> tensor<4x!q> {
  // CHECK: cf.cond_br %{{.*}}, ^bb1(%{{.*}} : tensor<4xi8>), ^bb2
  cf.cond_br %c, ^bb1(%x : tensor<4x!q>), ^bb2
// CHECK: ^bb1(%{{.*}}: tensor<4xi8>):
// CHECK-NEXT: quant.scast
^bb1(%y: tensor<4x!q>):
  return %y : tensor<4x!q>
^bb2:
  cf.br ^bb1(%x : tensor<4x!q>)
}

// -----

// Upstream crashes.
// expected-error@+1 {{'func.func' op !quant.calibrated<f32<-1.000000e+00:1.000000e+00>> has no integer storage type}}
func.func @calibrated(%x: tensor<2x!quant.calibrated<f32<-1.0:1.0>>>) {
  return
}
