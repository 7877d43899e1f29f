// RUN: qopt-opt %s -p lower-composites{numerics=ties},fold-constants{numerics=ties},raise-composites{numerics=ties},dce | filecheck %s
// RUN: qopt-opt %s -p lower-composites{numerics=ties},fold-constants{numerics=ties},raise-composites --remarks 2>&1 | filecheck %s --check-prefix REMARK

// The steps of a layer are the layer again: with its key, component qparams, and all operands.

!x = tensor<3x2x4xf32>
!s = tensor<2x2x1xf32>
!y = tensor<3x2x2x1xf32>

// CHECK-LABEL: func.func @layer(
// CHECK-NOT: nn.fully_connected
// CHECK: nn.gru %{{.*}} direction bidirectional last_states 1 {nn.key = "g", nn.qparams = {{{.*}}candidate = !quant.uniform<i8:f32, 5.000000e-01>
// CHECK-NOT: nn.fully_connected
// REMARK: raise-recurrent fired, exact
func.func @layer(%x: !x, %h: !s, %l: tensor<2xi32>) -> (!y, !s) {
  %w = nn.constant dense<0.5> : tensor<2x3x4xf32> : tensor<2x3x4xf32>
  %r = nn.constant dense<0.25> : tensor<2x3x1xf32> : tensor<2x3x1xf32>
  %b = nn.constant dense<[[0.5, 1.0, 2.0, 0.25, 0.5, 0.75], [0.5, 1.0, 2.0, 0.25, 0.5, 0.75]]> : tensor<2x6xf32> : tensor<2x6xf32>
  %0, %1 = nn.gru %x, %w, %r, %b, %h, %l direction bidirectional last_states 1 {nn.key = "g", nn.qparams = {
    from_input = !quant.uniform<i8:f32, 0.5>, from_hidden = !quant.uniform<i8:f32, 0.5>,
    biased_input = !quant.uniform<i8:f32, 0.5>, biased_hidden = !quant.uniform<i8:f32, 0.5>,
    total = !quant.uniform<i8:f32, 0.5>, gate_z = !quant.uniform<i8:f32, 0.5>,
    gate_r = !quant.uniform<i8:f32, 0.5>, reset = !quant.uniform<i8:f32, 0.5>,
    from_reset = !quant.uniform<i8:f32, 0.5>, biased_reset = !quant.uniform<i8:f32, 0.5>,
    sum_n = !quant.uniform<i8:f32, 0.5>, candidate = !quant.uniform<i8:f32, 0.5>,
    update = !quant.uniform<i8:f32, 0.5>, kept = !quant.uniform<i8:f32, 0.5>,
    new = !quant.uniform<i8:f32, 0.5>, hidden = !quant.uniform<i8:f32, 0.5>,
    state_hidden = !quant.uniform<i8:f32, 0.5>, masked = !quant.uniform<i8:f32, 0.5>}}
    : (!x, tensor<2x3x4xf32>, tensor<2x3x1xf32>, tensor<2x6xf32>, !s, tensor<2xi32>) -> (!y, !s)
  func.return %0, %1 : !y, !s
}
