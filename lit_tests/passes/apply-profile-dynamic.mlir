// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model dynamic=fc,projection,conv,relu,scores,vector}' --target=onnxruntime --remarks 2>&1 | filecheck %s
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model dynamic=all per-channel=false}' --target=onnxruntime | filecheck %s --check-prefix=ALL
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model dynamic=fc}' --target=tosa --remarks 2>&1 | filecheck %s --check-prefix=TOSA
// RUN: not qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model dynamic=nothing}' --target=onnxruntime 2>&1 | filecheck %s --check-prefix=UNKNOWN

// Products that quantize their input as they run: no range of a profile is needed, and what is
// beside them stays float. The weight of a fully connected op is turned; a bias is added in f32.

// UNKNOWN: error: no op has the key 'nothing' or is of that kind, which is to quantize its input as it runs
// TOSA: (fc) [target] not dynamic: 'tosa' quantizes no input of a product as it runs
// TOSA-NOT: nn.dynamic_matmul

// CHECK-DAG: (conv) [dynamic-kind] not dynamic: no op quantizes the input of such a one as it runs
// CHECK-DAG: (relu) [dynamic-kind] not dynamic: no op quantizes the input of such a one as it runs
// CHECK-DAG: (scores) [dynamic-weights] not dynamic: it multiplies with no constant weights
// CHECK-DAG: (vector) [dynamic-weights] not dynamic: its weights are no matrix, or its input is a vector
// CHECK: func.func @main(
func.func @main(%x: tensor<?x2xf32> {nn.name = "x"}, %i: tensor<1x2x4x4xf32> {nn.name = "i"}, %v: tensor<2xf32> {nn.name = "v"})
    -> (tensor<?x3xf32>, tensor<?x2xf32>, tensor<?x?xf32>, tensor<1x2x4x4xf32>, tensor<3xf32>) {
  %w = nn.constant dense<[[1.0, 0.5], [0.25, -0.5], [-2.0, 0.0]]> : tensor<3x2xf32> : tensor<3x2xf32>
  %b = nn.constant dense<[0.1, 0.2, 0.3]> : tensor<3xf32> : tensor<3xf32>
  // CHECK: %[[W:.*]] = nn.constant {{.*}} : tensor<2x3xi8> : tensor<2x3x!quant.uniform<i8:f32:1,
  // CHECK-NEXT: %[[P:.*]] = nn.dynamic_matmul %arg0, %[[W]] {nn.key = "fc/matmul"} : (tensor<?x2xf32>, {{.*}}) -> tensor<?x3xf32>
  // CHECK-NEXT: nn.add %[[P]], %{{.*}} {nn.key = "fc"} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  // ALL: nn.constant dense<{{\[\[}}64, 16, -127], [32, -32, 0]]> : tensor<2x3xi8> : tensor<2x3x!quant.uniform<i8:f32, 0.015748{{.*}}>>
  %0 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (tensor<?x2xf32>, tensor<3x2xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  // The same input again, and a weight per column.
  // CHECK: %[[M:.*]] = nn.constant {{.*}} : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32:1,
  // CHECK-NEXT: %[[Y:.*]] = nn.dynamic_matmul %arg0, %[[M]] {nn.key = "projection"} : (tensor<?x2xf32>,
  %m = nn.constant dense<[[1.0, 0.5], [0.25, -0.5]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %1 = nn.matmul %x, %m {nn.key = "projection"} : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  // CHECK: nn.transpose %[[Y]]
  %t = nn.transpose %1 perm [1, 0] {nn.key = "turned"} : (tensor<?x2xf32>) -> tensor<2x?xf32>
  // CHECK: nn.matmul %[[Y]], {{.*}} {nn.key = "scores"}
  %s = nn.matmul %1, %t {nn.key = "scores"} : (tensor<?x2xf32>, tensor<2x?xf32>) -> tensor<?x?xf32>
  %k = nn.constant dense<[[[[0.5]], [[-1.0]]], [[[0.25]], [[0.0]]]]> : tensor<2x2x1x1xf32> : tensor<2x2x1x1xf32>
  %c = nn.constant dense<[0.1, -0.2]> : tensor<2xf32> : tensor<2xf32>
  // CHECK: %[[C:.*]] = nn.conv2d %arg1
  %2 = nn.conv2d %i, %k, %c {nn.key = "conv"} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  // CHECK-NEXT: nn.relu %[[C]]
  %3 = nn.relu %2 {nn.key = "relu"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %n = nn.constant dense<[[1.0, 0.5, 1.0], [0.25, -0.5, 3.0]]> : tensor<2x3xf32> : tensor<2x3xf32>
  // CHECK: nn.matmul %arg2, {{.*}} {nn.key = "vector"}
  %4 = nn.matmul %v, %n {nn.key = "vector"} : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<3xf32>
  func.return %0, %1, %s, %3, %4 : tensor<?x3xf32>, tensor<?x2xf32>, tensor<?x?xf32>, tensor<1x2x4x4xf32>, tensor<3xf32>
}
