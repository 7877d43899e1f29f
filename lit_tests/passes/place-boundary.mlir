// RUN: qopt-opt %s -p place-rescales | filecheck %s
// RUN: qopt-opt %s -p 'place-rescales{numerics=relaxed}' | filecheck %s
// RUN: qopt-opt %s -p 'fold-rescale{numerics=relaxed}' | filecheck %s
// RUN: qopt-opt %s -p move-casts | filecheck %s
// RUN: qopt optimize %s --target generic -o %t.mlir --quiet
// RUN: filecheck %s --check-prefix=OPTIMIZE < %t.mlir
// RUN: qopt-opt %s -p 'place-rescales{boundary=minimize-conversions}' | filecheck %s --check-prefix=FEWEST
// RUN: qopt-opt %s -p 'place-rescales{boundary=minimize-conversions}' --target onnxruntime | filecheck %s --check-prefix=FEWEST

// An integer op at a quantize or a dequantize stays an integer op; who wants fewer elements cast
// says so.

!q = !quant.uniform<i8:f32, 0.5:3>

// CHECK-LABEL: func.func @slice(
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: nn.slice {{.*}} -> tensor<1x4x!quant
// CHECK-NEXT: nn.add
// CHECK-NEXT: quant.dcast
// OPTIMIZE-LABEL: func.func @slice(
// OPTIMIZE: nn.slice {{.*}} -> tensor<1x4x!quant
// FEWEST-LABEL: func.func @slice(
// FEWEST-NEXT: nn.slice {{.*}} -> tensor<1x4xf32>
func.func @slice(%x: tensor<64x4xf32>) -> tensor<1x4xf32> {
  %0 = quant.qcast %x : tensor<64x4xf32> to tensor<64x4x!q>
  %1 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (tensor<64x4x!q>) -> tensor<1x4x!q>
  %2 = nn.add %1, %1 : (tensor<1x4x!q>, tensor<1x4x!q>) -> tensor<1x4x!q>
  %3 = quant.dcast %2 : tensor<1x4x!q> to tensor<1x4xf32>
  return %3 : tensor<1x4xf32>
}

// CHECK-LABEL: func.func @reshape_max(
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: nn.transpose {{.*}}!quant
// CHECK-NEXT: nn.max_pool2d {{.*}}!quant
// CHECK-NEXT: nn.tile {{.*}} -> tensor<1x4x16x4x!quant
// CHECK-NEXT: quant.dcast
// OPTIMIZE-LABEL: func.func @reshape_max(
// OPTIMIZE: nn.tile {{.*}} -> tensor<1x4x16x4x!quant
// FEWEST-LABEL: func.func @reshape_max(
// FEWEST: quant.dcast
// FEWEST-NEXT: nn.tile {{.*}} -> tensor<1x4x16x4xf32>
func.func @reshape_max(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x16x4xf32> {
  %0 = quant.qcast %x : tensor<1x8x8x4xf32> to tensor<1x8x8x4x!q>
  %1 = nn.transpose %0 perm [0, 3, 1, 2] : (tensor<1x8x8x4x!q>) -> tensor<1x4x8x8x!q>
  %2 = nn.max_pool2d %1 kernel [2, 2] strides [2, 2] : (tensor<1x4x8x8x!q>) -> tensor<1x4x4x4x!q>
  %3 = nn.tile %2 repeats [1, 1, 4, 1] : (tensor<1x4x4x4x!q>) -> tensor<1x4x16x4x!q>
  %4 = quant.dcast %3 : tensor<1x4x16x4x!q> to tensor<1x4x16x4xf32>
  return %4 : tensor<1x4x16x4xf32>
}

// CHECK-LABEL: func.func @pad_expand(
// CHECK-NEXT: nn.sigmoid
// CHECK-NEXT: nn.pad {{.*}} -> tensor<1x4x!quant
// CHECK-NEXT: nn.expand {{.*}} -> tensor<8x4x!quant
// CHECK-NEXT: quant.dcast
// FEWEST-LABEL: func.func @pad_expand(
// FEWEST: quant.dcast {{.*}} to tensor<1x2xf32>
func.func @pad_expand(%x: tensor<1x2x!q>) -> tensor<8x4xf32> {
  %0 = nn.sigmoid %x : (tensor<1x2x!q>) -> tensor<1x2x!q>
  %1 = nn.pad %0 low [0, 1] high [0, 1] : (tensor<1x2x!q>) -> tensor<1x4x!q>
  %2 = nn.expand %1 shape [8, 4] : (tensor<1x4x!q>) -> tensor<8x4x!q>
  %3 = quant.dcast %2 : tensor<8x4x!q> to tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

// In a function, too.
// CHECK-LABEL: func.func @calls(
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: call @row
// CHECK-LABEL: func.func private @row(
// CHECK-NEXT: nn.slice {{.*}} -> tensor<1x4x!quant
// FEWEST-LABEL: func.func @calls(
// FEWEST-NEXT: call @row
func.func @calls(%x: tensor<64x4xf32>) -> tensor<1x4x!q> {
  %0 = quant.qcast %x : tensor<64x4xf32> to tensor<64x4x!q>
  %1 = func.call @row(%0) : (tensor<64x4x!q>) -> tensor<1x4x!q>
  return %1 : tensor<1x4x!q>
}
func.func private @row(%x: tensor<64x4x!q>) -> tensor<1x4x!q> {
  %1 = nn.slice %x starts [0, 0] stops [1, 4] steps [1, 1] : (tensor<64x4x!q>) -> tensor<1x4x!q>
  return %1 : tensor<1x4x!q>
}
