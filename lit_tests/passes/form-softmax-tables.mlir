// RUN: qopt-opt %s -p 'form-softmax-tables{numerics=bounded}' --remarks --verify-diagnostics | filecheck %s

!a = tensor<2x10x!quant.uniform<i8:f32, 0.1:3>>
!max = tensor<2x1x!quant.uniform<i8:f32, 0.1:3>>
!b = tensor<2x10x!quant.uniform<u8:f32, 3.906250e-03>>
!difference = tensor<2x10x!quant.uniform<i16:f32, 0.1>>
!exps = tensor<65536x!quant.uniform<i32:f32, 5.960464477539062e-08>>

// CHECK-LABEL: func.func @last(
// CHECK-NEXT: nn.reduce_max {{.*}} axes [1]
// CHECK-NEXT: nn.sub {{.*}} -> tensor<2x10x!quant.uniform<i16:f32, 1.000000e-01>>
// CHECK-NEXT: nn.constant
// CHECK-NEXT: nn.table
// CHECK-NEXT: nn.constant
// CHECK-NEXT: nn.table
// CHECK-NEXT: nn.reduce_sum {{.*}} axes [1]
// CHECK-NEXT: nn.div {{.*}} rounding half_up {nn.key = "s"}
// CHECK-NEXT: return
func.func @last(%x: !a) -> !b {
  // expected-remark@+1 {{softmax-by-tables fired, bounded(1)}}
  %0 = nn.softmax %x {nn.key = "s"} : (!a) -> !b
  func.return %0 : !b
}

// CHECK-LABEL: func.func @refused(
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: return
func.func @refused(%x: tensor<2x10x!quant.uniform<i16:f32, 0.1:3>>, %z: tensor<2x?x!quant.uniform<i8:f32, 0.1>>) -> (!b, tensor<2x?x!quant.uniform<u8:f32, 3.906250e-03>>) {
  // expected-remark@+1 {{softmax-by-tables refused [storage]}}
  %0 = nn.softmax %x : (tensor<2x10x!quant.uniform<i16:f32, 0.1:3>>) -> !b
  // expected-remark@+1 {{softmax-by-tables refused [overflow]: the number of elements summed is not known}}
  %2 = nn.softmax %z : (tensor<2x?x!quant.uniform<i8:f32, 0.1>>) -> tensor<2x?x!quant.uniform<u8:f32, 3.906250e-03>>
  func.return %0, %2 : !b, tensor<2x?x!quant.uniform<u8:f32, 3.906250e-03>>
}

// Steps too fine for 32 bits, and one that no f16 is.
// CHECK-LABEL: func.func @steps(
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: return
!coarse = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!fine = tensor<2x4x!quant.uniform<i16:f32, 1.0e-9>>
!half = tensor<2x4x!quant.uniform<i8:f16, 0.5>>
!half_steps = tensor<2x4x!quant.uniform<u8:f16, 0.00390625>>
func.func @steps(%x: !coarse, %y: !half) -> (!fine, !half_steps) {
  // expected-remark@+1 {{softmax-by-tables refused [overflow]: 32 bits leave too few digits to the exponentials}}
  %0 = nn.softmax %x axis 1 : (!coarse) -> !fine
  // expected-remark@+1 {{softmax-by-tables refused [scale]: a scale would leave the range of f16}}
  %1 = nn.softmax %y axis 1 : (!half) -> !half_steps
  func.return %0, %1 : !fine, !half_steps
}

// Of one channel, which is still an axis.
// CHECK-LABEL: func.func @channels(
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: return
!channel = tensor<1x4x2x1x!quant.uniform<i8:f32:3, {1.7:127}>>
!tensor = tensor<1x4x2x1x!quant.uniform<i8:f32, 0.5>>
func.func @channels(%x: !channel, %y: !tensor) -> (!tensor, !channel) {
  // expected-remark@+1 {{softmax-by-tables refused [per-axis]: the input has qparams along an axis}}
  %0 = nn.softmax %x axis 1 : (!channel) -> !tensor
  // expected-remark@+1 {{softmax-by-tables refused [per-axis]: the result has qparams along an axis}}
  %1 = nn.softmax %y axis 1 : (!tensor) -> !channel
  func.return %0, %1 : !tensor, !channel
}
