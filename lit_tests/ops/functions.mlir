// RUN: qopt-opt %s | qopt-opt | filecheck %s

!q = tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>
!r = tensor<2x3x!quant.uniform<u8:f32, 0.25>>

// CHECK-LABEL: func.func @functions(
// CHECK-NEXT: nn.neg %{{.*}} :
// CHECK-NEXT: nn.abs %{{.*}} :
// CHECK-NEXT: nn.exp %{{.*}} :
// CHECK-NEXT: nn.log %{{.*}} :
// CHECK-NEXT: nn.sqrt %{{.*}} :
// CHECK-NEXT: nn.reciprocal %{{.*}} :
// CHECK-NEXT: nn.erf %{{.*}} :
// CHECK-NEXT: nn.gelu %{{[a-z0-9]+}} :
// CHECK-NEXT: nn.gelu %{{.*}} approximate tanh :
// CHECK-NEXT: nn.swish %{{.*}} alpha 1.702 :
// CHECK-NEXT: nn.softplus %{{.*}} :
// CHECK-NEXT: nn.elu %{{.*}} alpha 0.5 :
// CHECK-NEXT: nn.pow %{{.*}} exponent 2.0 :
// CHECK-NEXT: nn.floor %{{.*}} :
// CHECK-NEXT: nn.ceil %{{.*}} :
// CHECK-NEXT: nn.round %{{.*}} :
// CHECK-NEXT: nn.prelu %{{.*}}, %{{.*}} :
func.func @functions(%x: tensor<2x?xf32>, %slope: tensor<2x1xf32>) -> tensor<2x?xf32> {
  %0 = nn.neg %x : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %1 = nn.abs %0 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %2 = nn.exp %1 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %3 = nn.log %2 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %4 = nn.sqrt %3 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %5 = nn.reciprocal %4 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %6 = nn.erf %5 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %7 = nn.gelu %6 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %8 = nn.gelu %7 approximate tanh : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %9 = nn.swish %8 alpha 1.702 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %10 = nn.softplus %9 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %11 = nn.elu %10 alpha 0.5 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %12 = nn.pow %11 exponent 2.0 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %13 = nn.floor %12 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %14 = nn.ceil %13 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %15 = nn.round %14 : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %16 = nn.prelu %15, %slope : (tensor<2x?xf32>, tensor<2x1xf32>) -> tensor<2x?xf32>
  func.return %16 : tensor<2x?xf32>
}

// CHECK-LABEL: func.func @quantized(
// CHECK-NEXT: nn.gelu %{{[a-z0-9]+}} rounding half_away : ({{.*}}i8{{.*}}) -> {{.*}}u8
func.func @quantized(%x: !q) -> !r {
  %0 = nn.gelu %x rounding half_away : (!q) -> !r
  func.return %0 : !r
}
