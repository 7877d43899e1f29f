// RUN: qopt-opt %s -p 'lower-composites{numerics=relaxed}' --remarks --verify-diagnostics | filecheck %s

// Quantized composites: every piece has the qparams of its role.

!q = !quant.uniform<i8:f32, 0.5>
!p = !quant.uniform<i8:f32, 0.25:3>
!u = !quant.uniform<u8:f32, 0.00390625>
!x = tensor<1x2x3x4x!q>
!y = tensor<1x2x3x4x!p>

// Constants are codes that are exactly the same numbers, per channel.
// CHECK-LABEL: func.func @batch_norm(
// CHECK: nn.constant dense<[{{.*}}-1{{.*}}]> : tensor<2x1x1xi8> : tensor<2x1x1x!quant.uniform<i8:f32:0, {2.500000e-01,1.500000e+00}>>
// CHECK: nn.sub {{.*}} {nn.key = "bn/sub_mean"} : {{.*}} -> tensor<1x2x3x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK: nn.mul {{.*}} {nn.key = "bn/scaled"} : {{.*}} -> tensor<1x2x3x4x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK: nn.add {{.*}} {nn.key = "bn"} : {{.*}} -> tensor<1x2x3x4x!quant.uniform<i8:f32, 2.500000e-01:3>>
func.func @batch_norm(%x: !x) -> !y {
  %s = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %m = nn.constant dense<[0.25, -1.5]> : tensor<2xf32> : tensor<2xf32>
  // expected-remark@+1 {{lower-composite fired, relaxed}}
  %0 = nn.batch_norm %x, %s, %m, %m, %s epsilon 0.0 {nn.key = "bn", nn.qparams = {sub_mean = !q, scaled = !p}} : (!x, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> !y
  func.return %0 : !y
}

// What is not constant has no codes.
// CHECK-LABEL: func.func @layer_norm(
// CHECK-NEXT: nn.layer_norm
// CHECK-NEXT: return
func.func @layer_norm(%x: !x, %s: tensor<4xf32>) -> !y {
  // expected-remark@+1 {{[constants]: an operand that is not constant has no codes}}
  %0 = nn.layer_norm %x, %s {nn.qparams = {mean = !q, centered = !q, square = !q, variance = !q, shifted = !q, deviation = !q, normalized = !q}} : (!x, tensor<4xf32>) -> !y
  func.return %0 : !y
}

// A clip keeps the qparams of its operand, so a rescale brings it to its own.
// CHECK-LABEL: func.func @hard_swish(
// CHECK: nn.mul {{.*}} {nn.key = "h/scaled"}
// CHECK: nn.add {{.*}} {nn.key = "h/shifted"} : {{.*}} -> tensor<1x2x3x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK: nn.clip {{.*}} -> tensor<1x2x3x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK: quant.rescale {{.*}} {nn.key = "h/gate"} : {{.*}} to tensor<1x2x3x4x!quant.uniform<u8:f32, 3.906250e-03>>
// CHECK: nn.mul {{.*}} {nn.key = "h"}
func.func @hard_swish(%x: !x) -> !y {
  // expected-remark@+1 {{lower-composite fired, relaxed}}
  %0 = nn.hard_swish %x {nn.key = "h", nn.qparams = {scaled = !p, shifted = !q, gate = !u}} : (!x) -> !y
  func.return %0 : !y
}

// The scores are 32-bit sums until they are scaled; the softmax finds its own pieces.
// CHECK-LABEL: func.func @attention(
// CHECK: nn.matmul {{.*}} {nn.key = "a/qk", nn.qparams = {result = !quant.uniform<i8:f32, 5.000000e-01>}} : {{.*}} -> tensor<1x2x3x3x!quant.uniform<i32:f32, 2.500000e-01>>
// CHECK: nn.mul {{.*}} {nn.key = "a/scaled"} : {{.*}} -> tensor<1x2x3x3x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK: nn.exp {{.*}} {nn.key = "a/softmax/exp"} : {{.*}} -> tensor<1x2x3x3x!quant.uniform<u8:f32, 3.906250e-03>>
// CHECK: nn.div {{.*}} {nn.key = "a/softmax"}
// CHECK: nn.matmul {{.*}} {nn.key = "a"} : {{.*}} -> tensor<1x2x3x4x!quant.uniform<i8:f32, 2.500000e-01:3>>
func.func @attention(%x: !x) -> !y {
  // expected-remark@+2 {{'nn.attention' (a) lower-composite fired, relaxed}}
  // expected-remark@+1 {{'nn.softmax' (a/softmax) lower-composite fired, relaxed}}
  %0 = nn.attention %x, %x, %x scale 0.5 {nn.key = "a", nn.qparams = {qk = !q, scaled = !p, softmax = !u, "softmax/sub_max" = !q, "softmax/exp" = !u, "softmax/sum" = !p}} : (!x, !x, !x) -> !y
  func.return %0 : !y
}

// A mean is a sum of integers and one division: exact.
// CHECK-LABEL: func.func @reduce_mean(
// CHECK: nn.reduce_sum {{.*}} {nn.key = "m/sum"} : {{.*}} -> tensor<1x2x1x1x!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK: nn.div {{.*}} {nn.key = "m"}
func.func @reduce_mean(%x: !x) -> tensor<1x2x1x1x!p> {
  // expected-remark@+1 {{lower-composite fired, exact}}
  %0 = nn.reduce_mean %x axes [2, 3] {nn.key = "m"} : (!x) -> tensor<1x2x1x1x!p>
  func.return %0 : tensor<1x2x1x1x!p>
}

// How many elements there are is not known.
// CHECK-LABEL: func.func @dynamic_mean(
// CHECK-NEXT: nn.reduce_mean
// CHECK-NEXT: return
func.func @dynamic_mean(%x: tensor<?x4xf32>) -> tensor<1x4xf32> {
  // expected-remark@+1 {{[shape]: its pieces need static shapes}}
  %0 = nn.reduce_mean %x axes [0] : (tensor<?x4xf32>) -> tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}
