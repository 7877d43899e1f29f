// RUN: qopt-opt %s -p move-casts --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'move-casts{boundary=maximize-integer}' | filecheck %s --check-prefix=INT
// RUN: qopt-opt %s -p 'move-casts{boundary=minimize-conversions}' | filecheck %s --check-prefix=FEW
// RUN: not qopt-opt %s -p 'move-casts{boundary=most}' 2>&1 | filecheck %s --check-prefix=WRONG
// WRONG: pass 'move-casts': option 'boundary' is one of preserve, maximize-integer, minimize-conversions, not 'most'

// Where quantize and dequantize stand among movement ops, under each boundary.

!q = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!q_out = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!q_half = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<2x4xf32>
!f_out = tensor<4x2xf32>
!f_half = tensor<2x2xf32>

// CHECK-LABEL: func.func @float_argument(
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: quant.qcast
// INT-LABEL: func.func @float_argument(
// INT-NEXT: quant.qcast {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// INT-NEXT: nn.transpose
// FEW-LABEL: func.func @float_argument(
// FEW-NEXT: nn.transpose
// FEW-NEXT: quant.qcast
func.func @float_argument(%x: !f) -> !q_out {
  %0 = nn.transpose %x perm [1, 0] : (!f) -> !f_out
  // expected-remark@+1 {{hoist-quantize refused [interface]: the op moves a float argument}}
  %1 = quant.qcast %0 : !f_out to !q_out
  func.return %1 : !q_out
}

// CHECK-LABEL: func.func @float_result(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.transpose
// INT-LABEL: func.func @float_result(
// INT-NEXT: nn.transpose
// INT-NEXT: quant.dcast
// FEW-LABEL: func.func @float_result(
// FEW-NEXT: quant.dcast
// FEW-NEXT: nn.transpose
func.func @float_result(%x: !q) -> !f_out {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{sink-dequantize refused [interface]: the op makes a float result}}
  %1 = nn.transpose %0 perm [1, 0] : (!f) -> !f_out
  func.return %1 : !f_out
}

// Away from the interface more is done in integers.
// CHECK-LABEL: func.func @inside(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: quant.qcast {{.*}}quant.rounding = "half_away"
// CHECK-NEXT: nn.transpose
// FEW-LABEL: func.func @inside(
// FEW-NEXT: quant.dcast
// FEW-NEXT: nn.softmax
// FEW-NEXT: nn.transpose
// FEW-NEXT: quant.qcast
func.func @inside(%x: !q) -> !q_out {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.softmax %0 : (!f) -> !f
  %2 = nn.transpose %1 perm [1, 0] : (!f) -> !f_out
  // expected-remark@+1 {{hoist-quantize fired, exact}}
  %3 = quant.qcast %2 {quant.rounding = "half_away"} : !f_out to !q_out
  func.return %3 : !q_out
}

// CHECK-LABEL: func.func @documented(
func.func @documented(%x: !q) -> !f_out {
  // DOC-BEFORE
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{sink-dequantize fired, exact}}
  %1 = nn.transpose %0 perm [1, 0] : (!f) -> !f_out
  // DOC-AFTER
  //   %0 = nn.transpose %x perm [1, 0] : (!q) -> !q_out
  //   %1 = quant.dcast %0 : !q_out to !f_out
  // DOC-END
  %2 = nn.sigmoid %1 : (!f_out) -> !f_out
  func.return %2 : !f_out
}

// Indices are no floats: a gather by an argument is not at the float interface.
// CHECK-LABEL: func.func @indices(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: nn.gather
func.func @indices(%x: !q, %i: tensor<2xi64>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.softmax %0 : (!f) -> !f
  %2 = nn.gather %1, %i : (!f, tensor<2xi64>) -> !f
  // expected-remark@+1 {{hoist-quantize fired, exact}}
  %3 = quant.qcast %2 : !f to !q
  func.return %3 : !q
}

// -- fewest elements -----------------------------------------------------------------

// FEW-LABEL: func.func @slice_first(
// FEW-NEXT: nn.slice {{.*}} -> tensor<2x2xf32>
// FEW-NEXT: quant.qcast {{.*}} {quant.rounding = "half_up"} : tensor<2x2xf32> to
// FEW-NEXT: return
func.func @slice_first(%x: !f) -> !q_half {
  %0 = quant.qcast %x {quant.rounding = "half_up"} : !f to !q
  %1 = nn.slice %0 starts [0, 1] stops [2, 3] steps [1, 1] : (!q) -> !q_half
  func.return %1 : !q_half
}
