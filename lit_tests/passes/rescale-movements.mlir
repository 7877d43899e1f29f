// RUN: qopt-opt %s -p sink-rescale | filecheck %s --check-prefix=SINK
// RUN: qopt-opt %s -p sink-rescale --verify-numerics=2 | filecheck %s --check-prefix=SINK
// RUN: qopt-opt %s -p sink-rescale,hoist-rescale | filecheck %s --check-prefix=HOIST
// RUN: qopt-opt %s -p sink-rescale,hoist-rescale,sink-rescale | filecheck %s --check-prefix=SINK

// Select, pad, split, tile, gather, nearest resize, concat: down, up again, and down again,
// per tensor on unknown extents and per axis.

!a = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<?x4x!quant.uniform<u8:f32, 0.75:128>>
!rows_a = tensor<2x4x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>>
!rows_b = tensor<2x4x!quant.uniform<i8:f32:0, {1.0, 2.0}>>

// SINK-LABEL: func.func @pad(
// SINK-NEXT: nn.pad
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
// HOIST-LABEL: func.func @pad(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.pad
// HOIST-NEXT: return
func.func @pad(%x: !a) -> tensor<?x7x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.pad %0 low [0, 1] high [0, 2] mode edge : (!b) -> tensor<?x7x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x7x!quant.uniform<u8:f32, 0.75:128>>
}

// SINK-LABEL: func.func @pad_rows(
// SINK-NEXT: nn.pad {{.*}} -> tensor<2x7x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @pad_rows(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.pad
func.func @pad_rows(%x: !rows_a) -> tensor<2x7x!quant.uniform<i8:f32:0, {1.0, 2.0}>> {
  %0 = quant.rescale %x : !rows_a to !rows_b
  %1 = nn.pad %0 low [0, 1] high [0, 2] : (!rows_b) -> tensor<2x7x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  func.return %1 : tensor<2x7x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
}

// SINK-LABEL: func.func @reshape_to(
// SINK-NEXT: nn.constant
// SINK-NEXT: nn.reshape_to
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
// HOIST-LABEL: func.func @reshape_to(
// HOIST-NEXT: nn.constant
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.reshape_to
// HOIST-NEXT: return
func.func @reshape_to(%x: !a) -> tensor<?x2x?x!quant.uniform<u8:f32, 0.75:128>> {
  %s = nn.constant dense<[-1, 2, 2]> : tensor<3xi64> : tensor<3xi64>
  %0 = quant.rescale %x : !a to !b
  %1 = nn.reshape_to %0, %s : (!b, tensor<3xi64>) -> tensor<?x2x?x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x2x?x!quant.uniform<u8:f32, 0.75:128>>
}

// SINK-LABEL: func.func @tile(
// SINK-NEXT: nn.tile
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @tile(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.tile
func.func @tile(%x: !a) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.tile %0 repeats [1, 2] : (!b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
}

// SINK-LABEL: func.func @tile_rows(
// SINK-NEXT: nn.tile {{.*}} -> tensor<2x8x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @tile_rows(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.tile
func.func @tile_rows(%x: !rows_a) -> tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>> {
  %0 = quant.rescale %x : !rows_a to !rows_b
  %1 = nn.tile %0 repeats [1, 2] : (!rows_b) -> tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  func.return %1 : tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
}

// SINK-LABEL: func.func @gather(
// SINK-NEXT: nn.constant
// SINK-NEXT: nn.gather
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @gather(
// HOIST-NEXT: nn.constant
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.gather
func.func @gather(%x: !a) -> tensor<?x3x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  %i = nn.constant dense<[2, 0, 1]> : tensor<3xi64> : tensor<3xi64>
  %1 = nn.gather %0, %i axis 1 : (!b, tensor<3xi64>) -> tensor<?x3x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x3x!quant.uniform<u8:f32, 0.75:128>>
}

// SINK-LABEL: func.func @gather_from_rows(
// SINK-NEXT: nn.constant
// SINK-NEXT: nn.gather {{.*}} -> tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @gather_from_rows(
// HOIST-NEXT: nn.constant
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.gather
func.func @gather_from_rows(%x: !rows_a) -> tensor<2x3x!quant.uniform<i8:f32:0, {1.0, 2.0}>> {
  %0 = quant.rescale %x : !rows_a to !rows_b
  %i = nn.constant dense<[2, 0, 1]> : tensor<3xi64> : tensor<3xi64>
  %1 = nn.gather %0, %i axis 1 : (!rows_b, tensor<3xi64>) -> tensor<2x3x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  func.return %1 : tensor<2x3x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
}

// SINK-LABEL: func.func @resize(
// SINK-NEXT: nn.resize_nearest
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @resize(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.resize_nearest
func.func @resize(%x: !a) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.resize_nearest %0 scales [2.0, 2.0] : (!b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
}

// SINK-LABEL: func.func @resize_rows(
// SINK-NEXT: nn.resize_nearest {{.*}} -> tensor<2x8x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @resize_rows(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.resize_nearest
func.func @resize_rows(%x: !rows_a) -> tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>> {
  %0 = quant.rescale %x : !rows_a to !rows_b
  %1 = nn.resize_nearest %0 sizes [2, 8] : (!rows_b) -> tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  func.return %1 : tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
}

// SINK-LABEL: func.func @select(
// SINK-NEXT: nn.select
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @select(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.select
func.func @select(%c: tensor<?x4xi1>, %x: !a, %y: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = quant.rescale %y : !a to !b
  %2 = nn.select %c, %0, %1 : (tensor<?x4xi1>, !b, !b) -> !b
  func.return %2 : !b
}

// SINK-LABEL: func.func @select_rows(
// SINK-NEXT: nn.select {{.*}} -> tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @select_rows(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.select
func.func @select_rows(%c: tensor<2x4xi1>, %x: !rows_a, %y: !rows_a) -> !rows_b {
  %0 = quant.rescale %x : !rows_a to !rows_b
  %1 = quant.rescale %y : !rows_a to !rows_b
  %2 = nn.select %c, %0, %1 : (tensor<2x4xi1>, !rows_b, !rows_b) -> !rows_b
  func.return %2 : !rows_b
}

// SINK-LABEL: func.func @insert(
// SINK-NEXT: nn.insert
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
// HOIST-LABEL: func.func @insert(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.insert
func.func @insert(%x: !a, %y: tensor<?x2x!quant.uniform<i8:f32, 0.5:3>>) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = quant.rescale %y : tensor<?x2x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x2x!quant.uniform<u8:f32, 0.75:128>>
  %2 = nn.insert %0, %1 starts [0, 1] steps [1, 2] : (!b, tensor<?x2x!quant.uniform<u8:f32, 0.75:128>>) -> !b
  func.return %2 : !b
}

// SINK-LABEL: func.func @insert_rows(
// SINK-NEXT: nn.insert {{.*}} -> tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @insert_rows(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.insert
func.func @insert_rows(%x: !rows_a, %y: tensor<1x4x!quant.uniform<i8:f32, 0.25:1>>) -> !rows_b {
  %0 = quant.rescale %x : !rows_a to !rows_b
  %1 = quant.rescale %y : tensor<1x4x!quant.uniform<i8:f32, 0.25:1>> to tensor<1x4x!quant.uniform<i8:f32, 2.0>>
  %2 = nn.insert %0, %1 starts [1, 0] steps [1, 1] : (!rows_b, tensor<1x4x!quant.uniform<i8:f32, 2.0>>) -> !rows_b
  func.return %2 : !rows_b
}

// SINK-LABEL: func.func @split(
// SINK-NEXT: nn.split
// SINK-NEXT: quant.rescale
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
// HOIST-LABEL: func.func @split(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.split
// HOIST-NEXT: return
func.func @split(%x: !a) -> (tensor<?x1x!quant.uniform<u8:f32, 0.75:128>>, tensor<?x3x!quant.uniform<u8:f32, 0.75:128>>) {
  %0 = quant.rescale %x : !a to !b
  %1:2 = nn.split %0 axis 1 sizes [1, 3] : (!b) -> (tensor<?x1x!quant.uniform<u8:f32, 0.75:128>>, tensor<?x3x!quant.uniform<u8:f32, 0.75:128>>)
  func.return %1#0, %1#1 : tensor<?x1x!quant.uniform<u8:f32, 0.75:128>>, tensor<?x3x!quant.uniform<u8:f32, 0.75:128>>
}

// SINK-LABEL: func.func @concat(
// SINK-NEXT: nn.concat
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @concat(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.concat
func.func @concat(%x: !a, %y: !a) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  %1 = quant.rescale %y : !a to !b
  %2 = nn.concat %0, %1 axis 1 : (!b, !b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
  func.return %2 : tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
}

// SINK-LABEL: func.func @concat_along_rows(
// SINK-NEXT: nn.concat {{.*}} -> tensor<2x8x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @concat_along_rows(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.concat
func.func @concat_along_rows(%x: !rows_a, %y: !rows_a) -> tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>> {
  %0 = quant.rescale %x : !rows_a to !rows_b
  %1 = quant.rescale %y : !rows_a to !rows_b
  %2 = nn.concat %0, %1 axis 1 : (!rows_b, !rows_b) -> tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  func.return %2 : tensor<2x8x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
}

// A vector cut into the parts that blocks have a scale each for; extents that the shape copies.

// SINK-LABEL: func.func @vector_to_blocks(
// SINK-NEXT: nn.reshape
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @vector_to_blocks(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.reshape
func.func @vector_to_blocks(%x: tensor<6x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125, 1.0, 2.0, 4.0}>>) -> tensor<2x3x!quant.uniform<i8:f32:{0:1, 1:1}, {{1.0, 1.0, 1.0}, {2.0, 2.0, 4.0}}>> {
  %0 = quant.rescale %x : tensor<6x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125, 1.0, 2.0, 4.0}>> to tensor<6x!quant.uniform<i8:f32:0, {1.0, 1.0, 1.0, 2.0, 2.0, 4.0}>>
  %1 = nn.reshape %0 : (tensor<6x!quant.uniform<i8:f32:0, {1.0, 1.0, 1.0, 2.0, 2.0, 4.0}>>) -> tensor<2x3x!quant.uniform<i8:f32:{0:1, 1:1}, {{1.0, 1.0, 1.0}, {2.0, 2.0, 4.0}}>>
  return %1 : tensor<2x3x!quant.uniform<i8:f32:{0:1, 1:1}, {{1.0, 1.0, 1.0}, {2.0, 2.0, 4.0}}>>
}

// SINK-LABEL: func.func @copied(
// SINK-NEXT: nn.reshape
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @copied(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.reshape
func.func @copied(%x: tensor<?x4x?x!quant.uniform<i8:f32:1, {0.5, 0.25, 0.125, 1.0}>>) -> tensor<?x4x?x1x!quant.uniform<i8:f32:1, {1.0, 1.0, 1.0, 2.0}>> {
  %0 = quant.rescale %x : tensor<?x4x?x!quant.uniform<i8:f32:1, {0.5, 0.25, 0.125, 1.0}>> to tensor<?x4x?x!quant.uniform<i8:f32:1, {1.0, 1.0, 1.0, 2.0}>>
  %1 = nn.reshape %0 shape [0, 4, -1, 1] : (tensor<?x4x?x!quant.uniform<i8:f32:1, {1.0, 1.0, 1.0, 2.0}>>) -> tensor<?x4x?x1x!quant.uniform<i8:f32:1, {1.0, 1.0, 1.0, 2.0}>>
  return %1 : tensor<?x4x?x1x!quant.uniform<i8:f32:1, {1.0, 1.0, 1.0, 2.0}>>
}
