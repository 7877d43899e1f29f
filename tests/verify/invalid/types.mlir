func.func @addi(%a: f32) {
  %0 = arith.addi %a, %a : f32
  return
}
// -----
func.func @addf(%a: i32) {
  %0 = arith.addf %a, %a : i32
  return
}
// -----
func.func @generic_addi(%a: i32, %b: i64) {
  %0 = "arith.addi"(%a, %b) : (i32, i64) -> i32
  return
}
// -----
func.func @generic_count(%a: i32) {
  %0 = "arith.addi"(%a) : (i32) -> i32
  return
}
// -----
func.func @generic_results(%a: i32) {
  "arith.addi"(%a, %a) : (i32, i32) -> ()
  return
}
// -----
func.func @extsi(%a: i32) {
  %0 = arith.extsi %a : i32 to i16
  return
}
// -----
func.func @extsi_equal(%a: i32) {
  %0 = arith.extsi %a : i32 to i32
  return
}
// -----
func.func @trunci(%a: i16) {
  %0 = arith.trunci %a : i16 to i32
  return
}
// -----
func.func @sitofp(%a: f32) {
  %0 = arith.sitofp %a : f32 to f32
  return
}
// -----
func.func @bitcast(%a: f32) {
  %0 = arith.bitcast %a : f32 to i64
  return
}
// -----
func.func @extf_shape(%a: tensor<4xf16>) {
  %0 = arith.extf %a : tensor<4xf16> to tensor<5xf32>
  return
}
// -----
func.func @cmpi(%a: i32) {
  %0 = arith.cmpi foo, %a, %a : i32
  return
}
// -----
func.func @cmpf_type(%a: i32) {
  %0 = arith.cmpf olt, %a, %a : i32
  return
}
// -----
func.func @constant_type() {
  %0 = "arith.constant"() {value = 1 : i32} : () -> i64
  return
}
// -----
func.func @constant_missing() {
  %0 = "arith.constant"() : () -> i64
  return
}
// -----
func.func @constant_index() {
  %0 = "arith.constant"() {value = "x"} : () -> i64
  return
}
// -----
func.func @select(%c: i32, %a: f32) {
  %0 = "arith.select"(%c, %a, %a) : (i32, f32, f32) -> f32
  return
}
// -----
func.func @select_result(%c: i1, %a: f32) {
  %0 = "arith.select"(%c, %a, %a) : (i1, f32, f32) -> f64
  return
}
// -----
func.func @sqrt(%a: i32) {
  %0 = math.sqrt %a : i32
  return
}
// -----
func.func @unsigned_add(%a: ui8) {
  %0 = arith.addi %a, %a : ui8
  return
}
// -----
func.func @tensor_cast(%a: tensor<4xf32>) {
  %0 = tensor.cast %a : tensor<4xf32> to tensor<5xf32>
  return
}
// -----
func.func @tensor_extract(%a: tensor<4xf32>, %i: index) {
  %0 = tensor.extract %a[%i, %i] : tensor<4xf32>
  return
}
// -----
func.func @tensor_insert(%a: tensor<4xf32>, %i: index, %x: f32) {
  %0 = tensor.insert %x into %a[] : tensor<4xf32>
  return
}
// -----
func.func @tensor_dim(%a: f32, %i: index) {
  %0 = "tensor.dim"(%a, %i) : (f32, index) -> index
  return
}
// -----
func.func @tensor_empty() {
  %0 = tensor.empty() : tensor<?xf32>
  return
}
// -----
func.func @tensor_from_elements(%x: f32) {
  %0 = tensor.from_elements %x, %x : tensor<3xf32>
  return
}
// -----
func.func @tensor_reshape(%a: tensor<4xf32>, %s: tensor<1xindex>) {
  %0 = tensor.reshape %a(%s) : (tensor<4xf32>, tensor<1xindex>) -> tensor<5xf32>
  return
}
// -----
func.func @tensor_collapse(%a: tensor<4x5xf32>) {
  %0 = tensor.collapse_shape %a [[0, 1]] : tensor<4x5xf32> into tensor<21xf32>
  return
}
// -----
func.func @tensor_expand(%a: tensor<20xf32>) {
  %0 = tensor.expand_shape %a [[0, 1]] output_shape [4, 6] : tensor<20xf32> into tensor<4x6xf32>
  return
}
// -----
func.func @tensor_slice(%a: tensor<4x5xf32>) {
  %0 = tensor.extract_slice %a[0] [1] [1] : tensor<4x5xf32> to tensor<1xf32>
  return
}
// -----
func.func @tensor_slice_type(%a: tensor<4x5xf32>) {
  %0 = tensor.extract_slice %a[0, 0] [2, 2] [1, 1] : tensor<4x5xf32> to tensor<2x3xf32>
  return
}
// -----
func.func @tensor_pad(%a: tensor<4xf32>, %x: f32) {
  %0 = tensor.pad %a low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %x : f32
  } : tensor<4xf32> to tensor<7xf32>
  return
}
// -----
func.func @concat(%a: tensor<4xf32>) {
  %0 = tensor.concat dim(1) %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
func.func @generic_maps(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @generic_rank(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @generic_yield(%a: tensor<4xf32>, %x: i32) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %x : i32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @generic_block(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32):
    linalg.yield %in : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @generic_shape(%a: tensor<4xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%b : tensor<5xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
// -----
func.func @matmul(%a: tensor<4x5xf32>, %b: tensor<6x7xf32>, %c: tensor<4x7xf32>) {
  %0 = linalg.matmul ins(%a, %b : tensor<4x5xf32>, tensor<6x7xf32>) outs(%c : tensor<4x7xf32>) -> tensor<4x7xf32>
  return
}
// -----
func.func @load(%a: memref<4xf32>, %i: index) {
  %0 = memref.load %a[%i, %i] : memref<4xf32>
  return
}
// -----
func.func @store(%a: memref<4xf32>, %i: i32, %x: f32) {
  "memref.store"(%x, %a, %i) : (f32, memref<4xf32>, i32) -> ()
  return
}
// -----
func.func @alloc() {
  %0 = memref.alloc() : memref<?xf32>
  return
}
// -----
func.func @memref_cast(%a: memref<4xf32>) {
  %0 = memref.cast %a : memref<4xf32> to memref<5xf32>
  return
}
// -----
func.func @tosa_add(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  %0 = tosa.add %a, %b : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @tosa_reshape(%a: tensor<4xf32>) {
  %s = tosa.const_shape {values = dense<[5]> : tensor<1xindex>} : () -> !tosa.shape<1>
  %0 = tosa.reshape %a, %s : (tensor<4xf32>, !tosa.shape<1>) -> tensor<5xf32>
  return
}
// -----
func.func @tosa_concat(%a: tensor<4xf32>, %b: tensor<4xi32>) {
  %0 = tosa.concat %a, %b {axis = 0 : i32} : (tensor<4xf32>, tensor<4xi32>) -> tensor<8xf32>
  return
}
// -----
func.func @tosa_const() {
  %0 = "tosa.const"() {values = dense<1> : tensor<4xi32>} : () -> tensor<5xi32>
  return
}
// -----
func.func @qcast_operand(%a: i32) {
  %0 = "quant.qcast"(%a) : (i32) -> !quant.uniform<i8:f32, 1.0>
  return
}
// -----
func.func @qcast_result(%a: f32) {
  %0 = quant.qcast %a : f32 to i8
  return
}
// -----
func.func @dcast_shape(%a: tensor<4x!quant.uniform<i8:f32, 1.0>>) {
  %0 = quant.dcast %a : tensor<4x!quant.uniform<i8:f32, 1.0>> to tensor<?xf32>
  return
}
// -----
func.func @dcast_expressed(%a: !quant.uniform<i8:f32, 1.0>) {
  %0 = quant.dcast %a : !quant.uniform<i8:f32, 1.0> to f64
  return
}
// -----
func.func @scast_both(%a: i8) {
  %0 = quant.scast %a : i8 to i8
  return
}
// -----
func.func @scast_storage(%a: i16) {
  %0 = quant.scast %a : i16 to !quant.uniform<i8:f32, 1.0>
  return
}
// -----
func.func @per_axis_scalar(%a: f32) {
  %0 = quant.qcast %a : f32 to !quant.uniform<i8:f32:0, {1.0, 2.0}>
  return
}
// -----
func.func @cast(%a: i32) {
  "builtin.unrealized_conversion_cast"(%a) : (i32) -> ()
  return
}
// -----
func.func @splat(%a: f32) {
  %0 = tensor.splat %a : tensor<?xf32>
  return
}
// -----
func.func @vector_broadcast(%a: f32) {
  %0 = vector.broadcast %a : f32 to vector<4xi32>
  return
}
// -----
func.func @index_cast(%a: i32) {
  %0 = arith.index_cast %a : i32 to i64
  return
}
// -----
func.func @fill(%x: f32, %e: tensor<4xi32>) {
  %0 = linalg.fill ins(%x : f32) outs(%e : tensor<4xi32>) -> tensor<4xi32>
  return
}
// -----
func.func @transpose(%a: tensor<4x5xf32>, %b: tensor<4x5xf32>) {
  %0 = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%b : tensor<4x5xf32>) permutation = [1, 0]
  return
}
