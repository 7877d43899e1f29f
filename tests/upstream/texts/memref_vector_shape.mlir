memref.global "private" constant @a : memref<2xf32> = dense<[1.0, 2.0]>
memref.global @b : memref<2xf32> = uninitialized
memref.global @c : memref<2xf32>
func.func @memory(%m: memref<4x8xf32>, %i: index, %f: f32) {
  %t = memref.transpose %m (i, j) -> (j, i) : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
  memref.prefetch %m[%i, %i], read, locality<3>, data : memref<4x8xf32>
  %x = memref.generic_atomic_rmw %m[%i, %i] : memref<4x8xf32> { ^bb0(%c: f32): memref.atomic_yield %c : f32 }
  memref.alloca_scope { memref.alloca_scope.return }
  %r = memref.alloca_scope -> (f32) { memref.alloca_scope.return %f : f32 }
  %s = memref.subview %m[%i, 0] [2, 4] [1, 1] : memref<4x8xf32> to memref<2x4xf32, strided<[8, 1], offset: ?>>
  return
}
func.func @shapes(%i: index, %e: tensor<?xindex>, %w: !shape.witness, %f: f32) {
  %s = shape.const_shape [1, 2] : tensor<2xindex>
  %s2 = shape.const_shape [] : !shape.shape
  %q = shape.assuming %w -> (f32) { shape.assuming_yield %f : f32 }
  %n = shape.reduce(%e, %i) : tensor<?xindex> -> index { ^bb0(%a: index, %b: index, %c: index): shape.yield %c : index }
  return
}
func.func @vectors(%m: memref<?x?xf32>, %t: tensor<?x?xf32>, %i: index, %f: f32, %v: vector<4xf32>, %w: vector<[8]xf32>, %k: vector<4xi1>, %u: vector<4x4xf32>) {
  %0 = vector.transfer_read %m[%i, %i], %f {in_bounds = [true]} : memref<?x?xf32>, vector<4xf32>
  %1 = vector.transfer_read %m[%i, %i], %f, %k {permutation_map = affine_map<(d0, d1) -> (d0)>} : memref<?x?xf32>, vector<4xf32>
  %2 = vector.transfer_write %v, %t[%i, %i] : vector<4xf32>, tensor<?x?xf32>
  %3 = vector.outerproduct %v, %v, %u {kind = #vector.kind<mul>} : vector<4xf32>, vector<4xf32>
  %4 = vector.outerproduct %v, %w : vector<4xf32>, vector<[8]xf32>
  %5 = vector.mask %k { vector.reduction <add>, %v : vector<4xf32> into f32 } : vector<4xi1> -> f32
  %6 = vector.contract {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} %v, %v, %f : vector<4xf32>, vector<4xf32> into f32
  %7 = vector.shuffle %v, %v [0, 5, 1] : vector<4xf32>, vector<4xf32>
  %8:4 = vector.to_elements %v : vector<4xf32>
  %9 = vector.multi_reduction <add>, %u, %v [0] : vector<4x4xf32> to vector<4xf32>
  %10 = vector.extract %u[%i, 1] : f32 from vector<4x4xf32>
  return
}
