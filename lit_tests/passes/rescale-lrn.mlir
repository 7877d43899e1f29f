// RUN: qopt-opt %s -p sink-rescale{numerics=bounded} --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p sink-rescale{numerics=bounded} --verify-numerics=3 | filecheck %s
// RUN: qopt-opt %s -p sink-rescale{numerics=bounded},hoist-rescale{numerics=bounded} | filecheck %s --check-prefix=HOIST
// RUN: qopt-opt %s -p combine-rescale{numerics=relaxed} | filecheck %s --check-prefix=COMBINE
// RUN: qopt-opt %s -p integerize | filecheck %s --check-prefix=INT

// A response normalization wants one scale and zero point on both sides. A rescale passes
// it within (g + s_a / s_b) / 2 + 1 steps, g = bias^-beta (1 + beta (1 + sqrt(size))), but
// never becomes part of it.

!a = tensor<1x6x4x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<1x6x4x4x!quant.uniform<i8:f32, 0.75:10>>
!u = tensor<1x6x4x4x!quant.uniform<u8:f32, 0.5:131>>
!narrow = tensor<1x6x4x4x!quant.uniform<i8:f32, 0.25:0>>
!channels = tensor<1x6x4x4x!quant.uniform<i8:f32:1, {0.5, 0.25, 0.5, 0.5, 0.5, 0.5}>>
!dynamic_a = tensor<?x6x?x4x!quant.uniform<i8:f32, 0.5:3>>
!dynamic_b = tensor<?x6x?x4x!quant.uniform<i8:f32, 0.75:10>>
!f = tensor<1x6x4x4xf32>

// CHECK-LABEL: func.func @bounded(
// CHECK-NEXT: nn.lrn {{.*}} size 4 bias 16.0 {nn.key = "n"} : {{.*}} -> tensor<1x6x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: return
// HOIST-LABEL: func.func @bounded(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.lrn
// HOIST-NEXT: return
// COMBINE-LABEL: func.func @bounded(
// COMBINE-NEXT: quant.rescale
// COMBINE-NEXT: nn.lrn
func.func @bounded(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-bounded fired, bounded(1.53646)}}
  %1 = nn.lrn %0 size 4 bias 16.0 {nn.key = "n"} : (!b) -> !b
  func.return %1 : !b
}

// CHECK-LABEL: func.func @renumbered(
// CHECK-NEXT: nn.lrn
// CHECK-NEXT: quant.rescale
func.func @renumbered(%x: !a) -> !u {
  %0 = quant.rescale %x : !a to !u
  // expected-remark@+1 {{sink-through-bounded fired, exact}}
  %1 = nn.lrn %0 size 3 : (!u) -> !u
  func.return %1 : !u
}

// CHECK-LABEL: func.func @clips(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.lrn
func.func @clips(%x: !a) -> !narrow {
  %0 = quant.rescale %x : !a to !narrow
  // expected-remark@+1 {{sink-through-bounded refused [numerics]: would be saturation (clips at another place), but only bounded is allowed}}
  %1 = nn.lrn %0 size 3 : (!narrow) -> !narrow
  func.return %1 : !narrow
}

// CHECK-LABEL: func.func @no_bound(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.lrn
func.func @no_bound(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-bounded refused [unbounded]: no bound on what a change of an operand does}}
  %1 = nn.lrn %0 size 3 alpha -0.5 : (!b) -> !b
  func.return %1 : !b
}

// CHECK-LABEL: func.func @channels(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.lrn
func.func @channels(%x: !channels) -> !b {
  %0 = quant.rescale %x : !channels to !b
  // expected-remark@+1 {{sink-through-bounded refused [port]: takes no input quantized along dimension 1}}
  %1 = nn.lrn %0 size 3 : (!b) -> !b
  func.return %1 : !b
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.lrn
func.func @multi_use(%x: !a) -> (!b, !b) {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-bounded refused [multi-use]: 'func.return' needs the rescaled value}}
  %1 = nn.lrn %0 size 3 : (!b) -> !b
  func.return %0, %1 : !b, !b
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: nn.lrn {{.*}} -> tensor<?x6x?x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: quant.rescale
func.func @dynamic(%x: !dynamic_a) -> !dynamic_b {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{sink-through-bounded fired, bounded(2.58333)}}
  %1 = nn.lrn %0 size 1 : (!dynamic_b) -> !dynamic_b
  func.return %1 : !dynamic_b
}

// COMBINE-LABEL: func.func @below(
// COMBINE-NEXT: nn.lrn
// COMBINE-NEXT: quant.rescale
func.func @below(%x: !a) -> !b {
  %0 = nn.lrn %x size 3 : (!a) -> !a
  %1 = quant.rescale %0 : !a to !b
  func.return %1 : !b
}

// INT-LABEL: func.func @integers(
// INT-NEXT: nn.lrn {{.*}} : (tensor<1x6x4x4x!quant.uniform<i8
// INT-NEXT: return
func.func @integers(%x: !a) -> !a {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.lrn %0 size 3 : (!f) -> !f
  %2 = quant.qcast %1 : !f to !a
  func.return %2 : !a
}

// INT-LABEL: func.func @other_qparams(
// INT-NEXT: quant.dcast
// INT-NEXT: nn.lrn
// INT-NEXT: quant.qcast
func.func @other_qparams(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.lrn %0 size 3 : (!f) -> !f
  %2 = quant.qcast %1 : !f to !b
  func.return %2 : !b
}
