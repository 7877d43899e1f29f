module {
  func.func @f(%a: i32, %b: i32, %x: f32, %t: tensor<4x?xf32>, %i: index, %c: i1, %v: vector<[4]x8xf32>) -> i32 {
    %0 = arith.addi %a, %b overflow<nsw, nuw> : i32
    %1 = arith.addf %x, %x fastmath<fast> : f32
    %2 = arith.cmpi slt, %a, %b : i32
    %3, %ov = arith.addui_extended %a, %b : i32, i1
    %tr = arith.truncf %x to_nearest_even fastmath<nnan,ninf> : f32 to bf16
    %4 = math.fma %x, %x, %x : f32
    %5 = tensor.extract_slice %t[0, %i] [2, 3] [1, 1] : tensor<4x?xf32> to tensor<2x3xf32>
    %6 = tensor.extract %t[%i, %i] : tensor<4x?xf32>
    %7 = tensor.dim %t, %i : tensor<4x?xf32>
    %8 = tensor.pad %t low[%i, 0] high[1, 2] {
    ^bb0(%p: index, %q: index):
      tensor.yield %x : f32
    } : tensor<4x?xf32> to tensor<?x?xf32>
    %9 = tensor.expand_shape %5 [[0], [1, 2]] output_shape [2, 3, 1] : tensor<2x3xf32> into tensor<2x3x1xf32>
    %10 = tensor.generate %i {
    ^bb0(%p: index):
      tensor.yield %x : f32
    } : tensor<?xf32>
    cf.cond_br %c weights([10, 20]), ^bb1(%a : i32), ^bb1(%b : i32)
  ^bb1(%z: i32):
    %d = arith.constant dense<1.0> : vector<4xf32>
    %e = arith.constant {foo = 1 : i32} 3 : i32
    %g = arith.addf %v, %v : vector<[4]x8xf32>
    %h = arith.cmpf ogt, %v, %v fastmath<nnan> : vector<[4]x8xf32>
    %j = index.cmp slt(%i, %i)
    %k = index.add %i, %i
    cf.assert %c, "hi"
    return %z : i32
  }
  func.func @g() {
    cf.br ^bb1
  ^bb1:
    return
  }
}
