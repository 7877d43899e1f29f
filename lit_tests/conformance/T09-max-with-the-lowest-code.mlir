// RUN: qopt-opt %s -p "canonicalize" --verify-numerics=6 | filecheck %s
//
// There: Max(splat <= min, x) = x; a relu of types that hold no negative number
// Here: the same, from the bounds, per axis too

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!e_4 = tensor<4x!quant.uniform<i8:f32, 0.5:-128>>
!v_4 = tensor<4x!quant.uniform<u8:f32, 0.5>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @once(%x: !e_4) -> !e_4 {
  %0 = nn.relu %x : (!e_4) -> !e_4
  return %0 : !e_4
}

// CHECK-LABEL: func.func @unsigned(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @unsigned(%x: !v_4) -> !v_4 {
  %0 = nn.clip %x min -1.0 : (!v_4) -> !v_4
  return %0 : !v_4
}

// CHECK-LABEL: func.func @not_the_lowest(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @not_the_lowest(%x: !a_4) -> !a_4 {
  %0 = nn.relu %x : (!a_4) -> !a_4
  return %0 : !a_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.sigmoid [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:-128>>
// CHECK-NEXT: return [[X]], [[V0]]
func.func @multi_use(%x: !e_4) -> (!e_4, !e_4) {
  %0 = nn.relu %x : (!e_4) -> !e_4
  %1 = nn.sigmoid %0 : (!e_4) -> !e_4
  return %0, %1 : !e_4, !e_4
}
