// RUN: qopt-opt %s -p 'split-rescale{ops=sums},convert-nn-to-stablehlo' --mlir-print-op-generic | filecheck %s
// RUN: qopt-opt %s -p 'split-rescale{ops=sums},convert-nn-to-stablehlo' --mlir-print-op-generic | qopt-opt --mlir-print-op-generic | filecheck %s

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x4x!quant.uniform<i8:f32, 0.25>>
!f = tensor<2x4xf32>

// An op that rounds once is one there; what is around 0 needs no second step.
// CHECK: sym_name = "once"
// CHECK: "stablehlo.add"(%{{.*}}, %{{.*}}) : (tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>) -> tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: "stablehlo.uniform_dequantize"
// CHECK-NEXT: "func.return"
func.func @once(%x: !x, %y: !y) -> !f {
  %0 = nn.add %x, %y : (!x, !y) -> !y
  %1 = quant.dcast %0 : !y to !f
  func.return %1 : !f
}

// Ties, and an odd zero point, which StableHLO adds before it rounds.
// CHECK: sym_name = "odd"
// CHECK: "stablehlo.uniform_quantize"(%{{.*}}) : (tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01>>) -> tensor<2x4x!quant.uniform<i32<-8388608:8388607>:f32, 5.000000e-01>>
// CHECK-NEXT: "stablehlo.uniform_quantize"(%{{.*}}) : (tensor<2x4x!quant.uniform<i32<-8388608:8388607>:f32, 5.000000e-01>>) -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @odd(%y: !y) -> !x {
  %0 = quant.rescale %y : !y to !x
  func.return %0 : !x
}

// CHECK: sym_name = "floats"
// CHECK: "stablehlo.uniform_quantize"(%{{.*}}) : (tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK-NEXT: "stablehlo.uniform_quantize"(%{{.*}}) : (tensor<2x4x!quant.uniform<i16:f32, 5.000000e-01>>) -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @floats(%x: !f) -> !x {
  %0 = quant.qcast %x : !f to !x
  func.return %0 : !x
}

!c = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<3x2x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125}>>
!s = tensor<1x3x2x2x!quant.uniform<i32:f32:1, {0.25, 0.125, 0.0625}>>
!z = tensor<1x3x2x2x!quant.uniform<i8:f32, 4.0:-6>>

// Channels come last; a transpose is written where somebody wants another order.
// CHECK: sym_name = "products"
// CHECK: "stablehlo.constant"() <{value = dense<1> : tensor<3x3x2x3xi8>}> : () -> tensor<3x3x2x3x!quant.uniform<i8:f32:3, {5.000000e-01,2.500000e-01,1.250000e-01}>>
// CHECK: "stablehlo.convolution"(%{{.*}}, %{{.*}}) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[0, 1, i, o]->[b, 0, 1, f]>
// CHECK-SAME: -> tensor<1x2x2x3x!quant.uniform<i32:f32:3, {2.500000e-01,1.250000e-01,6.250000e-02}>>
// CHECK-NEXT: "stablehlo.uniform_quantize"(%{{.*}}) {{.*}} -> tensor<1x2x2x3x!quant.uniform<i8:f32, 4.000000e+00:-6>>
// CHECK-NEXT: "stablehlo.transpose"(%{{.*}}) <{permutation = array<i64: 0, 3, 1, 2>}>
func.func @products(%x: !c) -> !z {
  %w = nn.constant dense<1> : tensor<3x2x3x3xi8> : !w
  %0 = nn.conv2d %x, %w : (!c, !w) -> !s
  %1 = quant.rescale %0 : !s to !z
  func.return %1 : !z
}

!n = tensor<3x4x!quant.uniform<i8:f32, 0.25:-2>>
!p = tensor<2x3x!quant.uniform<i32:f32, 0.125>>

// Zero points on both sides: 16 bits have the differences.
// CHECK: sym_name = "zeros"
// CHECK: "stablehlo.uniform_quantize"(%{{.*}}) {{.*}} -> tensor<2x4x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK: "stablehlo.uniform_quantize"(%{{.*}}) {{.*}} -> tensor<3x4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK: "stablehlo.dot_general"(%{{.*}}, %{{.*}}) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}>
func.func @zeros(%x: !x, %w: !n) -> !p {
  %0 = nn.fully_connected %x, %w : (!x, !n) -> !p
  func.return %0 : !p
}

!m = tensor<1x2x1x1x!quant.uniform<i8:f32, 0.5:4>>

// A mean is a sum on another scale.
// CHECK: sym_name = "means"
// CHECK: "stablehlo.uniform_quantize"(%{{.*}}) {{.*}} -> tensor<1x2x4x4x!quant.uniform<i32:f32, 5.000000e-01>>
// CHECK: "stablehlo.reduce_window"
// CHECK: "stablehlo.bitcast_convert"(%{{.*}}) : (tensor<1x2x1x1x!quant.uniform<i32:f32, 5.000000e-01>>) -> tensor<1x2x1x1xi32>
// CHECK-NEXT: "stablehlo.bitcast_convert"(%{{.*}}) : (tensor<1x2x1x1xi32>) -> tensor<1x2x1x1x!quant.uniform<i32:f32, 3.125000e-02>>
// CHECK-NEXT: "stablehlo.uniform_quantize"
func.func @means(%x: !c) -> !m {
  %0 = nn.global_avg_pool2d %x : (!c) -> !m
  func.return %0 : !m
}
