// RUN: qopt-opt %s -p 'convert-nn-to-linalg{casts=quant}' | filecheck %s --check-prefix QUANT
// RUN: qopt-opt %s -p 'convert-nn-to-linalg{casts=iree}' --mlir-print-op-generic | filecheck %s --check-prefix IREE

!q = tensor<4x!quant.uniform<u8:f32, 0.5:130>>
!n = tensor<4x!quant.uniform<i4:f32, 0.5>>

// QUANT-LABEL: func.func @edge(%arg0: tensor<4xf32>) -> tensor<4xf32>
// QUANT: quant.qcast %arg0 : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:130>>
// QUANT: quant.scast {{.*}} to tensor<4xi8>
// QUANT: arith.maxui
// QUANT: quant.scast {{.*}} : tensor<4xi8> to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:130>>
// QUANT: quant.dcast
// IREE: "iree_linalg_ext.quantize_affine"({{.*}}) <{{{.*}}quant_max = 255 : i64, quant_min = 0 : i64, storage_unsigned}> {{.*}} : (tensor<4xf32>, f32, i64, tensor<4xi8>) -> tensor<4xi8>
// IREE: "iree_linalg_ext.dequantize_affine"({{.*}}) <{{{.*}}input_unsigned}>
func.func @edge(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to !q
  %1 = nn.clip %0 min 0.0 : (!q) -> !q
  %2 = quant.dcast %1 : !q to tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// Codes of 4 bits have a tensor of i4 outside, and 8 bits inside.
// QUANT-LABEL: func.func @packed(%arg0: tensor<4x!quant.uniform<i4:f32, 5.000000e-01>>) -> tensor<4x!quant.uniform<i4:f32, 5.000000e-01>>
// QUANT: quant.scast %arg0 {{.*}} to tensor<4xi4>
// QUANT: arith.extsi {{.*}} : i4 to i8
// QUANT: arith.maxsi
// QUANT: arith.trunci {{.*}} : i8 to i4
// QUANT: quant.scast {{.*}} : tensor<4xi4> to
func.func @packed(%x: !n) -> !n {
  %0 = nn.relu %x : (!n) -> !n
  func.return %0 : !n
}
