// RUN: qopt-opt %s -p "canonicalize" --verify-numerics=6 | filecheck %s
//
// There: Relu and Clip that do nothing go
// Here: the same, per axis too

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!p_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32:1, {0.5:3,0.25,0.125:-7,1.0}>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @once(%x: !a_4) -> !a_4 {
  %0 = nn.clip %x min -66.0 max 62.0 : (!a_4) -> !a_4
  return %0 : !a_4
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @per_axis(%x: !p_1x4x2x2) -> !p_1x4x2x2 {
  %0 = nn.clip %x min -200.0 max 200.0 : (!p_1x4x2x2) -> !p_1x4x2x2
  return %0 : !p_1x4x2x2
}

// CHECK-LABEL: func.func @acts_on_one_channel(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min -100.0 max 100.0 : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01,1.250000e-01:-7,1.000000e+00}>>
// CHECK-NEXT: return [[V0]]
func.func @acts_on_one_channel(%x: !p_1x4x2x2) -> !p_1x4x2x2 {
  %0 = nn.clip %x min -100.0 max 100.0 : (!p_1x4x2x2) -> !p_1x4x2x2
  return %0 : !p_1x4x2x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]], [[X]]
func.func @multi_use(%x: !a_4) -> (!a_4, !a_4) {
  %0 = nn.clip %x min -66.0 max 62.0 : (!a_4) -> !a_4
  return %0, %0 : !a_4, !a_4
}
