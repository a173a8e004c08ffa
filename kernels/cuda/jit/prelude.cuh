/* Before every kernel: types, conversions, reductions. NVRTC finds no headers, so there are none. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct bf16 {
    u16 bits;
};
struct f16 {
    u16 bits;
};

__device__ inline float load(float x) { return x; }
__device__ inline float load(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline float load(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

/* Round to nearest, ties to even. */
__device__ inline void store(float *to, float x) { *to = x; }
__device__ inline void store(bf16 *to, float x) {
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
    u32 b = __float_as_uint(x);
    to->bits =
        (b & 0x7fffffffu) > 0x7f800000u ? (u16)((b >> 16) | 0x40u) : (u16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
#endif
}

__device__ inline void store(f16 *to, float x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
}

/* Two neighbours in a word, the first in the lower half. */
__device__ inline void unpair(const bf16 *, u32 w, float &low, float &high) {
    low = __uint_as_float(w << 16), high = __uint_as_float(w & 0xffff0000u);
}
__device__ inline void unpair(const f16 *, u32 w, float &low, float &high) {
    low = load(f16{(u16)w}), high = load(f16{(u16)(w >> 16)});
}
template <class element> __device__ inline u32 pair(const element *, float low, float high) {
    element l, h;
    store(&l, low), store(&h, high);
    return l.bits | (u32)h.bits << 16;
}
#if __CUDA_ARCH__ >= 800
__device__ inline u32 pair(const bf16 *, float low, float high) {
    u32 w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
}
__device__ inline u32 pair(const f16 *, float low, float high) {
    u32 w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
}
#endif

/* As instructions that name shared memory take it. */
__device__ inline u32 shared_address(const void *shared) {
    return (u32)__cvta_generic_to_shared(shared);
}

/* As struct mt_clock (kernels/op/op.h). */
struct clock_s {
    i64 step;
    u64 seed;
    double lr;
};

__device__ inline float warp_sum(float x) {
    for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}
__device__ inline float warp_max(float x) {
    for (int i = 16; i; i >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}

/* One value a warp, reduced over the block in the order of warps, in all threads; `part`: shared, a float a warp. */
template <class F> __device__ inline float reduce_warps(float x, float *part, float neutral, F join) {
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    float all = neutral;
    for (int w = 0; w < (int)(blockDim.x + 31) / 32; w++) all = join(all, part[w]);
    return all;
}
/* The sum over a block, always in the same order. */
__device__ inline float block_sum(float x, float *part) {
    return reduce_warps(warp_sum(x), part, 0, [](float a, float b) { return a + b; });
}

/* `count` neighbouring elements of an array, 2 to 16 bytes and aligned to as many, read and written by one access: as
 * bits, and as floats. */
template <class element, int count> struct vec {
    static constexpr int bytes = (int)sizeof(element) * count, words = (bytes + 3) / 4;
    u32 w[words];

    __device__ void read(const element *from) {
        if constexpr (bytes == 16) {
            uint4 r = *(const uint4 *)from;
            w[0] = r.x, w[1] = r.y, w[2] = r.z, w[3] = r.w;
        } else if constexpr (bytes == 8) {
            uint2 r = *(const uint2 *)from;
            w[0] = r.x, w[1] = r.y;
        } else if constexpr (bytes == 4) {
            w[0] = *(const u32 *)from;
        } else {
            w[0] = *(const u16 *)from;
        }
    }
    __device__ void write(element *to) const {
        if constexpr (bytes == 16)
            *(uint4 *)to = make_uint4(w[0], w[1], w[2], w[3]);
        else if constexpr (bytes == 8)
            *(uint2 *)to = make_uint2(w[0], w[1]);
        else if constexpr (bytes == 4)
            *(u32 *)to = w[0];
        else
            *(u16 *)to = (u16)w[0];
    }
    __device__ void get(float *x) const {
#pragma unroll
        for (int i = 0; i < words; i++) {
            if constexpr (sizeof(element) == 4) {
                x[i] = __uint_as_float(w[i]);
            } else {
                float high;
                unpair((const element *)0, w[i], x[2 * i], count == 1 ? high : x[count == 1 ? 0 : 2 * i + 1]);
            }
        }
    }
    __device__ void set(const float *x) {
#pragma unroll
        for (int i = 0; i < words; i++) {
            if constexpr (sizeof(element) == 4)
                w[i] = __float_as_uint(x[i]);
            else
                w[i] = pair((const element *)0, x[2 * i], count == 1 ? 0 : x[count == 1 ? 0 : 2 * i + 1]);
        }
    }
};

/* As struct cuda_axes (shape.h), and the offset of element i. */
struct axes {
    i64 n, extent[6], stride[6];
};
__device__ inline i64 place(const axes &walk, i64 i) {
    i64 at = 0;
    for (int a = (int)walk.n - 1; a > 0; a--) {
        bool small = !((u64)(i | walk.extent[a]) >> 32); /* a division of 32 bits is much faster */
        i64 outer = small ? (u32)i / (u32)walk.extent[a] : i / walk.extent[a];
        at += (i - outer * walk.extent[a]) * walk.stride[a];
        i = outer;
    }
    return walk.n ? at + i * walk.stride[0] : 0;
}

/* As the table of struct cuda_multi_tensor (multi_tensor.h): which tensor a block works on, and its elements of it. */
enum { MOST_TENSORS = 30 };
struct batch {
    int count, first[MOST_TENSORS + 1];
    i64 chunk[MOST_TENSORS];
};
struct share {
    i64 begin, end;
};
__device__ inline int tensor_of(const batch &b, int block) {
    int low = 0, high = b.count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (b.first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}
__device__ inline share share_of(const batch &b, int tensor, i64 n) {
    i64 begin = (i64)((int)blockIdx.x - b.first[tensor]) * b.chunk[tensor], end = begin + b.chunk[tensor];
    return {begin, end < n ? end : n};
}
