/* What an order of products costs a vector unit, by hand-written AVX-512 loops on one thread:
 *
 *     cc -O3 -march=native benchmarks/product_order.c -o product_order && ./product_order
 *
 * free      no order at all: 8 rows or 8 accumulators at once, as a BLAS might
 * mod 16    chunks of 512 in 16 chains, element p in chain p mod 16, combined by halving
 * mod 4     the same in 4 chains
 * chain     chunks of 512, each one chain: the order that docs/REDUCTIONS.md states
 *
 * Figures are the best of 9, in GB/s of the matrix read, or GFLOP/s. */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef __m512 V;
typedef void fn(const float *A, const float *x, float *y, long m, long k);
#define load _mm512_loadu_ps
#define store _mm512_storeu_ps
#define fma _mm512_fmadd_ps
#define add _mm512_add_ps
#define all _mm512_set1_ps
#define zero _mm512_setzero_ps
#define part _mm512_shuffle_f32x4
#define fetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* y = A·x, A m×k row-major, k a multiple of 512, m of 16. */

static void rows_free(const float *A, const float *x, float *y, long m, long k) {
    for (long i = 0; i < m; i += 8) {
        V s[8];
        for (int r = 0; r < 8; r++) s[r] = zero();
        for (long p = 0; p < k; p += 16)
            for (int r = 0; r < 8; r++) {
                fetch(A + (i + r) * k + p + 512);
                s[r] = fma(load(A + (i + r) * k + p), load(x + p), s[r]);
            }
        for (int r = 0; r < 8; r++) y[i + r] = _mm512_reduce_add_ps(s[r]);
    }
}

static void rows_mod16(const float *A, const float *x, float *y, long m, long k) {
    for (long i = 0; i < m; i += 8) {
        V t[8];
        for (int r = 0; r < 8; r++) t[r] = all(-0.0f);
        for (long c = 0; c < k; c += 512) {
            V s[8];
            for (int r = 0; r < 8; r++) s[r] = zero();
            for (long p = c; p < c + 512; p += 16)
                for (int r = 0; r < 8; r++) {
                    fetch(A + (i + r) * k + p + 512);
                    s[r] = fma(load(A + (i + r) * k + p), load(x + p), s[r]);
                }
            for (int r = 0; r < 8; r++) t[r] = add(t[r], s[r]);
        }
        for (int r = 0; r < 8; r++) y[i + r] = _mm512_reduce_add_ps(t[r]);
    }
}

/* 4 rows × 4 chains in a vector, of whole lines by 4×4 transposes of 128-bit parts; b vectors x. */
static inline void mod4(const float *A, const float *x, float *y, long m, long k, const int batch) {
    for (long i = 0; i < m; i += 8) {
        V t[2][8], s[2][8];
        for (int b = 0; b < batch; b++) t[0][b] = t[1][b] = all(-0.0f);
        for (long c = 0; c < k; c += 512) {
            for (int h = 0; h < 2; h++)
                for (int b = 0; b < batch; b++) s[h][b] = zero();
            for (long p = c; p < c + 512; p += 16)
                for (int h = 0; h < 2; h++) {
                    const float *a = A + (i + 4 * h) * k + p;
                    for (int r = 0; r < 4; r++) fetch(a + r * k + 512);
                    V v0 = load(a), v1 = load(a + k), v2 = load(a + 2 * k), v3 = load(a + 3 * k);
                    V u0 = part(v0, v1, 0x88), u1 = part(v0, v1, 0xdd), u2 = part(v2, v3, 0x88), u3 = part(v2, v3, 0xdd);
                    V w[4] = {part(u0, u2, 0x88), part(u1, u3, 0x88), part(u0, u2, 0xdd), part(u1, u3, 0xdd)};
                    for (int q = 0; q < 4; q++)
                        for (int b = 0; b < batch; b++)
                            s[h][b] = fma(w[q], _mm512_broadcast_f32x4(_mm_loadu_ps(x + b * k + p + 4 * q)), s[h][b]);
                }
            for (int h = 0; h < 2; h++)
                for (int b = 0; b < batch; b++) t[h][b] = add(t[h][b], s[h][b]);
        }
        for (int h = 0; h < 2; h++)
            for (int b = 0; b < batch; b++) {
                float o[16];
                store(o, t[h][b]);
                for (int g = 0; g < 4; g++) y[b * m + i + 4 * h + g] = (o[4 * g] + o[4 * g + 2]) + (o[4 * g + 1] + o[4 * g + 3]);
            }
    }
}

#define T4(a, b, c, d)                                                                                              \
    {                                                                                                               \
        __m512d t0 = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), t1 = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));    \
        __m512d t2 = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)), t3 = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));    \
        a = _mm512_castpd_ps(_mm512_unpacklo_pd(t0, t2)), b = _mm512_castpd_ps(_mm512_unpackhi_pd(t0, t2));         \
        c = _mm512_castpd_ps(_mm512_unpacklo_pd(t1, t3)), d = _mm512_castpd_ps(_mm512_unpackhi_pd(t1, t3));         \
    }

/* 16 rows in a vector, of whole lines by 16×16 transposes in registers. */
static inline void chain(const float *A, const float *x, float *y, long m, long k, const int batch) {
    for (long i = 0; i < m; i += 16) {
        V t[8], s[8];
        for (int b = 0; b < batch; b++) t[b] = all(-0.0f);
        for (long c = 0; c < k; c += 512) {
            for (int b = 0; b < batch; b++) s[b] = zero();
            for (long p = c; p < c + 512; p += 16) {
                const float *a = A + i * k + p;
                V v[16];
                for (int r = 0; r < 16; r++) v[r] = load(a + r * k), fetch(a + r * k + 256);
                for (int r = 0; r < 16; r += 4) T4(v[r], v[r + 1], v[r + 2], v[r + 3])
                for (int e = 0; e < 4; e++) {
                    V x0 = part(v[e], v[4 + e], 0x88), x1 = part(v[e], v[4 + e], 0xdd);
                    V x2 = part(v[8 + e], v[12 + e], 0x88), x3 = part(v[8 + e], v[12 + e], 0xdd);
                    v[e] = part(x0, x2, 0x88), v[4 + e] = part(x1, x3, 0x88), v[8 + e] = part(x0, x2, 0xdd), v[12 + e] = part(x1, x3, 0xdd);
                }
                for (int e = 0; e < 16; e++)
                    for (int b = 0; b < batch; b++) s[b] = fma(v[e], all(x[b * k + p + e]), s[b]);
            }
            for (int b = 0; b < batch; b++) t[b] = add(t[b], s[b]);
        }
        for (int b = 0; b < batch; b++) store(y + b * m + i, t[b]);
    }
}

#define BATCH(n)                                                                                              \
    static void mod4_##n(const float *A, const float *x, float *y, long m, long k) { mod4(A, x, y, m, k, n); } \
    static void chain_##n(const float *A, const float *x, float *y, long m, long k) { chain(A, x, y, m, k, n); }
BATCH(1)
BATCH(2)
BATCH(4)
BATCH(8)

/* y = Aᵀ·x, A stored k×m: lanes over m, accumulators of a band of columns in the first cache. */
#define BAND 2048
static inline void columns(const float *A, const float *x, float *y, long m, long k, const int chains, long chunk) {
    static float s[4][BAND];
    for (long j0 = 0; j0 < m; j0 += BAND) {
        long b = m - j0 < BAND ? m - j0 : BAND;
        for (long c = 0; c < k; c += chunk) {
            memset(s, 0, sizeof s);
            for (long p = c; p < c + chunk && p < k; p += 16)
                for (long j = 0; j < b; j += 16) {
                    V v[4];
                    for (int q = 0; q < chains; q++) v[q] = load(s[q] + j);
                    for (int e = 0; e < 16; e++) v[e % chains] = fma(load(A + (p + e) * m + j0 + j), all(x[p + e]), v[e % chains]);
                    for (int q = 0; q < chains; q++) store(s[q] + j, v[q]);
                }
            for (long j = 0; j < b; j++) {
                float r = chains == 4 ? (s[0][j] + s[2][j]) + (s[1][j] + s[3][j]) : s[0][j];
                y[j0 + j] = c ? y[j0 + j] + r : r;
            }
        }
    }
}
static void columns_free(const float *A, const float *x, float *y, long m, long k) { columns(A, x, y, m, k, 1, k); }
static void columns_mod4(const float *A, const float *x, float *y, long m, long k) { columns(A, x, y, m, k, 4, 512); }
static void columns_chain(const float *A, const float *x, float *y, long m, long k) { columns(A, x, y, m, k, 1, 512); }

/* y[0] = A·x, both of k elements. */
static void dot_free(const float *A, const float *x, float *y, long m, long k) {
    V s[8];
    (void)m;
    for (int j = 0; j < 8; j++) s[j] = zero();
    for (long p = 0; p < k; p += 128)
        for (int j = 0; j < 8; j++) fetch(A + p + 16 * j + 512), fetch(x + p + 16 * j + 512), s[j] = fma(load(A + p + 16 * j), load(x + p + 16 * j), s[j]);
    for (int j = 1; j < 8; j++) s[0] = add(s[0], s[j]);
    y[0] = _mm512_reduce_add_ps(s[0]);
}

static inline V parts(const float *a) { /* 4 of each of 4 chunks */
    V v = _mm512_castps128_ps512(_mm_loadu_ps(a));
    v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(a + 2048));
    v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(a + 4096));
    return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(a + 6144));
}

static void dot_chain(const float *A, const float *x, float *y, long m, long k) { /* 16 chunks are the lanes */
    float t = -0.0f;
    (void)m;
    for (long c = 0; c < k; c += 8192) {
        V s = zero();
        for (long p = c; p < c + 512; p += 4) {
            if ((p & 15) == 0)
                for (int r = 0; r < 16; r++) fetch(A + r * 512 + p + 64), fetch(x + r * 512 + p + 64);
            V a[4], b[4];
            for (int r = 0; r < 4; r++) a[r] = parts(A + 512 * r + p), b[r] = parts(x + 512 * r + p);
            T4(a[0], a[1], a[2], a[3])
            T4(b[0], b[1], b[2], b[3])
            for (int r = 0; r < 4; r++) s = fma(a[r], b[r], s);
        }
        float o[16];
        store(o, s);
        for (int j = 0; j < 16; j++) t += o[j];
    }
    y[0] = t;
}

/* y = the sums of A's columns, A k×m; in the order of reductions, 256 partials for each column. */
static void sums_free(const float *A, const float *x, float *y, long m, long k) {
    (void)x;
    memset(y, 0, 4 * m);
    for (long p = 0; p < k; p += 16)
        for (long j = 0; j < m; j += 16) {
            V v = load(y + j);
            for (int e = 0; e < 16; e++) v = add(v, load(A + (p + e) * m + j));
            store(y + j, v);
        }
}

static void sums_order(const float *A, const float *x, float *y, long m, long k) {
    enum { W = 256 };
    static float s[256][W];
    (void)x;
    for (long j0 = 0; j0 < m; j0 += W) {
        long b = m - j0 < W ? m - j0 : W;
        for (long c = 0; c < k; c += 8192) {
            long end = k < c + 8192 ? k : c + 8192;
            for (int q = 0; q < 256; q++) /* partial q: rows c+q, c+q+256, … */
                for (long j = 0; j < b; j += 16) {
                    V v = all(-0.0f);
                    for (long p = c + q; p < end; p += 256) v = add(v, load(A + p * m + j0 + j));
                    store(s[q] + j, v);
                }
            for (int w = 128; w; w /= 2)
                for (int q = 0; q < w; q++)
                    for (long j = 0; j < b; j += 16) store(s[q] + j, add(load(s[q] + j), load(s[q + w] + j)));
            for (long j = 0; j < b; j++) y[j0 + j] = c ? y[j0 + j] + s[0][j] : s[0][j];
        }
    }
}

/* A gemm's micro-kernel on packed panels: 8 × 48, chains of len, their results added up in memory. */
static void micro(const float *a, const float *b, float *t, long k, long len) {
    for (int i = 0; i < 384; i += 16) store(t + i, all(-0.0f));
    for (long p0 = 0; p0 < k; p0 += len) {
        V s[8][3];
        for (int r = 0; r < 8; r++)
            for (int q = 0; q < 3; q++) s[r][q] = zero();
        for (long p = p0; p < p0 + len; p++)
            for (int r = 0; r < 8; r++)
                for (int q = 0; q < 3; q++) s[r][q] = fma(all(a[8 * p + r]), load(b + 48 * p + 16 * q), s[r][q]);
        for (int r = 0; r < 8; r++)
            for (int q = 0; q < 3; q++) store(t + 48 * r + 16 * q, add(load(t + 48 * r + 16 * q), s[r][q]));
    }
}

static float *A, *x, *y;

static void speed(fn *f, double bytes, long m, long k) {
    double best = 1e9;
    long reps = 1 + (long)(4e7 / bytes);
    for (int i = 0; i < 9; i++) {
        double t = now();
        for (long r = 0; r < reps; r++) {
            f(A, x, y, m, k);
            __asm__ volatile("" ::: "memory");
        }
        t = (now() - t) / reps;
        if (t < best) best = t;
    }
    printf("%9.1f", bytes / best / 1e9);
}

/* The chain's results against scalar code, for a matrix and a vector. */
static int check(void) {
    const long m = 32, k = 8192;
    for (long i = 0; i < m; i++) {
        float t = -0.0f, z[1];
        for (long c = 0; c < k; c += 512) {
            float s = 0;
            for (long p = c; p < c + 512; p++) s = __builtin_fmaf(A[i * k + p], x[p], s);
            t += s;
        }
        chain_1(A, x, y, m, k);
        dot_chain(A + i * k, x, z, 1, k);
        if (y[i] != t || z[0] != t) return printf("row %ld: %g and %g, not %g\n", i, y[i], z[0], t), 1;
    }
    return 0;
}

int main(void) {
    const long n = 1L << 26;
    A = aligned_alloc(64, 4 * n), x = aligned_alloc(64, 4 * n), y = aligned_alloc(64, 4 << 20);
    for (long i = 0; i < n; i++) A[i] = (float)((i * 2654435761u >> 8) & 0xffff) / 65536 - .5f, x[i] = (float)((i * 40503u) & 0xffff) / 65536 - .5f;
    if (check()) return 1;
    static const struct {
        const char *name;
        long m, k;
    } sizes[] = {{"first cache, 16×512", 16, 512}, {"second, 256×1024", 256, 1024}, {"third, 1024×4096", 1024, 4096}, {"memory, 8192×8192", 8192, 8192}};
    printf("%-22s%9s%9s%9s%9s\n", "matvec, row-major", "free", "mod 16", "mod 4", "chain");
    for (int i = 0; i < 4; i++) {
        long m = sizes[i].m, k = sizes[i].k;
        printf("%-20s", sizes[i].name);
        speed(rows_free, 4.0 * m * k, m, k), speed(rows_mod16, 4.0 * m * k, m, k), speed(mod4_1, 4.0 * m * k, m, k), speed(chain_1, 4.0 * m * k, m, k);
        puts("");
    }
    printf("%-22s%9s%9s\n", "batches on 256×1024", "mod 4", "chain");
    static fn *const batched[][2] = {{mod4_1, chain_1}, {mod4_2, chain_2}, {mod4_4, chain_4}, {mod4_8, chain_8}};
    for (int i = 0; i < 4; i++) {
        printf("%-21d", 1 << i);
        speed(batched[i][0], 4.0 * 256 * 1024, 256, 1024), speed(batched[i][1], 4.0 * 256 * 1024, 256, 1024);
        puts("");
    }
    printf("%-22s%9s%9s%9s%9s%9s\n", "columns", "free", "mod 4", "chain", "sum free", "sum");
    for (int i = 1; i < 4; i++) {
        long m = sizes[i].m, k = sizes[i].k;
        printf("%-20s", sizes[i].name);
        speed(columns_free, 4.0 * m * k, m, k), speed(columns_mod4, 4.0 * m * k, m, k), speed(columns_chain, 4.0 * m * k, m, k);
        speed(sums_free, 4.0 * m * k, m, k), speed(sums_order, 4.0 * m * k, m, k);
        puts("");
    }
    printf("%-22s%9s%9s\n", "dot", "free", "chain");
    for (long k = 8192; k <= 1L << 25; k *= 16) {
        printf("%-21ld", k);
        speed(dot_free, 8.0 * k, 1, k), speed(dot_chain, 8.0 * k, 1, k);
        puts("");
    }
    printf("gemm's inner loop, GFLOP/s by length of chain:");
    for (long len = 2048; len >= 8; len /= 4) {
        double best = 1e9;
        for (int i = 0; i < 9; i++) {
            double t = now();
            for (int r = 0; r < 100; r++) {
                micro(A, A + n / 2, y, 2048, len);
                __asm__ volatile("" ::: "memory");
            }
            t = (now() - t) / 100;
            if (t < best) best = t;
        }
        printf(" %ld: %.0f", len, 2.0 * 8 * 48 * 2048 / best / 1e9);
    }
    puts("");
    return 0;
}
