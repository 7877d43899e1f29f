// RUN: qopt-opt %s -p canonicalize --remarks --verify-diagnostics | filecheck %s

!q = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!positive = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5>>
!narrow = tensor<1x2x2x2x!quant.uniform<i8<0:100>:f32, 0.5>>
!f = tensor<1x2x2x2xf32>
!channels = tensor<1x2x2x2x!quant.uniform<u8:f32:1, {0.5, 0.25}>>

// -- clamps: T9, T19, T21 ---------------------------------------------------------------

// CHECK-LABEL: func.func @relu_of_unsigned(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @relu_of_unsigned(%x: !positive) -> !positive {
  // DOC-BEFORE
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %0 = nn.relu %x : (!positive) -> !positive
  func.return %0 : !positive
  // DOC-AFTER
  //   func.return %x : !positive
  // DOC-END
}

// CHECK-LABEL: func.func @relu_per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @relu_per_axis(%x: !channels) -> !channels {
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %0 = nn.relu %x : (!channels) -> !channels
  func.return %0 : !channels
}

// CHECK-LABEL: func.func @relu_that_acts(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @relu_that_acts(%x: !q) -> !q {
  %0 = nn.relu %x : (!q) -> !q
  func.return %0 : !q
}

// CHECK-LABEL: func.func @clip_wider_than_the_storage(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @clip_wider_than_the_storage(%x: !q) -> !q {
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %0 = nn.clip %x min -65.5 max 100.0 : (!q) -> !q
  func.return %0 : !q
}

// CHECK-LABEL: func.func @clip_of_one_code(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min -65.0 max 100.0 : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @clip_of_one_code(%x: !q) -> !q {
  %0 = nn.clip %x min -65.0 max 100.0 : (!q) -> !q
  func.return %0 : !q
}

// CHECK-LABEL: func.func @codes_outside_the_bounds(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8<0:100>:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @codes_outside_the_bounds(%x: !narrow) -> !narrow {
  // expected-remark@+1 {{redundant-clamp refused [bounds]: codes may lie outside the narrowed bounds}}
  %0 = nn.relu %x : (!narrow) -> !narrow
  func.return %0 : !narrow
}

// CHECK-LABEL: func.func @codes_inside_the_bounds(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8<0:100>:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @codes_inside_the_bounds(%x: !f) -> !narrow {
  %0 = quant.qcast %x : !f to !narrow
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.relu %0 : (!narrow) -> !narrow
  func.return %1 : !narrow
}

// CHECK-LABEL: func.func @other_shape(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @other_shape(%x: tensor<?x!quant.uniform<u8:f32, 0.5>>) -> tensor<4x!quant.uniform<u8:f32, 0.5>> {
  %0 = nn.relu %x : (tensor<?x!quant.uniform<u8:f32, 0.5>>) -> tensor<4x!quant.uniform<u8:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<u8:f32, 0.5>>
}

// CHECK-LABEL: func.func @relu_of_relu(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<1x2x2x2xf32>
// CHECK-NEXT: return [[V0]], [[V0]]
func.func @relu_of_relu(%x: !f) -> (!f, !f) {
  %0 = nn.relu %x : (!f) -> !f
  // expected-remark@+1 {{repeated-clamp fired, exact}}
  %1 = nn.relu %0 : (!f) -> !f
  func.return %0, %1 : !f, !f
}

// CHECK-LABEL: func.func @clip_within_clip(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.0 : {{.*}} -> tensor<1x2x2x2xf32>
// CHECK-NEXT: return [[V0]]
func.func @clip_within_clip(%x: !f) -> !f {
  %0 = nn.clip %x min 0.0 max 6.0 : (!f) -> !f
  // expected-remark@+1 {{repeated-clamp fired, exact}}
  %1 = nn.clip %0 min -1.0 max 6.0 : (!f) -> !f
  func.return %1 : !f
}

// CHECK-LABEL: func.func @clip_crosses_clip(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 1.0 max 6.0 : {{.*}} -> tensor<1x2x2x2xf32>
// CHECK-NEXT: return [[V0]]
func.func @clip_crosses_clip(%x: !f) -> !f {
  %0 = nn.clip %x min 0.0 max 6.0 : (!f) -> !f
  // expected-remark@+1 {{repeated-clamp fired, exact}}
  %1 = nn.clip %0 min 1.0 max 7.0 : (!f) -> !f
  func.return %1 : !f
}

// The inner one stays for who else uses it.
// CHECK-LABEL: func.func @clip_within_relu(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]]
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.0 {nn.key = "six"}
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 4.0 :
// CHECK-NEXT: return [[V0]], [[V1]], [[V2]]
func.func @clip_within_relu(%x: !f) -> (!f, !f, !f) {
  %0 = nn.relu %x : (!f) -> !f
  // expected-remark@+1 {{repeated-clamp fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 {nn.key = "six"} : (!f) -> !f
  // expected-remark@+1 {{repeated-clamp fired, exact}}
  %2 = nn.clip %0 max 4.0 : (!f) -> !f
  func.return %0, %1, %2 : !f, !f, !f
}

// Bounds that do not meet leave one number: which, the order of the two says.
// CHECK-LABEL: func.func @apart(
// CHECK: nn.clip
// CHECK: nn.clip
func.func @apart(%x: !f) -> !f {
  %0 = nn.clip %x min 0.0 max 1.0 : (!f) -> !f
  %1 = nn.clip %0 min 2.0 max 3.0 : (!f) -> !f
  func.return %1 : !f
}

// -- movement ----------------------------------------------------------------------------

// CHECK-LABEL: func.func @nothing_moves(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @nothing_moves(%x: !q) -> !q {
  // expected-remark@+1 {{identity-movement fired, exact}}
  %0 = nn.transpose %x perm [0, 1, 2, 3] : (!q) -> !q
  // expected-remark@+1 {{identity-movement fired, exact}}
  %1 = nn.slice %0 starts [0, 0, 0, 0] stops [9, 9, 9, 9] steps [1, 1, 1, 1] : (!q) -> !q
  // expected-remark@+1 {{identity-movement fired, exact}}
  %2 = nn.pad %1 low [0, 0, 0, 0] high [0, 0, 0, 0] : (!q) -> !q
  // expected-remark@+1 {{identity-movement fired, exact}}
  %3 = nn.reshape %2 : (!q) -> !q
  // expected-remark@+1 {{identity-movement fired, exact}}
  %4 = nn.concat %3 axis 1 : (!q) -> !q
  func.return %4 : !q
}

// CHECK-LABEL: func.func @reversed(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.slice [[X]] starts [0, 0, 0, 1] stops [9, 9, 9, -9] steps [1, 1, 1, -1] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @reversed(%x: !q) -> !q {
  %0 = nn.slice %x starts [0, 0, 0, 1] stops [9, 9, 9, -9] steps [1, 1, 1, -1] : (!q) -> !q
  func.return %0 : !q
}

// CHECK-LABEL: func.func @slice_of_unknown_size(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.slice [[X]] starts [0] stops [9] steps [1] : {{.*}} -> tensor<?xf32>
// CHECK-NEXT: return [[V0]]
func.func @slice_of_unknown_size(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = nn.slice %x starts [0] stops [9] steps [1] : (tensor<?xf32>) -> tensor<?xf32>
  func.return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @there_and_back(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @there_and_back(%x: !q) -> !q {
  %0 = nn.transpose %x perm [0, 2, 3, 1] : (!q) -> !q
  // expected-remark@+2 {{compose-transpose fired, exact}}
  // expected-remark@+1 {{identity-movement fired, exact}}
  %1 = nn.transpose %0 perm [0, 3, 1, 2] : (!q) -> !q
  func.return %1 : !q
}

// CHECK-LABEL: func.func @transposes_per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 2, 3, 0] {nn.key = "outer"} : {{.*}} -> tensor<2x2x2x1x!quant.uniform<u8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: return [[V0]]
func.func @transposes_per_axis(%x: !channels) -> tensor<2x2x2x1x!quant.uniform<u8:f32:0, {0.5, 0.25}>> {
  %0 = nn.transpose %x perm [0, 2, 3, 1] {nn.key = "inner"} : (!channels) -> tensor<1x2x2x2x!quant.uniform<u8:f32:3, {0.5, 0.25}>>
  // expected-remark@+1 {{compose-transpose fired, exact}}
  %1 = nn.transpose %0 perm [3, 1, 2, 0] {nn.key = "outer"} : (tensor<1x2x2x2x!quant.uniform<u8:f32:3, {0.5, 0.25}>>) -> tensor<2x2x2x1x!quant.uniform<u8:f32:0, {0.5, 0.25}>>
  func.return %1 : tensor<2x2x2x1x!quant.uniform<u8:f32:0, {0.5, 0.25}>>
}

// CHECK-LABEL: func.func @reshapes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.reshape [[X]] : {{.*}} -> tensor<8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[X]] : {{.*}} -> tensor<1x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @reshapes(%x: !q) -> (tensor<8x!quant.uniform<i8:f32, 0.5:3>>, tensor<1x8x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = nn.reshape %x : (!q) -> tensor<8x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{compose-reshape fired, exact}}
  %1 = nn.flatten %0 axis 0 : (tensor<8x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x8x!quant.uniform<i8:f32, 0.5:3>>
  func.return %0, %1 : tensor<8x!quant.uniform<i8:f32, 0.5:3>>, tensor<1x8x!quant.uniform<i8:f32, 0.5:3>>
}

// With two unknown extents the shape between is needed.
// CHECK-LABEL: func.func @reshapes_of_unknown_size(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.flatten [[X]] axis 0 : {{.*}} -> tensor<1x?xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[X]] : {{.*}} -> tensor<?x2xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.reshape [[V0]] shape [-1, 0] : {{.*}} -> tensor<?x?xf32>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @reshapes_of_unknown_size(%x: tensor<?x?xf32>) -> (tensor<?x2xf32>, tensor<?x?xf32>) {
  %0 = nn.flatten %x axis 0 : (tensor<?x?xf32>) -> tensor<1x?xf32>
  // expected-remark@+1 {{compose-reshape fired, exact}}
  %1 = nn.reshape %0 : (tensor<1x?xf32>) -> tensor<?x2xf32>
  %2 = nn.reshape %0 shape [-1, 0] : (tensor<1x?xf32>) -> tensor<?x?xf32>
  func.return %1, %2 : tensor<?x2xf32>, tensor<?x?xf32>
}

// -- casts -------------------------------------------------------------------------------

// CHECK-LABEL: func.func @storage_and_back(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @storage_and_back(%x: !narrow) -> !narrow {
  %0 = quant.scast %x : !narrow to tensor<1x2x2x2xi8>
  // expected-remark@+1 {{storage-cast-pair fired, exact}}
  %1 = quant.scast %0 : tensor<1x2x2x2xi8> to !narrow
  func.return %1 : !narrow
}

// CHECK-LABEL: func.func @read_on_other_qparams(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.scast [[X]] : {{.*}} to tensor<1x2x2x2xi8>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.scast [[V0]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @read_on_other_qparams(%x: !narrow) -> !q {
  %0 = quant.scast %x : !narrow to tensor<1x2x2x2xi8>
  %1 = quant.scast %0 : tensor<1x2x2x2xi8> to !q
  func.return %1 : !q
}

// Rounds and clips: not ours to remove.
// CHECK-LABEL: func.func @quantize_and_dequantize(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<1x2x2x2xf32>
// CHECK-NEXT: return [[V1]]
func.func @quantize_and_dequantize(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !q
  %1 = quant.dcast %0 : !q to !f
  func.return %1 : !f
}

// Bounds the wrong way round, or that meet in one number, are left alone; so is what is of
// another type in between.
// CHECK-LABEL: func.func @clips_that_stay(
// CHECK-NEXT: nn.clip {{.*}} min 5.0 max 3.0
// CHECK-NEXT: nn.clip {{.*}} min 0.0 max 3.0
// CHECK-NEXT: nn.clip {{.*}} min 0.0 max 3.0
// CHECK-NEXT: nn.clip {{.*}} min 5.0 max 3.0
// CHECK-NEXT: nn.clip {{.*}} min 0.0 max 3.0
// CHECK-NEXT: nn.clip {{.*}} min 3.0 max 6.0
// CHECK-NEXT: nn.clip {{.*}} min 0.0 max 3.0 {{.*}} -> tensor<?xf32>
// CHECK-NEXT: nn.clip {{.*}} min 0.0 max 4.0
// CHECK-NEXT: return
func.func @clips_that_stay(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.clip %x min 5.0 max 3.0 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.clip %0 min 0.0 max 3.0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.clip %x min 0.0 max 3.0 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.clip %2 min 5.0 max 3.0 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.clip %x min 0.0 max 3.0 : (tensor<4xf32>) -> tensor<4xf32>
  %5 = nn.clip %4 min 3.0 max 6.0 : (tensor<4xf32>) -> tensor<4xf32>
  %6 = nn.clip %x min 0.0 max 3.0 : (tensor<4xf32>) -> tensor<?xf32>
  %7 = nn.clip %6 min 0.0 max 4.0 : (tensor<?xf32>) -> tensor<4xf32>
  func.return %1, %3, %5, %7 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// One bound of one number is a clamp too: it lies within the other.
// CHECK-LABEL: func.func @clip_to_one_number(
// CHECK-NEXT: nn.clip {{.*}} min 2.0 max 2.0
// CHECK-NEXT: return
// CHECK-LABEL: func.func @clip_of_one_number(
// CHECK-NEXT: nn.clip {{.*}} min 2.0 max 2.0
// CHECK-NEXT: return
func.func @clip_to_one_number(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.clip %x min 0.0 max 3.0 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-remark @+1 {{repeated-clamp fired, exact}}
  %1 = nn.clip %0 min 2.0 max 2.0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
func.func @clip_of_one_number(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.clip %x min 2.0 max 2.0 : (tensor<4xf32>) -> tensor<4xf32>
  // expected-remark @+1 {{repeated-clamp fired, exact}}
  %1 = nn.clip %0 min 0.0 max 3.0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// Two that are no clips: the narrower one stays.
// CHECK-LABEL: func.func @relus(
// CHECK-NEXT: nn.relu
// CHECK-NEXT: return
func.func @relus(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  // expected-remark @+1 {{repeated-clamp fired, exact}}
  %1 = nn.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

!within = tensor<4x!quant.uniform<i8<-100:100>:f32, 0.5>>

// The bound is that of the codes which may lie outside.
// CHECK-LABEL: func.func @clip_at_the_bound(
// CHECK-NEXT: nn.clip
// CHECK-NEXT: return
func.func @clip_at_the_bound(%x: !within) -> !within {
  // expected-remark @+1 {{redundant-clamp refused [bounds]: codes may lie outside the narrowed bounds}}
  %0 = nn.clip %x max 50.0 : (!within) -> !within
  func.return %0 : !within
}

// -- flips and transposes ---------------------------------------------------------------

// CHECK-LABEL: func.func @flips(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V:%[a-z0-9_]+]] = nn.flip [[X]] axes [0]
// CHECK-NEXT: return [[V]], [[X]]
func.func @flips(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = nn.flip %x axes [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // expected-remark@+1 {{compose-flip fired, exact}}
  %1 = nn.flip %0 axes [-1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // expected-remark@+2 {{compose-flip fired, exact}}
  // expected-remark@+1 {{identity-movement fired, exact}}
  %2 = nn.flip %1 axes [0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>
}

// A value used twice, a constant along the channels, an extent that is not known.

// CHECK-LABEL: func.func @swish(
// CHECK-NOT: nn.transpose
// CHECK-COUNT-1: nn.sigmoid
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.constant dense<{{\[\[\[\[1.000000e\+00\]\], \[\[2.000000e\+00\]\]\]\]}}>
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @swish(%x: tensor<1x2x3x?xf32>) -> tensor<1x2x3x?xf32> {
  %0 = nn.transpose %x perm [0, 2, 3, 1] : (tensor<1x2x3x?xf32>) -> tensor<1x3x?x2xf32>
  %1 = nn.sigmoid %0 : (tensor<1x3x?x2xf32>) -> tensor<1x3x?x2xf32>
  %2 = nn.mul %0, %1 : (tensor<1x3x?x2xf32>, tensor<1x3x?x2xf32>) -> tensor<1x3x?x2xf32>
  %c = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %3 = nn.add %2, %c : (tensor<1x3x?x2xf32>, tensor<2xf32>) -> tensor<1x3x?x2xf32>
  // expected-remark@+2 {{compose-transpose fired, exact}}
  // expected-remark@+1 {{identity-movement fired, exact}}
  %4 = nn.transpose %3 perm [0, 3, 1, 2] : (tensor<1x3x?x2xf32>) -> tensor<1x2x3x?xf32>
  return %4 : tensor<1x2x3x?xf32>
}

// CHECK-LABEL: func.func @transposed_codes(
// CHECK-NEXT: nn.relu {{.*}} -> tensor<1x2x3x4x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @transposed_codes(%x: tensor<1x2x3x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>>, %y: tensor<1x2x3x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<1x2x3x4x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = nn.transpose %x perm [0, 2, 3, 1] : (tensor<1x2x3x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<1x3x4x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>
  %1 = nn.transpose %y perm [0, 2, 3, 1] : (tensor<1x2x3x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<1x3x4x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>
  %2 = nn.relu %0 : (tensor<1x3x4x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>) -> tensor<1x3x4x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %3 = nn.add %2, %1 : (tensor<1x3x4x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>, tensor<1x3x4x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>) -> tensor<1x3x4x2x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+2 {{compose-transpose fired, exact}}
  // expected-remark@+1 {{identity-movement fired, exact}}
  %4 = nn.transpose %3 perm [0, 3, 1, 2] : (tensor<1x3x4x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x3x4x!quant.uniform<i8:f32, 0.5:3>>
  return %4 : tensor<1x2x3x4x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @transposed_and_used(
// CHECK-COUNT-3: nn.transpose
// CHECK-NEXT: return
func.func @transposed_and_used(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>) {
  %0 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = nn.relu %0 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = nn.transpose %1 perm [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark@+1 {{sink-movements refused [operands]: not all operands are moved alike}}
  %3 = nn.add %0, %y : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = nn.transpose %3 perm [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %2, %1, %4 : tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: func.func @transposed_table(
// CHECK-NEXT: nn.constant
// CHECK-NEXT: nn.table
// CHECK-NEXT: return
func.func @transposed_table(%x: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 0.5:3>> {
  %c = nn.constant dense<7> : tensor<256xi8> : tensor<256x!quant.uniform<i8:f32, 0.5:3>>
  %0 = nn.transpose %x perm [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %1 = nn.table %0, %c : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<256x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+2 {{compose-transpose fired, exact}}
  // expected-remark@+1 {{identity-movement fired, exact}}
  %2 = nn.transpose %1 perm [1, 0] : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>
  return %2: tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @gathers_at_run_time(
// CHECK: nn.add {{.*}} -> tensor<2x3xf32>
// CHECK-NEXT: nn.gather {{.*}}, %arg2 axis 1 : {{.*}} -> tensor<2x4xf32>
func.func @gathers_at_run_time(%x: tensor<2x3xf32>, %z: tensor<2x3xf32>, %i: tensor<4xi64>) -> tensor<2x4xf32> {
  %a = nn.gather %x, %i axis 1 : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  %b = nn.gather %z, %i axis 1 : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %a, %b : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -- pads -------------------------------------------------------------------------------

// CHECK-LABEL: func.func @padded_conv(
// CHECK-NEXT: nn.conv2d {{.*}} pads [1, 1, 1, 1]
// CHECK-NEXT: return
func.func @padded_conv(%x: tensor<1x2x?x5xf32>, %w: tensor<2x2x3x3xf32>) -> tensor<1x2x?x5xf32> {
  %0 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 1] : (tensor<1x2x?x5xf32>) -> tensor<1x2x?x7xf32>
  // expected-remark@+1 {{pad-into-window fired, exact}}
  %1 = nn.conv2d %0, %w : (tensor<1x2x?x7xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x?x5xf32>
  return %1 : tensor<1x2x?x5xf32>
}

// CHECK-LABEL: func.func @pad_used_twice(
// CHECK-NEXT: nn.pad
// CHECK-NEXT: nn.conv2d %arg0, {{.*}} pads [2, 2, 2, 1]
// CHECK-NEXT: return
func.func @pad_used_twice(%x: tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>, %w: tensor<3x2x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125}>>) -> (tensor<1x3x6x5x!quant.uniform<i8:f32, 2.0>>, tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 0] : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{pad-into-window fired, exact}}
  %1 = nn.conv2d %0, %w pads [1, 1, 1, 1] : (tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x2x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125}>>) -> tensor<1x3x6x5x!quant.uniform<i8:f32, 2.0>>
  return %1, %0 : tensor<1x3x6x5x!quant.uniform<i8:f32, 2.0>>, tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @padded_average(
// CHECK-NEXT: nn.pad
// CHECK-NEXT: nn.avg_pool2d %arg0 count_include_pad true kernel [2, 2] pads [1, 1, 1, 0]
func.func @padded_average(%x: tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> (tensor<1x2x5x4x!quant.uniform<i8:f32, 0.25>>, tensor<1x2x7x6x!quant.uniform<i8:f32, 0.25>>, tensor<1x2x7x6x!quant.uniform<i8:f32, 0.25>>) {
  %0 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 0] : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{pad-into-window fired, exact}}
  %1 = nn.avg_pool2d %0 kernel [2, 2] : (tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x5x4x!quant.uniform<i8:f32, 0.25>>
  // expected-remark@+1 {{pad-into-window refused [count]}}
  %2 = nn.avg_pool2d %0 kernel [2, 2] pads [1, 1, 1, 1] : (tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x7x6x!quant.uniform<i8:f32, 0.25>>
  // expected-remark@+1 {{pad-into-window refused [window]}}
  %3 = nn.avg_pool2d %0 kernel [2, 2] pads [1, 1, 1, 1] count_include_pad true : (tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x7x6x!quant.uniform<i8:f32, 0.25>>
  return %1, %2, %3 : tensor<1x2x5x4x!quant.uniform<i8:f32, 0.25>>, tensor<1x2x7x6x!quant.uniform<i8:f32, 0.25>>,tensor<1x2x7x6x!quant.uniform<i8:f32, 0.25>>
}

// CHECK-LABEL: func.func @padded_maximum(
// CHECK-NEXT: nn.max_pool2d {{.*}} pads [1, 1, 1, 0]
// CHECK-NEXT: return
func.func @padded_maximum(%x: tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5>>) -> tensor<1x2x4x3x!quant.uniform<u8:f32, 0.5>> {
  %0 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 0] : (tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5>>) -> tensor<1x2x6x5x!quant.uniform<u8:f32, 0.5>>
  // expected-remark@+1 {{pad-into-window fired, exact}}
  %1 = nn.max_pool2d %0 kernel [3, 3] : (tensor<1x2x6x5x!quant.uniform<u8:f32, 0.5>>) -> tensor<1x2x4x3x!quant.uniform<u8:f32, 0.5>>
  return %1 : tensor<1x2x4x3x!quant.uniform<u8:f32, 0.5>>
}

// CHECK-LABEL: func.func @padded_above_the_least(
// CHECK-NEXT: nn.pad
func.func @padded_above_the_least(%x: tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x4x3x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 0] : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{pad-into-window refused [pad-value]: an element may be less than 0, which it is padded with}}
  %1 = nn.max_pool2d %0 kernel [3, 3] : (tensor<1x2x6x5x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x4x3x!quant.uniform<i8:f32, 0.5:3>>
  return %1 : tensor<1x2x4x3x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @padded_floats(
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.max_pool2d {{.*}} pads [1, 1, 1, 0]
// CHECK-NEXT: nn.pad
// CHECK-NEXT: nn.max_pool2d
func.func @padded_floats(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x3xf32>, tensor<1x2x4x3xf32>) {
  %r = nn.relu %x : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %0 = nn.pad %r low [0, 0, 1, 1] high [0, 0, 1, 0] : (tensor<1x2x4x4xf32>) -> tensor<1x2x6x5xf32>
  // expected-remark@+1 {{pad-into-window fired, exact}}
  %1 = nn.max_pool2d %0 kernel [3, 3] : (tensor<1x2x6x5xf32>) -> tensor<1x2x4x3xf32>
  %2 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 0] : (tensor<1x2x4x4xf32>) -> tensor<1x2x6x5xf32>
  // expected-remark@+1 {{pad-into-window refused [pad-value]}}
  %3 = nn.max_pool2d %2 kernel [3, 3] : (tensor<1x2x6x5xf32>) -> tensor<1x2x4x3xf32>
  return %1, %3 : tensor<1x2x4x3xf32>, tensor<1x2x4x3xf32>
}

// CHECK-LABEL: func.func @only_padding(
// CHECK-NEXT: nn.pad
func.func @only_padding(%x: tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5>>) -> tensor<1x2x5x4x!quant.uniform<u8:f32, 0.5>> {
  %0 = nn.pad %x low [0, 0, 2, 1] high [0, 0, 0, 0] : (tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5>>) -> tensor<1x2x6x5x!quant.uniform<u8:f32, 0.5>>
  // expected-remark@+1 {{pad-into-window refused [window]: a window would hold nothing but padding}}
  %1 = nn.max_pool2d %0 kernel [2, 2] : (tensor<1x2x6x5x!quant.uniform<u8:f32, 0.5>>) -> tensor<1x2x5x4x!quant.uniform<u8:f32, 0.5>>
  return %1 : tensor<1x2x5x4x!quant.uniform<u8:f32, 0.5>>
}

// CHECK-LABEL: func.func @padded_channels(
// CHECK-NEXT: nn.pad
func.func @padded_channels(%x: tensor<1x1x4x4xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32> {
  %0 = nn.pad %x low [0, 1, 0, 0] high [0, 0, 0, 0] : (tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv2d %0, %w : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>
  return %1 : tensor<1x3x2x2xf32>
}

// CHECK-LABEL: func.func @padded_with_ones(
// CHECK-NEXT: nn.pad
func.func @padded_with_ones(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x4x3xf32> {
  %0 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 0] value 1.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x6x5xf32>
  // expected-remark@+1 {{pad-into-window refused [pad-value]: 'nn.conv2d' pads with 0, not with 1}}
  %1 = nn.conv2d %0, %w : (tensor<1x2x6x5xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x4x3xf32>
  return %1 : tensor<1x3x4x3xf32>
}
