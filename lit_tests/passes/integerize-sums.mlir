// RUN: qopt-opt %s --split-input-file -p integerize --remarks --verify-diagnostics | filecheck %s

// A product of floats adds up in another order than one of codes, which no order changes.

!w = tensor<5x8x!quant.uniform<i8:f32, 0.0078125>>
!x = tensor<1x8x!quant.uniform<i8:f32, 0.03125:-128>>
!y = tensor<1x5x!quant.uniform<i32:f32, 2.44140625e-04>>
module attributes {quant.arithmetic = "expressed"} {
  // Codes times powers of two, and their sums have 24 bits: floats are exact.
  // CHECK-LABEL: func.func @powers_of_two(
  // CHECK-NEXT: nn.fully_connected {{.*}} -> tensor<1x5x!quant.uniform<i32:f32, 2.44140625E-4>>
  func.func @powers_of_two(%x: !x, %w: !w) -> !y {
    %0 = quant.dcast %x : !x to tensor<1x8xf32>
    %1 = quant.dcast %w : !w to tensor<5x8xf32>
    %2 = nn.fully_connected %0, %1 : (tensor<1x8xf32>, tensor<5x8xf32>) -> tensor<1x5xf32>
    // expected-remark@+1 {{integerize-op fired, exact}}
    %3 = quant.qcast %2 : tensor<1x5xf32> to !y
    func.return %3 : !y
  }
}

// -----

!w = tensor<5x8x!quant.uniform<i8:f32, 0.01>>
!x = tensor<1x8x!quant.uniform<i8:f32, 0.03125:-128>>
!y = tensor<1x5x!quant.uniform<i32:f32, 3.125e-04>>
module attributes {quant.arithmetic = "expressed"} {
  // CHECK-LABEL: func.func @other_scales(
  // CHECK: nn.fully_connected {{.*}} -> tensor<1x5xf32>
  func.func @other_scales(%x: !x, %w: !w) -> !y {
    %0 = quant.dcast %x : !x to tensor<1x8xf32>
    %1 = quant.dcast %w : !w to tensor<5x8xf32>
    %2 = nn.fully_connected %0, %1 : (tensor<1x8xf32>, tensor<5x8xf32>) -> tensor<1x5xf32>
    // expected-remark@+1 {{would add up its products in another order}}
    %3 = quant.qcast %2 : tensor<1x5xf32> to !y
    func.return %3 : !y
  }
}

// -----

!w = tensor<5x600x!quant.uniform<i8:f32, 0.0078125>>
!x = tensor<1x600x!quant.uniform<i8:f32, 0.03125:-128>>
!y = tensor<1x5x!quant.uniform<i32:f32, 2.44140625e-04>>
module attributes {quant.arithmetic = "expressed"} {
  // 600 * 255 * 128 needs 25 bits.
  // CHECK-LABEL: func.func @long_sums(
  // CHECK: nn.fully_connected {{.*}} -> tensor<1x5xf32>
  func.func @long_sums(%x: !x, %w: !w) -> !y {
    %0 = quant.dcast %x : !x to tensor<1x600xf32>
    %1 = quant.dcast %w : !w to tensor<5x600xf32>
    %2 = nn.fully_connected %0, %1 : (tensor<1x600xf32>, tensor<5x600xf32>) -> tensor<1x5xf32>
    // expected-remark@+1 {{would add up its products in another order}}
    %3 = quant.qcast %2 : tensor<1x5xf32> to !y
    func.return %3 : !y
  }
}
