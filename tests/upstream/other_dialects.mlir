"builtin.module"() ({
  "func.func"() <{function_type = (memref<?x?xf32>, index, vector<4xf32>, f32) -> vector<4xf32>, sym_name = "f"}> ({
  ^bb0(%arg4: memref<?x?xf32>, %arg5: index, %arg6: vector<4xf32>, %arg7: f32):
    %2 = "affine.apply"(%arg5, %arg5) <{map = affine_map<(d0)[s0] -> (d0 + s0)>}> : (index, index) -> index
    %3 = "vector.transfer_read"(%arg4, %arg5, %2, %arg7) <{in_bounds = [true], operandSegmentSizes = array<i32: 1, 2, 1, 0>, permutation_map = affine_map<(d0, d1) -> (d1)>}> : (memref<?x?xf32>, index, index, f32) -> vector<4xf32>
    %4 = "vector.contract"(%arg6, %arg6, %arg7) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = [#vector.iterator_type<reduction>], kind = #vector.kind<add>}> : (vector<4xf32>, vector<4xf32>, f32) -> f32
    "affine.for"() <{lowerBoundMap = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 0, 0, 0>, step = 1 : index, upperBoundMap = affine_map<() -> (4)>}> ({
    ^bb0(%arg8: index):
      "affine.store"(%4, %arg4, %arg8) <{map = affine_map<(d0) -> (d0, d0 + 1)>}> : (f32, memref<?x?xf32>, index) -> ()
      "affine.yield"() : () -> ()
    }) : () -> ()
    %5 = "async.execute"() <{operandSegmentSizes = array<i32: 0, 0>}> ({
      "async.yield"() : () -> ()
    }) : () -> !async.token
    "func.return"(%3) : (vector<4xf32>) -> ()
  }) : () -> ()
  "builtin.module"() ({
    "transform.named_sequence"() <{arg_attrs = [{transform.readonly}], function_type = (!transform.any_op) -> (), sym_name = "main"}> ({
    ^bb0(%arg3: !transform.any_op):
      %1 = "transform.structured.match"(%arg3) <{ops = ["linalg.matmul"]}> : (!transform.any_op) -> !transform.any_op
      "transform.yield"() : () -> ()
    }) : () -> ()
  }) {transform.with_named_sequence} : () -> ()
  "gpu.module"() <{sym_name = "k"}> ({
    "gpu.func"() <{function_type = (f32) -> ()}> ({
    ^bb0(%arg2: f32):
      %0 = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
      "gpu.return"() : () -> ()
    }) {gpu.kernel, sym_name = "a", workgroup_attributions = 0 : i64} : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (!nvgpu.device.async.token) -> (), sym_name = "b"}> ({
  ^bb0(%arg1: !nvgpu.device.async.token):
    "nvgpu.device_async_wait"(%arg1) : (!nvgpu.device.async.token) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
  "llvm.func"() <{CConv = #llvm.cconv<ccc>, function_type = !llvm.func<i32 (i32)>, linkage = #llvm.linkage<external>, sym_name = "c", unnamed_addr = 0 : i64, visibility_ = 0 : i64}> ({
  ^bb0(%arg0: i32):
    "llvm.return"(%arg0) : (i32) -> ()
  }) : () -> ()
}) : () -> ()
