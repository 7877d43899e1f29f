// RUN: qopt-opt %s --target onnxruntime -p 'reencode-storage{activations=cheapest weights=cheapest}' | filecheck %s
// RUN: qopt-opt %s -p 'reencode-storage{activations=cheapest weights=cheapest}' | filecheck %s --check-prefix=GENERIC
// RUN: not qopt-opt %s -p 'reencode-storage{activations=cheapest}' 2>&1 | filecheck %s --check-prefix=WRONG
// WRONG: reencode-storage: unknown encoding 'cheapest' (i8, u8 or keep), or cheapest for both

// The encoding in which contractions cost least on the target; a target that says nothing of that keeps all.

// CHECK-LABEL: func.func @conv(
// CHECK: quant.qcast {{.*}}u8:f32, 5.000000e-01:128
// CHECK: nn.conv2d {{.*}}u8:f32{{.*}}i8:f32, 1.000000e-02{{.*}} -> {{.*}}u8:f32
// GENERIC-LABEL: func.func @conv(
// GENERIC: nn.conv2d {{.*}}i8:f32{{.*}}i8:f32, 1.000000e-02{{.*}} -> {{.*}}i8:f32
func.func @conv(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32> {
  %0 = quant.qcast %x : tensor<1x8x4x4xf32> to tensor<1x8x4x4x!quant.uniform<i8:f32, 0.5>>
  %w = nn.constant dense<3> : tensor<8x8x3x3xi8> : tensor<8x8x3x3x!quant.uniform<i8:f32, 0.01>>
  %1 = nn.conv2d %0, %w : (tensor<1x8x4x4x!quant.uniform<i8:f32, 0.5>>, tensor<8x8x3x3x!quant.uniform<i8:f32, 0.01>>) -> tensor<1x8x2x2x!quant.uniform<i8:f32, 0.5>>
  %2 = quant.dcast %1 : tensor<1x8x2x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x8x2x2xf32>
  func.return %2 : tensor<1x8x2x2xf32>
}
