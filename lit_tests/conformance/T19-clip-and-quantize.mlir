// RUN: qopt-opt %s -p "integerize,fold-rescale,canonicalize,dce" --verify-numerics=6 | filecheck %s
//
// There: Clip of Q, Q of Clip merged; exact only if the clip contains the range
// Here: a clip whose bounds the storage implies goes, exact; it never re-grids

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!e_4 = tensor<4x!quant.uniform<i8:f32, 0.5:-128>>
!f_4 = tensor<4xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @once(%x: !a_4) -> !a_4 {
  %0 = nn.clip %x min -65.5 max 100.0 : (!a_4) -> !a_4
  return %0 : !a_4
}

// CHECK-LABEL: func.func @in_an_island(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.0 : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:-128>>
// CHECK-NEXT: return [[V1]]
func.func @in_an_island(%x: !a_4) -> !e_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = nn.clip %0 min 0.0 max 6.0 : (!f_4) -> !f_4
  %2 = quant.qcast %1 : !f_4 to !e_4
  return %2 : !e_4
}

// CHECK-LABEL: func.func @two_clips(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 5.0 : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @two_clips(%x: !a_4) -> !a_4 {
  %0 = nn.clip %x min 0.0 max 6.0 : (!a_4) -> !a_4
  %1 = nn.clip %0 min -1.0 max 5.0 : (!a_4) -> !a_4
  return %1 : !a_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.0 : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[X]], [[V0]]
func.func @multi_use(%x: !a_4) -> (!a_4, !a_4) {
  %0 = nn.clip %x min -65.5 max 100.0 : (!a_4) -> !a_4
  %1 = nn.clip %0 min 0.0 max 6.0 : (!a_4) -> !a_4
  return %0, %1 : !a_4, !a_4
}
