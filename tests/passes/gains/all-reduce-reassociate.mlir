// JAX `shard_map`: the gradient of a tied embedding, where the parts of the lookups and of the logits (transposed) are reduced separately.
// Without the pass a device sends 768 KiB, with it 384 KiB.
// GAIN: ring_bytes 2

module @jit_tied_embedding_gradient attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<512x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg1: tensor<512xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}]>}, %arg2: tensor<512x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg3: tensor<512x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<1024x64xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3) in_shardings=[<@mesh, [{"dp"}, {}]>, <@mesh, [{"dp"}]>, <@mesh, [{"dp"}, {}]>, <@mesh, [{"dp"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"dp"} (%arg4: tensor<128x64xf32>, %arg5: tensor<128xi32>, %arg6: tensor<128x64xf32>, %arg7: tensor<128x1024xf32>) {
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1024x64xf32>
      %c = stablehlo.constant dense<0> : tensor<i32>
      %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<128xi32>
      %3 = stablehlo.compare LT, %arg5, %2, SIGNED : (tensor<128xi32>, tensor<128xi32>) -> tensor<128xi1>
      %c_0 = stablehlo.constant dense<1024> : tensor<i32>
      %4 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<128xi32>
      %5 = stablehlo.add %arg5, %4 : tensor<128xi32>
      %6 = stablehlo.select %3, %5, %arg5 : tensor<128xi1>, tensor<128xi32>
      %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
      %8 = "stablehlo.scatter"(%1, %7, %arg4) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %15 = stablehlo.add %arg8, %arg9 : tensor<f32>
        stablehlo.return %15 : tensor<f32>
      }) : (tensor<1024x64xf32>, tensor<128x1xi32>, tensor<128x64xf32>) -> tensor<1024x64xf32>
      %9 = "stablehlo.all_reduce"(%8) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %15 = stablehlo.add %arg8, %arg9 : tensor<f32>
        stablehlo.return %15 : tensor<f32>
      }) : (tensor<1024x64xf32>) -> tensor<1024x64xf32>
      %10 = stablehlo.transpose %arg6, dims = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
      %11 = stablehlo.dot_general %10, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x1024xf32>) -> tensor<64x1024xf32>
      %12 = "stablehlo.all_reduce"(%11) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %15 = stablehlo.add %arg8, %arg9 : tensor<f32>
        stablehlo.return %15 : tensor<f32>
      }) : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
      %13 = stablehlo.transpose %12, dims = [1, 0] : (tensor<64x1024xf32>) -> tensor<1024x64xf32>
      %14 = stablehlo.add %9, %13 : tensor<1024x64xf32>
      sdy.return %14 : tensor<1024x64xf32>
    } : (tensor<512x64xf32>, tensor<512xi32>, tensor<512x64xf32>, tensor<512x1024xf32>) -> tensor<1024x64xf32>
    return %0 : tensor<1024x64xf32>
  }
}
