// RUN: qopt-opt %s -p 'place-rescales{boundary=minimize-conversions}' | filecheck %s --check-prefixes=CHECK,EXACT
// RUN: qopt-opt %s -p 'place-rescales{numerics=relaxed boundary=minimize-conversions}' | filecheck %s --check-prefixes=CHECK,RELAXED
// RUN: qopt-opt %s -p 'place-rescales{numerics=relaxed}' | filecheck %s --check-prefix=KEPT
// RUN: qopt-opt %s -p 'place-rescales{numerics=relaxed boundary=maximize-integer}' | filecheck %s --check-prefix=INNER

// A dequantize and the quantize below it are a rescale; a quantize and the dequantize below it are
// nothing under `relaxed`.

!q = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!u = tensor<2x4x!quant.uniform<u8:f32, 0.75:128>>
!narrow = tensor<2x4x!quant.uniform<i8<-10:10>:f32, 0.5:3>>
!f = tensor<2x4xf32>
!h = tensor<2x4xf16>
!qh = tensor<2x4x!quant.uniform<i16:f16, 0.5:3>>

// CHECK-LABEL: func.func @rescale(
// CHECK-NEXT: [[T:%[a-z0-9_]+]] = nn.transpose %arg0
// CHECK-NEXT: quant.rescale [[T]]
// CHECK-NEXT: return
func.func @rescale(%x: !q) -> tensor<4x2x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.transpose %0 perm [1, 0] : (!f) -> tensor<4x2xf32>
  %2 = quant.qcast %1 : tensor<4x2xf32> to tensor<4x2x!quant.uniform<u8:f32, 0.75:128>>
  func.return %2 : tensor<4x2x!quant.uniform<u8:f32, 0.75:128>>
}

// Each code comes back.
// CHECK-LABEL: func.func @back(
// CHECK-NEXT: nn.relu %arg0
// CHECK-NEXT: return
func.func @back(%x: !q) -> !q {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.relu %0 : (!f) -> !f
  %2 = quant.qcast %1 : !f to !q
  func.return %2 : !q
}

// An argument may hold codes outside of its bounds, which the quantize clips.
// CHECK-LABEL: func.func @clipped(
// CHECK-NEXT: quant.rescale %arg0
// CHECK-NEXT: return
func.func @clipped(%x: !narrow) -> !narrow {
  %0 = quant.dcast %x : !narrow to !f
  %1 = quant.qcast %0 : !f to !narrow
  func.return %1 : !narrow
}

// f16 does not hold every code of 16 bits.
// CHECK-LABEL: func.func @not_every_code(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: quant.qcast
func.func @not_every_code(%x: !qh) -> !qh {
  %0 = quant.dcast %x : !qh to !h
  %1 = quant.qcast %0 : !h to !qh
  func.return %1 : !qh
}

// Sink Quantize below Reshape, and merge it with the Dequantize.
// CHECK-LABEL: func.func @between_floats(
// EXACT-NEXT: nn.exp
// EXACT-NEXT: quant.qcast
// EXACT-NEXT: nn.reshape
// EXACT-NEXT: quant.dcast
// RELAXED-NEXT: nn.exp
// RELAXED-NEXT: nn.reshape
// RELAXED-NEXT: nn.log
// KEPT-LABEL: func.func @between_floats(
// KEPT-NEXT: nn.exp
// KEPT-NEXT: quant.qcast
// KEPT-NEXT: nn.reshape {{.*}} -> tensor<8x!quant
// KEPT-NEXT: quant.dcast
// INNER-LABEL: func.func @between_floats(
// INNER-NEXT: nn.exp
// INNER-NEXT: nn.reshape
// INNER-NEXT: nn.log
func.func @between_floats(%x: !f) -> tensor<8xf32> {
  %a = nn.exp %x : (!f) -> !f
  %0 = quant.qcast %a : !f to !q
  %1 = nn.reshape %0 : (!q) -> tensor<8x!quant.uniform<i8:f32, 0.5:3>>
  %2 = quant.dcast %1 : tensor<8x!quant.uniform<i8:f32, 0.5:3>> to tensor<8xf32>
  %b = nn.log %2 : (tensor<8xf32>) -> tensor<8xf32>
  func.return %b : tensor<8xf32>
}

// The codes are used elsewhere: the quantize stays for that use alone, where less is quantized.
// CHECK-LABEL: func.func @also_as_codes(
// EXACT-NEXT: quant.qcast
// RELAXED-NEXT: nn.slice {{.*}} -> tensor<1x4xf32>
// RELAXED-NEXT: quant.qcast {{.*}} to tensor<1x4x!quant
func.func @also_as_codes(%x: !f) -> (!f, tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>) {
  %0 = quant.qcast %x : !f to !q
  %1 = quant.dcast %0 : !q to !f
  %2 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (!q) -> tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
  func.return %1, %2 : !f, tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
}

// A rescale that only renumbers goes into the cast beside it.
// CHECK-LABEL: func.func @renumbered(
// CHECK-NEXT: quant.dcast %arg0
// CHECK-NEXT: quant.qcast %arg1 : {{.*}} to tensor<2x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return
func.func @renumbered(%x: !q, %y: !f) -> (!f, tensor<2x4x!quant.uniform<u8:f32, 0.5:131>>) {
  %0 = quant.rescale %x : !q to tensor<2x4x!quant.uniform<i16:f32, 0.5:7>>
  %1 = quant.dcast %0 : tensor<2x4x!quant.uniform<i16:f32, 0.5:7>> to !f
  %2 = quant.qcast %y : !f to !q
  %3 = quant.rescale %2 : !q to tensor<2x4x!quant.uniform<u8:f32, 0.5:131>>
  func.return %1, %3 : !f, tensor<2x4x!quant.uniform<u8:f32, 0.5:131>>
}

// A float constant is quantized as it is compiled; a constant of codes stays one.
// CHECK-LABEL: func.func @constants(
// CHECK: nn.constant {{.*}} : tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: quant.dcast
func.func @constants(%x: !q) -> (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, !f) {
  %c = nn.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]> : tensor<2x4xf32> : !f
  %0 = quant.dcast %x : !q to !f
  %1 = nn.concat %0, %c axis 0 : (!f, !f) -> tensor<4x4xf32>
  %2 = quant.qcast %1 : tensor<4x4xf32> to tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = nn.constant dense<1> : tensor<2x4xi8> : !q
  %3 = quant.dcast %w : !q to !f
  func.return %2, %3 : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, !f
}

// A quantize rounds as it did, whatever the rescale that only renumbers does.
!wide = tensor<2x4x!quant.uniform<i16:f32, 0.5:3>>
!other = tensor<2x4x!quant.uniform<i8:f32, 0.5:1>>
// CHECK-LABEL: func.func @rounds_as_the_quantize(
// CHECK-NEXT: quant.qcast %arg0 {quant.rounding = "half_up"}
// CHECK-NEXT: nn.relu
// CHECK-NEXT: return
func.func @rounds_as_the_quantize(%x: !f) -> !other {
  %0 = quant.qcast %x {quant.rounding = "half_up"} : !f to !wide
  %1 = nn.relu %0 : (!wide) -> !wide
  %2 = quant.rescale %1 : !wide to !other
  func.return %2 : !other
}

// What compares codes may compare floats under `relaxed`: -0.7 is no code of either.
// CHECK-LABEL: func.func @compares_floats(
// EXACT-NEXT: quant.qcast
// EXACT-NEXT: nn.clip {{.*}}quant.uniform
// EXACT-NEXT: quant.dcast
// RELAXED-NEXT: nn.clip %arg0 {{.*}}f32>)
// RELAXED-NEXT: return
// INNER-LABEL: func.func @compares_floats(
// INNER-NEXT: nn.clip %arg0 {{.*}}f32>)
// INNER-NEXT: return
func.func @compares_floats(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !u
  %1 = nn.clip %0 min -0.7 : (!u) -> !u
  %2 = quant.dcast %1 : !u to !f
  func.return %2 : !f
}

// One dequantize serves both once the rescale above the other is dropped.
// CHECK-LABEL: func.func @one_dequantize(
// RELAXED-NEXT: [[F:%[a-z0-9_]+]] = quant.dcast %arg0
// RELAXED-NEXT: [[M:%[a-z0-9_]+]] = nn.reduce_max [[F]]
// RELAXED-NEXT: [[R:%[a-z0-9_]+]] = quant.rescale %arg0
// RELAXED-NEXT: return [[F]], [[M]], [[R]]
func.func @one_dequantize(%x: !q) -> (!f, tensor<2x1xf32>, !other) {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.reduce_max %0 axes [1] : (!f) -> tensor<2x1xf32>
  %2 = quant.rescale %x : !q to !u
  %3 = quant.dcast %2 : !u to !f
  %4 = quant.rescale %x : !q to !other
  func.return %3, %1, %4 : !f, tensor<2x1xf32>, !other
}
