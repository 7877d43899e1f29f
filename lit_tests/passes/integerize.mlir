// RUN: qopt-opt %s -p integerize --remarks --verify-diagnostics | filecheck %s

// dequantize -> op -> quantize becomes the quantized op; only closed regions.

!a = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x!quant.uniform<u8:f32, 0.25:128>>
!narrow = tensor<4x!quant.uniform<i8<-100:100>:f32, 0.5>>
!f = tensor<4xf32>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!columns = tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
!dynamic = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>

// -- ops that requantize ---------------------------------------------------------------

// CHECK-LABEL: func.func @add(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @add(%x: !a, %y: !b) -> !a {
  // DOC-BEFORE
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !b to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{integerize-op fired, exact}}
  %3 = quant.qcast %2 : !f to !a
  // DOC-AFTER
  //   %3 = nn.add %x, %y : (!a, !b) -> !a
  // DOC-END
  func.return %3 : !a
}

// CHECK-LABEL: func.func @keeps_key_and_rounding(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.sigmoid [[X]] rounding half_away {nn.key = "gate"} : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V0]]
func.func @keeps_key_and_rounding(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.sigmoid %0 {nn.key = "gate"} : (!f) -> !f
  // expected-remark@+1 {{integerize-op fired, exact}}
  %2 = quant.qcast %1 {quant.rounding = "half_away"} : !f to !b
  func.return %2 : !b
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.softmax [[X]] : {{.*}} -> tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @dynamic(%x: !dynamic) -> !dynamic {
  %0 = quant.dcast %x : !dynamic to tensor<?x4xf32>
  %1 = nn.softmax %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  // expected-remark@+1 {{integerize-op fired, exact}}
  %2 = quant.qcast %1 : tensor<?x4xf32> to !dynamic
  func.return %2 : !dynamic
}

// Per-axis weights, and a bias on the product of the scales.
// CHECK-LABEL: func.func @fully_connected(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-SAME: [[Z:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[Y]], [[Z]] : {{.*}} -> tensor<3x2x!quant.uniform<u8:f32, 1.000000e+00:9>>
// CHECK-NEXT: return [[V0]]
func.func @fully_connected(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, %w: !rows, %b: tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.125}>>) -> tensor<3x2x!quant.uniform<u8:f32, 1.0:9>> {
  %0 = quant.dcast %x : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<3x4xf32>
  %1 = quant.dcast %w : !rows to tensor<2x4xf32>
  %2 = quant.dcast %b : tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.125}>> to tensor<2xf32>
  %3 = nn.fully_connected %0, %1, %2 : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  // expected-remark@+1 {{integerize-op fired, exact}}
  %4 = quant.qcast %3 : tensor<3x2xf32> to tensor<3x2x!quant.uniform<u8:f32, 1.0:9>>
  func.return %4 : tensor<3x2x!quant.uniform<u8:f32, 1.0:9>>
}

// A bias on another scale stays a float operand.
// CHECK-LABEL: func.func @foreign_bias(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-SAME: [[Z:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[Z]] : {{.*}} to tensor<2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[Y]], [[V0]] : {{.*}} -> tensor<3x2x!quant.uniform<u8:f32, 1.000000e+00:9>>
// CHECK-NEXT: return [[V1]]
func.func @foreign_bias(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, %w: !rows, %b: tensor<2x!quant.uniform<i32:f32, 0.3>>) -> tensor<3x2x!quant.uniform<u8:f32, 1.0:9>> {
  %0 = quant.dcast %x : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<3x4xf32>
  %1 = quant.dcast %w : !rows to tensor<2x4xf32>
  %2 = quant.dcast %b : tensor<2x!quant.uniform<i32:f32, 0.3>> to tensor<2xf32>
  %3 = nn.fully_connected %0, %1, %2 : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  // expected-remark@+1 {{integerize-op fired, exact}}
  %4 = quant.qcast %3 : tensor<3x2xf32> to tensor<3x2x!quant.uniform<u8:f32, 1.0:9>>
  func.return %4 : tensor<3x2x!quant.uniform<u8:f32, 1.0:9>>
}

// CHECK-LABEL: func.func @weights_per_input(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<3x2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[Y]] : {{.*}} to tensor<4x2xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[V0]], [[V1]] : {{.*}} -> tensor<3x4xf32>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.qcast [[V2]] : {{.*}} to tensor<3x4x!quant.uniform<u8:f32, 1.000000e+00:9>>
// CHECK-NEXT: return [[V3]]
func.func @weights_per_input(%x: tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>, %w: !columns) -> tensor<3x4x!quant.uniform<u8:f32, 1.0:9>> {
  %0 = quant.dcast %x : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>> to tensor<3x2xf32>
  %1 = quant.dcast %w : !columns to tensor<4x2xf32>
  %2 = nn.fully_connected %0, %1 : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
  // expected-remark@+1 {{integerize-op refused [port]: takes no weight quantized along dimension 1}}
  %3 = quant.qcast %2 : tensor<3x4xf32> to tensor<3x4x!quant.uniform<u8:f32, 1.0:9>>
  func.return %3 : tensor<3x4x!quant.uniform<u8:f32, 1.0:9>>
}

// CHECK-LABEL: func.func @float_operand(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.add [[V0]], [[Y]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[V1]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V2]]
func.func @float_operand(%x: !a, %y: !f) -> !a {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.add %0, %y : (!f, !f) -> !f
  // expected-remark@+1 {{integerize-op refused [float-operand]: the rhs is not dequantized}}
  %2 = quant.qcast %1 : !f to !a
  func.return %2 : !a
}

// CHECK-LABEL: func.func @float_result_used(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[V1]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V2]], [[V1]]
func.func @float_result_used(%x: !a) -> (!b, !f) {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.tanh %0 : (!f) -> !f
  // expected-remark@+1 {{integerize-op refused [multi-use]: the float result is also used elsewhere}}
  %2 = quant.qcast %1 : !f to !b
  func.return %2, %1 : !b, !f
}

// CHECK-LABEL: func.func @quantized_twice_alike(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V0]], [[V0]]
func.func @quantized_twice_alike(%x: !a) -> (!b, !b) {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.tanh %0 : (!f) -> !f
  // expected-remark@+1 {{integerize-op fired, exact}}
  %2 = quant.qcast %1 : !f to !b
  %3 = quant.qcast %1 : !f to !b
  func.return %2, %3 : !b, !b
}

// CHECK-LABEL: func.func @quantized_twice_differently(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[V1]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.qcast [[V1]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V2]], [[V3]]
func.func @quantized_twice_differently(%x: !a) -> (!a, !b) {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.tanh %0 : (!f) -> !f
  // expected-remark@+1 {{integerize-op refused [multi-use]}}
  %2 = quant.qcast %1 : !f to !a
  // expected-remark@+1 {{integerize-op refused [multi-use]}}
  %3 = quant.qcast %1 : !f to !b
  func.return %2, %3 : !a, !b
}

// 0 / 0 is no number.
// CHECK-LABEL: func.func @divisor_may_be_zero(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[Y]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.div [[V0]], [[V1]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.qcast [[V2]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V3]]
func.func @divisor_may_be_zero(%x: !a, %y: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !a to !f
  %2 = nn.div %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{integerize-op refused [undefined]: the rhs may be 0}}
  %3 = quant.qcast %2 : !f to !b
  func.return %3 : !b
}

// CHECK-LABEL: func.func @divisor_is_not_zero(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[1, 2, 4, 5]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.div [[X]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @divisor_is_not_zero(%x: !a) -> !b {
  %y = nn.constant dense<[1, 2, 4, 5]> : tensor<4xi8> : !a
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !a to !f
  %2 = nn.div %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{integerize-op fired, exact}}
  %3 = quant.qcast %2 : !f to !b
  func.return %3 : !b
}

// CHECK-LABEL: func.func @gemmlowp(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[V1]] {quant.rounding = "gemmlowp"} : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V2]]
func.func @gemmlowp(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.tanh %0 : (!f) -> !f
  // expected-remark@+1 {{integerize-op refused [rounding]: gemmlowp and ruy round multiplier and shift, no real numbers}}
  %2 = quant.qcast %1 {quant.rounding = "gemmlowp"} : !f to !b
  func.return %2 : !b
}

// CHECK-LABEL: func.func @float_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[V1]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V2]]
func.func @float_codes(%x: tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>>) -> !b {
  %0 = quant.dcast %x : tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>> to !f
  %1 = nn.tanh %0 : (!f) -> !f
  // expected-remark@+1 {{integerize-op refused [storage]: no arithmetic on codes stored as f8E4M3FN}}
  %2 = quant.qcast %1 : !f to !b
  func.return %2 : !b
}

// -- movement between dequantize and quantize: T13, T14, T16, T17, T18 -------------------

// CHECK-LABEL: func.func @transposed(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: return [[V0]]
func.func @transposed(%x: !rows) -> !columns {
  %0 = quant.dcast %x : !rows to tensor<2x4xf32>
  // expected-remark@+1 {{sink-dequantize fired, exact}}
  %1 = nn.transpose %0 perm [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %2 = quant.qcast %1 : tensor<4x2xf32> to !columns
  func.return %2 : !columns
}

// An open region: moving the cast would make an op at a float interface run on integers.
// CHECK-LABEL: func.func @open_below(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<2x4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.transpose [[V0]] perm [1, 0] : {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: return [[V1]]
func.func @open_below(%x: !rows) -> tensor<4x2xf32> {
  %0 = quant.dcast %x : !rows to tensor<2x4xf32>
  // expected-remark@+1 {{sink-dequantize refused [open-region]: the float result is not quantized again}}
  %1 = nn.transpose %0 perm [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %1 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @open_above(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<4x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: return [[V1]]
func.func @open_above(%x: tensor<2x4xf32>) -> !columns {
  %0 = nn.transpose %x perm [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{hoist-quantize refused [open-region]: the float values above are not dequantized codes}}
  %1 = quant.qcast %0 : tensor<4x2xf32> to !columns
  func.return %1 : !columns
}

// T16: one type all through.
// CHECK-LABEL: func.func @concat_alike(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.concat [[X]], [[Y]] axis 1 : {{.*}} -> tensor<?x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @concat_alike(%x: !dynamic, %y: !dynamic) -> tensor<?x8x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.dcast %x : !dynamic to tensor<?x4xf32>
  %1 = quant.dcast %y : !dynamic to tensor<?x4xf32>
  // expected-remark@+1 {{sink-dequantize fired, exact}}
  %2 = nn.concat %0, %1 axis 1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %3 = quant.qcast %2 : tensor<?x8xf32> to tensor<?x8x!quant.uniform<i8:f32, 0.5:3>>
  func.return %3 : tensor<?x8x!quant.uniform<i8:f32, 0.5:3>>
}

// T18: every operand gets its own rescale, or none.
// CHECK-LABEL: func.func @concat_unequal(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.concat [[X]], [[V0]] axis 0 : {{.*}} -> tensor<8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @concat_unequal(%x: !a, %y: !b) -> tensor<8x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !b to !f
  %2 = nn.concat %0, %1 axis 0 : (!f, !f) -> tensor<8xf32>
  // expected-remark@+3 {{hoist-quantize fired, exact}}
  // expected-remark@+2 {{quantize-of-dequantize fired, exact}}
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %3 = quant.qcast %2 : tensor<8xf32> to tensor<8x!quant.uniform<i8:f32, 0.5:3>>
  func.return %3 : tensor<8x!quant.uniform<i8:f32, 0.5:3>>
}

// T17: the quantize reaches the op above; a float constant is quantized on the way.
// CHECK-LABEL: func.func @concat_computed(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[-126, 124]> : tensor<2xi8> : tensor<2x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V2]]
func.func @concat_computed(%x: !a) -> tensor<6x!quant.uniform<u8:f32, 0.25:128>> {
  %c = nn.constant dense<[0.5, -1.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = quant.dcast %x : !a to !f
  %1 = nn.tanh %0 : (!f) -> !f
  %2 = nn.concat %1, %c axis 0 : (!f, tensor<2xf32>) -> tensor<6xf32>
  // expected-remark@+3 {{hoist-quantize fired, exact}}
  // expected-remark@+2 {{integerize-op fired, exact}}
  // expected-remark@+1 {{quantize-of-constant fired, exact}}
  %3 = quant.qcast %2 : tensor<6xf32> to tensor<6x!quant.uniform<u8:f32, 0.25:128>>
  func.return %3 : tensor<6x!quant.uniform<u8:f32, 0.25:128>>
}

// CHECK-LABEL: func.func @moved_value_used(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.qcast [[V2]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V3]], [[V2]]
func.func @moved_value_used(%x: !a) -> (!b, !f) {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.tanh %0 : (!f) -> !f
  %2 = nn.relu %1 : (!f) -> !f
  // expected-remark@+1 {{hoist-quantize refused [multi-use]: the float result is also used elsewhere}}
  %3 = quant.qcast %2 : !f to !b
  func.return %3, %2 : !b, !f
}

// -- order-preserving: T20, and clips by their bounds (T19) --------------------------------

// The float relu after a quantized conv is a relu of codes, in the output's own qparams.
// CHECK-LABEL: func.func @relu(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.relu [[V0]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @relu(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.tanh %0 : (!f) -> !f
  %2 = nn.relu %1 : (!f) -> !f
  // expected-remark@+2 {{hoist-quantize fired, exact}}
  // expected-remark@+1 {{integerize-op fired, exact}}
  %3 = quant.qcast %2 : !f to !b
  func.return %3 : !b
}

// CHECK-LABEL: func.func @clip_at_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.0 : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_at_codes(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  // expected-remark@+1 {{sink-dequantize fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 : (!f) -> !f
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %2 = quant.qcast %1 : !f to !b
  func.return %2 : !b
}

// No code of !a is 6.1: the clip moves to the other side of the rescale instead.
// CHECK-LABEL: func.func @clip_between_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.clip [[V0]] min 0.0 max 6.1 : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_between_codes(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.clip %0 min 0.0 max 6.1 : (!f) -> !f
  // expected-remark@+2 {{hoist-quantize fired, exact}}
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %2 = quant.qcast %1 : !f to !b
  func.return %2 : !b
}

// The clip quantizes its bounds half even; the cast rounds ties up.
// CHECK-LABEL: func.func @clip_rounded_otherwise(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.clip [[V0]] max 6.125 : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[V1]] {quant.rounding = "half_up"} : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V2]]
func.func @clip_rounded_otherwise(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  // expected-remark@+1 {{sink-dequantize refused [levels]}}
  %1 = nn.clip %0 max 6.125 : (!f) -> !f
  // expected-remark@+1 {{hoist-quantize refused [rounding]: constants it compares with are quantized half even}}
  %2 = quant.qcast %1 {quant.rounding = "half_up"} : !f to !b
  func.return %2 : !b
}

// A bound that never acts on codes within the bounds would clamp those outside.
// CHECK-LABEL: func.func @clip_beyond_the_bounds(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.clip [[V0]] min -60.0 : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 2.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_beyond_the_bounds(%x: !narrow) -> !b {
  %0 = quant.dcast %x : !narrow to !f
  %1 = nn.clip %0 min -60.0 : (!f) -> !f
  // expected-remark@+2 {{hoist-quantize fired, exact}}
  // expected-remark@+1 {{quantize-of-dequantize fired, exact}}
  %2 = quant.qcast %1 : !f to !b
  func.return %2 : !b
}

// One of the parts is no code.
// CHECK-LABEL: func.func @codes_and_floats(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.concat
// CHECK-NEXT: return
func.func @codes_and_floats(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>, %y: tensor<2x4xf32>) -> tensor<4x4xf32> {
  %0 = quant.dcast %x : tensor<2x4x!quant.uniform<i8:f32, 0.5>> to tensor<2x4xf32>
  %1 = nn.concat %0, %y axis 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  func.return %1 : tensor<4x4xf32>
}
