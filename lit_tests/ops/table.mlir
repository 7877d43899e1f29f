// RUN: qopt-opt %s --split-input-file --verify-diagnostics | filecheck %s

!x = tensor<2x?x!quant.uniform<u2:f32, 0.5:1>>
!r = !quant.uniform<i8:f32, 0.25>

// CHECK-LABEL: func.func @table(
// CHECK: nn.table %{{.*}}, %{{.*}} : (tensor<2x?x!quant.uniform<u2:f32, {{.*}}>>, tensor<4x!quant.uniform<i8:f32, {{.*}}>>) -> tensor<2x?x!quant
func.func @table(%x: !x, %t: tensor<4x!r>) -> tensor<2x?x!r> {
  %0 = nn.table %x, %t : (!x, tensor<4x!r>) -> tensor<2x?x!r>
  func.return %0 : tensor<2x?x!r>
}

// -----

func.func @floats(%x: tensor<2xf32>, %t: tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error @+1 {{'nn.table' op takes codes stored as integers}}
  %0 = nn.table %x, %t : (tensor<2xf32>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  return
}

// -----

func.func @entries(%x: tensor<2x!quant.uniform<i8:f32, 0.25>>, %t: tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error @+1 {{needs a table of 256 entries for i8 codes, not 4}}
  %0 = nn.table %x, %t : (tensor<2x!quant.uniform<i8:f32, 0.25>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  return
}

// -----

func.func @wide(%x: tensor<2x!quant.uniform<i32:f32, 0.25>>, %t: tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error @+1 {{takes codes of at most 16 bits, not i32}}
  %0 = nn.table %x, %t : (tensor<2x!quant.uniform<i32:f32, 0.25>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  return
}

// -----

func.func @rank(%x: tensor<2x!quant.uniform<u2:f32, 0.25>>, %t: tensor<2x2x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error @+1 {{expects a table of rank 1}}
  %0 = nn.table %x, %t : (tensor<2x!quant.uniform<u2:f32, 0.25>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  return
}

// -----

func.func @other_parameters(%x: tensor<2x!quant.uniform<u2:f32, 0.25>>, %t: tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error @+1 {{result must be quantized as}}
  %0 = nn.table %x, %t : (tensor<2x!quant.uniform<u2:f32, 0.25>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}
