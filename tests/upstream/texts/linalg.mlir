#m0 = affine_map<(d0,d1,d2)->(d2,d0)>
#m1 = affine_map<(d0,d1,d2)->(d2,d1)>
#m2 = affine_map<(d0,d1,d2)->(d0,d1)>
func.func @f(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %ma: memref<4x4xf32>, %i8: tensor<4x4xi8>, %i32: tensor<4x4xi32>, %s: i32, %v: tensor<4xf32>, %x: f32, %c: tensor<4x4xcomplex<f32>>) {
  %0 = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>, foo} ins(%i8, %i8 : tensor<4x4xi8>, tensor<4x4xi8>) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  linalg.matmul ins(%ma, %ma : memref<4x4xf32>, memref<4x4xf32>) outs(%ma : memref<4x4xf32>)
  %2 = linalg.matmul indexing_maps = [#m0, #m1, #m2] ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = linalg.contract indexing_maps = [#m0, #m1, #m2] {foo} ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = linalg.elementwise kind=#linalg.elementwise_kind<add> ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = linalg.elementwise kind=#linalg.elementwise_kind<exp> indexing_maps = [affine_map<(d0,d1)->(d1,d0)>, affine_map<(d0,d1)->(d0,d1)>] ins(%a: tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = linalg.quantized_matmul ins(%i8, %i8, %s, %s : tensor<4x4xi8>, tensor<4x4xi8>, i32, i32) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  %7 = linalg.fill ins(%x : f32) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %8 = linalg.transpose ins(%a : tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) permutation = [1, 0] {foo}
  %9 = linalg.broadcast ins(%v : tensor<4xf32>) outs(%a : tensor<4x4xf32>) dimensions = [1]
  linalg.transpose ins(%ma : memref<4x4xf32>) outs(%ma : memref<4x4xf32>) permutation = [1, 0]
  %10 = linalg.reduce { arith.addf } ins(%a : tensor<4x4xf32>) outs(%v : tensor<4xf32>) dimensions = [1]
  %11 = linalg.reduce ins(%a : tensor<4x4xf32>) outs(%v : tensor<4xf32>) dimensions = [1] (%in: f32, %out: f32) { %z = arith.addf %out, %in : f32 %zz = arith.addf %z, %in : f32 linalg.yield %zz : f32 }
  %12 = linalg.map { arith.addf } ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>)
  %13 = linalg.map ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) (%p: f32, %q: f32, %o: f32) { linalg.yield %p : f32 }
  %14:2 = linalg.generic {indexing_maps = [#m0, #m1, #m2, #m2], iterator_types = ["parallel", "parallel", "reduction"], doc = "x"} ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) attrs = {foo = 1} { ^bb0(%p: f32, %q: f32, %o: f32, %r: f32): %id = linalg.index 0 : index linalg.yield %p, %p : f32, f32 } -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %15 = linalg.add ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %16 = linalg.matmul ins(%c, %c : tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>) outs(%c : tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>


  return
}
