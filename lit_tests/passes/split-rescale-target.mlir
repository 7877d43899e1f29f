// RUN: qopt-opt %s -p 'split-rescale{numerics=bounded}' --target ethos-u55 --remarks --verify-diagnostics | filecheck %s

// A sum in 32 bits is an op of this target; a rescale of it on its own is not.

!a = tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x4x!quant.uniform<i8:f32, 0.25>>
!c = tensor<4x4x!quant.uniform<i8:f32, 2.0:-7>>

// CHECK-LABEL: func.func @product(
// CHECK-NEXT: nn.mul {{.*}} -> tensor<4x4x!quant.uniform<i8:f32, 2.000000e+00:-7>>
// CHECK-NEXT: return
func.func @product(%x: !a, %y: !b) -> !c {
  // expected-remark@+1 {{split-exact refused [target]: ethos-u55: 'quant.rescale': operand #0 is i32, not i8|u8|i16}}
  %0 = nn.mul %x, %y : (!a, !b) -> !c
  func.return %0 : !c
}
