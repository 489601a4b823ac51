/*-------------------------------------------------------------------------
 *
 * prelude.h
 *	  CUDA C++ for g++: what a generated kernel finds already there when it is
 *	  compiled for the emulated device.
 *
 * It includes nothing, as NVRTC has it.  PTX is the assembler's business: an
 * instruction of it is a macro that gives the x86-64 instruction, whose loads
 * acquire and whose stores release.
 *
 * What makes threads wait for each other is in threads.c; it is told the place in
 * the kernel's text, since the threads of a warp must meet at the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_EMULATED_PRELUDE_H
#define GPUSCAN_EMULATED_PRELUDE_H

#define __CUDACC_RTC__ 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __restrict__ __restrict
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
/* a thread of the host runs one thread block at a time */
#define __shared__ thread_local

typedef decltype(sizeof(0)) size_t;
typedef unsigned long uintptr_t;

struct uint2
{
	unsigned x, y;
} __align__(8);
struct uint3
{
	unsigned x, y, z;
};
struct uint4
{
	unsigned x, y, z, w;
} __align__(16);
struct ulonglong2
{
	unsigned long long x, y;
} __align__(16);

/*
 * PTX
 */
__asm__(".macro ptx_move dst:req, src:req\n"
		"\t.intel_syntax prefix\n\tmov \\dst, \\src\n\t.att_syntax prefix\n"
		".endm\n"
		".irp name, ld.acquire.gpu.global.u64, ld.acquire.gpu.global.u32, "
		"ld.relaxed.gpu.global.u64, ld.relaxed.gpu.global.u32, "
		"st.release.gpu.global.u64, st.release.gpu.global.u32, "
		"st.relaxed.gpu.global.u64, st.relaxed.gpu.global.u32\n"
		".macro \\name dst:req, src:req\n\tptx_move \\dst, \\src\n.endm\n"
		".endr\n"
		".macro prefetch.global.L2 at:req\n.endm\n");

/*
 * threads.c
 */
struct EmulatedIndexes
{
	uint3 thread;
	uint3 block;
	uint3 block_size;
	uint3 grid_size;
};

enum EmulatedOp
{
	EMULATED_SYNC,
	EMULATED_BALLOT,
	EMULATED_SHUFFLE,
	EMULATED_MATCH,
	EMULATED_SUM,
	EMULATED_MIN,
	EMULATED_MAX,
	EMULATED_MIN_SIGNED,
	EMULATED_MAX_SIGNED,
	EMULATED_AND,
	EMULATED_OR,
	EMULATED_XOR
};

extern "C"
{
	extern __thread EmulatedIndexes emulated_indexes __attribute__((tls_model("initial-exec")));
	unsigned long long emulated_warp(EmulatedOp op, unsigned mask, unsigned long long value,
									 unsigned from, const char *file, int line);
	void emulated_block(const char *file, int line);
	void emulated_nanosleep();
	void emulated_atomic();
	[[noreturn]] void emulated_trap(const char *why, const char *file, int line);

	double fabs(double);
	float fabsf(float);
	double rint(double);
	float rintf(float);
	double floor(double);
	double ceil(double);
	double trunc(double);
	double sqrt(double);
	double ldexp(double, int);
	void *memcpy(void *, const void *, size_t);
	void *memset(void *, int, size_t);
	int memcmp(const void *, const void *, size_t);
}

#define threadIdx emulated_indexes.thread
#define blockIdx emulated_indexes.block
#define blockDim emulated_indexes.block_size
#define gridDim emulated_indexes.grid_size
#define warpSize 32

#define EMULATED_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void
__trap(EMULATED_AT)
{
	emulated_trap("__trap()", file, line);
}

#define assert(condition) ((condition) ? (void) 0 : emulated_trap(#condition, __FILE__, __LINE__))

/*
 * A warp
 */
inline void
__syncwarp(unsigned mask = 0xFFFFFFFFU, EMULATED_AT)
{
	(void) emulated_warp(EMULATED_SYNC, mask, 0, 0, file, line);
}

inline unsigned
__ballot_sync(unsigned mask, int predicate, EMULATED_AT)
{
	return (unsigned) emulated_warp(EMULATED_BALLOT, mask, predicate != 0, 0, file, line);
}

inline int
__any_sync(unsigned mask, int predicate, EMULATED_AT)
{
	return emulated_warp(EMULATED_BALLOT, mask, predicate != 0, 0, file, line) != 0;
}

inline int
__all_sync(unsigned mask, int predicate, EMULATED_AT)
{
	return emulated_warp(EMULATED_BALLOT, mask, predicate != 0, 0, file, line) == mask;
}

template <class T>
inline unsigned
__match_any_sync(unsigned mask, T value, EMULATED_AT)
{
	unsigned long long word = 0;

	memcpy(&word, &value, sizeof(value));
	return (unsigned) emulated_warp(EMULATED_MATCH, mask, word, 0, file, line);
}

template <class T>
inline T
emulated_shuffle(unsigned mask, T value, unsigned from, const char *file, int line)
{
	unsigned long long word = 0;

	memcpy(&word, &value, sizeof(value));
	word = emulated_warp(EMULATED_SHUFFLE, mask, word, from, file, line);
	memcpy(&value, &word, sizeof(value));
	return value;
}

/* The lanes of a part of the warp, of `width` lanes, begin at this one's. */
inline unsigned
emulated_part(int width)
{
	return threadIdx.x % 32 & ~(unsigned) (width - 1);
}

template <class T>
inline T
__shfl_sync(unsigned mask, T value, int from, int width = 32, EMULATED_AT)
{
	return emulated_shuffle(mask, value, emulated_part(width) + ((unsigned) from & (width - 1)),
							file, line);
}

template <class T>
inline T
__shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATED_AT)
{
	unsigned lane = threadIdx.x % 32;

	return emulated_shuffle(
		mask, value, lane + delta < emulated_part(width) + width ? lane + delta : lane, file, line);
}

template <class T>
inline T
__shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATED_AT)
{
	unsigned lane = threadIdx.x % 32;

	return emulated_shuffle(mask, value, lane >= emulated_part(width) + delta ? lane - delta : lane,
							file, line);
}

template <class T>
inline T
__shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMULATED_AT)
{
	unsigned lane = threadIdx.x % 32;
	unsigned from = lane ^ (unsigned) bits;

	return emulated_shuffle(mask, value, from < emulated_part(width) + width ? from : lane, file,
							line);
}

#define EMULATED_REDUCE(name, op, type, word)                                                      \
	inline type name(unsigned mask, type value, EMULATED_AT)                                       \
	{                                                                                              \
		return (type) emulated_warp(op, mask, (unsigned long long) (word) value, 0, file, line);   \
	}
EMULATED_REDUCE(__reduce_add_sync, EMULATED_SUM, unsigned, unsigned)
EMULATED_REDUCE(__reduce_add_sync, EMULATED_SUM, int, unsigned)
EMULATED_REDUCE(__reduce_min_sync, EMULATED_MIN, unsigned, unsigned)
EMULATED_REDUCE(__reduce_min_sync, EMULATED_MIN_SIGNED, int, long long)
EMULATED_REDUCE(__reduce_max_sync, EMULATED_MAX, unsigned, unsigned)
EMULATED_REDUCE(__reduce_max_sync, EMULATED_MAX_SIGNED, int, long long)
EMULATED_REDUCE(__reduce_and_sync, EMULATED_AND, unsigned, unsigned)
EMULATED_REDUCE(__reduce_or_sync, EMULATED_OR, unsigned, unsigned)
EMULATED_REDUCE(__reduce_xor_sync, EMULATED_XOR, unsigned, unsigned)

/* No more than the thread itself is sure to be there. */
inline unsigned
__activemask()
{
	return 1U << threadIdx.x % 32;
}

/*
 * A thread block
 */
inline void
__syncthreads(EMULATED_AT)
{
	emulated_block(file, line);
}

inline void
__threadfence()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

inline void
__threadfence_block()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

inline void
__nanosleep(unsigned)
{
	emulated_nanosleep();
}

/*
 * Atomics.  The other argument is converted as that of an overload would be.
 */
template <class T> struct EmulatedSame
{
	typedef T Type;
};

#define EMULATED_ATOMIC(name, call)                                                                \
	template <class T> inline T name(T *p, typename EmulatedSame<T>::Type value)                   \
	{                                                                                              \
		emulated_atomic();                                                                         \
		return call(p, value, __ATOMIC_RELAXED);                                                   \
	}
EMULATED_ATOMIC(atomicAdd, __atomic_fetch_add)
EMULATED_ATOMIC(atomicSub, __atomic_fetch_sub)
EMULATED_ATOMIC(atomicAnd, __atomic_fetch_and)
EMULATED_ATOMIC(atomicOr, __atomic_fetch_or)
EMULATED_ATOMIC(atomicXor, __atomic_fetch_xor)
EMULATED_ATOMIC(atomicExch, __atomic_exchange_n)

template <class T>
inline T
atomicCAS(T *p, typename EmulatedSame<T>::Type old, typename EmulatedSame<T>::Type value)
{
	emulated_atomic();
	(void) __atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return old;
}

template <class T>
inline T
atomicMax(T *p, typename EmulatedSame<T>::Type value)
{
	T old = __atomic_load_n(p, __ATOMIC_RELAXED);

	emulated_atomic();
	while (old < value &&
		   !__atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return old;
}

template <class T>
inline T
atomicMin(T *p, typename EmulatedSame<T>::Type value)
{
	T old = __atomic_load_n(p, __ATOMIC_RELAXED);

	emulated_atomic();
	while (value < old &&
		   !__atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return old;
}

#undef EMULATED_ATOMIC
#undef EMULATED_REDUCE

/*
 * Loads, stores and bits
 */
#define EMULATED_LOAD(name)                                                                        \
	template <class T> inline T name(const T *p)                                                   \
	{                                                                                              \
		return *p;                                                                                 \
	}
EMULATED_LOAD(__ldg)
EMULATED_LOAD(__ldca)
EMULATED_LOAD(__ldcg)
EMULATED_LOAD(__ldcs)
EMULATED_LOAD(__ldlu)
#undef EMULATED_LOAD

inline int
__popc(unsigned x)
{
	return __builtin_popcount(x);
}

inline int
__popcll(unsigned long long x)
{
	return __builtin_popcountll(x);
}

inline int
__ffs(int x)
{
	return __builtin_ffs(x);
}

inline int
__ffsll(long long x)
{
	return __builtin_ffsll(x);
}

inline int
__clz(int x)
{
	return x == 0 ? 32 : __builtin_clz((unsigned) x);
}

inline int
__clzll(long long x)
{
	return x == 0 ? 64 : __builtin_clzll((unsigned long long) x);
}

inline unsigned
__funnelshift_r(unsigned lo, unsigned hi, unsigned shift)
{
	return (unsigned) (((unsigned long long) hi << 32 | lo) >> (shift & 31));
}

inline unsigned
__funnelshift_l(unsigned lo, unsigned hi, unsigned shift)
{
	return (unsigned) ((((unsigned long long) hi << 32 | lo) << (shift & 31)) >> 32);
}

inline unsigned
__umulhi(unsigned a, unsigned b)
{
	return (unsigned) ((unsigned long long) a * b >> 32);
}

inline unsigned long long
__umul64hi(unsigned long long a, unsigned long long b)
{
	return (unsigned long long) ((unsigned __int128) a * b >> 64);
}

inline int
__double2hiint(double x)
{
	return (int) (__builtin_bit_cast(unsigned long long, x) >> 32);
}

inline int
__double2loint(double x)
{
	return (int) __builtin_bit_cast(unsigned long long, x);
}

inline double
__hiloint2double(int hi, int lo)
{
	return __builtin_bit_cast(double, (unsigned long long) (unsigned) hi << 32 | (unsigned) lo);
}

/* Rounded towards zero; what the nearest sum errs by is exact. */
inline double
__dadd_rz(double a, double b)
{
	double sum = a + b;
	double part = sum - a;
	double error = (a - (sum - part)) + (b - part);
	unsigned long long bits = __builtin_bit_cast(unsigned long long, sum);

	return (sum > 0 && error < 0) || (sum < 0 && error > 0) ? __builtin_bit_cast(double, bits - 1)
															: sum;
}

#define EMULATED_PAIR(type)                                                                        \
	inline type min(type a, type b)                                                                \
	{                                                                                              \
		return b < a ? b : a;                                                                      \
	}                                                                                              \
	inline type max(type a, type b)                                                                \
	{                                                                                              \
		return a < b ? b : a;                                                                      \
	}
EMULATED_PAIR(int)
EMULATED_PAIR(unsigned)
EMULATED_PAIR(long long)
EMULATED_PAIR(unsigned long long)
#undef EMULATED_PAIR

#define signbit(x) __builtin_signbit(x)
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)

inline int
abs(int x)
{
	return __builtin_abs(x);
}

/*
 * Calls a kernel with the arguments of a launch.
 */
template <unsigned... i> struct EmulatedNumbers
{
};
template <unsigned n, unsigned... i> struct EmulatedCount : EmulatedCount<n - 1, n - 1, i...>
{
};
template <unsigned... i> struct EmulatedCount<0, i...>
{
	typedef EmulatedNumbers<i...> Numbers;
};

template <class... Args, unsigned... i>
inline void
emulated_unpack(void (*kernel)(Args...), void **params, EmulatedNumbers<i...>)
{
	kernel(*(Args *) params[i]...);
}

template <class... Args>
inline void
emulated_call(void (*kernel)(Args...), void **params)
{
	emulated_unpack(kernel, params, typename EmulatedCount<sizeof...(Args)>::Numbers());
}

/* The sizes of its arguments, and 0 behind them */
template <class... Args>
inline const size_t *
emulated_sizes(void (*)(Args...))
{
	static const size_t sizes[] = {sizeof(Args)..., 0};

	return sizes;
}

#define EMULATED_KERNEL(name)                                                                      \
	extern "C" __attribute__((visibility("default"))) void emulated_call_##name(void **params)     \
	{                                                                                              \
		emulated_call(name, params);                                                               \
	}                                                                                              \
	extern "C" __attribute__((visibility("default"))) const size_t *emulated_sizes_##name()        \
	{                                                                                              \
		return emulated_sizes(name);                                                               \
	}

#endif /* GPUSCAN_EMULATED_PRELUDE_H */
