// RUN: qopt-opt %s -p 'raise-composites{numerics=ties}' --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'raise-composites{numerics=ties},lower-composites{numerics=ties},raise-composites{numerics=ties}' > %t.again
// RUN: filecheck %s < %t.again

// What lower-composites writes, and what exporters write, as composites.

!x = tensor<3x4xf32>
!w = tensor<2x4xf32>
!b = tensor<2xf32>
!y = tensor<3x2xf32>
!i8 = !quant.uniform<i8:f32, 0.5>
!u8 = !quant.uniform<u8:f32, 0.25>

// CHECK-LABEL: func.func @bias(
// CHECK-NEXT: nn.fully_connected %{{.*}}, %{{.*}}, %{{.*}} {nn.key = "fc"}
// CHECK-NEXT: return
func.func @bias(%x: !x, %w: !w, %b: !b) -> !y {
  // DOC-BEFORE
  %0 = nn.fully_connected %x, %w {nn.key = "fc/matmul"} : (!x, !w) -> !y
  // expected-remark@+1 {{raise-function fired, exact}}
  %1 = nn.add %0, %b {nn.key = "fc"} : (!y, !b) -> !y
  // DOC-AFTER
  //   %1 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y
  // DOC-END
  func.return %1 : !y
}

// A column of codes is a vector of them, with a scale for each as well; another user keeps it.
// CHECK-LABEL: func.func @bias_of_codes(
// CHECK: nn.reshape {{.*}} -> tensor<4xf32>
// CHECK-NEXT: nn.conv2d {{.*}} {nn.key = "conv"} : {{.*}} tensor<4xf32>) ->
// CHECK: nn.reshape {{.*}} -> tensor<4xf32>
// CHECK-NEXT: nn.conv2d
// CHECK-NOT: nn.add
// CHECK: return
func.func @bias_of_codes(%x: tensor<?x3x5x5xf32>, %w: tensor<4x3x1x1xf32>) -> (tensor<?x4x5x5xf32>, tensor<?x4x5x5xf32>, tensor<4x1x1xf32>) {
  %c = nn.constant dense<[[[1]], [[2]], [[3]], [[4]]]> : tensor<4x1x1xi8> : tensor<4x1x1x!i8>
  %b = quant.dcast %c : tensor<4x1x1x!i8> to tensor<4x1x1xf32>
  %0 = nn.conv2d %x, %w {nn.key = "conv/conv"} : (tensor<?x3x5x5xf32>, tensor<4x3x1x1xf32>) -> tensor<?x4x5x5xf32>
  // expected-remark@+1 {{raise-function fired, exact}}
  %1 = nn.add %0, %b {nn.key = "conv"} : (tensor<?x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<?x4x5x5xf32>
  %d = nn.constant dense<[[[1]], [[2]], [[3]], [[4]]]> : tensor<4x1x1xi8> : tensor<4x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 1.0}>>
  %e = quant.dcast %d : tensor<4x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 1.0}>> to tensor<4x1x1xf32>
  %2 = nn.conv2d %x, %w {nn.key = "other/conv"} : (tensor<?x3x5x5xf32>, tensor<4x3x1x1xf32>) -> tensor<?x4x5x5xf32>
  // expected-remark@+1 {{raise-function fired, exact}}
  %3 = nn.add %e, %2 {nn.key = "other"} : (tensor<4x1x1xf32>, tensor<?x4x5x5xf32>) -> tensor<?x4x5x5xf32>
  func.return %1, %3, %e : tensor<?x4x5x5xf32>, tensor<?x4x5x5xf32>, tensor<4x1x1xf32>
}

// The qparams of the pieces are those of its roles.
// CHECK-LABEL: func.func @component_qparams(
// CHECK-NEXT: nn.fully_connected {{.*}} {nn.qparams = {bias_add = !quant.uniform<u8:f32, 2.500000e-01>, matmul = !quant.uniform<i8:f32, 5.000000e-01>}}
// CHECK-NEXT: return
func.func @component_qparams(%x: !x, %w: !w, %b: !b) -> !y {
  %0 = nn.fully_connected %x, %w {nn.qparams = {result = !i8}} : (!x, !w) -> !y
  // expected-remark@+1 {{raise-function fired, exact}}
  %1 = nn.add %b, %0 {nn.qparams = {result = !u8}} : (!b, !y) -> !y
  func.return %1 : !y
}

// CHECK-LABEL: func.func @matmul(
// CHECK: nn.constant dense<{{.*}}> : tensor<2x4xf32>
// CHECK-NEXT: nn.fully_connected {{.*}} {nn.key = "add", nn.piece_keys = {matmul = "matmul"}} : (tensor<?x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT: return
func.func @matmul(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32> : tensor<4x2xf32>
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = nn.matmul %x, %w {nn.key = "matmul"} : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>
  // expected-remark@+1 {{raise-function fired, exact}}
  %1 = nn.add %0, %b {nn.key = "add"} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  func.return %1 : tensor<?x2xf32>
}

// Rows in more dimensions are counted through, and the sum is given its shape again.
// CHECK-LABEL: func.func @rows(
// CHECK: [[X:%[a-z0-9_]+]] = nn.reshape %{{.*}} : (tensor<?x3x4xf32>) -> tensor<?x4xf32>
// CHECK: [[Y:%[a-z0-9_]+]] = nn.fully_connected [[X]], {{.*}} {nn.key = "add", nn.piece_keys = {matmul = "matmul"}} : (tensor<?x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT: nn.reshape [[Y]] : (tensor<?x2xf32>) -> tensor<?x3x2xf32>
// CHECK-NEXT: return
func.func @rows(%x: tensor<?x3x4xf32>) -> tensor<?x3x2xf32> {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32> : tensor<4x2xf32>
  %b = nn.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32> : tensor<1x1x2xf32>
  // expected-remark@+1 {{matmul-to-fully-connected fired, exact}}
  %0 = nn.matmul %x, %w {nn.key = "matmul"} : (tensor<?x3x4xf32>, tensor<4x2xf32>) -> tensor<?x3x2xf32>
  // expected-remark@+1 {{raise-function fired, exact}}
  %1 = nn.add %b, %0 {nn.key = "add"} : (tensor<1x1x2xf32>, tensor<?x3x2xf32>) -> tensor<?x3x2xf32>
  func.return %1 : tensor<?x3x2xf32>
}

// CHECK-LABEL: func.func @rows_of_unknown_shape(
// CHECK: nn.matmul
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @rows_of_unknown_shape(%x: tensor<?x?x4xf32>) -> tensor<?x?x2xf32> {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32> : tensor<4x2xf32>
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  // expected-remark@+1 {{[dynamic-shape]: a reshape cannot count the rows through and back}}
  %0 = nn.matmul %x, %w : (tensor<?x?x4xf32>, tensor<4x2xf32>) -> tensor<?x?x2xf32>
  %1 = nn.add %0, %b : (tensor<?x?x2xf32>, tensor<2xf32>) -> tensor<?x?x2xf32>
  func.return %1 : tensor<?x?x2xf32>
}

// CHECK-LABEL: func.func @matmul_of_values(
// CHECK-NEXT: nn.matmul
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @matmul_of_values(%x: !x, %w: tensor<4x2xf32>, %b: !b) -> !y {
  %0 = nn.matmul %x, %w : (!x, tensor<4x2xf32>) -> !y
  // expected-remark@+1 {{[nearly]: nearly 'nn.fully_connected', but an argument is not a constant matrix}}
  %1 = nn.add %0, %b : (!y, !b) -> !y
  func.return %1 : !y
}

// On codes: the product is the accumulator, so that nothing is rounded in between.
// CHECK-LABEL: func.func @convolution(
// CHECK: nn.conv2d %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {nn.key = "c"} : {{.*}} -> tensor<1x2x4x4x!quant.uniform<u8:f32, 2.500000e-01>>
// CHECK-NEXT: return
func.func @convolution(%x: tensor<1x3x4x4x!i8>, %w: tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>, %b: tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.5}>>) -> tensor<1x2x4x4x!u8> {
  %0 = nn.conv2d %x, %w {nn.key = "c/conv"} : (tensor<1x3x4x4x!i8>, tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>) -> tensor<1x2x4x4x!quant.uniform<i32:f32:1, {0.25, 0.5}>>
  %1 = nn.unsqueeze %b axes [1, 2] : (tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.5}>>) -> tensor<2x1x1x!quant.uniform<i32:f32:0, {0.25, 0.5}>>
  // expected-remark@+1 {{raise-function fired, exact}}
  %2 = nn.add %0, %1 {nn.key = "c"} : (tensor<1x2x4x4x!quant.uniform<i32:f32:1, {0.25, 0.5}>>, tensor<2x1x1x!quant.uniform<i32:f32:0, {0.25, 0.5}>>) -> tensor<1x2x4x4x!u8>
  func.return %2 : tensor<1x2x4x4x!u8>
}

// CHECK-LABEL: func.func @rounded_product(
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @rounded_product(%x: tensor<3x4x!i8>, %w: tensor<2x4x!i8>, %b: tensor<2x!u8>) -> tensor<3x2x!u8> {
  %0 = nn.fully_connected %x, %w : (tensor<3x4x!i8>, tensor<2x4x!i8>) -> tensor<3x2x!i8>
  // expected-remark@+1 {{[types]: 'nn.fully_connected' op bias must be stored as i32, not u8}}
  %1 = nn.add %0, %b : (tensor<3x2x!i8>, tensor<2x!u8>) -> tensor<3x2x!u8>
  func.return %1 : tensor<3x2x!u8>
}

// CHECK-LABEL: func.func @product_used_twice(
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @product_used_twice(%x: !x, %w: !w, %b: !b) -> (!y, !y) {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  // expected-remark@+1 {{[multi-use]: a piece of 'nn.fully_connected' is also used elsewhere}}
  %1 = nn.add %0, %b : (!y, !b) -> !y
  func.return %0, %1 : !y, !y
}

// A residual is no bias.
// CHECK-LABEL: func.func @residual(
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @residual(%x: !x, %w: !w, %b: !y) -> !y {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  // expected-remark@+1 {{[nearly]: nearly 'nn.fully_connected', but the op expects a bias of shape 2, but got [3, 2]}}
  %1 = nn.add %0, %b : (!y, !y) -> !y
  func.return %1 : !y
}

// Factors in any order.
// CHECK-LABEL: func.func @swish(
// CHECK-NEXT: nn.swish {{.*}} {nn.key = "mul"}
// CHECK-NEXT: return
func.func @swish(%x: !x) -> !x {
  %0 = nn.sigmoid %x : (!x) -> !x
  // expected-remark@+1 {{raise-function fired, exact}}
  %1 = nn.mul %0, %x {nn.key = "mul"} : (!x, !x) -> !x
  func.return %1 : !x
}

// The numbers of ONNX are f32.
// CHECK-LABEL: func.func @hard_swish(
// CHECK-NEXT: nn.hard_swish {{.*}} {nn.key = "mul"}
// CHECK-NEXT: return
func.func @hard_swish(%x: !x) -> !x {
  %0 = nn.hard_sigmoid %x alpha 0.1666666716337204 beta 0.5 : (!x) -> !x
  // expected-remark@+1 {{raise-function fired, ties}}
  %1 = nn.mul %x, %0 {nn.key = "mul"} : (!x, !x) -> !x
  func.return %1 : !x
}

// CHECK-LABEL: func.func @hard_swish_of_relu6(
// CHECK: nn.hard_swish {{.*}} {nn.key = "div"} : (tensor<?x4xf32>)
// CHECK-NEXT: return
func.func @hard_swish_of_relu6(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %three = nn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %six = nn.constant dense<6.0> : tensor<f32> : tensor<f32>
  %0 = nn.add %x, %three : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %1 = nn.clip %0 min 0.0 max 6.0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = nn.mul %x, %1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  // expected-remark@+1 {{raise-function fired, ties}}
  %3 = nn.div %2, %six {nn.key = "div"} : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  func.return %3 : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @another_slope(
// CHECK-NOT: nn.hard_swish
// CHECK: return
func.func @another_slope(%x: !x) -> !x {
  %0 = nn.hard_sigmoid %x alpha 0.2 beta 0.5 : (!x) -> !x
  %1 = nn.mul %x, %0 : (!x, !x) -> !x
  func.return %1 : !x
}

// CHECK-LABEL: func.func @hard_gate_used_twice(
// CHECK-NOT: nn.hard_swish
// CHECK: return
func.func @hard_gate_used_twice(%x: !x) -> (!x, !x) {
  %0 = nn.hard_sigmoid %x alpha 0.1666666716337204 beta 0.5 : (!x) -> !x
  // expected-remark@+1 {{[multi-use]: a piece of 'nn.hard_swish' is also used elsewhere}}
  %1 = nn.mul %x, %0 : (!x, !x) -> !x
  func.return %0, %1 : !x, !x
}

// CHECK-LABEL: func.func @gate_used_twice(
// CHECK-NEXT: nn.sigmoid
// CHECK-NEXT: nn.mul
// CHECK-NEXT: return
func.func @gate_used_twice(%x: !x) -> (!x, !x) {
  %0 = nn.sigmoid %x : (!x) -> !x
  // expected-remark@+1 {{[multi-use]: a piece of 'nn.swish' is also used elsewhere}}
  %1 = nn.mul %0, %x : (!x, !x) -> !x
  func.return %0, %1 : !x, !x
}

// As PyTorch exports it: a division by sqrt(2), and the half comes last.
// CHECK-LABEL: func.func @gelu(
// CHECK: nn.gelu {{.*}} {nn.key = "last"}
// CHECK-NEXT: return
func.func @gelu(%x: !x) -> !x {
  %root = nn.constant dense<1.41421354> : tensor<f32> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = nn.div %x, %root : (!x, tensor<f32>) -> !x
  %1 = nn.erf %0 : (!x) -> !x
  %2 = nn.add %1, %one : (!x, tensor<f32>) -> !x
  %3 = nn.mul %x, %2 : (!x, !x) -> !x
  // expected-remark@+1 {{raise-function fired, ties}}
  %4 = nn.mul %3, %half {nn.key = "last"} : (!x, tensor<f32>) -> !x
  func.return %4 : !x
}

// CHECK-LABEL: func.func @nearly(
// CHECK-NOT: nn.layer_norm
// CHECK: return
func.func @nearly(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %e = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %w = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>
  %0 = nn.reduce_mean %x axes [-1] : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %1 = nn.sub %x, %0 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %2 = nn.abs %1 {nn.key = "ln/abs"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.reduce_mean %2 axes [-1] : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %4 = nn.add %3, %e : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %5 = nn.sqrt %4 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %6 = nn.div %1, %5 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.layer_norm', but the graph has 'nn.abs' at 'ln/abs' where the op has 'nn.mul'}}
  %7 = nn.mul %6, %w {nn.key = "ln"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return %7 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @no_gelu(
// CHECK-NOT: nn.gelu
// CHECK: return
func.func @no_gelu(%x: !x) -> !x {
  %root = nn.constant dense<1.5> : tensor<f32> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = nn.div %x, %root : (!x, tensor<f32>) -> !x
  %1 = nn.erf %0 : (!x) -> !x
  %2 = nn.add %1, %one : (!x, tensor<f32>) -> !x
  %3 = nn.mul %x, %2 : (!x, !x) -> !x
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.gelu', but a factor is 0.666667, not 0.707107}}
  %4 = nn.mul %3, %half : (!x, tensor<f32>) -> !x
  func.return %4 : !x
}

// As exporters wrote it before there was the op: a power for the square.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: nn.layer_norm {{.*}} epsilon 0.125 {nn.key = "ln"}
// CHECK-NEXT: return
func.func @layer_norm(%x: !x, %s: tensor<4xf32>, %b: tensor<4xf32>) -> !x {
  %e = nn.constant dense<0.125> : tensor<f32> : tensor<f32>
  %0 = nn.reduce_mean %x axes [-1] : (!x) -> tensor<3x1xf32>
  %1 = nn.sub %x, %0 : (!x, tensor<3x1xf32>) -> !x
  %2 = nn.pow %1 exponent 2.0 : (!x) -> !x
  %3 = nn.reduce_mean %2 axes [1] : (!x) -> tensor<3x1xf32>
  %4 = nn.add %3, %e : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = nn.sqrt %4 : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = nn.div %1, %5 : (!x, tensor<3x1xf32>) -> !x
  %7 = nn.mul %6, %s : (!x, tensor<4xf32>) -> !x
  // expected-remark@+1 {{raise-function fired, exact}}
  %8 = nn.add %7, %b {nn.key = "ln"} : (!x, tensor<4xf32>) -> !x
  func.return %8 : !x
}

// A line clipped to 0 and 1; the numbers are those of the graph.
// CHECK-LABEL: func.func @hard_sigmoid(
// CHECK-NEXT: nn.hard_sigmoid %{{.*}} alpha 0.25 beta 0.375 {nn.key = "clip", nn.piece_keys = {scaled = "mul", shifted = "add"}}
// CHECK-NEXT: return
func.func @hard_sigmoid(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %a = nn.constant dense<0.25> : tensor<f32> : tensor<f32>
  %b = nn.constant dense<0.375> : tensor<f32> : tensor<f32>
  %0 = nn.mul %x, %a {nn.key = "mul"} : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %1 = nn.add %b, %0 {nn.key = "add"} : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  // expected-remark@+1 {{raise-function fired, exact}}
  %2 = nn.clip %1 min 0.0 max 1.0 {nn.key = "clip"} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %2 : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @clipped_to_six(
// CHECK-NOT: nn.hard_sigmoid
// CHECK: return
func.func @clipped_to_six(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %a = nn.constant dense<0.25> : tensor<f32> : tensor<f32>
  %0 = nn.mul %x, %a : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %1 = nn.add %a, %0 : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = nn.clip %1 min 0.0 max 6.0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %2 : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @attention(
// CHECK-NEXT: nn.attention %arg0, %arg1, %arg2 scale 0.5 {nn.key = "av", nn.piece_keys = {qk = "qk", scaled = "s", softmax = "p"}}
// CHECK-NEXT: return
func.func @attention(%q: tensor<?x2x3x4xf32>, %k: tensor<?x2x3x4xf32>, %v: tensor<?x2x3x4xf32>) -> tensor<?x2x3x4xf32> {
  %two = nn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %0 = nn.transpose %k perm [0, 1, 3, 2] : (tensor<?x2x3x4xf32>) -> tensor<?x2x4x3xf32>
  %1 = nn.matmul %q, %0 {nn.key = "qk"} : (tensor<?x2x3x4xf32>, tensor<?x2x4x3xf32>) -> tensor<?x2x3x3xf32>
  %2 = nn.div %1, %two {nn.key = "s"} : (tensor<?x2x3x3xf32>, tensor<f32>) -> tensor<?x2x3x3xf32>
  %3 = nn.softmax %2 {nn.key = "p"} : (tensor<?x2x3x3xf32>) -> tensor<?x2x3x3xf32>
  // expected-remark@+1 {{raise-function fired, ties}}
  %4 = nn.matmul %3, %v {nn.key = "av"} : (tensor<?x2x3x3xf32>, tensor<?x2x3x4xf32>) -> tensor<?x2x3x4xf32>
  func.return %4 : tensor<?x2x3x4xf32>
}

// CHECK-LABEL: func.func @batch_norm(
// CHECK: nn.batch_norm %arg0, {{.*}} epsilon 0.0 {nn.key = "add", nn.piece_keys = {scaled = "mul", sub_mean = "sub"}}
// CHECK-NEXT: return
func.func @batch_norm(%x: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> {
  %m = nn.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %f = nn.constant dense<[[[3.0], [-4.0]]]> : tensor<1x2x1xf32> : tensor<1x2x1xf32>
  %b = nn.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %0 = nn.sub %x, %m {nn.key = "sub"} : (tensor<?x2x4xf32>, tensor<2x1xf32>) -> tensor<?x2x4xf32>
  %1 = nn.mul %f, %0 {nn.key = "mul"} : (tensor<1x2x1xf32>, tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
  // expected-remark@+1 {{raise-function fired, exact}}
  %2 = nn.add %1, %b {nn.key = "add"} : (tensor<?x2x4xf32>, tensor<2x1xf32>) -> tensor<?x2x4xf32>
  func.return %2 : tensor<?x2x4xf32>
}

// CHECK-LABEL: func.func @step_used_twice(
// CHECK-NOT: nn.batch_norm
// CHECK: return
func.func @step_used_twice(%x: tensor<?x2x4xf32>) -> (tensor<?x2x4xf32>, tensor<?x2x4xf32>) {
  %m = nn.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %0 = nn.sub %x, %m : (tensor<?x2x4xf32>, tensor<2x1xf32>) -> tensor<?x2x4xf32>
  %1 = nn.mul %0, %m : (tensor<?x2x4xf32>, tensor<2x1xf32>) -> tensor<?x2x4xf32>
  // expected-remark@+1 {{raise-function refused [multi-use]: a piece of 'nn.batch_norm' is also used elsewhere}}
  %2 = nn.add %1, %m : (tensor<?x2x4xf32>, tensor<2x1xf32>) -> tensor<?x2x4xf32>
  func.return %1, %2 : tensor<?x2x4xf32>, tensor<?x2x4xf32>
}

// Keys that all heads share broadcast, which attention does not.
// CHECK-LABEL: func.func @shared_keys(
// CHECK-NOT: nn.attention
// CHECK: return
func.func @shared_keys(%q: tensor<1x2x3x4xf32>, %k: tensor<1x1x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %two = nn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %0 = nn.transpose %k perm [0, 1, 3, 2] : (tensor<1x1x3x4xf32>) -> tensor<1x1x4x3xf32>
  %1 = nn.matmul %q, %0 : (tensor<1x2x3x4xf32>, tensor<1x1x4x3xf32>) -> tensor<1x2x3x3xf32>
  %2 = nn.div %1, %two : (tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3x3xf32>
  %3 = nn.softmax %2 : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  // expected-remark@+1 {{nearly 'nn.attention', but the op expects 2 along dimension 1, but got 1}}
  %4 = nn.matmul %3, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %4 : tensor<1x2x3x4xf32>
}

// A batch norm keeps the shape, and its numbers are numbers; a product and a sum that has more
// dimensions, or a product that is also used elsewhere, is no fully connected layer.
// CHECK-LABEL: func.func @no_batch_norm(
// CHECK-NOT: nn.batch_norm
// CHECK: return
func.func @no_batch_norm(%x: tensor<2x1x4xf32>, %y: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %c = nn.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32> : tensor<3x1xf32>
  %i = nn.constant dense<[[1.0], [0x7F800000], [3.0]]> : tensor<3x1xf32> : tensor<3x1xf32>
  %0 = nn.sub %x, %c : (tensor<2x1x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %1 = nn.mul %0, %c : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.batch_norm', but the op expects scale of shape 1, but got [3]}}
  %2 = nn.add %1, %c : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %3 = nn.sub %y, %c : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %4 = nn.mul %3, %i : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.batch_norm', but the op takes no constant with numbers that are not finite}}
  %5 = nn.add %4, %c : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  func.return %2, %5 : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @no_fully_connected(
// CHECK-NOT: nn.fully_connected
// CHECK: return
func.func @no_fully_connected(%x: tensor<2x3x4xf32>) -> (tensor<1x2x3x5xf32>, tensor<2x3x5xf32>, tensor<2x3x5xf32>) {
  %w = nn.constant dense<0.5> : tensor<4x5xf32> : tensor<4x5xf32>
  %b = nn.constant dense<1.0> : tensor<1x1x1x5xf32> : tensor<1x1x1x5xf32>
  %c = nn.constant dense<1.0> : tensor<5xf32> : tensor<5xf32>
  // expected-remark@+1 {{matmul-to-fully-connected refused [shape]: the sum has another shape than the product}}
  %0 = nn.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  %1 = nn.add %0, %b : (tensor<2x3x5xf32>, tensor<1x1x1x5xf32>) -> tensor<1x2x3x5xf32>
  %2 = nn.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  %3 = nn.add %2, %c : (tensor<2x3x5xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
  func.return %1, %2, %3 : tensor<1x2x3x5xf32>, tensor<2x3x5xf32>, tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @codes_by_floats(
// CHECK-NOT: nn.fully_connected
// CHECK: return
func.func @codes_by_floats(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x5xf32> {
  %w = nn.constant dense<0.5> : tensor<4x5xf32> : tensor<4x5xf32>
  %c = nn.constant dense<1.0> : tensor<5xf32> : tensor<5xf32>
  %0 = nn.matmul %x, %w : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>, tensor<4x5xf32>) -> tensor<2x5xf32>
  // expected-remark@+1 {{[mixed]: 'nn.fully_connected' would take codes and give floats, or the reverse}}
  %1 = nn.add %0, %c : (tensor<2x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  func.return %1 : tensor<2x5xf32>
}
