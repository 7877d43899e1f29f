// RUN: qopt-opt %s -p place-rescales --remarks=%t.json --split-input-file | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE --input-file %t.json
// RUN: qopt-opt %s -p place-rescales{numerics=bounded} --split-input-file | filecheck %s --check-prefix=BOUNDED
// RUN: qopt-opt %s -p place-rescales{numerics=relaxed} --split-input-file | filecheck %s --check-prefix=RELAXED
// RUN: qopt-opt %s -p "place-rescales{numerics=relaxed accuracy=4.0}" --split-input-file | filecheck %s --check-prefix=PRECISE
// RUN: qopt-opt %s -p place-rescales,place-rescales --split-input-file > %t.twice
// RUN: qopt-opt %s -p place-rescales --split-input-file | diff %t.twice -

// Every rescale stands where the fewest elements are rescaled.

!large_a = tensor<8x32x!quant.uniform<i8:f32, 0.5:3>>
!large_b = tensor<8x32x!quant.uniform<u8:f32, 0.75:128>>
!small_a = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!small_b = tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>

// Sinking alone would go past the tile, where it costs as much as at the start.
// NOTE: cost 256 -> 4 elements x price, lower bound 4, gap 0.0%; 1 of 1 components exact (1 by elimination)
// CHECK-LABEL: func.func @between(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.slice %arg0
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.tile [[V1]]
// CHECK-NEXT: return [[V2]]
func.func @between(%x: !large_a) -> !large_b {
  // DOC-BEFORE
  %0 = quant.rescale %x : !large_a to !large_b
  %1 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (!large_b) -> !small_b
  %2 = nn.tile %1 repeats [8, 8] : (!small_b) -> !large_b
  // DOC-AFTER
  //   %0 = nn.slice %x starts [0, 0] stops [1, 4] steps [1, 1] : (!large_a) -> !small_a
  //   %1 = quant.rescale %0 : !small_a to !small_b
  //   %2 = nn.tile %1 repeats [8, 8] : (!small_b) -> !large_b
  // DOC-END
  func.return %2 : !large_b
}

// -----

// Multi-use: one user takes the value as it is, so the rescale cannot move above; the
// other two share one rescale where they part.

!a = tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x8x!quant.uniform<u8:f32, 0.75:128>>
!half_a = tensor<2x8x!quant.uniform<i8:f32, 0.5:3>>
!half_b = tensor<2x8x!quant.uniform<u8:f32, 0.75:128>>

// NOTE: cost 32 -> 16 elements x price, lower bound 16
// CHECK-LABEL: func.func @use_by_use(
// CHECK-NEXT: [[T:%[a-z0-9_]+]] = nn.transpose %arg0
// CHECK-NEXT: [[S:%[a-z0-9_]+]] = nn.slice %arg0
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale [[S]] : {{.*}} to tensor<2x8x
// CHECK-NEXT: [[A:%[a-z0-9_]+]] = nn.reshape [[R]]
// CHECK-NEXT: [[B:%[a-z0-9_]+]] = nn.add [[R]], [[R]]
// CHECK-NEXT: return [[T]], [[A]], [[B]]
func.func @use_by_use(%x: !a) -> (tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<16x!quant.uniform<u8:f32, 0.75:128>>, !half_b) {
  %t = nn.transpose %x perm [1, 0] : (!a) -> tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>
  %0 = quant.rescale %x : !a to !b
  %1 = nn.slice %0 starts [0, 0] stops [2, 8] steps [1, 1] : (!b) -> !half_b
  %2 = nn.reshape %1 : (!half_b) -> tensor<16x!quant.uniform<u8:f32, 0.75:128>>
  %3 = nn.add %1, %1 : (!half_b, !half_b) -> !half_b
  func.return %t, %2, %3 : tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<16x!quant.uniform<u8:f32, 0.75:128>>, !half_b
}

// -----

// Two rescales meet on the way and lose nothing together: they go.

!a = tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>
!wide = tensor<4x8x!quant.uniform<i16:f32, 0.25>>
!b_out = tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>
!wide_out = tensor<8x4x!quant.uniform<i16:f32, 0.25>>

// NOTE: cost 64 -> 0 elements x price, lower bound 0
// CHECK-LABEL: func.func @back_again(
// CHECK-NEXT: [[V:%[a-z0-9_]+]] = nn.transpose %arg0
// CHECK-NEXT: return [[V]]
func.func @back_again(%x: !a) -> !b_out {
  %0 = quant.rescale %x : !a to !wide
  %1 = nn.transpose %0 perm [1, 0] : (!wide) -> !wide_out
  %2 = quant.rescale %1 : !wide_out to !b_out
  func.return %2 : !b_out
}

// -----

// Per axis: the axis moves with the rescale.

!channels = tensor<1x2x4x4x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1}>>
!doubled = tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
!pooled = tensor<1x2x2x2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
!moved = tensor<1x2x2x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>>

// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: [[P:%[a-z0-9_]+]] = nn.max_pool2d %arg0 {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale [[P]]
// CHECK-NEXT: [[T:%[a-z0-9_]+]] = nn.transpose [[R]]
// CHECK-NEXT: return [[T]]
func.func @per_axis(%x: !channels) -> !moved {
  %0 = quant.rescale %x : !channels to !doubled
  %1 = nn.max_pool2d %0 kernel [2, 2] strides [2, 2] : (!doubled) -> !pooled
  %2 = nn.transpose %1 perm [0, 2, 3, 1] : (!pooled) -> !moved
  func.return %2 : !moved
}

// -----

// Unknown extents count once; a rescale with nowhere cheaper to go stays, exactly as it is.

!a = tensor<?x8x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>

// NOTE: cost 8 -> 8 elements x price, lower bound 8
// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale %arg0
// CHECK-NEXT: [[V:%[a-z0-9_]+]] = nn.relu [[R]]
// CHECK-NEXT: return [[V]]
func.func @dynamic(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.relu %0 : (!b) -> !b
  func.return %1 : !b
}

// -----

// Past clamps at levels that no code names if all codes agree: 6.1 is 6.0 on either side,
// 6.3 is not. Sunk below the slice, hoisted above the tile.

!a = tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x8x!quant.uniform<u8:f32, 0.75:128>>
!half_a = tensor<2x8x!quant.uniform<i8:f32, 0.5:3>>
!half_b = tensor<2x8x!quant.uniform<u8:f32, 0.75:128>>

// CHECK-LABEL: func.func @clip_sunk(
// CHECK-NEXT: [[C:%[a-z0-9_]+]] = nn.clip %arg0 min 0.0 max 6.1
// CHECK-NEXT: [[S:%[a-z0-9_]+]] = nn.slice [[C]]
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale [[S]]
// CHECK-NEXT: return [[R]]
func.func @clip_sunk(%x: !a) -> !half_b {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.clip %0 min 0.0 max 6.1 : (!b) -> !b
  %2 = nn.slice %1 starts [0, 0] stops [2, 8] steps [1, 1] : (!b) -> !half_b
  func.return %2 : !half_b
}

// CHECK-LABEL: func.func @clip_hoisted(
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale %arg0
// CHECK-NEXT: [[T:%[a-z0-9_]+]] = nn.tile [[R]]
// CHECK-NEXT: [[C:%[a-z0-9_]+]] = nn.clip [[T]] min 0.0 max 6.1
// CHECK-NEXT: return [[C]]
func.func @clip_hoisted(%x: !half_a) -> !b {
  %0 = nn.tile %x repeats [2, 1] : (!half_a) -> !a
  %1 = nn.clip %0 min 0.0 max 6.1 : (!a) -> !a
  %2 = quant.rescale %1 : !a to !b
  func.return %2 : !b
}

// CHECK-LABEL: func.func @clip_between_codes(
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale %arg0
// CHECK-NEXT: [[C:%[a-z0-9_]+]] = nn.clip [[R]] min 0.0 max 6.3
// CHECK-NEXT: [[S:%[a-z0-9_]+]] = nn.slice [[C]]
// CHECK-NEXT: return [[S]]
func.func @clip_between_codes(%x: !a) -> !half_b {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.clip %0 min 0.0 max 6.3 : (!b) -> !b
  %2 = nn.slice %1 starts [0, 0] stops [2, 8] steps [1, 1] : (!b) -> !half_b
  func.return %2 : !half_b
}

// -----

// A constant is rescaled when it is made, one copy per use that differs.

!a = tensor<2x!quant.uniform<i8:f32, 0.5>>
!b = tensor<2x!quant.uniform<i8:f32, 1.0>>
!ab = tensor<4x!quant.uniform<i8:f32, 1.0>>

// CHECK-LABEL: func.func @constants(
// CHECK: [[C:%[a-z0-9_]+]] = nn.constant dense<[1, 2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK: nn.concat %arg0, [[C]]
// CHECK-NOT: quant.rescale
// CHECK: return
func.func @constants(%x: !b) -> (!ab, !a) {
  %c = nn.constant dense<[2, 4]> : tensor<2xi8> : !a
  %0 = quant.rescale %c : !a to !b
  %1 = nn.concat %x, %0 axis 0 : (!b, !b) -> !ab
  func.return %1, %c : !ab, !a
}

// -----

// Requantizing ports absorb rescales as far as the level allows.

!a = tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x8x!quant.uniform<u8:f32, 0.75:128>>
!ra = tensor<32x!quant.uniform<i8:f32, 0.5:3>>
!rb = tensor<32x!quant.uniform<u8:f32, 0.75:128>>

// CHECK-LABEL: func.func @ports(
// CHECK: quant.rescale
// BOUNDED-LABEL: func.func @ports(
// BOUNDED-NEXT: nn.reshape
// BOUNDED-NEXT: nn.sub {{.*}} : (tensor<32x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<32x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<32x!quant.uniform<u8:f32, 7.500000e-01:128>>
// BOUNDED-NEXT: return
func.func @ports(%x: !a) -> !rb {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.reshape %0 : (!b) -> !rb
  %2 = nn.sub %1, %1 : (!rb, !rb) -> !rb
  func.return %2 : !rb
}

// -----

// An op nobody knows stays, with what it is given.

!a = tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x8x!quant.uniform<u8:f32, 0.75:128>>

// CHECK-LABEL: func.func @unknown(
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale %arg0
// CHECK-NEXT: [[U:%[a-z0-9_]+]] = onnx.node "Mystery" domain "vendor" ([[R]])
func.func @unknown(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = "onnx.node"(%0) {op_type = "Mystery", domain = "vendor"} : (!b) -> !b
  func.return %1 : !b
}

// -----

// Regridding, under relaxed only: the convolution's other user is given what the concat
// wants, since that loses less than half a bit.

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25>>
!fine = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!wide = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.625>>
!both = tensor<1x4x4x4x!quant.uniform<i8:f32, 0.625>>

// NOTE: cost 32 -> 32
// CHECK-LABEL: func.func @regrid(
// CHECK: quant.rescale
// RELAXED-LABEL: func.func @regrid(
// RELAXED: nn.conv2d {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 6.250000e-01>>
// RELAXED: nn.sigmoid {{.*}} : (tensor<1x2x4x4x!quant.uniform<i8:f32, 6.250000e-01>>) -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// RELAXED-NOT: quant.rescale
// PRECISE-LABEL: func.func @regrid(
// PRECISE: quant.rescale
func.func @regrid(%x: !x, %y: !wide) -> (!both, !fine) {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !w
  %0 = nn.conv2d %x, %w : (!x, !w) -> !fine
  %1 = quant.rescale %0 : !fine to !wide
  %2 = nn.concat %1, %y axis 1 : (!wide, !wide) -> !both
  %3 = nn.sigmoid %0 : (!fine) -> !fine
  func.return %2, %3 : !both, !fine
}
