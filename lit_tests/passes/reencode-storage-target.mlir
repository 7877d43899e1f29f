// RUN: qopt-opt %s -p 'reencode-storage{activations=u8 weights=i8}' --target integer --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'reencode-storage{activations=i8 weights=i8}' --target integer | filecheck --check-prefix=SIGNED %s

!i = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!u = tensor<4x!quant.uniform<u8:f32, 0.5:131>>

// The target has no u8 tensors.
// CHECK-LABEL: func.func @signed(
// CHECK-NEXT: nn.relu {{.*}} -> tensor<4x!quant.uniform<i8
func.func @signed(%x: !i) -> !i {
  // expected-remark@+1 {{reencode-storage refused [target]: integer: 'nn.relu': has no u8 tensors}}
  %0 = nn.relu %x : (!i) -> !i
  func.return %0 : !i
}

// What it refuses at the interface lets the op between run.
// SIGNED-LABEL: func.func @unsigned(
// SIGNED-NEXT: quant.rescale %{{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// SIGNED-NEXT: nn.relu {{.*}} -> tensor<4x!quant.uniform<i8
// SIGNED-NEXT: quant.rescale %{{.*}} to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
func.func @unsigned(%x: !u) -> !u {
  %0 = nn.relu %x : (!u) -> !u
  func.return %0 : !u
}
