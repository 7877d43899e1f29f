// RUN: qopt-opt %s -p 'place-rescales{boundary=minimize-conversions}' | filecheck %s
// RUN: qopt-opt %s -p 'move-casts{boundary=minimize-conversions}' | filecheck %s
// RUN: qopt-opt %s -p 'place-rescales{boundary=minimize-conversions},canonicalize,place-rescales{boundary=minimize-conversions}' > %t.twice
// RUN: qopt-opt %s -p 'place-rescales{boundary=minimize-conversions},canonicalize' | diff %t.twice -

// Each cast where the fewest elements cross, which `boundary=minimize-conversions` asks for.

!q = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!q_half = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<2x4xf32>
!f_half = tensor<2x2xf32>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!dynamic = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>

// CHECK-LABEL: func.func @shared_codes(
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: nn.slice
func.func @shared_codes(%x: !f) -> (!q_half, !q) {
  %0 = quant.qcast %x : !f to !q
  %1 = nn.slice %0 starts [0, 1] stops [2, 3] steps [1, 1] : (!q) -> !q_half
  func.return %1, %0 : !q_half, !q
}

// A row picked from two: its scale goes below with it.
// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: nn.slice {{.*}} -> tensor<1x4xf32>
// CHECK-NEXT: quant.qcast {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 2.500000e-01>>
func.func @per_axis(%x: !f) -> tensor<1x4x!quant.uniform<i8:f32, 0.25>> {
  %0 = quant.qcast %x : !f to !rows
  %1 = nn.slice %0 starts [1, 0] stops [2, 4] steps [1, 1] : (!rows) -> tensor<1x4x!quant.uniform<i8:f32, 0.25>>
  func.return %1 : tensor<1x4x!quant.uniform<i8:f32, 0.25>>
}

// Unknown extents count as they are priced: two columns of four, whatever the rows.
// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: nn.slice
// CHECK-NEXT: quant.qcast
func.func @dynamic(%x: tensor<?x4xf32>) -> tensor<?x2x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.qcast %x : tensor<?x4xf32> to !dynamic
  %1 = nn.slice %0 starts [0, 1] stops [2147483647, 3] steps [1, 1] : (!dynamic) -> tensor<?x2x!quant.uniform<i8:f32, 0.5:3>>
  func.return %1 : tensor<?x2x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @two_roundings(
// CHECK: nn.select {{.*}} -> tensor<2x4x!quant
func.func @two_roundings(%c: tensor<2x4xi1>, %x: !f, %y: !f) -> !q {
  %0 = quant.qcast %x : !f to !q
  %1 = quant.qcast %y {quant.rounding = "half_up"} : !f to !q
  %2 = nn.select %c, %0, %1 : (tensor<2x4xi1>, !q, !q) -> !q
  func.return %2 : !q
}

// CHECK-LABEL: func.func @tile_last(
// CHECK-NEXT: quant.dcast {{.*}} to tensor<2x4xf32>
// CHECK-NEXT: nn.tile {{.*}} -> tensor<6x4xf32>
func.func @tile_last(%x: !q) -> tensor<6x4xf32> {
  %0 = nn.tile %x repeats [3, 1] : (!q) -> tensor<6x4x!quant.uniform<i8:f32, 0.5:3>>
  %1 = quant.dcast %0 : tensor<6x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<6x4xf32>
  func.return %1 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @tiled_codes_wanted(
// CHECK-NEXT: nn.tile
// CHECK-NEXT: quant.dcast
func.func @tiled_codes_wanted(%x: !q) -> (tensor<6x4xf32>, tensor<6x4x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = nn.tile %x repeats [3, 1] : (!q) -> tensor<6x4x!quant.uniform<i8:f32, 0.5:3>>
  %1 = quant.dcast %0 : tensor<6x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<6x4xf32>
  func.return %1, %0 : tensor<6x4xf32>, tensor<6x4x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @slice_then_dequantize(
// CHECK-NEXT: nn.slice {{.*}} -> tensor<2x2x!quant
// CHECK-NEXT: quant.dcast {{.*}} to tensor<2x2xf32>
func.func @slice_then_dequantize(%x: !q) -> !f_half {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.slice %0 starts [0, 1] stops [2, 3] steps [1, 1] : (!f) -> !f_half
  func.return %1 : !f_half
}

// CHECK-LABEL: func.func @floats_wanted(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.slice
func.func @floats_wanted(%x: !q) -> (!f_half, !f) {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.slice %0 starts [0, 1] stops [2, 3] steps [1, 1] : (!f) -> !f_half
  func.return %1, %0 : !f_half, !f
}

// CHECK-LABEL: func.func @quantize_first(
// CHECK-NEXT: quant.qcast {{.*}} to tensor<2x4x!quant
// CHECK-NEXT: nn.repeat
func.func @quantize_first(%x: !f) -> tensor<4x4x!quant.uniform<i8:f32:0, {0.5, 0.5, 0.25, 0.25}>> {
  %0 = nn.repeat %x repeats [2, 1] : (!f) -> tensor<4x4xf32>
  %1 = quant.qcast %0 : tensor<4x4xf32> to tensor<4x4x!quant.uniform<i8:f32:0, {0.5, 0.5, 0.25, 0.25}>>
  func.return %1 : tensor<4x4x!quant.uniform<i8:f32:0, {0.5, 0.5, 0.25, 0.25}>>
}

// Copies of one element would get different scales.
// CHECK-LABEL: func.func @copies_differ(
// CHECK-NEXT: nn.repeat
// CHECK-NEXT: quant.qcast
func.func @copies_differ(%x: !f) -> tensor<4x4x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>> {
  %0 = nn.repeat %x repeats [2, 1] : (!f) -> tensor<4x4xf32>
  %1 = quant.qcast %0 : tensor<4x4xf32> to tensor<4x4x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>>
  func.return %1 : tensor<4x4x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>>
}

// Below an op that leaves the number as it is.
// CHECK-LABEL: func.func @past_a_flip(
// CHECK-NEXT: nn.flip
// CHECK-NEXT: nn.slice
// CHECK-NEXT: quant.dcast {{.*}} to tensor<2x2xf32>
func.func @past_a_flip(%x: !q) -> !f_half {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.flip %0 axes [0] : (!f) -> !f
  %2 = nn.slice %1 starts [0, 1] stops [2, 3] steps [1, 1] : (!f) -> !f_half
  func.return %2 : !f_half
}

// Two that read little of one tensor.
// CHECK-LABEL: func.func @two_parts(
// CHECK-NEXT: [[A:%[a-z0-9_]+]] = nn.slice
// CHECK-NEXT: [[B:%[a-z0-9_]+]] = nn.slice
// CHECK-NEXT: quant.dcast [[A]] {{.*}} to tensor<1x4xf32>
// CHECK-NEXT: quant.dcast [[B]] {{.*}} to tensor<1x3xf32>
func.func @two_parts(%x: !q) -> (tensor<1x4xf32>, tensor<1x3xf32>) {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (!f) -> tensor<1x4xf32>
  %2 = nn.slice %0 starts [0, 0] stops [1, 3] steps [1, 1] : (!f) -> tensor<1x3xf32>
  func.return %1, %2 : tensor<1x4xf32>, tensor<1x3xf32>
}
