// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model dynamic=layer,gru,given}' --target=onnxruntime --remarks 2>&1 | filecheck %s
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model dynamic=layer per-channel=false}' --target=onnxruntime | filecheck %s --check-prefix=TENSOR
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model dynamic=layer}' --target=generic --remarks 2>&1 | filecheck %s --check-prefix=GENERIC

// Layers that quantize their input as they run: weights in codes, with a scale for each direction
// and row, or for each direction.

// GENERIC: (layer) [target] not dynamic: 'generic' quantizes no input of 'nn.lstm' as it runs
// CHECK-DAG: (gru) [target] not dynamic: 'onnxruntime' quantizes no input of 'nn.gru' as it runs
// CHECK-DAG: (given) [dynamic-weights] not dynamic: its weights are no constants of floats

// CHECK: func.func @main(
// TENSOR: func.func @main(
func.func @main(%x: tensor<?x?x2xf32> {nn.name = "x"}, %v: tensor<1x8x2xf32> {nn.name = "v"})
    -> (tensor<?x2x?x2xf32>, tensor<?x1x?x2xf32>, tensor<?x1x?x2xf32>) {
  %w = nn.constant dense<0.5> : tensor<2x8x2xf32> : tensor<2x8x2xf32>
  %r = nn.constant dense<0.25> : tensor<2x8x2xf32> : tensor<2x8x2xf32>
  %b = nn.constant dense<0.0> : tensor<2x16xf32> : tensor<2x16xf32>
  // CHECK: %[[W:.*]] = nn.constant dense<127> : tensor<2x8x2xi8> : tensor<2x8x2x!quant.uniform<i8:f32:{0:1, 1:1, 2:2}, {
  // CHECK-NEXT: %[[WD:.*]] = quant.dcast %[[W]]
  // CHECK-NEXT: %[[R:.*]] = nn.constant dense<127>
  // CHECK-NEXT: %[[RD:.*]] = quant.dcast %[[R]]
  // CHECK-NEXT: nn.lstm %arg0, %[[WD]], %[[RD]], %{{.*}} direction bidirectional {nn.key = "layer", onnx.fused}
  // TENSOR: tensor<2x8x2x!quant.uniform<i8:f32:{0:1, 1:8, 2:2}, {
  %0 = nn.lstm %x, %w, %r, %b direction bidirectional {nn.key = "layer"} : (tensor<?x?x2xf32>, tensor<2x8x2xf32>, tensor<2x8x2xf32>, tensor<2x16xf32>) -> tensor<?x2x?x2xf32>
  // CHECK: nn.gru %arg0, %{{.*}} {nn.key = "gru"}
  %gw = nn.constant dense<0.5> : tensor<1x6x2xf32> : tensor<1x6x2xf32>
  %gb = nn.constant dense<0.0> : tensor<1x12xf32> : tensor<1x12xf32>
  %1 = nn.gru %x, %gw, %gw, %gb {nn.key = "gru"} : (tensor<?x?x2xf32>, tensor<1x6x2xf32>, tensor<1x6x2xf32>, tensor<1x12xf32>) -> tensor<?x1x?x2xf32>
  // CHECK: nn.lstm %arg0, %arg1, %{{.*}} {nn.key = "given"}
  %lw = nn.constant dense<0.5> : tensor<1x8x2xf32> : tensor<1x8x2xf32>
  %lb = nn.constant dense<0.0> : tensor<1x16xf32> : tensor<1x16xf32>
  %2 = nn.lstm %x, %v, %lw, %lb {nn.key = "given"} : (tensor<?x?x2xf32>, tensor<1x8x2xf32>, tensor<1x8x2xf32>, tensor<1x16xf32>) -> tensor<?x1x?x2xf32>
  func.return %0, %1, %2 : tensor<?x2x?x2xf32>, tensor<?x1x?x2xf32>, tensor<?x1x?x2xf32>
}
