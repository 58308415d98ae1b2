// Split a Fourier transform over several dims into one per dim, each of which allows sharding of all other dims.
// RUN: meshgen opt %s --mesh x=4 --passes fft-to-pencils | filecheck %s

func.func @f(%x: tensor<8x4x6xf32>) -> (tensor<8x4x4xcomplex<f32>>, tensor<8x4x6xf32>) {
  %a = stablehlo.fft %x, type = RFFT, length = [4, 6] : (tensor<8x4x6xf32>) -> tensor<8x4x4xcomplex<f32>>
  %b = stablehlo.fft %a, type = IRFFT, length = [4, 6] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x6xf32>
  return %a, %b : tensor<8x4x4xcomplex<f32>>, tensor<8x4x6xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.fft %x, type = RFFT, length = [6] : (tensor<8x4x6xf32>) -> tensor<8x4x4xcomplex<f32>>
// CHECK-NEXT: %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x4xcomplex<f32>>
// CHECK-NEXT: %2 = stablehlo.fft %1, type = FFT, length = [4] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x4xcomplex<f32>>
// CHECK-NEXT: %a = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x4xcomplex<f32>>
// CHECK-NEXT: %3 = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x4xcomplex<f32>>
// CHECK-NEXT: %4 = stablehlo.fft %3, type = IFFT, length = [4] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x4xcomplex<f32>>
// CHECK-NEXT: %5 = stablehlo.transpose %4, dims = [0, 2, 1] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x4xcomplex<f32>>
// CHECK-NEXT: %b = stablehlo.fft %5, type = IRFFT, length = [6] : (tensor<8x4x4xcomplex<f32>>) -> tensor<8x4x6xf32>
// CHECK-NEXT: func.return %a, %b
