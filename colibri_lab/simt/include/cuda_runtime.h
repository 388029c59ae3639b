// What every CUDA source sees without asking, for the host's compiler. The compiler command
// includes it first, so including it again (inside extern "C", too) costs and changes nothing.
#pragma once
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmath>
#include <cstdio>
#include <new>
#include <type_traits>
#include <utility>

#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __nv_pure__ __attribute__((pure))
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __cudart_builtin__
#define __device_builtin__
#define CUDART_VERSION 13000
#define CUDART_CB

#include "assert.h"
#include "simt/core.h"
#include "simt/warp.h"
#include "simt/math.h"
#include "simt/memory.h"
#include "simt/atomics.h"
#include "simt/lockstep.h"
#include "simt/host_api.h"
#include "math_constants.h"

#define printf(...) simt_printf(__VA_ARGS__)
namespace std {
using ::simt_printf;
}
