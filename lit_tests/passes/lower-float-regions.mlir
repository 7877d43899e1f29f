// RUN: qopt-opt %s -p 'lower-float-regions{numerics=relaxed}' --remarks --verify-diagnostics | filecheck %s

// What is quantized nowhere between codes and codes has a grid of 32 bits.

!a = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>
!t = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.1:-128>>
!c = tensor<1x2x1x1x!quant.uniform<i8:f32, 0.3:-128>>
!f = tensor<1x2x2x2xf32>
!p = tensor<1x2x1x1xf32>
!grid = tensor<1x2x2x2x!quant.uniform<i32:f32, 7.62939453125E-6>>
!mean = tensor<1x2x1x1x!quant.uniform<i32:f32, 1.9073486328125E-6>>

// The example of the pass.
// CHECK-LABEL: func.func @example(
// CHECK-NEXT: quant.rescale {{.*}} multiplier [1073741824] shift [14]
// CHECK-NEXT: quant.rescale {{.*}} multiplier [1073741824] shift [15]
// CHECK-NEXT: nn.add {{.*}} -> tensor<1x2x2x2x!quant.uniform<i32:f32, 7.62939453125E-6>>
// CHECK-NEXT: nn.global_avg_pool2d {{.*}} -> tensor<1x2x1x1x!quant.uniform<i32:f32, 1.9073486328125E-6>>
// CHECK-NEXT: quant.rescale {{.*}} : {{.*}} to tensor<1x2x1x1x!quant.uniform<i8:f32, 3.000000e-01:-128>>
func.func @example(%x: !a, %y: !b) -> !c {
  // DOC-BEFORE
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !b to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  %3 = nn.global_avg_pool2d %2 : (!f) -> !p
  // expected-remark@+1 {{lower-float-region fired, exact}}
  %4 = quant.qcast %3 : !p to !c
  // DOC-AFTER
  //   %0 = quant.rescale %x rounding half_up multiplier [1073741824] shift [14] : !a to !grid
  //   %1 = quant.rescale %y rounding half_up multiplier [1073741824] shift [15] : !b to !grid
  //   %2 = nn.add %0, %1 : (!grid, !grid) -> !grid
  //   %3 = nn.global_avg_pool2d %2 : (!grid) -> !mean
  //   %4 = quant.rescale %3 : !mean to !c
  // DOC-END
  func.return %4 : !c
}

// Two quantizes close one region; the scale 0.1 is no multiple of a power of two.
// CHECK-LABEL: func.func @twice(
// CHECK: quant.rescale {{.*}} multiplier [858993459] shift [16]
// CHECK: %[[S:.*]] = nn.sub {{.*}} -> tensor<1x2x2x2x!quant.uniform<i32:f32
// CHECK: quant.rescale %[[S]]
// CHECK: nn.mul %[[N:.*]], %[[N]]
// CHECK-NOT: quant.dcast
func.func @twice(%x: !a, %y: !t) -> (!t, !a) {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !t to !f
  %2 = nn.sub %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{lower-float-region fired, bounded(1)}}
  %3 = quant.qcast %2 : !f to !t
  %4 = nn.pow %2 exponent 2.0 : (!f) -> !f
  %5 = quant.qcast %4 : !f to !a
  func.return %3, %5 : !t, !a
}

// A divisor that may be 0, and a function of what has no codes: 2**13 places of a table.
// CHECK-LABEL: func.func @quotient(
// CHECK: nn.maximum
// CHECK: nn.div {{.*}} rounding half_up
// CHECK: nn.table {{.*}}!quant.uniform<i16
func.func @quotient(%x: !a, %y: !t) -> !t {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !t to !f
  %2 = nn.sqrt %1 : (!f) -> !f
  %3 = nn.div %0, %2 : (!f, !f) -> !f
  %4 = nn.tanh %3 : (!f) -> !f
  // expected-remark@+1 {{lower-float-region fired, relaxed}}
  %5 = quant.qcast %4 : !f to !t
  func.return %5 : !t
}

// CHECK-LABEL: func.func @float_argument(
// CHECK: nn.add {{.*}} -> tensor<1x2x2x2xf32>
func.func @float_argument(%x: !a, %y: !f) -> !t {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.add %0, %y : (!f, !f) -> !f
  // expected-remark@+1 {{[open-region]: it starts at a float argument}}
  %2 = quant.qcast %1 : !f to !t
  func.return %2 : !t
}

// A float result is dequantized from a fine grid.
// CHECK-LABEL: func.func @float_result(
// CHECK: %[[S:.*]] = nn.add {{.*}} -> tensor<1x2x2x2x!quant.uniform<i32:f32
// CHECK: %[[F:.*]] = quant.dcast %[[S]]
// CHECK: %[[C:.*]] = quant.rescale %[[S]]
// CHECK: return %[[C]], %[[F]]
func.func @float_result(%x: !a, %y: !t) -> (!t, !f) {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !t to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{lower-float-region fired, relaxed}}
  %3 = quant.qcast %2 : !f to !t
  func.return %3, %2 : !t, !f
}

!row = tensor<3x4x!quant.uniform<i8:f32, 0.1:-128>>
!sums = tensor<3x5x!quant.uniform<i8:f32, 0.1:-128>>
!frow = tensor<3x4xf32>
!weight = tensor<5x4x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125, 0.5, 1.0}>>
!fweight = tensor<5x4xf32>
!fsums = tensor<3x5xf32>

// Products of codes and weights; softmax of 16-bit codes.
// CHECK-LABEL: func.func @head(
// CHECK: nn.fully_connected {{.*}}i8:f32:0, {{.*}} -> tensor<3x5x!quant.uniform<i32:f32,
// CHECK: nn.softmax {{.*}}i16:f32, {{.*}} -> tensor<3x5x!quant.uniform<i32:f32, 4.8828125E-4>>
// CHECK: quant.dcast
func.func @head(%x: !row, %w: !weight) -> !fsums {
  %0 = quant.dcast %x : !row to !frow
  %1 = quant.dcast %w : !weight to !fweight
  %2 = nn.fully_connected %0, %1 : (!frow, !fweight) -> !fsums
  %3 = nn.softmax %2 axis 1 : (!fsums) -> !fsums
  // expected-remark@+1 {{lower-float-region fired, relaxed}}
  func.return %3 : !fsums
}

// CHECK-LABEL: func.func @products(
// CHECK: nn.fully_connected {{.*}} -> tensor<3x5xf32>
func.func @products(%x: !row, %w: !weight) -> !sums {
  %0 = quant.dcast %x : !row to !frow
  %1 = nn.add %0, %0 : (!frow, !frow) -> !frow
  %2 = quant.dcast %w : !weight to !fweight
  %3 = nn.fully_connected %1, %2 : (!frow, !fweight) -> !fsums
  // expected-remark@+1 {{[wide]: 'nn.fully_connected': it multiplies what was not quantized}}
  %4 = quant.qcast %3 : !fsums to !sums
  func.return %4 : !sums
}

// The op that has no integers is named.
// CHECK-LABEL: func.func @named(
// CHECK: nn.lrn {{.*}} -> tensor<1x2x2x2xf32>
func.func @named(%x: !a, %y: !t) -> !t {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !t to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  %3 = nn.lrn %2 size 3 : (!f) -> !f
  // expected-remark@+1 {{[float]: 'nn.lrn': it computes floats; quantize its result}}
  %4 = quant.qcast %3 : !f to !t
  func.return %4 : !t
}

!wide = tensor<?x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!axis = tensor<?x2x2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1}>>
!any = tensor<?x2x2x2xf32>

// CHECK-LABEL: func.func @batches(
// CHECK: nn.mul {{.*}} -> tensor<?x2x2x2x!quant.uniform<i32:f32, 2.500000e-01>>
func.func @batches(%x: !wide) -> !wide {
  %0 = quant.dcast %x : !wide to !any
  %1 = nn.mul %0, %0 : (!any, !any) -> !any
  // expected-remark@+1 {{lower-float-region fired, exact}}
  %2 = quant.qcast %1 : !any to !wide
  func.return %2 : !wide
}

// CHECK-LABEL: func.func @channels(
// CHECK: nn.mul {{.*}} -> tensor<?x2x2x2xf32>
func.func @channels(%x: !axis) -> !wide {
  %0 = quant.dcast %x : !axis to !any
  %1 = nn.mul %0, %0 : (!any, !any) -> !any
  // expected-remark@+1 {{[axis]: 'nn.mul': an operand is not quantized per tensor}}
  %2 = quant.qcast %1 : !any to !wide
  func.return %2 : !wide
}

!far = tensor<?x2x!quant.uniform<i8:f32, 1.0e30>>
!floats = tensor<?x2xf32>

// A product whose scale no f32 holds.
// CHECK-LABEL: func.func @scales(
// CHECK: nn.mul {{.*}} -> tensor<?x2xf32>
func.func @scales(%x: !far) -> !far {
  %0 = quant.dcast %x : !far to !floats
  %1 = nn.mul %0, %0 : (!floats, !floats) -> !floats
  // expected-remark@+1 {{[grid]: 'nn.mul': its step is no number of the type}}
  %2 = quant.qcast %1 : !floats to !far
  func.return %2 : !far
}

!float8 = tensor<?x2x2x2x!quant.uniform<f8E4M3FN:f32, 0.5>>

// Ends that are no integers, or have steps per channel, or round in two stages.
// CHECK-LABEL: func.func @ends(
// CHECK-COUNT-3: nn.mul {{.*}} -> tensor<?x2x2x2xf32>
func.func @ends(%x: !wide) -> (!float8, !axis, !wide) {
  %0 = quant.dcast %x : !wide to !any
  %1 = nn.mul %0, %0 : (!any, !any) -> !any
  // expected-remark@+1 {{[storage]: it is quantized to something else than integers}}
  %2 = quant.qcast %1 : !any to !float8
  %3 = nn.mul %0, %0 : (!any, !any) -> !any
  // expected-remark@+1 {{[axis]: it is quantized along a dimension}}
  %4 = quant.qcast %3 : !any to !axis
  %5 = nn.mul %0, %0 : (!any, !any) -> !any
  // expected-remark@+1 {{[axis]: it is quantized along a dimension}}
  %6 = quant.qcast %5 {quant.rounding = "gemmlowp"} : !any to !wide
  func.return %2, %4, %6 : !float8, !axis, !wide
}

// Codes that are not dequantized are operands as well, a weight by channel and of any batch.
// CHECK-LABEL: func.func @codes_as_they_are(
// CHECK: nn.conv2d %{{.*}}, %{{.*}} : (tensor<?x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, {{.*}}) -> tensor<?x2x2x2x!quant.uniform<i32:f32
// CHECK-NOT: quant.qcast
// CHECK: return
func.func @codes_as_they_are(%x: tensor<?x2x2x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2x2x2x!quant.uniform<i8:f32, 0.1:-128>> {
  %w = nn.constant dense<[[[[3]], [[1]]], [[[-2]], [[5]]]]> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.25, 0.5}>>
  %0 = nn.conv2d %x, %w : (tensor<?x2x2x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.25, 0.5}>>) -> tensor<?x2x2x2xf32>
  %1 = nn.hard_swish %0 : (tensor<?x2x2x2xf32>) -> tensor<?x2x2x2xf32>
  // expected-remark@+1 {{lower-float-region fired}}
  %2 = quant.qcast %1 : tensor<?x2x2x2xf32> to tensor<?x2x2x2x!quant.uniform<i8:f32, 0.1:-128>>
  func.return %2 : tensor<?x2x2x2x!quant.uniform<i8:f32, 0.1:-128>>
}

!rows = tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>

// CHECK-LABEL: func.func @statistics(
// CHECK: nn.batch_norm {{.*}} -> tensor<2x2xf32>
func.func @statistics(%x: !rows) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>> {
  %s = nn.constant dense<[1.5, 0.7]> : tensor<2xf32> : tensor<2xf32>
  %0 = quant.dcast %x : !rows to tensor<2x2xf32>
  %1 = nn.batch_norm %0, %s, %s, %s, %s : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  // expected-remark@+1 {{[axis]: 'nn.batch_norm': an operand is not quantized per tensor}}
  %2 = quant.qcast %1 : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  func.return %2 : tensor<2x2x!quant.uniform<i8:f32, 0.5>>
}
