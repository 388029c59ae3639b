// Kernels for the tests of the driver.
__device__ int counter = 5;
__constant__ int factors[4] = {1, 2, 3, 4};

extern "C" {

__global__ void add(int *x, int value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}

__global__ void copy(int *to, const int *from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}

__global__ void double_into(int *to, const int *from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i];
}

__global__ void outside(int *x, int at) { x[at + threadIdx.x] = 1; }

__global__ void scale(int *x) { x[threadIdx.x] *= factors[threadIdx.x] * counter; }

__global__ void __launch_bounds__(64) bounded(int *x) { x[0] = blockDim.x; }

__global__ void with_shared(int *x) {
  __shared__ int fixed[256];
  extern __shared__ int given[];
  fixed[threadIdx.x] = given[threadIdx.x] = threadIdx.x;
  __syncthreads();
  x[threadIdx.x] = fixed[threadIdx.x] + given[threadIdx.x];
}

__global__ void mixed(char a, double b, short c, long long d, double *out) {
  out[0] = a, out[1] = b, out[2] = c, out[3] = (double)d;
}

__global__ void spin(volatile int *x) {
  while (x[0] == 0) x[1] = 1;
}

}  // extern "C"
