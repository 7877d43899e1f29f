// RUN: qopt-opt %s | filecheck %s
// RUN: qopt-opt %s | qopt-opt | filecheck %s
// RUN: qopt-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qopt-opt --mlir-print-op-generic %s | qopt-opt - | filecheck %s

// CHECK: func.func @main
// GENERIC: "func.func"() <{
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  // CHECK: quant.qcast %{{.*}}
  // GENERIC: "quant.qcast"(%{{.*}}) :
  %0 = quant.qcast %x : tensor<1x3x8x8xf32> to tensor<1x3x8x8x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: nn.relu
  // GENERIC: "nn.relu"(%{{.*}}) :
  %1 = nn.relu %0 : (tensor<1x3x8x8x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x3x8x8x!quant.uniform<i8:f32, 0.5:3>>
  %2 = quant.dcast %1 : tensor<1x3x8x8x!quant.uniform<i8:f32, 0.5:3>> to tensor<1x3x8x8xf32>
  return %2 : tensor<1x3x8x8xf32>
}
