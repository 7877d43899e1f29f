// RUN: qopt-opt %s --target tensorrt -p 'integerize,place-rescales{boundary=maximize-integer},integerize,cse,dce' | filecheck %s

// What TensorRT does with quantizes and dequantizes, from the figures of its developer guide
// (chapter on explicit quantization: processing of Q/DQ networks, Q/DQ layer placement, limitations).
// Its propagation maximizes what runs on codes: so does boundary=maximize-integer.

!q = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5>>
!r = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.25>>
!f = tensor<1x2x4x4xf32>
!wq = tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!wf = tensor<2x2x1x1xf32>
!h = tensor<1x2x2x2xf32>
!hq = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>

// An average pool between a dequantize and a quantize becomes one on codes.
// CHECK-LABEL: func.func @average_pool(
// CHECK-NOT: quant.qcast
// CHECK: nn.avg_pool2d %{{.*}} : (tensor<1x2x4x4x!quant{{.*}}) -> tensor<1x2x2x2x!quant
// CHECK-NOT: quant.qcast
// CHECK: return
func.func @average_pool(%x: !q) -> !hq {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.avg_pool2d %0 kernel [2, 2] strides [2, 2] : (!f) -> !h
  %2 = quant.qcast %1 : !h to !hq
  func.return %2 : !hq
}

// A max pool commutes with both: a dequantize goes forward past it ...
// CHECK-LABEL: func.func @max_pool_dequantize(
// CHECK: nn.max_pool2d %{{.*}} : (tensor<1x2x4x4x!quant
// CHECK: quant.dcast
// CHECK: return
func.func @max_pool_dequantize(%x: !q) -> !h {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.max_pool2d %0 kernel [2, 2] strides [2, 2] : (!f) -> !h
  func.return %1 : !h
}

// ... and a quantize backward.
// CHECK-LABEL: func.func @max_pool_quantize(
// CHECK: quant.qcast
// CHECK: nn.max_pool2d %{{.*}} : (tensor<1x2x4x4x!quant
// CHECK: return
func.func @max_pool_quantize(%x: !f) -> !hq {
  %1 = nn.max_pool2d %x kernel [2, 2] strides [2, 2] : (!f) -> !h
  %2 = quant.qcast %1 : !h to !hq
  func.return %2 : !hq
}

// Only the inputs of a convolution are quantized: TensorRT's kernel gives floats. There is no such op
// here: it stays one on floats between casts, as the file has it.
// CHECK-LABEL: func.func @conv_inputs(
// CHECK: nn.conv2d %{{.*}} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
// CHECK: return
func.func @conv_inputs(%x: !q) -> !f {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !wq
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %w : !wq to !wf
  %2 = nn.conv2d %0, %1 : (!f, !wf) -> !f
  func.return %2 : !f
}

// Inputs and output are quantized: a convolution on codes, with a weight scale per output channel.
// CHECK-LABEL: func.func @conv_both(
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.conv2d %{{.*}} : (tensor<1x2x4x4x!quant{{.*}}, tensor<2x2x1x1x!quant.uniform<i8:f32:0{{.*}}) -> tensor<1x2x4x4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: return
func.func @conv_both(%x: !q) -> !r {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !wq
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %w : !wq to !wf
  %2 = nn.conv2d %0, %1 : (!f, !wf) -> !f
  %3 = quant.qcast %2 : !f to !r
  func.return %3 : !r
}

// A linear op is followed by an activation that wants its input in high precision: both stay floats.
// CHECK-LABEL: func.func @conv_silu(
// CHECK: nn.conv2d %{{.*}} -> tensor<1x2x4x4xf32>
// CHECK: nn.swish %{{.*}} -> tensor<1x2x4x4xf32>
// CHECK: quant.qcast
// CHECK: return
func.func @conv_silu(%x: !q) -> !r {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !wq
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %w : !wq to !wf
  %2 = nn.conv2d %0, %1 : (!f, !wf) -> !f
  %3 = nn.swish %2 : (!f) -> !f
  %4 = quant.qcast %3 : !f to !r
  func.return %4 : !r
}

// A ReLU is fused: a convolution on codes, and what clamps its codes.
// CHECK-LABEL: func.func @conv_relu(
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.conv2d %{{.*}} -> tensor<1x2x4x4x!quant
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.relu %{{.*}} -> tensor<1x2x4x4x!quant
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: return
func.func @conv_relu(%x: !q) -> !r {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !wq
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %w : !wq to !wf
  %2 = nn.conv2d %0, %1 : (!f, !wf) -> !f
  %3 = nn.relu %2 : (!f) -> !f
  %4 = quant.qcast %3 : !f to !r
  func.return %4 : !r
}

// The residual input of an addition is float: convolution and addition are, and the quantize is not fused.
// CHECK-LABEL: func.func @residual_float(
// CHECK: nn.conv2d %{{.*}} -> tensor<1x2x4x4xf32>
// CHECK: nn.add %{{.*}} -> tensor<1x2x4x4xf32>
// CHECK: quant.qcast
// CHECK: return
func.func @residual_float(%x: !q, %y: !f) -> !r {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !wq
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %w : !wq to !wf
  %2 = nn.conv2d %0, %1 : (!f, !wf) -> !f
  %3 = nn.add %2, %y : (!f, !f) -> !f
  %4 = quant.qcast %3 : !f to !r
  func.return %4 : !r
}

// The residual input is codes: TensorRT fuses convolution, addition and quantize. Without a fused op here
// the convolution stays float between casts, which a QDQ file leaves to TensorRT.
// CHECK-LABEL: func.func @residual_codes(
// CHECK: nn.conv2d %{{.*}} -> tensor<1x2x4x4xf32>
// CHECK: nn.add
// CHECK: quant.qcast
// CHECK: return
func.func @residual_codes(%x: !q, %y: !r) -> !r {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !wq
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %w : !wq to !wf
  %2 = nn.conv2d %0, %1 : (!f, !wf) -> !f
  %d = quant.dcast %y : !r to !f
  %3 = nn.add %2, %d : (!f, !f) -> !f
  %4 = quant.qcast %3 : !f to !r
  func.return %4 : !r
}

// An extra quantize and dequantize behind the convolution separates it from the addition: two ops on codes.
// CHECK-LABEL: func.func @residual_extra(
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.conv2d %{{.*}} -> tensor<1x2x4x4x!quant
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.add %{{.*}} -> tensor<1x2x4x4x!quant
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: return
func.func @residual_extra(%x: !q, %y: !r) -> !r {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !wq
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %w : !wq to !wf
  %2 = nn.conv2d %0, %1 : (!f, !wf) -> !f
  %5 = quant.qcast %2 : !f to !q
  %6 = quant.dcast %5 : !q to !f
  %d = quant.dcast %y : !r to !f
  %3 = nn.add %6, %d : (!f, !f) -> !f
  %4 = quant.qcast %3 : !f to !r
  func.return %4 : !r
}

// An addition is fused with the dequantizes in front of it and the quantize behind it.
// CHECK-LABEL: func.func @add(
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.add %{{.*}} -> tensor<1x2x4x4x!quant
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: return
func.func @add(%x: !q, %y: !r) -> !r {
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %y : !r to !f
  %3 = nn.add %0, %1 : (!f, !f) -> !f
  %4 = quant.qcast %3 : !f to !r
  func.return %4 : !r
}

// Two quantizes of equal scales: one in front of the fork.
// CHECK-LABEL: func.func @equal_scales(
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.add %{{.*}} -> tensor<1x2x4x4x!quant
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: nn.max_pool2d %{{.*}} -> tensor<1x2x2x2x!quant
// CHECK-NOT: quant.dcast
// CHECK-NOT: quant.qcast
// CHECK: return
func.func @equal_scales(%x: !q, %y: !q) -> (!hq, !q) {
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %y : !q to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  %3 = nn.max_pool2d %2 kernel [2, 2] strides [2, 2] : (!f) -> !h
  %4 = quant.qcast %3 : !h to !hq
  %5 = quant.qcast %2 : !f to !q
  func.return %4, %5 : !hq, !q
}

// ... and two of unequal ones.
// CHECK-LABEL: func.func @unequal_scales(
// CHECK: nn.add %{{.*}} -> tensor<1x2x4x4xf32>
// CHECK: quant.qcast {{.*}}5.000000e-01
// CHECK: quant.qcast {{.*}}2.500000e-01
// CHECK: return
func.func @unequal_scales(%x: !q, %y: !q) -> (!hq, !r) {
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %y : !q to !f
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  %3 = nn.max_pool2d %2 kernel [2, 2] strides [2, 2] : (!f) -> !h
  %4 = quant.qcast %3 : !h to !hq
  %5 = quant.qcast %2 : !f to !r
  func.return %4, %5 : !hq, !r
}

// Zero points other than 0 are not taken.
// CHECK-LABEL: func.func @asymmetric(
// CHECK: nn.add %{{.*}} -> tensor<1x2x4x4xf32>
// CHECK: quant.qcast
// CHECK: return
func.func @asymmetric(%x: tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> !r {
  %0 = quant.dcast %x : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>> to !f
  %3 = nn.add %0, %0 : (!f, !f) -> !f
  %4 = quant.qcast %3 : !f to !r
  func.return %4 : !r
}
