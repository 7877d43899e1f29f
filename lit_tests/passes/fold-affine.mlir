// RUN: qopt-opt %s -p fold-affine --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p fold-affine --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "fold-affine{numerics=relaxed}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "fold-affine,canonicalize" > %t && qopt-opt %t -p "fold-affine,canonicalize" > %t.2 && diff %t %t.2

// Affine functions on codes become scales, where all codes agree.

!one = tensor<f32>
!two = tensor<2x1xf32>
!stats = tensor<2xf32>
!codes = tensor<2x4xi8>
!a = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<2x4x!quant.uniform<i8:f32, 1.0:-10>>
!y = tensor<2x4x!quant.uniform<i8:f32, 2.0>>
!x = tensor<2x4x!quant.uniform<i8:f32, 0.5>>
!twice = tensor<2x4x!quant.uniform<i8:f32, 1.0>>
!read = tensor<2x4x!quant.uniform<i8:f32, 1.0:-3>>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5:3,0.25:1}>>
!unit = tensor<2x4x!quant.uniform<u8:f32, 0.00390625>>
!columns = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!columns_y = tensor<4x2x!quant.uniform<i8:f32, 2.0>>
!any = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!any_y = tensor<?x4x!quant.uniform<i8:f32, 2.0>>

// -- one link --------------------------------------------------------------------------

// CHECK-LABEL: func.func @multiply(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.500000e+00:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @multiply(%x: !a) -> !y {
  %c = nn.constant dense<3.0> : !one : !one
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %0 = nn.mul %x, %c : (!a, !one) -> !y
  return %0 : !y
}

// Seven steps: a zero point.
// CHECK-LABEL: func.func @whole_steps(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:-4>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @whole_steps(%x: !a) -> !y {
  %c = nn.constant dense<3.5> : !one : !one
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %0 = nn.add %x, %c : (!a, !one) -> !y
  return %0 : !y
}

// No whole number of steps: it stays an addition.
// CHECK-LABEL: func.func @parts_of_steps(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<-1> : tensor<i8> : tensor<!quant.uniform<i8:f32, 0.30000001192092896>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.add [[X]], [[V0]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V1]]
func.func @parts_of_steps(%x: !a) -> !y {
  %c = nn.constant dense<0.3> : !one : !one
  // expected-remark@+2 {{affine-of-codes fired, exact}}
  // expected-remark@+1 {{affine-of-codes refused [already]: it is such an op already}}
  %0 = nn.sub %x, %c : (!a, !one) -> !y
  return %0 : !y
}

// 5/6 of a step: every third code is a tie, in floats on either side.
// CHECK-LABEL: func.func @ties(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<6.000000e+00> : tensor<f32> : tensor<f32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.div [[X]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 0.049606300890445709:128>>
// CHECK-NEXT: return [[V1]]
func.func @ties(%x: tensor<4x!quant.uniform<u8:f32, 0.24803149700164795:128>>) -> tensor<4x!quant.uniform<u8:f32, 0.04960630089044571:128>> {
  %c = nn.constant dense<6.0> : !one : !one
  // expected-remark@+1 {{affine-of-codes refused [numerics]: would be ties (42 results are ties in floats), but only exact is allowed}}
  %0 = nn.div %x, %c : (tensor<4x!quant.uniform<u8:f32, 0.24803149700164795:128>>, !one) -> tensor<4x!quant.uniform<u8:f32, 0.04960630089044571:128>>
  return %0 : tensor<4x!quant.uniform<u8:f32, 0.04960630089044571:128>>
}

// Nothing of 32 bits is 2/3 of the scale, and that shows.
// CHECK-LABEL: func.func @within_a_step(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<0.666666686> : tensor<f32> : tensor<f32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.mul [[X]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 1.000000e+00:128>>
// CHECK-NEXT: return [[V1]]
func.func @within_a_step(%x: tensor<4x!quant.uniform<u8:f32, 0.75:128>>) -> tensor<4x!quant.uniform<u8:f32, 1.0:128>> {
  %c = nn.constant dense<0.66666668> : !one : !one
  // expected-remark@+1 {{affine-of-codes refused [numerics]: would be bounded(1) (64 codes change), but only exact is allowed}}
  %0 = nn.mul %x, %c : (tensor<4x!quant.uniform<u8:f32, 0.75:128>>, !one) -> tensor<4x!quant.uniform<u8:f32, 1.0:128>>
  return %0 : tensor<4x!quant.uniform<u8:f32, 1.0:128>>
}

// -- negative slopes -------------------------------------------------------------------

// CHECK-LABEL: func.func @negative(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.neg [[X]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V0]]
func.func @negative(%x: !a) -> !y {
  // expected-remark@+1 {{affine-of-codes refused [already]: it is such an op already}}
  %0 = nn.neg %x : (!a) -> !y
  return %0 : !y
}

// CHECK-LABEL: func.func @negative_multiple(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<-2.000000e+00> : tensor<f32> : tensor<f32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.mul [[X]], [[V0]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V1]]
func.func @negative_multiple(%x: !a) -> !y {
  %c = nn.constant dense<-2.0> : !one : !one
  // expected-remark@+1 {{affine-of-codes refused [slope]: a scale is positive; negating costs as much}}
  %0 = nn.mul %x, %c : (!a, !one) -> !y
  return %0 : !y
}

// -128 has no negative: the middle clips it, and that stays.
// CHECK-LABEL: func.func @twice_negative(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V0]]
func.func @twice_negative(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> !y {
  %0 = nn.neg %x : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %1 = nn.neg %0 : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> !y
  return %1 : !y
}

// CHECK-LABEL: func.func @twice_negative_clipped(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.neg [[X]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.neg [[V0]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @twice_negative_clipped(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>> {
  // expected-remark@+1 {{affine-of-codes refused [already]: it is such an op already}}
  %0 = nn.neg %x : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  // expected-remark@+1 {{affine-of-codes refused [numerics]: would be saturation (1 codes were clipped on the way), but only exact is allowed}}
  %1 = nn.neg %0 : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  return %1 : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
}

// -- chains ----------------------------------------------------------------------------

// CHECK-LABEL: func.func @chain(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.000000e+00:-3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @chain(%x: !x) -> !y {
  // DOC-BEFORE
  %two = nn.constant dense<2.0> : !one : !one
  %three = nn.constant dense<3.0> : !one : !one
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %0 = nn.mul %x, %two : (!x, !one) -> !twice
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %1 = nn.add %0, %three : (!twice, !one) -> !y
  // DOC-AFTER
  //   %2 = quant.scast %x : !x to !codes
  //   %3 = quant.scast %2 : !codes to !read
  //   %1 = quant.rescale %3 : !read to !y
  // DOC-END
  return %1 : !y
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.000000e+00:-10>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.scast [[V2]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V4:%[a-z0-9_]+]] = quant.scast [[V3]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.000000e+00:-13>>
// CHECK-NEXT: [[V5:%[a-z0-9_]+]] = quant.rescale [[V4]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V5]], [[V2]]
func.func @multi_use(%x: !a) -> (!y, !b) {
  %two = nn.constant dense<2.0> : !one : !one
  %three = nn.constant dense<3.0> : !one : !one
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %0 = nn.mul %x, %two : (!a, !one) -> !b
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %1 = nn.add %0, %three : (!b, !one) -> !y
  return %1, %0 : !y, !b
}

// A hard sigmoid in pieces: the storage of the result clamps.
// CHECK-LABEL: func.func @hard_sigmoid(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.250000e-01:-1>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<2x4x!quant.uniform<u8:f32, 3.906250e-03>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.clip [[V2]] min 0.0 max 1.0 : {{.*}} -> tensor<2x4x!quant.uniform<u8:f32, 3.906250e-03>>
// CHECK-NEXT: return [[V3]]
func.func @hard_sigmoid(%x: !a) -> !unit {
  %slope = nn.constant dense<0.25> : !one : !one
  %half = nn.constant dense<0.5> : !one : !one
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %0 = nn.mul %x, %slope : (!a, !one) -> tensor<2x4x!quant.uniform<i8:f32, 0.125:3>>
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %1 = nn.add %0, %half : (tensor<2x4x!quant.uniform<i8:f32, 0.125:3>>, !one) -> !unit
  %2 = nn.clip %1 min 0.0 max 1.0 : (!unit) -> !unit
  return %2 : !unit
}

// Here it does not.
// CHECK-LABEL: func.func @clamp_stays(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.0 : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.scast [[V1]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.rescale [[V2]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 1.000000e+00:-10>>
// CHECK-NEXT: return [[V3]]
func.func @clamp_stays(%x: !a) -> !b {
  %two = nn.constant dense<2.0> : !one : !one
  %0 = nn.clip %x min 0.0 max 6.0 : (!a) -> !a
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %1 = nn.mul %0, %two : (!a, !one) -> !b
  return %1 : !b
}

// -- parameters along a dimension ------------------------------------------------------

// CHECK-LABEL: func.func @per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<2x4xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32:0, {1.000000e+00:3,7.500000e-01:1}>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: return [[V2]]
func.func @per_axis(%x: !rows) -> !rows {
  %c = nn.constant dense<[[2.0], [3.0]]> : !two : !two
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %0 = nn.mul %x, %c : (!rows, !two) -> !rows
  return %0 : !rows
}

// CHECK-LABEL: func.func @both_signs(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}2.000000e+00], [-3.000000e+00]]> : tensor<2x1xf32> : tensor<2x1xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.mul [[X]], [[V0]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V1]]
func.func @both_signs(%x: !a) -> !y {
  %c = nn.constant dense<[[2.0], [-3.0]]> : !two : !two
  // expected-remark@+1 {{affine-of-codes refused [slope]: slopes of both signs: no scale is negative}}
  %0 = nn.mul %x, %c : (!a, !two) -> !y
  return %0 : !y
}

// CHECK-LABEL: func.func @unknown_extent(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}2.000000e+00], [3.000000e+00]]> : tensor<2x1xf32> : tensor<2x1xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.mul [[X]], [[V0]] : {{.*}} -> tensor<?x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V1]]
func.func @unknown_extent(%x: !any) -> !any_y {
  %c = nn.constant dense<[[2.0], [3.0]]> : !two : !two
  // expected-remark@+1 {{affine-of-codes refused [shape]: the extent of dimension 0 is not known}}
  %0 = nn.mul %x, %c : (!any, !two) -> !any_y
  return %0 : !any_y
}

// CHECK-LABEL: func.func @dynamic_rows(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<?x4xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @dynamic_rows(%x: !any) -> !any_y {
  %c = nn.constant dense<2.0> : !one : !one
  // expected-remark@+1 {{affine-of-codes fired, exact}}
  %0 = nn.mul %x, %c : (!any, !one) -> !any_y
  return %0 : !any_y
}

// -- batch norm ------------------------------------------------------------------------

// CHECK-LABEL: func.func @batch_norm(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[1.000000e+00, 3.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[2.500000e-01, -1.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.constant dense<[0.000000e+00, 5.000000e-01]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.constant dense<[4.000000e+00, 2.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V4:%[a-z0-9_]+]] = nn.batch_norm [[X]], [[V0]], [[V1]], [[V2]], [[V3]] epsilon 0.0 : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V4]]
func.func @batch_norm(%x: !columns) -> !columns_y {
  %s = nn.constant dense<[1.0, 3.0]> : !stats : !stats
  %b = nn.constant dense<[0.25, -1.0]> : !stats : !stats
  %m = nn.constant dense<[0.0, 0.5]> : !stats : !stats
  %v = nn.constant dense<[4.0, 2.0]> : !stats : !stats
  // expected-remark@+1 {{affine-of-codes refused [numerics]: would be ties (1 results are ties in floats), but only exact is allowed}}
  %0 = nn.batch_norm %x, %s, %b, %m, %v epsilon 0.0 : (!columns, !stats, !stats, !stats, !stats) -> !columns_y
  return %0 : !columns_y
}

// CHECK-LABEL: func.func @batch_norm_scale(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<4x2xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<4x2x!quant.uniform<i8:f32:1, {2.500000e-01:3,7.500000e-01:3}>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.constant dense<[1, -1]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32:0, {2.500000e-01,1.750000e+00}>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.add [[V1]], [[V2]] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V3]]
func.func @batch_norm_scale(%x: !columns) -> !columns_y {
  %s = nn.constant dense<[1.0, 3.0]> : !stats : !stats
  %b = nn.constant dense<[0.25, -1.0]> : !stats : !stats
  %m = nn.constant dense<[0.0, 0.5]> : !stats : !stats
  %v = nn.constant dense<[4.0, 4.0]> : !stats : !stats
  // expected-remark@+2 {{affine-of-codes fired, exact}}
  // expected-remark@+1 {{affine-of-codes refused [already]: it is such an op already}}
  %0 = nn.batch_norm %x, %s, %b, %m, %v epsilon 0.0 : (!columns, !stats, !stats, !stats, !stats) -> !columns_y
  return %0 : !columns_y
}

// CHECK-LABEL: func.func @batch_norm_falling(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[1.000000e+00, -3.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[2.500000e-01, -1.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.constant dense<[0.000000e+00, 5.000000e-01]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.constant dense<[4.000000e+00, 2.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V4:%[a-z0-9_]+]] = nn.batch_norm [[X]], [[V0]], [[V1]], [[V2]], [[V3]] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V4]]
func.func @batch_norm_falling(%x: !columns) -> !columns_y {
  %s = nn.constant dense<[1.0, -3.0]> : !stats : !stats
  %b = nn.constant dense<[0.25, -1.0]> : !stats : !stats
  %m = nn.constant dense<[0.0, 0.5]> : !stats : !stats
  %v = nn.constant dense<[4.0, 2.0]> : !stats : !stats
  // expected-remark@+1 {{affine-of-codes refused [slope]: slopes of both signs: no scale is negative}}
  %0 = nn.batch_norm %x, %s, %b, %m, %v : (!columns, !stats, !stats, !stats, !stats) -> !columns_y
  return %0 : !columns_y
}

// CHECK-LABEL: func.func @statistics_at_run_time(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[X1:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[1.000000e+00, 3.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.batch_norm [[X]], [[V0]], [[V0]], [[X1]], [[V0]] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: return [[V1]]
func.func @statistics_at_run_time(%x: !columns, %m: !stats) -> !columns_y {
  %s = nn.constant dense<[1.0, 3.0]> : !stats : !stats
  %0 = nn.batch_norm %x, %s, %s, %m, %s : (!columns, !stats, !stats, !stats, !stats) -> !columns_y
  return %0 : !columns_y
}
