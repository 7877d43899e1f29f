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

!levels = tensor<4x!quant.uniform<!quant.quantile<i2:f32, {-2.0, -0.5, 0.5, 5.0}>:f32:{0:2}, {1.0, 4.0}>>
!floats = tensor<4x!quant.uniform<f4E2M1FN:f32, 0.5>>

// Weights of codes that are no integers, or for IREE in blocks, are at no interface.
// QUANT-LABEL: func.func @weights
// QUANT: tensor.extract
// QUANT: tensor.extract
// IREE-LABEL: sym_name = "weights"
// IREE: %[[LEVELS:.*]] = "arith.constant"() <{value = dense<[-2.000000e+00, -5.000000e-01, 5.000000e-01, 5.000000e+00]> : tensor<4xf32>}>
// IREE: %[[WIDE:.*]] = "arith.extsi"({{.*}}) : (i8) -> i32
// IREE: %[[PLACE:.*]] = "arith.subi"(%[[WIDE]]
// IREE: %[[INDEX:.*]] = "arith.index_cast"(%[[PLACE]])
// IREE: %[[ENTRY:.*]] = "tensor.extract"(%[[LEVELS]], %[[INDEX]]) : (tensor<4xf32>, index) -> f32
// IREE: "arith.mulf"(%[[ENTRY]]
// IREE: %[[FLOATS:.*]] = "arith.constant"() <{value = dense<[0.000000e+00, 5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 6.000000e+00, -0.000000e+00,
// IREE: "arith.extui"({{.*}}) : (i8) -> i32
// IREE: "tensor.extract"(%[[FLOATS]]
func.func @weights(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = nn.constant dense<[-2, -1, 0, 1]> : tensor<4xi2> : !levels
  %b = nn.constant dense<[1, -7, 3, -1]> : tensor<4xi4> : !floats
  %0 = quant.dcast %a : !levels to tensor<4xf32>
  %1 = quant.dcast %b : !floats to tensor<4xf32>
  %2 = nn.add %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.add %1, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
