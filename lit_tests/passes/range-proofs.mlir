// RUN: qopt-opt %s -p 'canonicalize,fold-rescale,combine-rescale,type-accumulators' --remarks --verify-diagnostics | filecheck %s

// What only the ranges of codes show: from saturation, clamps, functions, constants.

!a = tensor<4x!quant.uniform<i8:f32, 0.5>>
!fine = tensor<4x!quant.uniform<i8:f32, 0.25>>
!near = tensor<4x!quant.uniform<i8<-50:50>:f32, 0.25>>

// CHECK-LABEL: func.func @sigmoid_is_positive(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.sigmoid
// CHECK-NEXT: return [[V0]]
func.func @sigmoid_is_positive(%x: !a) -> !a {
  %0 = nn.sigmoid %x : (!a) -> !a
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.relu %0 : (!a) -> !a
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %2 = nn.clip %1 min -3.0 max 6.0 : (!a) -> !a
  func.return %2 : !a
}

// Nothing is known of a sum of arguments.
// CHECK-LABEL: func.func @clamp_stays(
// CHECK: nn.add
// CHECK-NEXT: nn.relu
func.func @clamp_stays(%x: !a, %y: !a) -> !a {
  %0 = nn.add %x, %y : (!a, !a) -> !a
  %1 = nn.relu %0 : (!a) -> !a
  func.return %1 : !a
}

// The largest of few elements is one of them; a constant bound survives movements.
// CHECK-LABEL: func.func @through_movements(
// CHECK-NEXT: nn.clip
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.flip
// CHECK-NEXT: return
func.func @through_movements(%x: !a) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.clip %x min -1.0 max 4.0 : (!a) -> !a
  %1 = nn.reshape %0 : (!a) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %2 = nn.flip %1 axes [0] : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %3 = nn.clip %2 min -2.0 max 6.0 : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  func.return %3 : tensor<2x2x!quant.uniform<i8:f32, 0.5>>
}

// The middle would clip 40, but no code above 8 gets there.
// CHECK-LABEL: func.func @the_middle_clips_nothing(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip
// CHECK-NEXT: return [[V0]]
func.func @the_middle_clips_nothing(%x: !a) -> !a {
  %0 = nn.clip %x min -8.0 max 8.0 : (!a) -> !a
  %1 = quant.rescale %0 : !a to !fine
  // expected-remark@+2 {{rescale-of-rescale fired, exact}}
  // expected-remark@+1 {{identity-rescale fired, exact}}
  %2 = quant.rescale %1 : !fine to !a
  func.return %2 : !a
}

// CHECK-LABEL: func.func @the_middle_clips(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: quant.rescale
func.func @the_middle_clips(%x: !a) -> !a {
  %0 = quant.rescale %x : !a to !fine
  // expected-remark@+1 {{rescale-of-rescale refused [numerics]: would be saturation (the middle clips to [-32, 31.75]), but only exact is allowed}}
  %1 = quant.rescale %0 : !fine to !a
  func.return %1 : !a
}

// tanh stays within 1, so wider bounds change nothing.
// CHECK-LABEL: func.func @wider_bounds(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @wider_bounds(%x: !a) -> !fine {
  %0 = nn.tanh %x : (!a) -> !near
  // expected-remark@+1 {{combine-up fired, exact}}
  %1 = quant.rescale %0 : !near to !fine
  func.return %1 : !fine
}

// 1024 products of i8 and i16 may leave 32 bits, but not with weights of 3.
// CHECK-LABEL: func.func @small_weights(
// CHECK: nn.fully_connected {{.*}} -> tensor<2x1x!quant.uniform<i32:f32, 2.500000e-01>>
func.func @small_weights(%x: tensor<2x1024x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1xf32> {
  %w = nn.constant dense<3> : tensor<1x1024xi16> : tensor<1x1024x!quant.uniform<i16:f32, 0.5>>
  %0 = quant.dcast %x : tensor<2x1024x!quant.uniform<i8:f32, 0.5>> to tensor<2x1024xf32>
  %1 = quant.dcast %w : tensor<1x1024x!quant.uniform<i16:f32, 0.5>> to tensor<1x1024xf32>
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.fully_connected %0, %1 : (tensor<2x1024xf32>, tensor<1x1024xf32>) -> tensor<2x1xf32>
  func.return %2 : tensor<2x1xf32>
}

// CHECK-LABEL: func.func @large_weights(
// CHECK: nn.fully_connected {{.*}} -> tensor<2x1xf32>
func.func @large_weights(%x: tensor<2x1024x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1xf32> {
  %w = nn.constant dense<-32768> : tensor<1x1024xi16> : tensor<1x1024x!quant.uniform<i16:f32, 0.5>>
  %0 = quant.dcast %x : tensor<2x1024x!quant.uniform<i8:f32, 0.5>> to tensor<2x1024xf32>
  %1 = quant.dcast %w : tensor<1x1024x!quant.uniform<i16:f32, 0.5>> to tensor<1x1024xf32>
  // expected-remark@+1 {{type-accumulator refused [overflow]: a sum of 1024 products may leave 32 bits}}
  %2 = nn.fully_connected %0, %1 : (tensor<2x1024xf32>, tensor<1x1024xf32>) -> tensor<2x1xf32>
  func.return %2 : tensor<2x1xf32>
}
