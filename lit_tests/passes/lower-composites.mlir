// RUN: qopt-opt %s -p lower-composites --remarks --verify-diagnostics | filecheck %s

// Sums of integers, one rounding at the end, and the keys of the pieces.

!x = tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x4x!quant.uniform<i8:f32, 0.25>>
!b = tensor<2x!quant.uniform<i32:f32, 0.125>>
!sums = tensor<3x2x!quant.uniform<i32:f32, 0.125>>
!y = tensor<3x2x!quant.uniform<i8:f32, 0.75:-1>>
!i8 = !quant.uniform<i8:f32, 0.5>
!u8 = !quant.uniform<u8:f32, 0.25>

// CHECK-LABEL: func.func @fully_connected(
// CHECK: nn.fully_connected %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {nn.key = "fc/matmul"}
// CHECK-NEXT: nn.add {{.*}} -> tensor<3x2x!quant.uniform<i32:f32, 1.250000e-01>>
// CHECK-NEXT: quant.rescale {{.*}} {nn.key = "fc"}
// CHECK-NEXT: return
func.func @fully_connected(%x: !x, %w: !w) -> !y {
  // DOC-BEFORE
  %b = nn.constant dense<[100, -7]> : tensor<2xi32> : !b
  // expected-remark@+1 {{lower-composite fired, exact}}
  %0 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y
  // DOC-AFTER
  //   %b = nn.constant dense<[100, -7]> : tensor<2xi32> : !b
  //   %1 = nn.fully_connected %x, %w {nn.key = "fc/matmul"} : (!x, !w) -> !sums
  //   %2 = nn.add %1, %b : (!sums, !b) -> !sums
  //   %0 = quant.rescale %2 {nn.key = "fc"} : !sums to !y
  // DOC-END
  func.return %0 : !y
}

// A bias that is not known may push the sum out of 32 bits: added where the result is
// rounded, which is exact too.
// CHECK-LABEL: func.func @unknown_bias(
// CHECK: nn.fully_connected %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK-NEXT: nn.add {{.*}} rounding half_away : {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 7.500000e-01:-1>>
// CHECK-NEXT: return
func.func @unknown_bias(%x: !x, %w: !w, %b: !b) -> !y {
  // expected-remark@+1 {{lower-composite fired, exact}}
  %0 = nn.fully_connected %x, %w, %b rounding half_away : (!x, !w, !b) -> !y
  func.return %0 : !y
}

// Per channel; the bias becomes a column.
// CHECK-LABEL: func.func @convolution(
// CHECK: nn.conv2d %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {nn.key = "c/conv"}
// CHECK-NEXT: nn.unsqueeze {{.*}} -> tensor<2x1x1x!quant.uniform<i32:f32:0, {2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: nn.add {{.*}} -> tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: quant.rescale {{.*}} {nn.key = "c"} : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 2.500000e-01>>
func.func @convolution(%x: tensor<1x3x4x4x!quant.uniform<u8:f32, 0.5:128>>, %w: tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>) -> tensor<1x2x4x4x!u8> {
  %b = nn.constant dense<[100, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.5}>>
  // expected-remark@+1 {{lower-composite fired, exact}}
  %0 = nn.conv2d %x, %w, %b {nn.key = "c"} : (tensor<1x3x4x4x!quant.uniform<u8:f32, 0.5:128>>, tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>, tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.5}>>) -> tensor<1x2x4x4x!u8>
  func.return %0 : tensor<1x2x4x4x!u8>
}

// Without a bias it is one piece already.
// CHECK-LABEL: func.func @one_piece(
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: return
func.func @one_piece(%x: !x, %w: !w) -> !y {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

// Floats: each piece has what is its own; the batch may be dynamic, the result used twice.
// CHECK-LABEL: func.func @floats(
// CHECK: nn.fully_connected {{.*}} {nn.key = ["a/matmul", "b/matmul"], nn.qparams = {result = !quant.uniform<i8:f32, 5.000000e-01>}}
// CHECK-NEXT: %[[Y:.*]] = nn.add {{.*}} {nn.key = ["a", "b"], nn.qparams = {result = !quant.uniform<u8:f32, 2.500000e-01>}}
// CHECK-NEXT: return %[[Y]], %[[Y]]
func.func @floats(%x: tensor<?x4xf32>, %w: tensor<2x4xf32>, %b: tensor<2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {
  // expected-remark@+1 {{lower-composite fired, exact}}
  %0 = nn.fully_connected %x, %w, %b {nn.key = ["a", "b"], nn.qparams = {matmul = !i8, bias_add = !u8}} : (tensor<?x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  func.return %0, %0 : tensor<?x2xf32>, tensor<?x2xf32>
}

// CHECK-LABEL: func.func @floats_meet_codes(
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: return
func.func @floats_meet_codes(%x: !x, %w: !w, %b: tensor<2xf32>) -> tensor<3x2xf32> {
  // expected-remark@+1 {{[mixed]: floats and codes meet in it}}
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @overflow(
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: return
func.func @overflow(%x: tensor<1x70000x!quant.uniform<u8:f32, 0.5:255>>, %w: tensor<2x70000x!quant.uniform<u8:f32, 0.25:255>>, %b: !b) -> tensor<1x2x!i8> {
  // expected-remark@+1 {{[overflow]: a sum may leave 32 bits}}
  %0 = nn.fully_connected %x, %w, %b : (tensor<1x70000x!quant.uniform<u8:f32, 0.5:255>>, tensor<2x70000x!quant.uniform<u8:f32, 0.25:255>>, !b) -> tensor<1x2x!i8>
  func.return %0 : tensor<1x2x!i8>
}

// A range of the result is not the range of the pieces.
// CHECK-LABEL: func.func @no_component_qparams(
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: return
func.func @no_component_qparams(%x: !x) -> tensor<3x4x!u8> {
  // expected-remark@+1 {{[component-qparams]: nn.qparams says nothing of 'sub_max'}}
  %0 = nn.softmax %x : (!x) -> tensor<3x4x!u8>
  func.return %0 : tensor<3x4x!u8>
}

// CHECK-LABEL: func.func @new_qparams(
// CHECK-NEXT: nn.softmax
// CHECK-NEXT: return
func.func @new_qparams(%x: !x) -> tensor<3x4x!u8> {
  // expected-remark@+1 {{[numerics]: would be relaxed (rounds and clips sub_max, exp, sum)}}
  %0 = nn.softmax %x {nn.qparams = {sub_max = !i8, exp = !u8, sum = !u8}} : (!x) -> tensor<3x4x!u8>
  func.return %0 : tensor<3x4x!u8>
}
