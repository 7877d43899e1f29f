// RUN: qopt-opt %s -p form-floats --remarks --verify-diagnostics | filecheck %s

// A target says what is faster in floats; most say nothing.

!x = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.25:7>>

// CHECK-LABEL: func.func @average(
// CHECK-NEXT: nn.avg_pool2d
func.func @average(%x: !x) -> !y {
  // expected-remark@+1 {{op-to-floats refused [codes]: generic runs 'nn.avg_pool2d' on codes}}
  %0 = nn.avg_pool2d %x kernel [2, 2] strides [2, 2] : (!x) -> !y
  return %0 : !y
}
