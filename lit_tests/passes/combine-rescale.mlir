// RUN: qopt-opt %s -p combine-rescale --remarks --verify-diagnostics | filecheck %s

// Rescales next to requantizing ops, under the default level, `exact`.

!a = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!u = tensor<4x!quant.uniform<u8:f32, 0.5:131>>
!half = tensor<4x!quant.uniform<i8:f32, 0.25:3>>
!wide = tensor<4x!quant.uniform<i16:f32, 0.25>>
!narrow = tensor<4x!quant.uniform<i8<-100:100>:f32, 0.5>>

// -- up: into the result -----------------------------------------------------------------

// CHECK-LABEL: func.func @renumbered(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @renumbered(%x: !a, %y: !a) -> !u {
  // DOC-BEFORE
  %0 = nn.add %x, %y : (!a, !a) -> !a
  // expected-remark@+1 {{combine-up fired, exact}}
  %1 = quant.rescale %0 : !a to !u
  // DOC-AFTER
  //   %1 = nn.add %x, %y : (!a, !a) -> !u
  // DOC-END
  func.return %1 : !u
}

// Equal scales never round, so the op keeps its own rounding.
// CHECK-LABEL: func.func @keeps_key_and_rounding(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] rounding half_up {nn.key = "t"} : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @keeps_key_and_rounding(%x: !a) -> !u {
  %0 = nn.tanh %x rounding half_up {nn.key = "t"} : (!a) -> !a
  // expected-remark@+1 {{combine-up fired, exact}}
  %1 = quant.rescale %0 rounding half_away : !a to !u
  func.return %1 : !u
}

// CHECK-LABEL: func.func @rounds_twice(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8<-4:4>:f32, 5.000000e-01>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.scast [[V1]] : {{.*}} to tensor<4xi8>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.scast [[V2]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: return [[V3]]
func.func @rounds_twice(%x: !a) -> !half {
  %0 = nn.tanh %x : (!a) -> !half
  // expected-remark@+1 {{combine-up refused [numerics]: would be bounded(1.25) (drops the middle's rounding), but only exact is allowed}}
  %1 = quant.rescale %0 : !half to tensor<4x!quant.uniform<i8<-4:4>:f32, 0.5>>
  %2 = quant.scast %1 : tensor<4x!quant.uniform<i8<-4:4>:f32, 0.5>> to tensor<4xi8>
  %3 = quant.scast %2 : tensor<4xi8> to !half
  func.return %3 : !half
}

// CHECK-LABEL: func.func @clips_first(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8<-1:1>:f32, 5.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V1]]
func.func @clips_first(%x: !a) -> !u {
  %0 = nn.tanh %x : (!a) -> tensor<4x!quant.uniform<i8<-1:1>:f32, 0.5>>
  // expected-remark@+1 {{combine-up refused [numerics]: would be saturation (the middle clips to [-0.5, 0.5]), but only exact is allowed}}
  %1 = quant.rescale %0 : tensor<4x!quant.uniform<i8<-1:1>:f32, 0.5>> to !u
  func.return %1 : !u
}

// CHECK-LABEL: func.func @result_used(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @result_used(%x: !a) -> (!a, !u) {
  %0 = nn.tanh %x : (!a) -> !a
  // expected-remark@+1 {{combine-up refused [multi-use]: the result is also used as it is}}
  %1 = quant.rescale %0 : !a to !u
  func.return %0, %1 : !a, !u
}

// CHECK-LABEL: func.func @per_axis_result(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[Y]] : {{.*}} -> tensor<?x2x!quant.uniform<u8:f32:1, {5.000000e-01:128,2.500000e-01:128}>>
// CHECK-NEXT: return [[V0]]
func.func @per_axis_result(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x2x!quant.uniform<u8:f32:1, {0.5:128, 0.25:128}>> {
  %0 = nn.fully_connected %x, %w : (tensor<?x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  // expected-remark@+1 {{combine-up fired, exact}}
  %1 = quant.rescale %0 : tensor<?x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>> to tensor<?x2x!quant.uniform<u8:f32:1, {0.5:128, 0.25:128}>>
  func.return %1 : tensor<?x2x!quant.uniform<u8:f32:1, {0.5:128, 0.25:128}>>
}

// CHECK-LABEL: func.func @per_axis_not_taken(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.sigmoid [[X]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: return [[V1]]
func.func @per_axis_not_taken(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>> {
  %0 = nn.sigmoid %x : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  // expected-remark@+1 {{combine-up refused [port]: takes no result quantized along dimension 0}}
  %1 = quant.rescale %0 : tensor<2x4x!quant.uniform<i8:f32, 0.5>> to tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  func.return %1 : tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
}

// CHECK-LABEL: func.func @gemmlowp(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] rounding gemmlowp : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @gemmlowp(%x: !a) -> !half {
  %0 = nn.tanh %x : (!a) -> !a
  // expected-remark@+1 {{combine-up refused [rounding]: gemmlowp and ruy round multiplier and shift, no real numbers}}
  %1 = quant.rescale %0 rounding gemmlowp : !a to !half
  func.return %1 : !half
}

// CHECK-LABEL: func.func @fixed_point_stays(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] rounding gemmlowp multiplier [1073741824] shift [29] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.tanh [[V1]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: return [[V2]]
func.func @fixed_point_stays(%x: !a) -> !half {
  %0 = nn.tanh %x : (!a) -> !a
  %1 = quant.rescale %0 rounding gemmlowp multiplier [1073741824] shift [29] : !a to !half
  %2 = nn.tanh %1 : (!half) -> !half
  func.return %2 : !half
}

// -- down: into an operand ----------------------------------------------------------------

// CHECK-LABEL: func.func @lossless(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.mul [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @lossless(%x: !a, %y: !a) -> !half {
  %0 = quant.rescale %x : !a to !wide
  // expected-remark@+1 {{combine-down fired, exact}}
  %1 = nn.mul %0, %y : (!wide, !a) -> !half
  func.return %1 : !half
}

// Other users keep the rescale: each use is decided by itself.
// CHECK-LABEL: func.func @lossless_used_twice(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.sigmoid [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @lossless_used_twice(%x: !a) -> (!half, !wide) {
  %0 = quant.rescale %x : !a to !wide
  // expected-remark@+1 {{combine-down fired, exact}}
  %1 = nn.sigmoid %0 : (!wide) -> !half
  func.return %1, %0 : !half, !wide
}

// CHECK-LABEL: func.func @the_better_operand(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.sub [[V0]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @the_better_operand(%x: !half, %y: !a) -> !wide {
  %0 = quant.rescale %x : !half to !a
  %1 = quant.rescale %y : !a to !u
  // expected-remark@+2 {{combine-down fired, exact}}
  // expected-remark@+1 {{combine-down refused [numerics]: would be bounded(2) (drops the rescale's rounding), but only exact is allowed}}
  %2 = nn.sub %0, %1 : (!a, !u) -> !wide
  func.return %2 : !wide
}

// CHECK-LABEL: func.func @clips(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @clips(%x: !a) -> !wide {
  %0 = quant.rescale %x : !a to !half
  // expected-remark@+1 {{combine-down refused [numerics]: would be saturation (the rescale clips to [-32.75, 31]), but only exact is allowed}}
  %1 = nn.tanh %0 : (!half) -> !wide
  func.return %1 : !wide
}

// CHECK-LABEL: func.func @clamps_codes_outside(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8<-100:100>:f32, 5.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<u8<28:228>:f32, 5.000000e-01:128>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.tanh [[V1]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: return [[V2]]
func.func @clamps_codes_outside(%x: tensor<4xi8>) -> !wide {
  %0 = quant.scast %x : tensor<4xi8> to !narrow
  %1 = quant.rescale %0 : !narrow to tensor<4x!quant.uniform<u8<28:228>:f32, 0.5:128>>
  // expected-remark@+1 {{combine-down refused [numerics]: would be saturation (the rescale clips to [-50, 50]), but only exact is allowed}}
  %2 = nn.tanh %1 : (tensor<4x!quant.uniform<u8<28:228>:f32, 0.5:128>>) -> !wide
  func.return %2 : !wide
}

// CHECK-LABEL: func.func @no_bound(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.div [[Y]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @no_bound(%x: !half, %y: !a) -> !wide {
  %0 = quant.rescale %x : !half to !a
  // expected-remark@+1 {{combine-down refused [unbounded]: no bound on what a change of this operand does}}
  %1 = nn.div %y, %0 : (!a, !a) -> !wide
  func.return %1 : !wide
}

// CHECK-LABEL: func.func @per_axis_operand(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<3x4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.fully_connected [[V0]], [[Y]] : {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @per_axis_operand(%x: tensor<3x4x!quant.uniform<i8:f32:0, {0.5, 0.5, 1.0}>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>> {
  %0 = quant.rescale %x : tensor<3x4x!quant.uniform<i8:f32:0, {0.5, 0.5, 1.0}>> to tensor<3x4x!quant.uniform<i16:f32, 0.25>>
  // expected-remark@+1 {{combine-down refused [port]: takes no input quantized along dimension 0}}
  %1 = nn.fully_connected %0, %w : (tensor<3x4x!quant.uniform<i16:f32, 0.25>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %1 : tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}

// -- down, with a bias: re-derived on the new product of scales -------------------------------

// CHECK-LABEL: func.func @bias_rederived(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}1, 2, 3, 4], [5, 6, 7, 8{{\]\]}}> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[50, 101]> : tensor<2xi32> {nn.key = "bias"} : tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]], [[V1]] : {{.*}} -> tensor<?x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @bias_rederived(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>> {
  %w = nn.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %b = nn.constant dense<[100, 202]> : tensor<2xi32> {nn.key = "bias"} : tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>
  %0 = quant.rescale %x : tensor<?x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x4x!quant.uniform<i16:f32, 0.25>>
  // expected-remark@+1 {{combine-down fired, exact}}
  %1 = nn.fully_connected %0, %w, %b : (tensor<?x4x!quant.uniform<i16:f32, 0.25>>, tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>, tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>>
  func.return %1 : tensor<?x2x!quant.uniform<i8:f32, 1.0>>
}

// 201 * 0.0625 is no multiple of 0.125.
// CHECK-LABEL: func.func @bias_would_round(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}1, 2, 3, 4], [5, 6, 7, 8{{\]\]}}> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[100, 201]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 6.250000e-02>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.fully_connected [[V2]], [[V0]], [[V1]] : {{.*}} -> tensor<?x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V3]]
func.func @bias_would_round(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>> {
  %w = nn.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.25>>
  %b = nn.constant dense<[100, 201]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.0625>>
  %0 = quant.rescale %x : tensor<?x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x4x!quant.uniform<i16:f32, 0.25>>
  // expected-remark@+1 {{combine-down refused [numerics]: would be bounded(1.875) (drops the rescale's rounding), but only exact is allowed}}
  %1 = nn.fully_connected %0, %w, %b : (tensor<?x4x!quant.uniform<i16:f32, 0.25>>, tensor<2x4x!quant.uniform<i8:f32, 0.25>>, tensor<2x!quant.uniform<i32:f32, 0.0625>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>>
  func.return %1 : tensor<?x2x!quant.uniform<i8:f32, 1.0>>
}

// Only the zero point changes: the bias stays as it is.
// CHECK-LABEL: func.func @bias_kept(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}1, 2, 3, 4], [5, 6, 7, 8{{\]\]}}> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 3.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[100, 201]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 3.000000e-02>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]], [[V1]] : {{.*}} -> tensor<?x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @bias_kept(%x: tensor<?x4x!quant.uniform<i8:f32, 0.1:3>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>> {
  %w = nn.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.3>>
  %b = nn.constant dense<[100, 201]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.03>>
  %0 = quant.rescale %x : tensor<?x4x!quant.uniform<i8:f32, 0.1:3>> to tensor<?x4x!quant.uniform<u8:f32, 0.1:131>>
  // expected-remark@+1 {{combine-down fired, exact}}
  %1 = nn.fully_connected %0, %w, %b : (tensor<?x4x!quant.uniform<u8:f32, 0.1:131>>, tensor<2x4x!quant.uniform<i8:f32, 0.3>>, tensor<2x!quant.uniform<i32:f32, 0.03>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>>
  func.return %1 : tensor<?x2x!quant.uniform<i8:f32, 1.0>>
}

// CHECK-LABEL: func.func @bias_unknown(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[V1]], [[V0]], [[Y]] : {{.*}} -> tensor<?x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @bias_unknown(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>, %b: tensor<2x!quant.uniform<i32:f32, 0.0625>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>> {
  %w = nn.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.25>>
  %0 = quant.rescale %x : tensor<?x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x4x!quant.uniform<i16:f32, 0.25>>
  // expected-remark@+1 {{combine-down refused [bias]: the bias is not a constant, so it cannot be re-derived}}
  %1 = nn.fully_connected %0, %w, %b : (tensor<?x4x!quant.uniform<i16:f32, 0.25>>, tensor<2x4x!quant.uniform<i8:f32, 0.25>>, tensor<2x!quant.uniform<i32:f32, 0.0625>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>>
  func.return %1 : tensor<?x2x!quant.uniform<i8:f32, 1.0>>
}

// CHECK-LABEL: func.func @bias_too_large(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[100, 2147483647]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 2.000000e+00>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.fully_connected [[V2]], [[V0]], [[V1]] : {{.*}} -> tensor<?x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V3]]
func.func @bias_too_large(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>> {
  %w = nn.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.25>>
  %b = nn.constant dense<[100, 2147483647]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
  %0 = quant.rescale %x : tensor<?x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x4x!quant.uniform<i8:f32, 2.0>>
  // expected-remark@+1 {{combine-down refused [bias]: the re-derived bias does not fit 32 bits}}
  %1 = nn.fully_connected %0, %w, %b : (tensor<?x4x!quant.uniform<i8:f32, 2.0>>, tensor<2x4x!quant.uniform<i8:f32, 0.25>>, tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<?x2x!quant.uniform<i8:f32, 1.0>>
  func.return %1 : tensor<?x2x!quant.uniform<i8:f32, 1.0>>
}
