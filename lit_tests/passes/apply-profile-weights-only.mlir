// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model weights-only=fc,projection,relu,scores,column}' --target=onnxruntime --remarks 2>&1 | filecheck %s
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model block=8}' --target=onnxruntime | filecheck %s --check-prefix=BLOCK
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model weights-only=fc}' --target=integer --remarks 2>&1 | filecheck %s --check-prefix=INTEGER
// RUN: not qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model weights-only=nothing}' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// Products of which only the weights are codes: in the largest blocks that divide the rows, or a
// scale for each column. A fully connected op between reshapes is a product of more dimensions.

// UNKNOWN: error: no op has the key 'nothing' or is of that kind, which is to have weights in codes
// INTEGER: (fc) [target] not weights-only: 'integer' has no float products
// CHECK-DAG: (relu) [weights-kind] not weights-only: it is no product with a matrix
// CHECK-DAG: (scores) [weights-kind] not weights-only: it multiplies no value with a constant matrix

// CHECK: func.func @main(
// BLOCK: func.func @main(
func.func @main(%x: tensor<?x2x32xf32> {nn.name = "x"}, %v: tensor<?x3xf32> {nn.name = "v"})
    -> (tensor<?x2x1xf32>, tensor<?x?xf32>, tensor<?x2x2xf32>) {
  %w = nn.constant dense<0.5> : tensor<1x32xf32> : tensor<1x32xf32>
  %b = nn.constant dense<[0.1]> : tensor<1xf32> : tensor<1xf32>
  // CHECK: nn.constant {{.*}} : tensor<32x1xi8> : tensor<32x1x!quant.uniform<i8:f32:{0:32, 1:1}, {
  // CHECK-NEXT: %[[W:.*]] = quant.dcast
  // CHECK-NEXT: %[[P:.*]] = nn.matmul %arg0, %[[W]] {nn.key = "fc/matmul", onnx.n_bits = 4 : i64} : (tensor<?x2x32xf32>, tensor<32x1xf32>) -> tensor<?x2x1xf32>
  // CHECK-NEXT: %[[F:.*]] = nn.add %[[P]], %{{.*}} {nn.key = "fc"}
  %rows = nn.reshape %x : (tensor<?x2x32xf32>) -> tensor<?x32xf32>
  %0 = nn.fully_connected %rows, %w, %b {nn.key = "fc"} : (tensor<?x32xf32>, tensor<1x32xf32>, tensor<1xf32>) -> tensor<?x1xf32>
  %1 = nn.reshape %0 : (tensor<?x1xf32>) -> tensor<?x2x1xf32>
  // CHECK-NEXT: %[[R:.*]] = nn.relu %[[F]]
  %2 = nn.relu %1 {nn.key = "relu"} : (tensor<?x2x1xf32>) -> tensor<?x2x1xf32>
  %m = nn.constant dense<[[1.0, 0.5], [0.25, -0.5], [3.0, 0.5]]> : tensor<3x2xf32> : tensor<3x2xf32>
  // No block divides 3.
  // CHECK: nn.constant {{.*}} : tensor<3x2xi8> : tensor<3x2x!quant.uniform<i8:f32:1, {
  // CHECK: nn.matmul {{.*}} {nn.key = "column"}
  // BLOCK: nn.constant {{.*}} : tensor<3x2xf32>
  // BLOCK-NEXT: nn.matmul {{.*}} {nn.key = "column"}
  %3 = nn.matmul %v, %m {nn.key = "column"} : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %t = nn.transpose %3 perm [1, 0] : (tensor<?x2xf32>) -> tensor<2x?xf32>
  // CHECK: nn.matmul {{.*}} {nn.key = "scores"}
  %4 = nn.matmul %3, %t {nn.key = "scores"} : (tensor<?x2xf32>, tensor<2x?xf32>) -> tensor<?x?xf32>
  %k = nn.constant dense<0.25> : tensor<32x2xf32> : tensor<32x2xf32>
  // The same input again.
  // CHECK: nn.constant {{.*}} : tensor<32x2xi8> : tensor<32x2x!quant.uniform<i8:f32:{0:32, 1:1}, {
  // CHECK: nn.matmul %arg0, %{{.*}} {nn.key = "projection", onnx.n_bits = 4 : i64}
  // BLOCK: nn.constant {{.*}} : tensor<32x2xi8> : tensor<32x2x!quant.uniform<i8:f32:{0:8, 1:1}, {
  // BLOCK: nn.matmul %arg0, %{{.*}} {nn.key = "projection", onnx.n_bits = 4 : i64}
  %5 = nn.matmul %x, %k {nn.key = "projection"} : (tensor<?x2x32xf32>, tensor<32x2xf32>) -> tensor<?x2x2xf32>
  func.return %2, %4, %5 : tensor<?x2x1xf32>, tensor<?x?xf32>, tensor<?x2x2xf32>
}
