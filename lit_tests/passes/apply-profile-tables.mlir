// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model},cse,dce' --target=onnxruntime | filecheck %s
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model keep-float=words}' --target=onnxruntime --remarks 2>&1 | filecheck %s --check-prefix=KEPT
// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json profile-of-another-model}' --target=generic | filecheck %s --check-prefix=GENERIC

// Tables of which rows are picked become codes of a byte, and a table of scales.
// KEPT-DAG: (words) [kept]
// KEPT-DAG: (again) [table] left float: its table is codes, with a scale for each row
// GENERIC-NOT: quant.uniform

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[I:[a-z0-9]+]]: tensor<1x?xi64>
func.func @main(%i: tensor<1x?xi64> {nn.name = "i"}, %j: tensor<3xi64> {nn.name = "j"}, %x: tensor<2x64xf32> {nn.name = "x"})
    -> (tensor<1x?x64xf32>, tensor<3x64xf32>, tensor<32x1x?x4xf32>, tensor<1x?x64xf32>, tensor<1x?x8xf32>, tensor<2x64xf32>) {
  // Twice from one table.
  // CHECK: %[[T:.*]] = nn.constant dense<127> : tensor<64x64xi8> {nn.key = "table"} : tensor<64x64x!quant.uniform<i8:f32, 1.000000e+00>>
  // CHECK-NEXT: %[[G:.*]] = nn.gather %[[T]], %[[I]] : (tensor<64x64x!quant.uniform<i8:f32, 1.000000e+00>>, tensor<1x?xi64>) -> tensor<1x?x64x!quant.uniform<i8:f32, 1.000000e+00>>
  // CHECK-NEXT: %[[D:.*]] = quant.dcast %[[G]]
  // CHECK-NEXT: %[[S:.*]] = nn.constant dense<{{.*}}> : tensor<64x1xf32>
  // CHECK-NEXT: %[[P:.*]] = nn.gather %[[S]], %[[I]] : (tensor<64x1xf32>, tensor<1x?xi64>) -> tensor<1x?x1xf32>
  // CHECK-NEXT: %[[Y:.*]] = nn.mul %[[D]], %[[P]] {nn.key = "words"} : (tensor<1x?x64xf32>, tensor<1x?x1xf32>) -> tensor<1x?x64xf32>
  // CHECK-NEXT: nn.gather %[[T]], %arg1
  // CHECK: nn.gather %[[S]], %arg1
  %t = nn.constant dense<0.5> : tensor<64x64xf32> {nn.key = "table"} : tensor<64x64xf32>
  %0 = nn.gather %t, %i axis 0 {nn.key = "words"} : (tensor<64x64xf32>, tensor<1x?xi64>) -> tensor<1x?x64xf32>
  %1 = nn.gather %t, %j axis 0 {nn.key = "again"} : (tensor<64x64xf32>, tensor<3xi64>) -> tensor<3x64xf32>
  // In the middle: what is picked has dimensions on both sides.
  // CHECK: nn.constant dense<0.{{.*}}> : tensor<1x64x1xf32>
  // CHECK-NEXT: nn.gather {{.*}} axis 1 : (tensor<1x64x1xf32>, tensor<1x?xi64>) -> tensor<1x1x?x1xf32>
  %m = nn.constant dense<0.25> : tensor<32x64x4xf32> : tensor<32x64x4xf32>
  %2 = nn.gather %m, %i axis 1 {nn.key = "middle"} : (tensor<32x64x4xf32>, tensor<1x?xi64>) -> tensor<32x1x?x4xf32>
  // Another op takes the table too.
  // CHECK: %[[U:.*]] = nn.constant dense<2.500000e-01> : tensor<64x64xf32>
  // CHECK-NEXT: nn.gather %[[U]]
  %u = nn.constant dense<0.25> : tensor<64x64xf32> : tensor<64x64xf32>
  %3 = nn.gather %u, %i axis 0 {nn.key = "shared"} : (tensor<64x64xf32>, tensor<1x?xi64>) -> tensor<1x?x64xf32>
  %p = nn.matmul %x, %u {nn.key = "product"} : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
  // Short rows.
  // CHECK: nn.constant dense<{{.*}}> : tensor<1024x8xf32>
  %s = nn.constant dense<0.25> : tensor<1024x8xf32> : tensor<1024x8xf32>
  %4 = nn.gather %s, %i axis 0 {nn.key = "short"} : (tensor<1024x8xf32>, tensor<1x?xi64>) -> tensor<1x?x8xf32>
  func.return %0, %1, %2, %3, %4, %p : tensor<1x?x64xf32>, tensor<3x64xf32>, tensor<32x1x?x4xf32>, tensor<1x?x64xf32>, tensor<1x?x8xf32>, tensor<2x64xf32>
}
