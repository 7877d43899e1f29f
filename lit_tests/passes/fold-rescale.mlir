// RUN: qopt-opt %s -p fold-rescale --remarks --verify-diagnostics | filecheck %s

// Every rule under the default level, `exact`: where it fires, where it refuses and why.

!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!half = tensor<4x!quant.uniform<i8:f32, 0.25:3>>
!double = tensor<4x!quant.uniform<i8:f32, 1.0:3>>
!shifted = tensor<4x!quant.uniform<u8:f32, 0.5:131>>
!wide = tensor<4x!quant.uniform<i16:f32, 0.25>>
!narrow = tensor<4x!quant.uniform<i8<-127:127>:f32, 0.5>>
!f = tensor<4xf32>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>>
!rows_wide = tensor<2x4x!quant.uniform<i16:f32:0, {0.25, 0.125}>>
!columns = tensor<2x4x!quant.uniform<i8:f32:1, {0.5, 0.25, 1.0, 2.0}>>

// -- rescale to the same type -------------------------------------------------------

// CHECK-LABEL: func.func @identity(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @identity(%x: !q) -> !q {
  // expected-remark@+1 {{identity-rescale fired, exact}}
  %0 = quant.rescale %x : !q to !q
  func.return %0 : !q
}

// CHECK-LABEL: func.func @identity_of_unknown_size(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @identity_of_unknown_size(%x: tensor<?x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x!quant.uniform<i8:f32, 0.5>> {
  // expected-remark@+1 {{identity-rescale fired, exact}}
  %0 = quant.rescale %x : tensor<?x!quant.uniform<i8:f32, 0.5>> to tensor<?x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<?x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @identity_per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @identity_per_axis(%x: !rows) -> !rows {
  // expected-remark@+1 {{identity-rescale fired, exact}}
  %0 = quant.rescale %x : !rows to !rows
  func.return %0 : !rows
}

// CHECK-LABEL: func.func @a_clamp_is_not_an_identity(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @a_clamp_is_not_an_identity(%x: !narrow) -> !narrow {
  // expected-remark@+1 {{identity-rescale refused [bounds]: codes may lie outside the narrowed bounds}}
  %0 = quant.rescale %x : !narrow to !narrow
  func.return %0 : !narrow
}

// CHECK-LABEL: func.func @clamped_before(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @clamped_before(%x: !f) -> !narrow {
  %0 = quant.qcast %x : !f to !narrow
  // expected-remark@+1 {{identity-rescale fired, exact}}
  %1 = quant.rescale %0 : !narrow to !narrow
  func.return %1 : !narrow
}

// CHECK-LABEL: func.func @fixed_point_is_no_identity(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] multiplier [1073741824] shift [31] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @fixed_point_is_no_identity(%x: !q) -> !q {
  %0 = quant.rescale %x multiplier [1073741824] shift [31] : !q to !q
  func.return %0 : !q
}

// -- rescale of rescale ---------------------------------------------------------------

// CHECK-LABEL: func.func @lossless_middle(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: return [[V0]]
func.func @lossless_middle(%x: !q) -> !double {
  // DOC-BEFORE
  %0 = quant.rescale %x : !q to !wide
  // expected-remark@+1 {{rescale-of-rescale fired, exact}}
  %1 = quant.rescale %0 : !wide to !double
  // DOC-AFTER
  //   %1 = quant.rescale %x : !q to !double
  // DOC-END
  func.return %1 : !double
}

// CHECK-LABEL: func.func @lossless_middle_used_twice(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[X]] rounding half_up : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @lossless_middle_used_twice(%x: !q) -> (!wide, !double) {
  %0 = quant.rescale %x : !q to !wide
  // expected-remark@+1 {{rescale-of-rescale fired, exact}}
  %1 = quant.rescale %0 rounding half_up : !wide to !double
  func.return %0, %1 : !wide, !double
}

// CHECK-LABEL: func.func @lossless_middle_per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @lossless_middle_per_axis(%x: !rows) -> !rows {
  %0 = quant.rescale %x : !rows to !rows_wide
  // expected-remark@+1 {{rescale-of-rescale fired, exact}}
  %1 = quant.rescale %0 : !rows_wide to !rows
  // The result is a rescale to the same type, which goes too.
  // expected-remark@-2 {{identity-rescale fired, exact}}
  func.return %1 : !rows
}

// CHECK-LABEL: func.func @lossy_middle(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @lossy_middle(%x: !half) -> !half {
  %0 = quant.rescale %x : !half to !q
  // expected-remark@+1 {{rescale-of-rescale refused [numerics]: would be bounded(2) (drops the middle's rounding), but only exact is allowed}}
  %1 = quant.rescale %0 : !q to !half
  func.return %1 : !half
}

// CHECK-LABEL: func.func @clipping_middle(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @clipping_middle(%x: !q) -> !q {
  %0 = quant.rescale %x : !q to !half
  // expected-remark@+1 {{rescale-of-rescale refused [numerics]: would be saturation (the middle clips to [-32.75, 31]), but only exact is allowed}}
  %1 = quant.rescale %0 : !half to !q
  func.return %1 : !q
}

// Within the bounds the middle loses nothing, but -128 would no longer be clamped.
// CHECK-LABEL: func.func @codes_outside_the_bounds(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V2]]
func.func @codes_outside_the_bounds(%x: tensor<4xi8>) -> !q {
  %0 = quant.scast %x : tensor<4xi8> to !narrow
  %1 = quant.rescale %0 : !narrow to !narrow
  // expected-remark@-1 {{identity-rescale refused [bounds]: codes may lie outside the narrowed bounds}}
  // expected-remark@+1 {{rescale-of-rescale refused [numerics]: would be saturation (the middle clips to [-63.5, 63.5])}}
  %2 = quant.rescale %1 : !narrow to !q
  func.return %2 : !q
}

// CHECK-LABEL: func.func @different_axes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i16:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00,2.000000e+00}>>
// CHECK-NEXT: return [[V1]]
func.func @different_axes(%x: !rows) -> !columns {
  %0 = quant.rescale %x : !rows to tensor<2x4x!quant.uniform<i16:f32, 0.125>>
  // expected-remark@+1 {{rescale-of-rescale refused [grid]: the encodings lie on different grids}}
  %1 = quant.rescale %0 : tensor<2x4x!quant.uniform<i16:f32, 0.125>> to !columns
  func.return %1 : !columns
}

// CHECK-LABEL: func.func @fixed_point_is_left_alone(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] rounding gemmlowp multiplier [1073741824] shift [30] : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: return [[V1]]
func.func @fixed_point_is_left_alone(%x: !q) -> !double {
  %0 = quant.rescale %x rounding gemmlowp multiplier [1073741824] shift [30] : !q to !wide
  %1 = quant.rescale %0 : !wide to !double
  func.return %1 : !double
}

// CHECK-LABEL: func.func @gemmlowp_of_reals(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] rounding gemmlowp : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: return [[V1]]
func.func @gemmlowp_of_reals(%x: !q) -> !double {
  %0 = quant.rescale %x rounding gemmlowp : !q to !wide
  // expected-remark@+1 {{rescale-of-rescale refused [rounding]: gemmlowp and ruy round multiplier and shift, no real numbers}}
  %1 = quant.rescale %0 : !wide to !double
  func.return %1 : !double
}

// -- constants --------------------------------------------------------------------------

// CHECK-LABEL: func.func @rescaled_constant(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[-128, 0, 4, 127]> : tensor<4xi8> {nn.key = "table"} : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[-63, 1, 3, 65]> : tensor<4xi8> {nn.key = "table"} : tensor<4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @rescaled_constant() -> (!q, !double) {
  %0 = nn.constant dense<[-128, 0, 4, 127]> : tensor<4xi8> {nn.key = "table"} : !q
  // expected-remark@+1 {{rescale-of-constant fired, exact}}
  %1 = quant.rescale %0 : !q to !double
  func.return %0, %1 : !q, !double
}

// CHECK-LABEL: func.func @rescaled_constant_per_axis(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}-6, -4, -2, 0], [6, 8, 10, 12{{\]\]}}> : tensor<2x4xi16> : tensor<2x4x!quant.uniform<i16:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: return [[V0]]
func.func @rescaled_constant_per_axis() -> !rows_wide {
  %0 = nn.constant dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi8> : !rows
  // expected-remark@+1 {{rescale-of-constant fired, exact}}
  %1 = quant.rescale %0 : !rows to !rows_wide
  func.return %1 : !rows_wide
}

// CHECK-LABEL: func.func @rescaled_constant_on_other_axis(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00,2.000000e+00}>>
// CHECK-NEXT: return [[V1]]
func.func @rescaled_constant_on_other_axis() -> !columns {
  %0 = nn.constant dense<1> : tensor<2x4xi8> : !rows
  // expected-remark@+1 {{rescale-of-constant refused [grid]: the two encodings lie on different grids}}
  %1 = quant.rescale %0 : !rows to !columns
  func.return %1 : !columns
}

// CHECK-LABEL: func.func @quantized_constant(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[-128, 3, 5, 127]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[-127, 1, 2, 126]> : tensor<4xi8> : tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @quantized_constant() -> (!q, !narrow) {
  %0 = nn.constant dense<[-100.0, 0.25, 0.75, 63.0]> : !f : !f
  // expected-remark@+1 {{quantize-of-constant fired, exact}}
  %1 = quant.qcast %0 : !f to !q
  // expected-remark@+1 {{quantize-of-constant fired, exact}}
  %2 = quant.qcast %0 {quant.rounding = "half_away"} : !f to !narrow
  func.return %1, %2 : !q, !narrow
}

// CHECK-LABEL: func.func @quantized_splat(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<10> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:7>>
// CHECK-NEXT: return [[V0]]
func.func @quantized_splat() -> tensor<2x2x!quant.uniform<u8:f32, 0.5:7>> {
  %0 = nn.constant dense<1.5> : tensor<2x2xf32> : tensor<2x2xf32>
  // expected-remark@+1 {{quantize-of-constant fired, exact}}
  %1 = quant.qcast %0 : tensor<2x2xf32> to tensor<2x2x!quant.uniform<u8:f32, 0.5:7>>
  func.return %1 : tensor<2x2x!quant.uniform<u8:f32, 0.5:7>>
}

// -- quantize of dequantize ---------------------------------------------------------------

// CHECK-LABEL: func.func @back_to_the_same_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V0]], [[X]]
func.func @back_to_the_same_codes(%x: !q) -> (!f, !q) {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %1 = quant.qcast %0 : !f to !q
  func.return %0, %1 : !f, !q
}

// CHECK-LABEL: func.func @back_to_other_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] rounding half_away : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: return [[V0]]
func.func @back_to_other_codes(%x: !q) -> !double {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %1 = quant.qcast %0 {quant.rounding = "half_away"} : !f to !double
  func.return %1 : !double
}

// CHECK-LABEL: func.func @back_to_bounds(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @back_to_bounds(%x: !narrow) -> !narrow {
  %0 = quant.dcast %x : !narrow to !f
  // expected-remark@+1 {{quantize-of-dequantize refused [bounds]: codes may lie outside the narrowed bounds}}
  %1 = quant.qcast %0 : !f to !narrow
  func.return %1 : !narrow
}

// CHECK-LABEL: func.func @floats_too_short(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<4x!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @floats_too_short(%x: tensor<4x!quant.uniform<i32:f32, 0.5>>) -> tensor<4x!quant.uniform<i32:f32, 0.5>> {
  %0 = quant.dcast %x : tensor<4x!quant.uniform<i32:f32, 0.5>> to !f
  // expected-remark@+1 {{quantize-of-dequantize refused [float-path]: f32 cannot carry every code}}
  %1 = quant.qcast %0 : !f to tensor<4x!quant.uniform<i32:f32, 0.5>>
  func.return %1 : tensor<4x!quant.uniform<i32:f32, 0.5>>
}

// CHECK-LABEL: func.func @bf16_too_short(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xbf16>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:bf16, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @bf16_too_short(%x: tensor<4x!quant.uniform<i8:bf16, 0.5>>) -> tensor<4x!quant.uniform<i8:bf16, 0.5>> {
  %0 = quant.dcast %x : tensor<4x!quant.uniform<i8:bf16, 0.5>> to tensor<4xbf16>
  // expected-remark@+1 {{quantize-of-dequantize refused [float-path]: bf16 cannot carry every code}}
  %1 = quant.qcast %0 : tensor<4xbf16> to tensor<4x!quant.uniform<i8:bf16, 0.5>>
  func.return %1 : tensor<4x!quant.uniform<i8:bf16, 0.5>>
}

// CHECK-LABEL: func.func @other_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<2x4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00,2.000000e+00}>>
// CHECK-NEXT: return [[V1]]
func.func @other_axis(%x: !rows) -> !columns {
  %0 = quant.dcast %x : !rows to tensor<2x4xf32>
  // expected-remark@+1 {{quantize-of-dequantize refused [grid]: the two encodings lie on different grids}}
  %1 = quant.qcast %0 : tensor<2x4xf32> to !columns
  func.return %1 : !columns
}

// CHECK-LABEL: func.func @float_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @float_codes(%x: tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>>) -> !q {
  %0 = quant.dcast %x : tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>> to !f
  // expected-remark@+1 {{quantize-of-dequantize refused [storage]: rescale is defined between integer storages}}
  %1 = quant.qcast %0 : !f to !q
  func.return %1 : !q
}

// -- rescale of quantize --------------------------------------------------------------------

// CHECK-LABEL: func.func @quantized_and_renumbered(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] {nn.key = "input", quant.rounding = "half_away"} : {{.*}} to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @quantized_and_renumbered(%x: !f) -> !shifted {
  %0 = quant.qcast %x {quant.rounding = "half_away", nn.key = "input"} : !f to !q
  // expected-remark@+1 {{rescale-of-quantize fired, exact}}
  %1 = quant.rescale %0 : !q to !shifted
  func.return %1 : !shifted
}

// CHECK-LABEL: func.func @quantized_and_rescaled(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:3>>
// CHECK-NEXT: return [[V1]]
func.func @quantized_and_rescaled(%x: !f) -> !double {
  %0 = quant.qcast %x : !f to !q
  // expected-remark@+1 {{rescale-of-quantize refused [numerics]: would be saturation (the middle clips to [-65.5, 62])}}
  %1 = quant.rescale %0 : !q to !double
  func.return %1 : !double
}

// CHECK-LABEL: func.func @quantized_and_used_twice(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @quantized_and_used_twice(%x: !f) -> (!q, !shifted) {
  %0 = quant.qcast %x : !f to !q
  // expected-remark@+1 {{rescale-of-quantize refused [multi-use]: the quantized value is also used elsewhere}}
  %1 = quant.rescale %0 : !q to !shifted
  func.return %0, %1 : !q, !shifted
}

// -- dequantize of rescale, of quantize: T5 and T4 of Glow's list ---------------------------

// CHECK-LABEL: func.func @dequantized_renumbering(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V0]]
func.func @dequantized_renumbering(%x: !q) -> !f {
  %0 = quant.rescale %x : !q to !shifted
  // expected-remark@+1 {{dequantize-of-rescale fired, exact}}
  %1 = quant.dcast %0 : !shifted to !f
  func.return %1 : !f
}

// CHECK-LABEL: func.func @dequantized_rescale(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V1]]
func.func @dequantized_rescale(%x: !half) -> !f {
  %0 = quant.rescale %x : !half to !q
  // expected-remark@+1 {{dequantize-of-rescale refused [numerics]: would be relaxed (drops a rounding and a clip), but only exact is allowed}}
  %1 = quant.dcast %0 : !q to !f
  func.return %1 : !f
}

// CHECK-LABEL: func.func @never_unasked(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V1]]
func.func @never_unasked(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !q
  // expected-remark@+1 {{dequantize-of-quantize refused [numerics]: would be relaxed (drops a rounding and a clip), but only exact is allowed}}
  %1 = quant.dcast %0 : !q to !f
  func.return %1 : !f
}

// -- constants that are not evaluated, channels of which only some lose nothing ------------

!b = tensor<4x!quant.uniform<i8:bf16, 0.5>>
!f8 = tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>>
!rows_even = tensor<2x4x!quant.uniform<i16:f32:0, {0.5, 0.5}>>

// CHECK-LABEL: func.func @constants_that_stay(
// CHECK: quant.qcast
// CHECK: quant.qcast
func.func @constants_that_stay() -> (!b, !f8) {
  %b = nn.constant dense<[1.0, -2.0, 0.5, 3.0]> : tensor<4xbf16> : tensor<4xbf16>
  // expected-remark@+1 {{quantize-of-constant refused [expressed]: cannot evaluate in bf16}}
  %0 = quant.qcast %b : tensor<4xbf16> to !b
  %f = nn.constant dense<[1.0, -2.0, 0.5, 3.0]> : tensor<4xf32> : tensor<4xf32>
  // expected-remark@+1 {{quantize-of-constant refused [expressed]: cannot evaluate in f32}}
  %1 = quant.qcast %f : tensor<4xf32> to !f8
  func.return %0, %1 : !b, !f8
}

// CHECK-LABEL: func.func @some_channels(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: quant.dcast
func.func @some_channels(%x: !rows) -> tensor<2x4xf32> {
  %0 = quant.rescale %x : !rows to !rows_even
  // expected-remark@+1 {{dequantize-of-rescale refused [numerics]: would be relaxed}}
  %1 = quant.dcast %0 : !rows_even to tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}
