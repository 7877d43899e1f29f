memref.global "private" constant @a : memref<2xf32> = dense<[1.0, 2.0]>
memref.global @b : memref<2xf32> = uninitialized
memref.global @c : memref<2xf32>
func.func @memory(%m: memref<4x8xf32>, %i: index, %f: f32) {
  %t = memref.transpose %m (i, j) -> (j, i) : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
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
