// RUN: qopt-opt %s -p combine-rescale{numerics=bounded} --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p combine-rescale{numerics=bounded} --verify-numerics=2 | filecheck %s
// RUN: qopt-opt %s -p integerize | filecheck %s --check-prefix=INT

// A bilinear resize rounds anyway: it absorbs rescales, with a gain of 1.

!a = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.75:10>>
!b_out = tensor<1x2x8x6x!quant.uniform<i8:f32, 0.75:10>>
!c_out = tensor<1x2x8x6x!quant.uniform<i8:f32, 1.0:0>>
!channels = tensor<1x2x4x4x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1}>>
!rows = tensor<1x2x4x4x!quant.uniform<i8:f32:2, {0.5, 0.5, 0.25, 0.5}>>
!dynamic_a = tensor<?x2x?x4x!quant.uniform<i8:f32, 0.5:3>>
!dynamic_b = tensor<?x2x?x4x!quant.uniform<i8:f32, 0.75:10>>
!f = tensor<1x2x4x4xf32>

// CHECK-LABEL: func.func @down(
// CHECK-NEXT: nn.resize_linear {{.*}} sizes [1, 2, 8, 6] coordinates align_corners : (tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>)
// CHECK-NEXT: return
func.func @down(%x: !a) -> !b_out {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{combine-down fired, bounded(1.5)}}
  %1 = nn.resize_linear %0 sizes [1, 2, 8, 6] coordinates align_corners : (!b) -> !b_out
  func.return %1 : !b_out
}

// CHECK-LABEL: func.func @channels(
// CHECK-NEXT: nn.resize_linear {{.*}} : (tensor<1x2x4x4x!quant.uniform<i8:f32:1
// CHECK-NEXT: return
func.func @channels(%x: !channels) -> !b_out {
  %0 = quant.rescale %x : !channels to !b
  // expected-remark@+1 {{combine-down fired, bounded(1.5)}}
  %1 = nn.resize_linear %0 scales [1.0, 1.0, 2.0, 1.5] : (!b) -> !b_out
  func.return %1 : !b_out
}

// CHECK-LABEL: func.func @rows(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.resize_linear
func.func @rows(%x: !rows) -> !b_out {
  %0 = quant.rescale %x : !rows to !b
  // expected-remark@+1 {{combine-down refused [port]: takes no input quantized along dimension 2}}
  %1 = nn.resize_linear %0 scales [1.0, 1.0, 2.0, 1.5] : (!b) -> !b_out
  func.return %1 : !b_out
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.resize_linear {{.*}} : (tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>)
func.func @multi_use(%x: !a) -> (!b, !b_out) {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{combine-down fired, bounded(1.5)}}
  %1 = nn.resize_linear %0 scales [1.0, 1.0, 2.0, 1.5] : (!b) -> !b_out
  func.return %0, %1 : !b, !b_out
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: nn.resize_linear
// CHECK-NEXT: return
func.func @dynamic(%x: !dynamic_a) -> tensor<?x2x?x6x!quant.uniform<i8:f32, 0.75:10>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{combine-down fired, bounded(1.5)}}
  %1 = nn.resize_linear %0 scales [1.0, 1.0, 2.0, 1.5] : (!dynamic_b) -> tensor<?x2x?x6x!quant.uniform<i8:f32, 0.75:10>>
  func.return %1 : tensor<?x2x?x6x!quant.uniform<i8:f32, 0.75:10>>
}

// INT-LABEL: func.func @integers(
// INT-NEXT: nn.resize_linear {{.*}} : (tensor<1x2x4x4x!quant.uniform<i8
// INT-NEXT: return
func.func @integers(%x: !a) -> !c_out {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.resize_linear %0 scales [1.0, 1.0, 2.0, 1.5] : (!f) -> tensor<1x2x8x6xf32>
  %2 = quant.qcast %1 : tensor<1x2x8x6xf32> to !c_out
  func.return %2 : !c_out
}
