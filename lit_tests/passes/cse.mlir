// RUN: qopt-opt %s -p cse --allow-unregistered-dialect | filecheck %s

// T27: equal casts, rescales and constants are one.

!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!other = tensor<4x!quant.uniform<i8:f32, 1.0>>
!f = tensor<4xf32>

// CHECK-LABEL: func.func @keys_are_gathered(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] {nn.key = ["a", "b"]} : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]], [[V0]]
func.func @keys_are_gathered(%x: !f) -> (!q, !q) {
  // DOC-BEFORE
  %0 = quant.qcast %x {nn.key = "a"} : !f to !q
  %1 = quant.qcast %x {nn.key = "b"} : !f to !q
  func.return %0, %1 : !q, !q
  // DOC-AFTER
  //   %0 = quant.qcast %x {nn.key = ["a", "b"]} : !f to !q
  //   func.return %0, %0 : !q, !q
  // DOC-END
}

// CHECK-LABEL: func.func @a_chain(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V1]], [[V1]]
func.func @a_chain(%x: !q) -> (!f, !f) {
  %0 = quant.rescale %x : !q to !other
  %1 = quant.rescale %x : !q to !other
  %2 = quant.dcast %0 : !other to !f
  %3 = quant.dcast %1 : !other to !f
  func.return %2, %3 : !f, !f
}

// CHECK-LABEL: func.func @constants(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<1.000000e+00> : tensor<4xf32> : tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<-1.000000e+00> : tensor<4xf32> : tensor<4xf32>
// CHECK-NEXT: return [[V0]], [[V0]], [[V1]]
func.func @constants() -> (!f, !f, !f) {
  %0 = nn.constant dense<1.0> : !f : !f
  %1 = nn.constant dense<1.0> : !f : !f
  %2 = nn.constant dense<-1.0> : !f : !f
  func.return %0, %1, %2 : !f, !f, !f
}

// Other roundings, types and zeros are other values.
// CHECK-LABEL: func.func @different(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[X]] {quant.rounding = "half_away"} : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V4:%[a-z0-9_]+]] = nn.clip [[X]] min -0.0 : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V5:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V6:%[a-z0-9_]+]] = quant.rescale [[Y]] rounding half_up : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V0]], [[V1]], [[V2]], [[V3]], [[V4]], [[V5]], [[V6]]
func.func @different(%x: !f, %q: !q) -> (!q, !q, !other, !f, !f, !other, !other) {
  %0 = quant.qcast %x : !f to !q
  %1 = quant.qcast %x {quant.rounding = "half_away"} : !f to !q
  %2 = quant.qcast %x : !f to !other
  %3 = nn.clip %x min 0.0 : (!f) -> !f
  %4 = nn.clip %x min -0.0 : (!f) -> !f
  %5 = quant.rescale %q : !q to !other
  %6 = quant.rescale %q rounding half_up : !q to !other
  func.return %0, %1, %2, %3, %4, %5, %6 : !q, !q, !other, !f, !f, !other, !other
}

// CHECK-LABEL: func.func @commuted_operands_are_not_looked_through(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.add [[Y]], [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @commuted_operands_are_not_looked_through(%x: !q, %y: !q) -> (!q, !q) {
  %0 = nn.add %x, %y : (!q, !q) -> !q
  %1 = nn.add %y, %x : (!q, !q) -> !q
  func.return %0, %1 : !q, !q
}

// What an op of no known dialect does is not known.
// CHECK-LABEL: func.func @unknown(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = "vendor.random"([[X]]) : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = "vendor.random"([[X]]) : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @unknown(%x: !f) -> (!f, !f) {
  %0 = "vendor.random"(%x) : (!f) -> !f
  %1 = "vendor.random"(%x) : (!f) -> !f
  func.return %0, %1 : !f, !f
}

// Names that a file has for a shape or a scale make no difference.
// CHECK-LABEL: func.func @named_parameters(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.reshape
// CHECK-NEXT: return [[V0]], [[V0]]
func.func @named_parameters(%x: !f) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = nn.reshape %x {onnx.params = ["shape_a"]} : (!f) -> tensor<2x2xf32>
  %1 = nn.reshape %x {onnx.params = ["shape_b"]} : (!f) -> tensor<2x2xf32>
  func.return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}
