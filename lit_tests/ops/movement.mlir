// RUN: qopt-opt --keep-value-names %s | filecheck %s
// RUN: qopt-opt --keep-value-names %s | qopt-opt --keep-value-names | filecheck %s
// RUN: qopt-opt --keep-value-names --mlir-print-op-generic %s | qopt-opt --keep-value-names - | filecheck %s

// CHECK-LABEL: @views
func.func @views(%x: tensor<1x4x?xf32>) {
  // CHECK: nn.squeeze %x axes [0] : (tensor<1x4x?xf32>) -> tensor<4x?xf32>
  %0 = nn.squeeze %x axes [0] : (tensor<1x4x?xf32>) -> tensor<4x?xf32>
  // CHECK: nn.unsqueeze %x axes [0, -1] : (tensor<1x4x?xf32>) -> tensor<1x1x4x?x1xf32>
  %1 = nn.unsqueeze %x axes [0, -1] : (tensor<1x4x?xf32>) -> tensor<1x1x4x?x1xf32>
  // CHECK: nn.expand %x shape [2, 1, 1] : (tensor<1x4x?xf32>) -> tensor<2x4x?xf32>
  %2 = nn.expand %x shape [2, 1, 1] : (tensor<1x4x?xf32>) -> tensor<2x4x?xf32>
  // CHECK: nn.tile %x repeats [2, 1, 3] : (tensor<1x4x?xf32>) -> tensor<2x4x?xf32>
  %3 = nn.tile %x repeats [2, 1, 3] : (tensor<1x4x?xf32>) -> tensor<2x4x?xf32>
  // CHECK: nn.repeat %x repeats [2, 1, 3] : (tensor<1x4x?xf32>) -> tensor<2x4x?xf32>
  %4 = nn.repeat %x repeats [2, 1, 3] : (tensor<1x4x?xf32>) -> tensor<2x4x?xf32>
  // CHECK: nn.flip %x axes [1] : (tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  %5 = nn.flip %x axes [1] : (tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  return
}

// CHECK-LABEL: @picks
func.func @picks(%x: tensor<2x5xf32>, %i: tensor<3x?xi64>, %c: tensor<2x1xi1>, %u: tensor<?x2xf32>) {
  // CHECK: %{{.*}}, %{{.*}} = nn.split %x axis 1 sizes [2, 3] {nn.key = "s"} : (tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x3xf32>)
  %0:2 = nn.split %x axis 1 sizes [2, 3] {nn.key = "s"} : (tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x3xf32>)
  // CHECK: nn.gather %x, %i axis -1 : (tensor<2x5xf32>, tensor<3x?xi64>) -> tensor<2x3x?xf32>
  %1 = nn.gather %x, %i axis -1 : (tensor<2x5xf32>, tensor<3x?xi64>) -> tensor<2x3x?xf32>
  // CHECK: nn.select %c, %x, %x : (tensor<2x1xi1>, tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  %2 = nn.select %c, %x, %x : (tensor<2x1xi1>, tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  // CHECK: nn.insert %x, %u starts [0, 1] steps [1, 2] : (tensor<2x5xf32>, tensor<?x2xf32>) -> tensor<2x5xf32>
  %3 = nn.insert %x, %u starts [0, 1] steps [1, 2] : (tensor<2x5xf32>, tensor<?x2xf32>) -> tensor<2x5xf32>
  return
}

// CHECK-LABEL: @computed
func.func @computed(%x: tensor<?x?x8xf32>, %q: tensor<?x8x!quant.uniform<i8:f32, 0.5>>, %s: tensor<3xi64>) {
  // CHECK: nn.reshape_to %x, %s : (tensor<?x?x8xf32>, tensor<3xi64>) -> tensor<?x4x?xf32>
  %0 = nn.reshape_to %x, %s : (tensor<?x?x8xf32>, tensor<3xi64>) -> tensor<?x4x?xf32>
  // CHECK: nn.reshape_to %q, %s allowzero true : (tensor<?x8x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<3xi64>) -> tensor<?x?x?x!quant.uniform<i8:f32, 5.000000e-01>>
  %1 = nn.reshape_to %q, %s allowzero true : (tensor<?x8x!quant.uniform<i8:f32, 0.5>>, tensor<3xi64>) -> tensor<?x?x?x!quant.uniform<i8:f32, 0.5>>
  return
}

// CHECK-LABEL: @orders
func.func @orders(%x: tensor<?x5xf32>, %q: tensor<2x5x!quant.uniform<i8:f32, 0.5>>) {
  // CHECK: nn.compare %x, %x mode le : (tensor<?x5xf32>, tensor<?x5xf32>) -> tensor<?x5xi1>
  %0 = nn.compare %x, %x mode le : (tensor<?x5xf32>, tensor<?x5xf32>) -> tensor<?x5xi1>
  // CHECK: nn.arg_max %x axis -1 keepdims false : (tensor<?x5xf32>) -> tensor<?xi64>
  %1 = nn.arg_max %x axis -1 keepdims false : (tensor<?x5xf32>) -> tensor<?xi64>
  // CHECK: nn.arg_min %q last true : (tensor<2x5x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<1x5xi64>
  %2 = nn.arg_min %q last true : (tensor<2x5x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x5xi64>
  // CHECK: %{{.*}}, %{{.*}} = nn.top_k %x k 2 largest false : (tensor<?x5xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %3:2 = nn.top_k %x k 2 largest false : (tensor<?x5xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  return
}

// CHECK-LABEL: @space
func.func @space(%x: tensor<1x8x?x4xf32>) {
  // CHECK: nn.depth_to_space %x block 2 : (tensor<1x8x?x4xf32>) -> tensor<1x2x?x8xf32>
  %0 = nn.depth_to_space %x block 2 : (tensor<1x8x?x4xf32>) -> tensor<1x2x?x8xf32>
  // CHECK: nn.space_to_depth %x block 2 mode CRD : (tensor<1x8x?x4xf32>) -> tensor<1x32x?x2xf32>
  %1 = nn.space_to_depth %x block 2 mode CRD : (tensor<1x8x?x4xf32>) -> tensor<1x32x?x2xf32>
  // CHECK: nn.im2col %x kernel [3, 3] pads [1, 1, 1, 1] : (tensor<1x8x?x4xf32>) -> tensor<1x72x?xf32>
  %2 = nn.im2col %x kernel [3, 3] pads [1, 1, 1, 1] : (tensor<1x8x?x4xf32>) -> tensor<1x72x?xf32>
  // CHECK: nn.resize_nearest %x scales [1.0, 1.0, 2.0, 1.5] coordinates asymmetric nearest floor : (tensor<1x8x?x4xf32>) -> tensor<1x8x?x6xf32>
  %3 = nn.resize_nearest %x scales [1.0, 1.0, 2.0, 1.5] coordinates asymmetric nearest floor : (tensor<1x8x?x4xf32>) -> tensor<1x8x?x6xf32>
  // CHECK: nn.resize_nearest %x sizes [1, 8, 3, 3] : (tensor<1x8x?x4xf32>) -> tensor<1x8x3x3xf32>
  %4 = nn.resize_nearest %x sizes [1, 8, 3, 3] : (tensor<1x8x?x4xf32>) -> tensor<1x8x3x3xf32>
  return
}

// CHECK-LABEL: @per_axis
func.func @per_axis(%x: tensor<2x2x1x1x!quant.uniform<i8:f32:1, {0.5, 1.0}>>, %i: tensor<?xi32>) {
  // CHECK: nn.squeeze
  // CHECK-SAME: -> tensor<2x2x!quant.uniform<i8:f32:1, {5.000000e-01,1.000000e+00}>>
  %0 = nn.squeeze %x axes [2, 3] : (tensor<2x2x1x1x!quant.uniform<i8:f32:1, {0.5, 1.0}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 1.0}>>
  // CHECK: nn.split
  // CHECK-SAME: -> (tensor<2x1x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x1x!quant.uniform<i8:f32, 1.000000e+00>>)
  %1:2 = nn.split %0 axis 1 sizes [1, 1] : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 1.0}>>) -> (tensor<2x1x!quant.uniform<i8:f32, 0.5>>, tensor<2x1x!quant.uniform<i8:f32, 1.0>>)
  // CHECK: nn.flip
  // CHECK-SAME: -> tensor<2x2x!quant.uniform<i8:f32:1, {1.000000e+00,5.000000e-01}>>
  %2 = nn.flip %0 axes [1] : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 1.0}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {1.0, 0.5}>>
  // CHECK: nn.gather
  %3 = nn.gather %0, %i : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 1.0}>>, tensor<?xi32>) -> tensor<?x2x!quant.uniform<i8:f32:1, {0.5, 1.0}>>
  return
}
