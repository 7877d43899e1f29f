func.func @f(%a: tensor<4x4xf32>, %i1: tensor<4x4xi1>, %i8: tensor<4x4xi8>, %i32: tensor<4x4xi32>, %x: f32, %ix: tensor<4x4xindex>, %b: tensor<4x4xbf16>, %f64:f64, %seed: i32, %b3: tensor<2x4x4xf32>, %c: tensor<4x4xcomplex<f32>>, %u: tensor<4x4xui8>) {
  %0 = linalg.matmul ins(%i1, %i1 : tensor<4x4xi1>, tensor<4x4xi1>) outs(%i1 : tensor<4x4xi1>) -> tensor<4x4xi1>
  %1 = linalg.matmul ins(%i1, %i1 : tensor<4x4xi1>, tensor<4x4xi1>) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  %2 = linalg.matmul ins(%i1, %i8 : tensor<4x4xi1>, tensor<4x4xi8>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xbf16>) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  %4 = linalg.matmul ins(%ix, %ix : tensor<4x4xindex>, tensor<4x4xindex>) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  %5 = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xbf16>) outs(%b : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %6 = linalg.reciprocal ins(%a : tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = linalg.square ins(%a : tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %8 = linalg.max ins(%i32, %i32 : tensor<4x4xi32>, tensor<4x4xi32>) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  %9 = linalg.fill_rng_2d ins(%f64, %f64, %seed : f64, f64, i32) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %10 = linalg.batch_reduce_matmul ins(%b3, %b3 : tensor<2x4x4xf32>, tensor<2x4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %11 = linalg.batch_matmul ins(%b3, %b3 : tensor<2x4x4xf32>, tensor<2x4x4xf32>) outs(%b3 : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %12 = linalg.elementwise kind=#linalg.elementwise_kind<select> ins(%i1, %a, %a : tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %14 = linalg.copy ins(%i8 : tensor<4x4xi8>) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  %15 = linalg.div ins(%i32, %i32 : tensor<4x4xi32>, tensor<4x4xi32>) outs(%i32 : tensor<4x4xi32>) -> tensor<4x4xi32>
  %16 = linalg.add ins(%i1, %i1 : tensor<4x4xi1>, tensor<4x4xi1>) outs(%i1 : tensor<4x4xi1>) -> tensor<4x4xi1>
  return
}
