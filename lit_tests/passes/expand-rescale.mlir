// RUN: qopt-opt %s -p 'expand-rescale{numerics=ties}' | filecheck %s
// RUN: qopt-opt %s -p 'expand-rescale{to=casts numerics=ties}' | filecheck %s --check-prefix=CASTS
// RUN: qopt-opt %s -p expand-rescale --remarks 2>&1 | filecheck %s --check-prefix=REMARK

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<u8:f32, 0.25:130>
!c = !quant.uniform<i8:f32:1, {0.25:3,0.125}>
!g = !quant.uniform<i8:f32, 3.0>

// CHECK-LABEL: func.func @scalar
// CASTS-LABEL: func.func @scalar
func.func @scalar(%x: !a) -> !b {
  // CHECK: quant.scast %{{.*}} to i8
  // CHECK: arith.extsi %{{.*}} : i8 to i64
  // CHECK: arith.subi
  // CHECK: arith.muli
  // CHECK: arith.shrsi
  // CHECK: arith.maxsi
  // CHECK: arith.minsi
  // CHECK: arith.trunci %{{.*}} : i64 to i8
  // CHECK: quant.scast %{{.*}} : i8 to !quant.uniform<u8:f32, 2.500000e-01:130>
  // CHECK-NOT: quant.rescale
  // CASTS: quant.dcast %{{.*}} to f32
  // CASTS-NEXT: quant.qcast %{{.*}} {quant.rounding = "half_up"} : f32 to
  // REMARK: 'quant.rescale' rescale-to-arith fired, exact
  %0 = quant.rescale %x rounding half_up : !a to !b
  return %0 : !b
}

// CHECK-LABEL: func.func @axis
func.func @axis(%x: tensor<?x2x!a>) -> tensor<?x2x!c> {
  // CHECK: tensor.dim
  // CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>
  // CHECK: arith.select
  // CHECK-NOT: quant.rescale
  %0 = quant.rescale %x rounding gemmlowp multiplier [1073741824, 1073741825] shift [32, 33] : tensor<?x2x!a> to tensor<?x2x!c>
  return %0 : tensor<?x2x!c>
}

// CHECK-LABEL: func.func @unranked
func.func @unranked(%x: tensor<*x!a>) -> tensor<*x!b> {
  // CHECK: shape.shape_of
  // CHECK: tensor.reshape
  // CHECK: linalg.generic
  // CHECK: tensor.reshape
  %0 = quant.rescale %x : tensor<*x!a> to tensor<*x!b>
  return %0 : tensor<*x!b>
}

// No pair hits the ties of a sixth on both sides.
func.func @sixth(%x: tensor<4x!a>) -> tensor<4x!g> {
  // REMARK: 'quant.rescale' rescale-to-arith refused [numerics]: would be ties
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!g>
  return %0 : tensor<4x!g>
}
