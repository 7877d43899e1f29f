// RUN: qopt-opt %s -p integerize --target stablehlo --remarks --verify-diagnostics | filecheck %s

// A quantized op of StableHLO rounds once and half to even, as QuantizeLinear does.

!f = tensor<4xf32>
!a = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!u = tensor<4x!quant.uniform<u8:f32, 0.5:131>>

// CHECK-LABEL: func.func @sum(
// CHECK-NEXT: nn.add %{{[^ ]+}}, %{{[^ ]+}} : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return
func.func @sum(%x: !a, %y: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !a to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{integerize-op fired, exact}}
  %3 = quant.qcast %2 : !f to !b
  func.return %3 : !b
}

// It has no unsigned codes, so no op on them is made.
// CHECK-LABEL: func.func @unsigned(
// CHECK: nn.add {{.*}} -> tensor<4xf32>
func.func @unsigned(%x: !u, %y: !u) -> !u {
  %0 = quant.dcast %x : !u to !f
  %1 = quant.dcast %y : !u to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{integerize-op refused [target]: stablehlo: has no u8 tensors}}
  %3 = quant.qcast %2 : !f to !u
  func.return %3 : !u
}
