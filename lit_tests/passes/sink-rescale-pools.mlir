// RUN: qopt-opt %s -p sink-rescale --remarks --verify-diagnostics | filecheck %s --check-prefix=SINK
// RUN: qopt-opt %s -p hoist-rescale | filecheck %s --check-prefix=HOIST

// Max pools over one and three dimensions preserve order as those over two do.

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<u8:f32, 0.75:128>
!channels_a = !quant.uniform<i8:f32:1, {0.5:3, 0.25}>
!channels_b = !quant.uniform<i8:f32:1, {1.0, 0.5:1}>

// SINK-LABEL: func.func @signal(
// SINK-NEXT: nn.max_pool1d {{.*}} -> tensor<?x2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
func.func @signal(%x: tensor<?x2x8x!a>) -> tensor<?x2x4x!b> {
  %0 = quant.rescale %x : tensor<?x2x8x!a> to tensor<?x2x8x!b>
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.max_pool1d %0 kernel [3] strides [2] pads [1, 1] : (tensor<?x2x8x!b>) -> tensor<?x2x4x!b>
  func.return %1 : tensor<?x2x4x!b>
}

// SINK-LABEL: func.func @volume_per_axis(
// SINK-NEXT: nn.max_pool3d {{.*}} -> tensor<1x2x2x?x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>>
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
func.func @volume_per_axis(%x: tensor<1x2x4x?x4x!channels_a>) -> tensor<1x2x2x?x2x!channels_b> {
  %0 = quant.rescale %x : tensor<1x2x4x?x4x!channels_a> to tensor<1x2x4x?x4x!channels_b>
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.max_pool3d %0 kernel [2, 2, 2] strides [2, 2, 2] : (tensor<1x2x4x?x4x!channels_b>) -> tensor<1x2x2x?x2x!channels_b>
  func.return %1 : tensor<1x2x2x?x2x!channels_b>
}

// Every user of the rescale is a pool; it sinks through both.
// SINK-LABEL: func.func @used_by_two_pools(
// SINK-NEXT: nn.max_pool1d {{.*}} -> tensor<1x2x4x!quant.uniform<i8
// SINK-NEXT: quant.rescale
// SINK-NEXT: nn.max_pool1d {{.*}} -> tensor<1x2x6x!quant.uniform<i8
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
func.func @used_by_two_pools(%x: tensor<1x2x8x!a>) -> (tensor<1x2x4x!b>, tensor<1x2x6x!b>) {
  %0 = quant.rescale %x : tensor<1x2x8x!a> to tensor<1x2x8x!b>
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.max_pool1d %0 kernel [2] strides [2] : (tensor<1x2x8x!b>) -> tensor<1x2x4x!b>
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %2 = nn.max_pool1d %0 kernel [3] : (tensor<1x2x8x!b>) -> tensor<1x2x6x!b>
  func.return %1, %2 : tensor<1x2x4x!b>, tensor<1x2x6x!b>
}

// SINK-LABEL: func.func @used_as_it_is(
// SINK-NEXT: quant.rescale
// SINK-NEXT: nn.max_pool1d
func.func @used_as_it_is(%x: tensor<1x2x8x!a>) -> (tensor<1x2x8x!b>, tensor<1x2x4x!b>) {
  %0 = quant.rescale %x : tensor<1x2x8x!a> to tensor<1x2x8x!b>
  // expected-remark@+1 {{sink-through-tied refused [multi-use]: 'func.return' needs the rescaled value}}
  %1 = nn.max_pool1d %0 kernel [2] strides [2] : (tensor<1x2x8x!b>) -> tensor<1x2x4x!b>
  func.return %0, %1 : tensor<1x2x8x!b>, tensor<1x2x4x!b>
}

// The first window sees no element: each type has its own lowest code.
// SINK-LABEL: func.func @padding(
// SINK-NEXT: quant.rescale
// SINK-NEXT: nn.max_pool3d
func.func @padding(%x: tensor<1x2x4x4x4x!a>) -> tensor<1x2x5x4x4x!b> {
  %0 = quant.rescale %x : tensor<1x2x4x4x4x!a> to tensor<1x2x4x4x4x!b>
  // expected-remark@+1 {{sink-through-tied refused [levels]: no code stands for a constant it compares with}}
  %1 = nn.max_pool3d %0 kernel [1, 1, 1] pads [1, 0, 0, 0, 0, 0] : (tensor<1x2x4x4x4x!b>) -> tensor<1x2x5x4x4x!b>
  func.return %1 : tensor<1x2x5x4x4x!b>
}

// HOIST-LABEL: func.func @above(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.max_pool1d {{.*}} -> tensor<1x2x9x!quant.uniform<u8
// HOIST-NEXT: return
func.func @above(%x: tensor<1x2x4x!a>) -> tensor<1x2x9x!b> {
  %0 = nn.max_pool1d %x kernel [6] pads [5, 5] : (tensor<1x2x4x!a>) -> tensor<1x2x9x!a>
  %1 = quant.rescale %0 : tensor<1x2x9x!a> to tensor<1x2x9x!b>
  func.return %1 : tensor<1x2x9x!b>
}
