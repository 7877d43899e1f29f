// RUN: qopt-opt %s -p 'raise-composites{numerics=ties}' --remarks 2>&1 | filecheck %s

// The second of two steps differs from that of the layer in one op. The steps stay, and a remark
// tells which op differs.

// CHECK-DAG: raise-recurrent refused [nearly]: nearly 'nn.lstm', but the graph has 'nn.sigmoid' where the op has 'nn.tanh'
// CHECK-DAG: raise-recurrent refused [nearly]: nearly 'nn.gru', but the graph has 'nn.add' where the op has 'nn.sub'

// CHECK-LABEL: func.func @lstm(
// CHECK-NOT: nn.lstm
func.func @lstm(%arg0: tensor<2x1x1xf32>) -> tensor<2x1x1x1xf32> {
  %0 = nn.slice %arg0 starts [0, 0, 0] stops [1, 2147483647, 2147483647] steps [1, 1, 1] : (tensor<2x1x1xf32>) -> tensor<1x1x1xf32>
  %1 = nn.squeeze %0 axes [0] : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
  %2 = nn.slice %arg0 starts [1, 0, 0] stops [2, 2147483647, 2147483647] steps [1, 1, 1] : (tensor<2x1x1xf32>) -> tensor<1x1x1xf32>
  %3 = nn.squeeze %2 axes [0] : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
  %4 = nn.constant dense<0.5> : tensor<4x1xf32> : tensor<4x1xf32>
  %5 = nn.constant dense<[[0.0]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %6 = nn.fully_connected %1, %4 : (tensor<1x1xf32>, tensor<4x1xf32>) -> tensor<1x4xf32>
  %7 = nn.constant dense<0.0> : tensor<1x4xf32> : tensor<1x4xf32>
  %8 = nn.add %6, %7 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %9 = nn.constant dense<0.5> : tensor<4xf32> : tensor<4xf32>
  %10 = nn.add %8, %9 : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  %11 = nn.slice %10 starts [0, 0] stops [2147483647, 1] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %12 = nn.slice %10 starts [0, 1] stops [2147483647, 2] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %13 = nn.slice %10 starts [0, 2] stops [2147483647, 3] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %14 = nn.slice %10 starts [0, 3] stops [2147483647, 4] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %15 = nn.sigmoid %11 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %16 = nn.sigmoid %13 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %17 = nn.tanh %14 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %18 = nn.mul %16, %5 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %19 = nn.mul %15, %17 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %20 = nn.add %18, %19 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %21 = nn.sigmoid %12 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %22 = nn.tanh %20 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %23 = nn.mul %21, %22 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %24 = nn.unsqueeze %23 axes [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1x1xf32>
  %25 = nn.fully_connected %3, %4 : (tensor<1x1xf32>, tensor<4x1xf32>) -> tensor<1x4xf32>
  %26 = nn.fully_connected %23, %4 : (tensor<1x1xf32>, tensor<4x1xf32>) -> tensor<1x4xf32>
  %27 = nn.add %25, %26 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %28 = nn.add %27, %9 : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  %29 = nn.slice %28 starts [0, 0] stops [2147483647, 1] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %30 = nn.slice %28 starts [0, 1] stops [2147483647, 2] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %31 = nn.slice %28 starts [0, 2] stops [2147483647, 3] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %32 = nn.slice %28 starts [0, 3] stops [2147483647, 4] steps [1, 1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %33 = nn.sigmoid %29 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %34 = nn.sigmoid %31 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %35 = nn.sigmoid %32 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %36 = nn.mul %34, %20 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %37 = nn.mul %33, %35 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %38 = nn.add %36, %37 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %39 = nn.sigmoid %30 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %40 = nn.tanh %38 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %41 = nn.mul %39, %40 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %42 = nn.unsqueeze %41 axes [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1x1xf32>
  %43 = nn.concat %24, %42 axis 0 : (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>) -> tensor<2x1x1x1xf32>
  func.return %43 : tensor<2x1x1x1xf32>
}

// CHECK-LABEL: func.func @gru(
// CHECK-NOT: nn.gru
func.func @gru(%arg0: tensor<2x1x1xf32>) -> tensor<2x1x1x1xf32> {
  %0 = nn.slice %arg0 starts [0, 0, 0] stops [1, 2147483647, 2147483647] steps [1, 1, 1] : (tensor<2x1x1xf32>) -> tensor<1x1x1xf32>
  %1 = nn.squeeze %0 axes [0] : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
  %2 = nn.slice %arg0 starts [1, 0, 0] stops [2, 2147483647, 2147483647] steps [1, 1, 1] : (tensor<2x1x1xf32>) -> tensor<1x1x1xf32>
  %3 = nn.squeeze %2 axes [0] : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
  %4 = nn.constant dense<0.5> : tensor<3x1xf32> : tensor<3x1xf32>
  %5 = nn.constant dense<0.5> : tensor<2x1xf32> : tensor<2x1xf32>
  %6 = nn.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %7 = nn.constant dense<[[0.0]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %8 = nn.fully_connected %1, %4 : (tensor<1x1xf32>, tensor<3x1xf32>) -> tensor<1x3xf32>
  %9 = nn.constant dense<0.25> : tensor<3xf32> : tensor<3xf32>
  %10 = nn.add %8, %9 : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  %11 = nn.slice %10 starts [0, 0] stops [2147483647, 2] steps [1, 1] : (tensor<1x3xf32>) -> tensor<1x2xf32>
  %12 = nn.constant dense<0.25> : tensor<1x2xf32> : tensor<1x2xf32>
  %13 = nn.add %11, %12 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %14 = nn.slice %13 starts [0, 0] stops [2147483647, 1] steps [1, 1] : (tensor<1x2xf32>) -> tensor<1x1xf32>
  %15 = nn.sigmoid %14 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %16 = nn.slice %13 starts [0, 1] stops [2147483647, 2] steps [1, 1] : (tensor<1x2xf32>) -> tensor<1x1xf32>
  %17 = nn.sigmoid %16 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %18 = nn.mul %17, %7 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %19 = nn.fully_connected %18, %6 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %20 = nn.constant dense<[0.25]> : tensor<1xf32> : tensor<1xf32>
  %21 = nn.add %19, %20 : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %22 = nn.slice %10 starts [0, 2] stops [2147483647, 3] steps [1, 1] : (tensor<1x3xf32>) -> tensor<1x1xf32>
  %23 = nn.add %22, %21 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %24 = nn.tanh %23 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %25 = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %26 = nn.sub %25, %15 : (tensor<f32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %27 = nn.mul %15, %7 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %28 = nn.mul %26, %24 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %29 = nn.add %28, %27 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %30 = nn.unsqueeze %29 axes [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1x1xf32>
  %31 = nn.fully_connected %3, %4 : (tensor<1x1xf32>, tensor<3x1xf32>) -> tensor<1x3xf32>
  %32 = nn.add %31, %9 : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  %33 = nn.fully_connected %29, %5 : (tensor<1x1xf32>, tensor<2x1xf32>) -> tensor<1x2xf32>
  %34 = nn.constant dense<0.25> : tensor<2xf32> : tensor<2xf32>
  %35 = nn.add %33, %34 : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %36 = nn.slice %32 starts [0, 0] stops [2147483647, 2] steps [1, 1] : (tensor<1x3xf32>) -> tensor<1x2xf32>
  %37 = nn.add %36, %35 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %38 = nn.slice %37 starts [0, 0] stops [2147483647, 1] steps [1, 1] : (tensor<1x2xf32>) -> tensor<1x1xf32>
  %39 = nn.sigmoid %38 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %40 = nn.slice %37 starts [0, 1] stops [2147483647, 2] steps [1, 1] : (tensor<1x2xf32>) -> tensor<1x1xf32>
  %41 = nn.sigmoid %40 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %42 = nn.mul %41, %29 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %43 = nn.fully_connected %42, %6 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %44 = nn.add %43, %20 : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %45 = nn.slice %32 starts [0, 2] stops [2147483647, 3] steps [1, 1] : (tensor<1x3xf32>) -> tensor<1x1xf32>
  %46 = nn.add %45, %44 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %47 = nn.tanh %46 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %48 = nn.add %25, %39 : (tensor<f32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %49 = nn.mul %39, %29 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %50 = nn.mul %48, %47 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %51 = nn.add %50, %49 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %52 = nn.unsqueeze %51 axes [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1x1xf32>
  %53 = nn.concat %30, %52 axis 0 : (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>) -> tensor<2x1x1x1xf32>
  func.return %53 : tensor<2x1x1x1xf32>
}
