// RUN: qopt inspect %s --target ethos-u55 | filecheck %s --check-prefix=U55
// RUN: qopt inspect %s --target ethos-u85 | filecheck %s --check-prefix=U85

// Which ops Vela puts on the NPU, and which on the processor, by the constraints that it lists
// (SUPPORTED_OPS.md of Vela 5.2); tests/targets/test_vela.py asks Vela itself.

// U55: taken by ethos-u55 on codes: 4 of 10 ops
// U55: why not
// U55-NEXT: 1 nn.abs operand #0 is i32, not i8|u8|i16 abs-i32
// U55-NEXT: 1 nn.avg_pool2d pads 4 is not 0; window 9 is not 1..8 average-9-same
// U55-NEXT: 1 nn.conv2d strides 4 is not 1..3; pads 1 is not 0 conv-stride-4-same
// U55-NEXT: 1 nn.div nothing runs 'nn.div' on integers div
// U55-NEXT: 1 nn.matmul operand #0 is i16, not i8 matmul-i16
// U55-NEXT: 1 nn.max_pool2d pads 1 is not 0; strides 4 is not 1..3 max-stride-4-same

// U85: taken by ethos-u85 on codes: 9 of 10 ops
// U85: why not
// U85-NEXT: 1 nn.avg_pool2d pads 4 is not 0; window 9 is not 1..8 average-9-same

!x = tensor<1x2x16x16x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!v = tensor<1x2x8x8x!quant.uniform<i8:f32, 0.5:3>>
!o = tensor<1x2x16x16x!quant.uniform<i8:f32, 0.25:3>>
!w = tensor<2x2x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!m = tensor<4x4x!quant.uniform<i16:f32, 0.5>>
!i = tensor<1x2x16x16x!quant.uniform<i32:f32, 0.5>>

func.func @ops(%x: !x, %o: !o, %m: !m, %i: !i) -> (!y, !y, !y, !y, !v, !x, !x, !m, !x, !i) {
  %w = nn.constant dense<1> : tensor<2x2x3x3xi8> : !w
  // Strides of 4: without padding, yes; with padding on the U85 only.
  %0 = nn.conv2d %x, %w strides [4, 4] {nn.key = "conv-stride-4-valid"} : (!x, !w) -> !y
  %1 = nn.conv2d %x, %w strides [4, 4] pads [1, 1, 0, 0] {nn.key = "conv-stride-4-same"} : (!x, !w) -> !y
  %2 = nn.max_pool2d %x kernel [2, 2] strides [4, 4] {nn.key = "max-stride-4-valid"} : (!x) -> !y
  %3 = nn.max_pool2d %x kernel [5, 5] strides [4, 4] pads [1, 1, 0, 0] {nn.key = "max-stride-4-same"} : (!x) -> !y
  // A mean of 9 by 9 elements: without padding only.
  %4 = nn.avg_pool2d %x kernel [9, 9] {nn.key = "average-9-valid"} : (!x) -> !v
  %5 = nn.avg_pool2d %x kernel [9, 9] pads [4, 4, 4, 4] {nn.key = "average-9-same"} : (!x) -> !x
  %6 = nn.add %x, %o {nn.key = "add"} : (!x, !o) -> !x
  // Products of 16 bits and quotients: the U85 only.
  %7 = nn.matmul %m, %m {nn.key = "matmul-i16"} : (!m, !m) -> !m
  %8 = nn.div %x, %o {nn.key = "div"} : (!x, !o) -> !x
  %9 = nn.abs %i {nn.key = "abs-i32"} : (!i) -> !i
  func.return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : !y, !y, !y, !y, !v, !x, !x, !m, !x, !i
}
