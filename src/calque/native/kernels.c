/* Decoding on an x86-64 CPU: matrix products with packed weights, attention of single queries, the best words of a
 * softmax, recurrent cells and layers. Callers check types and shapes (operations.py).
 *
 * Law: what is computed for a row depends on that row alone, to the bit: every sum has a fixed order, whatever the
 * number of rows, of threads, and of padded positions.
 *
 * Letters: M rows, I inputs, O outputs, N hypotheses, H heads, G key-value heads, d head width, S source, V vocabulary.
 * Matrices are row-major. `stride` is the distance between two rows, in numbers.
 */

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#define VECTORS 4 /* per panel of the weight */
typedef __m512 vec;
#define zero() _mm512_setzero_ps()
#define all(x) _mm512_set1_ps(x)
#define load(p) _mm512_loadu_ps(p)
#define store(p, v) _mm512_storeu_ps(p, v)
#define add(a, b) _mm512_add_ps(a, b)
#define subtract(a, b) _mm512_sub_ps(a, b)
#define multiply(a, b) _mm512_mul_ps(a, b)
#define divide(a, b) _mm512_div_ps(a, b)
#define fused(a, b, c) _mm512_fmadd_ps(a, b, c)
#define larger(a, b) _mm512_max_ps(a, b)
#define smaller(a, b) _mm512_min_ps(a, b)
#define absolute(a) _mm512_abs_ps(a)
#define rounded(a) _mm512_roundscale_ps(a, 0)
#define power_of_2(a) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127)), 23))
#else
#define LANES 8
#define VECTORS 2
typedef __m256 vec;
#define zero() _mm256_setzero_ps()
#define all(x) _mm256_set1_ps(x)
#define load(p) _mm256_loadu_ps(p)
#define store(p, v) _mm256_storeu_ps(p, v)
#define add(a, b) _mm256_add_ps(a, b)
#define subtract(a, b) _mm256_sub_ps(a, b)
#define multiply(a, b) _mm256_mul_ps(a, b)
#define divide(a, b) _mm256_div_ps(a, b)
#define fused(a, b, c) _mm256_fmadd_ps(a, b, c)
#define larger(a, b) _mm256_max_ps(a, b)
#define smaller(a, b) _mm256_min_ps(a, b)
#define absolute(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define rounded(a) _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define power_of_2(a) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127)), 23))
#endif

#define PANEL (LANES * VECTORS) /* outputs that are computed together */
#define ROWS 6                  /* rows that are computed together */
#define CHUNK 192               /* rows whose inputs stay in the second-level cache */
#define INLINE static inline __attribute__((always_inline))

/* ---- small parts ---- */

INLINE float sum_of(vec v) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps(v);
#else
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
#endif
}

INLINE float largest_of(vec v) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps(v);
#else
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_shuffle_ps(half, half, 1)));
#endif
}

/* The first `count` < LANES numbers, followed by `filler`. */
INLINE vec load_some(const float *from, int64_t count, float filler) {
    float lanes[LANES];
    for (int i = 0; i < LANES; i++) lanes[i] = i < count ? from[i] : filler;
    return load(lanes);
}

INLINE void store_some(float *to, vec v, int64_t count) {
    float lanes[LANES];
    store(lanes, v);
    memcpy(to, lanes, count * sizeof(float));
}

/* e^x to about 1e-7 of its value: x = n ln 2 + r, and a polynomial in r (Cephes). Below -87 it is 0 or tiny. */
INLINE vec exponential(vec x) {
    x = smaller(all(88.3f), larger(all(-87.3f), x)); /* in this order, not-a-number stays */
    vec n = rounded(multiply(x, all(1.44269504088896341f)));
    vec r = fused(n, all(-0.693359375f), x);
    r = fused(n, all(2.12194440e-4f), r);
    vec y = all(1.9875691500e-4f);
    y = fused(y, r, all(1.3981999507e-3f));
    y = fused(y, r, all(8.3334519073e-3f));
    y = fused(y, r, all(4.1665795894e-2f));
    y = fused(y, r, all(1.6666665459e-1f));
    y = fused(y, r, all(5.0000001201e-1f));
    y = fused(y, multiply(r, r), add(r, all(1.0f)));
    return multiply(y, power_of_2(n));
}

INLINE vec sigmoid(vec x) { return divide(all(1.0f), add(all(1.0f), exponential(subtract(zero(), x)))); }

/* 1 - 2 / (e^2x + 1), and x (1 - x^2 / 3 + 2 x^4 / 15) near 0, where the difference would cancel. */
INLINE vec hyperbolic(vec x) {
    vec square = multiply(x, x);
    vec series = fused(fused(all(2.0f / 15), square, all(-1.0f / 3)), multiply(square, x), x);
    vec far = subtract(all(1.0f), divide(all(2.0f), add(exponential(add(x, x)), all(1.0f))));
#ifdef __AVX512F__
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(absolute(x), all(0.05f), _CMP_LT_OQ), far, series);
#else
    return _mm256_blendv_ps(far, series, _mm256_cmp_ps(absolute(x), all(0.05f), _CMP_LT_OQ));
#endif
}

int panel(void) { return PANEL; }

/* All threads, or one if the work, in multiply-adds or the like, is not worth waking the others. Never a part of them:
 * OpenMP would end the rest and start them anew. */
static int team(int threads, int64_t work) { return work < (int64_t)threads * 16384 ? 1 : threads; }

static int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

/* ---- y = W x + b; bias and scales have zeros beyond O, up to a whole panel ---- */

/* What happens to W x + b before it is stored: max(0, .) if `relu`, then + `added`. */
typedef struct {
    const float *added; /* [M,O] or NULL */
    int64_t added_stride;
    int relu;
} finish;

INLINE void finish_panel(vec *sums, const finish *how, int64_t row, int64_t first, int64_t outputs, float *to) {
    for (int v = 0; v < VECTORS; v++) {
        int64_t place = first + v * LANES, count = outputs - place;
        if (count <= 0) return;
        int is_whole = count >= LANES;
        vec sum = sums[v];
        if (how->relu) sum = larger(zero(), sum); /* in this order, not-a-number stays */
        if (how->added) {
            const float *from = how->added + row * how->added_stride + place;
            sum = add(sum, is_whole ? load(from) : load_some(from, count, 0));
        }
        if (is_whole) store(to + place, sum);
        else store_some(to + place, sum, count);
    }
}

/* The weight [O,I] by panels of outputs: [O/PANEL][I][PANEL], with zeros beyond O. */
void pack_float(const float *weight, int64_t outputs, int64_t inputs, float *packed) {
    for (int64_t first = 0; first < outputs; first += PANEL)
        for (int64_t i = 0; i < inputs; i++)
            for (int o = 0; o < PANEL; o++)
                *packed++ = first + o < outputs ? weight[(first + o) * inputs + i] : 0;
}

/* The products of `count` rows with a panel. The sums are local, and every number of rows has a function of its own, so
 * that the compiler keeps the sums in registers. */
INLINE void float_tile(const float *rows, int64_t stride, int64_t inputs, const float *panel, int count, vec to[][VECTORS]) {
    vec sums[ROWS][VECTORS];
    for (int r = 0; r < count; r++)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = zero();
    for (int64_t i = 0; i < inputs; i++, panel += PANEL) {
        vec weights[VECTORS];
        for (int v = 0; v < VECTORS; v++) weights[v] = load(panel + v * LANES);
        for (int r = 0; r < count; r++) {
            vec x = all(rows[r * stride + i]);
            for (int v = 0; v < VECTORS; v++) sums[r][v] = fused(x, weights[v], sums[r][v]);
        }
    }
    for (int r = 0; r < count; r++)
        for (int v = 0; v < VECTORS; v++) to[r][v] = sums[r][v];
}

#define TILE(name, tile, count, input, weight, sum)                                                                     \
    static __attribute__((noinline)) void name(const input *rows, int64_t stride, int64_t size, const weight *panel,    \
                                               sum to[][VECTORS]) {                                                     \
        tile(rows, stride, size, panel, count, to);                                                                     \
    }
#define TILES(tile, input, weight, sum)                                                                                 \
    TILE(tile##_1, tile, 1, input, weight, sum)                                                                         \
    TILE(tile##_2, tile, 2, input, weight, sum)                                                                         \
    TILE(tile##_3, tile, 3, input, weight, sum)                                                                         \
    TILE(tile##_4, tile, 4, input, weight, sum)                                                                         \
    TILE(tile##_5, tile, 5, input, weight, sum)                                                                         \
    TILE(tile##_6, tile, 6, input, weight, sum)                                                                         \
    static void (*const tile##s[ROWS])(const input *, int64_t, int64_t, const weight *, sum[][VECTORS]) = {             \
        tile##_1, tile##_2, tile##_3, tile##_4, tile##_5, tile##_6};

TILES(float_tile, float, float, vec)

void linear_float(const float *rows, int64_t stride, int64_t count, int64_t inputs, const float *packed, int64_t outputs,
                  const float *bias, const float *added, int64_t added_stride, int relu, float *to, int64_t to_stride, int threads) {
    finish how = {added, added_stride, relu};
    int64_t panels = (outputs + PANEL - 1) / PANEL;
    threads = team(threads, count * inputs * outputs);
    for (int64_t begin = 0; begin < count; begin += CHUNK) {
        int64_t end = begin + CHUNK < count ? begin + CHUNK : count;
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (int64_t p = 0; p < panels; p++)
            for (int64_t m = begin; m < end; m += ROWS) {
                vec sums[ROWS][VECTORS];
                int here = end - m < ROWS ? (int)(end - m) : ROWS;
                float_tiles[here - 1](rows + m * stride, stride, inputs, packed + p * PANEL * inputs, sums);
                for (int r = 0; r < here; r++) {
                    for (int v = 0; v < VECTORS; v++) sums[r][v] = add(sums[r][v], load(bias + p * PANEL + v * LANES));
                    finish_panel(sums[r], &how, m + r, p * PANEL, outputs, to + (m + r) * to_stride);
                }
            }
    }
}

/* ---- the same in 8 bits: W = u q, x = s p, y = s u (sum q p) + b ---- */

/* Levels of inputs are unsigned: LEVELS on either side of ZERO. Without VNNI, pairs of products are added in 16 bits,
 * which 2 * 255 * 127 exceeds and 2 * 127 * 127 does not. */
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
#define LEVELS 127
#else
#define LEVELS 63
#endif
#define ZERO (LEVELS + 1)

int input_levels(void) { return LEVELS; }

/* The levels [O,I] by panels, four inputs of an output next to each other: [O/PANEL][I/4][PANEL][4], zeros beyond O and
 * I; `offsets` [O rounded up] are ZERO times the sum of an output's levels. */
void pack_int8(const int8_t *levels, int64_t outputs, int64_t inputs, int8_t *packed, int32_t *offsets) {
    int64_t quads = (inputs + 3) / 4;
    for (int64_t first = 0; first < outputs; first += PANEL) {
        for (int64_t q = 0; q < quads; q++)
            for (int o = 0; o < PANEL; o++)
                for (int k = 0; k < 4; k++)
                    *packed++ = first + o < outputs && 4 * q + k < inputs ? levels[(first + o) * inputs + 4 * q + k] : 0;
        for (int o = 0; o < PANEL; o++) {
            int32_t sum = 0;
            for (int64_t i = 0; first + o < outputs && i < inputs; i++) sum += levels[(first + o) * inputs + i];
            *offsets++ = ZERO * sum;
        }
    }
}

/* One row [I] as levels, and its scale s = max |x| / LEVELS. */
INLINE float quantise_row(const float *row, int64_t inputs, uint8_t *levels) {
    vec most = zero(), bad = zero(); /* 0 x is 0 unless x is infinite or not a number */
    int64_t whole = inputs / LANES * LANES;
    for (int64_t i = 0; i < inputs; i += LANES) {
        vec x = i < whole ? load(row + i) : load_some(row + i, inputs - i, 0);
        most = larger(most, absolute(x));
        bad = fused(x, zero(), bad);
    }
    float scale = largest_of(most) / LEVELS;
    if (!(scale >= 1.17549435e-38f)) scale = 1.17549435e-38f;
    vec inverse = all(1.0f / scale);
    for (int64_t i = 0; i < inputs; i += LANES) {
        vec x = multiply(i < whole ? load(row + i) : load_some(row + i, inputs - i, 0), inverse);
#ifdef __AVX512F__
        __m128i bytes = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x));
        _mm_storeu_si128((__m128i *)(levels + i), _mm_add_epi8(bytes, _mm_set1_epi8((char)ZERO)));
#else
        __m256i words = _mm256_cvtps_epi32(x);
        __m128i shorts = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storel_epi64((__m128i *)(levels + i), _mm_add_epi8(_mm_packs_epi16(shorts, shorts), _mm_set1_epi8((char)ZERO)));
#endif
    }
    return scale + sum_of(bad);
}

INLINE int32_t four_bytes(const uint8_t *from) {
    int32_t value;
    memcpy(&value, from, 4);
    return value;
}

#ifdef __AVX512F__
typedef __m512i ints;
#define no_ints() _mm512_setzero_si512()
#define load_ints(p) _mm512_loadu_si512(p)
#define to_floats(a) _mm512_cvtepi32_ps(a)
#define less(a, b) _mm512_sub_epi32(a, b)
#define four_levels(p) _mm512_set1_epi32(four_bytes(p))
#ifdef __AVX512VNNI__
/* as an instruction: with the intrinsic, GCC 12 keeps half of the sums of a tile in memory */
INLINE ints dot4(ints sum, ints x, ints weights) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weights));
    return sum;
}
#else
#define dot4(sum, x, w) _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(x, w), _mm512_set1_epi16(1)))
#endif
#else
typedef __m256i ints;
#define no_ints() _mm256_setzero_si256()
#define load_ints(p) _mm256_loadu_si256((const __m256i *)(p))
#define to_floats(a) _mm256_cvtepi32_ps(a)
#define less(a, b) _mm256_sub_epi32(a, b)
#define four_levels(p) _mm256_set1_epi32(four_bytes(p))
#define dot4(sum, x, w) _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)))
#endif

INLINE void int8_tile(const uint8_t *rows, int64_t stride, int64_t quads, const int8_t *panel, int count, ints to[][VECTORS]) {
    ints sums[ROWS][VECTORS];
    for (int r = 0; r < count; r++)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = no_ints();
    for (int64_t q = 0; q < quads; q++, panel += 4 * PANEL) {
        ints weights[VECTORS];
        for (int v = 0; v < VECTORS; v++) weights[v] = load_ints(panel + 4 * v * LANES);
        for (int r = 0; r < count; r++) {
            ints x = four_levels(rows + r * stride + 4 * q);
            for (int v = 0; v < VECTORS; v++) sums[r][v] = dot4(sums[r][v], x, weights[v]);
        }
    }
    for (int r = 0; r < count; r++)
        for (int v = 0; v < VECTORS; v++) to[r][v] = sums[r][v];
}

TILES(int8_tile, uint8_t, int8_t, ints)

/* Returns 0, or 1 if there is no memory. */
int linear_int8(const float *rows, int64_t stride, int64_t count, int64_t inputs, const int8_t *packed, const int32_t *offsets,
                const float *scales, int64_t outputs, const float *bias, const float *added, int64_t added_stride, int relu,
                float *to, int64_t to_stride, int threads) {
    finish how = {added, added_stride, relu};
    int64_t panels = (outputs + PANEL - 1) / PANEL, quads = (inputs + 3) / 4, width = rounded_up(inputs, LANES);
    int64_t most = count < CHUNK ? count : CHUNK;
    threads = team(threads, count * inputs * outputs);
    uint8_t *levels = malloc(most * width + most * sizeof(float) + 64);
    if (!levels) return 1;
    float *row_scales = (float *)(levels + rounded_up(most * width, 64));
    for (int64_t begin = 0; begin < count; begin += CHUNK) {
        int64_t here = count - begin < CHUNK ? count - begin : CHUNK;
#pragma omp parallel num_threads(threads) if (threads > 1)
        {
#pragma omp for
            for (int64_t m = 0; m < here; m++)
                row_scales[m] = quantise_row(rows + (begin + m) * stride, inputs, levels + m * width);
#pragma omp for
            for (int64_t p = 0; p < panels; p++)
                for (int64_t m = 0; m < here; m += ROWS) {
                    ints sums[ROWS][VECTORS];
                    int tile = here - m < ROWS ? (int)(here - m) : ROWS;
                    int8_tiles[tile - 1](levels + m * width, width, quads, packed + p * PANEL * 4 * quads, sums);
                    for (int r = 0; r < tile; r++) {
                        vec products[VECTORS], scale = all(row_scales[m + r]);
                        for (int v = 0; v < VECTORS; v++) {
                            int64_t place = p * PANEL + v * LANES;
                            vec product = to_floats(less(sums[r][v], load_ints(offsets + place)));
                            products[v] = fused(multiply(product, load(scales + place)), scale, load(bias + place));
                        }
                        finish_panel(products, &how, begin + m + r, p * PANEL, outputs, to + (begin + m + r) * to_stride);
                    }
                }
        }
    }
    free(levels);
    return 0;
}

/* ---- attention of one query per row ---- */

/* The sums of four vectors, each in the same order. */
INLINE void sums_of_4(vec a, vec b, vec c, vec d, float *to) {
#ifdef __AVX512F__
#define HALVED(v) _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))
    __m256 e = HALVED(a), f = HALVED(b), g = HALVED(c), h = HALVED(d);
#else
    __m256 e = a, f = b, g = c, h = d;
#endif
    __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(e, f), _mm256_hadd_ps(g, h));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

/* The products of a vector with four others. */
INLINE void dots_of_4(const float *query, const float *const *keys, int64_t offset, int64_t width, float *to) {
    const float *a = keys[0] + offset, *b = keys[1] + offset, *c = keys[2] + offset, *d = keys[3] + offset;
    vec sums[4] = {zero(), zero(), zero(), zero()};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        vec x = load(query + i);
        sums[0] = fused(x, load(a + i), sums[0]);
        sums[1] = fused(x, load(b + i), sums[1]);
        sums[2] = fused(x, load(c + i), sums[2]);
        sums[3] = fused(x, load(d + i), sums[3]);
    }
    if (i < width) {
        vec x = load_some(query + i, width - i, 0);
        sums[0] = fused(x, load_some(a + i, width - i, 0), sums[0]);
        sums[1] = fused(x, load_some(b + i, width - i, 0), sums[1]);
        sums[2] = fused(x, load_some(c + i, width - i, 0), sums[2]);
        sums[3] = fused(x, load_some(d + i, width - i, 0), sums[3]);
    }
    sums_of_4(sums[0], sums[1], sums[2], sums[3], to);
}

/* v tanh(a + b), the additive score. */
INLINE float additive_score(const float *v, const float *a, const float *b, int64_t width) {
    vec sum = zero();
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) sum = fused(load(v + i), hyperbolic(add(load(a + i), load(b + i))), sum);
    if (i < width) {
        vec total = add(load_some(a + i, width - i, 0), load_some(b + i, width - i, 0));
        sum = fused(load_some(v + i, width - i, 0), hyperbolic(total), sum);
    }
    return sum_of(sum);
}

/* The keys and values of one head: those of position p begin at keys[p] + key_offset and values[p] + value_offset. */
typedef struct {
    const float *const *keys, *const *values;
    int64_t key_offset, value_offset, key_width, value_width;
    const float *additive; /* the vector v [key_width] of an additive score, or NULL for a product */
} head;

/* softmax(scale q k) v, or with an additive score, of one head over `size` positions; `weights` has room for `size` numbers, rounded up to LANES. */
INLINE void attend_head(const float *query, float scale, const head *over, int64_t size, float *weights, float *to) {
    for (int64_t p = 0; p < size; p += 4) {
        if (over->additive) {
            for (int64_t q = p; q < p + 4 && q < size; q++)
                weights[q] = additive_score(over->additive, query, over->keys[q] + over->key_offset, over->key_width);
            continue;
        }
        const float *keys[4]; /* beyond the last, the last again */
        for (int k = 0; k < 4; k++) keys[k] = over->keys[p + k < size ? p + k : size - 1];
        dots_of_4(query, keys, over->key_offset, over->key_width, weights + p);
        for (int k = 0; k < 4; k++) weights[p + k] *= scale;
    }
    float most = -INFINITY;
    for (int64_t p = 0; p < size; p++) most = weights[p] > most ? weights[p] : most;
    for (int64_t p = size; p % LANES; p++) weights[p] = -INFINITY;
    float total = 0;
    for (int64_t p = 0; p < size; p += LANES) store(weights + p, exponential(subtract(load(weights + p), all(most))));
    for (int64_t p = 0; p < size; p++) total += weights[p];
    float inverse = 1.0f / total;
    for (int64_t p = 0; p < size; p++) weights[p] *= inverse;
    int64_t i = 0;
    for (; i + 4 * LANES <= over->value_width; i += 4 * LANES) {
        vec a = zero(), b = zero(), c = zero(), e = zero();
        for (int64_t p = 0; p < size; p++) {
            const float *from = over->values[p] + over->value_offset + i;
            vec weight = all(weights[p]);
            a = fused(weight, load(from), a);
            b = fused(weight, load(from + LANES), b);
            c = fused(weight, load(from + 2 * LANES), c);
            e = fused(weight, load(from + 3 * LANES), e);
        }
        store(to + i, a);
        store(to + i + LANES, b);
        store(to + i + 2 * LANES, c);
        store(to + i + 3 * LANES, e);
    }
    for (; i < over->value_width; i += LANES) {
        int64_t count = over->value_width - i < LANES ? over->value_width - i : LANES;
        vec sum = zero();
        for (int64_t p = 0; p < size; p++) {
            const float *from = over->values[p] + over->value_offset + i;
            sum = fused(all(weights[p]), count == LANES ? load(from) : load_some(from, count, 0), sum);
        }
        store_some(to + i, sum, count);
    }
}

/* Self-attention over the tokens of a hypothesis. steps [size,2] has, for each position p, the address of its keys and
 * values [N_p, 2 G d] and the distance between two of their rows; ancestors [N,size] has the row of each position. */
int attend_steps(const float *queries, int64_t stride, int64_t count, const int64_t *steps, const int32_t *ancestors, int64_t size, int64_t heads, int64_t groups, int64_t width, float scale, float *to,
                 int threads) {
    int failed = 0;
    threads = team(threads, count * size * heads * width);
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(| : failed)
    {
        float *weights = malloc((size + LANES) * (sizeof(float) + 2 * sizeof(float *)));
        const float **keys = (const float **)(weights + rounded_up(size, LANES)), **values = keys + size;
        if (!weights) failed = 1;
#pragma omp for
        for (int64_t n = 0; n < count; n++) {
            if (!weights) continue;
            for (int64_t p = 0; p < size; p++) {
                keys[p] = (const float *)(intptr_t)steps[2 * p] + ancestors[n * size + p] * steps[2 * p + 1];
                values[p] = keys[p] + groups * width;
            }
            for (int64_t h = 0; h < heads; h++) {
                int64_t offset = h * groups / heads * width;
                head over = {keys, values, offset, offset, width, width, NULL};
                attend_head(queries + n * stride + h * width, scale, &over, size, weights, to + (n * heads + h) * width);
            }
        }
        free(weights);
    }
    return failed;
}

/* Where the numbers of a tensor [B,G,S,d] are; those of a head are next to each other. */
typedef struct {
    const float *from;
    int64_t row, group, place; /* distances between two sentences, heads and positions */
} strided;

/* Attention over a source: row n attends to the first lengths[b] positions of sentence b = sentences[n]. A row of an
 * empty sentence gets 0. With one head, `shown` [N,size] gets the weights, 0 beyond the length; or it is NULL. */
int attend_source(const float *queries, int64_t stride, int64_t count, const strided *keys, const strided *values,
                  const int64_t *sentences, const int64_t *lengths, int64_t size, int64_t heads, int64_t groups, int64_t width,
                  int64_t value_width, float scale, const float *additive, float *to, float *shown, int threads) {
    int failed = 0;
    threads = team(threads, count * size * heads * width);
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(| : failed)
    {
        float *weights = malloc((size + LANES) * (sizeof(float) + 2 * sizeof(float *)));
        const float **key_of = (const float **)(weights + rounded_up(size, LANES)), **value_of = key_of + size;
        int64_t current = -1, length = 0;
        if (!weights) failed = 1;
#pragma omp for
        for (int64_t n = 0; n < count; n++) {
            if (!weights) continue;
            if (sentences[n] != current) {
                current = sentences[n];
                length = lengths[current] < size ? lengths[current] : size;
                for (int64_t p = 0; p < length; p++) {
                    key_of[p] = keys->from + current * keys->row + p * keys->place;
                    value_of[p] = values->from + current * values->row + p * values->place;
                }
            }
            for (int64_t h = 0; h < heads; h++) {
                float *out = to + (n * heads + h) * value_width;
                int64_t group = h * groups / heads;
                head over = {key_of, value_of, group * keys->group, group * values->group, width, value_width, additive};
                if (length > 0) attend_head(queries + n * stride + h * width, scale, &over, length, weights, out);
                else memset(out, 0, value_width * sizeof(float));
            }
            for (int64_t p = 0; shown && p < size; p++) shown[n * size + p] = p < length ? weights[p] : 0;
        }
        free(weights);
    }
    return failed;
}

/* ---- the best words ---- */

#define BLOCK 64

/* For each row of logits [M,V]: the `best` largest log-probabilities of the first `among` words, best first, of equal ones
 * the lower word first, and the log-probability of the word `end`. Where the largest logit is not finite, all results are not-a-number, as in torch.
 * Returns 0, or 1 if there is no memory. */
int best_words(const float *logits, int64_t stride, int64_t count, int64_t size, int64_t among, int64_t best, int64_t end,
                   float *log_probs, int64_t *words, float *ends, int threads) {
    int64_t block = BLOCK; /* the more words are wanted, the smaller the blocks, so that most of them can be left out */
    while (block > LANES && 2 * size < 3 * best * block) block /= 2;
    int64_t blocks = (size + block - 1) / block;
    int failed = 0;
    threads = team(threads, 8 * count * size);
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(| : failed)
    {
        float *maxima = malloc(blocks * sizeof(float));
        if (!maxima) failed = 1;
#pragma omp for
        for (int64_t m = 0; m < count; m++) {
            if (!maxima) continue;
            const float *row = logits + m * stride;
            float most = -INFINITY;
            for (int64_t b = 0; b < blocks; b++) {
                int64_t first = b * block, last = first + block < size ? first + block : size, i = first;
                vec top = all(-INFINITY);
                for (; i + LANES <= last; i += LANES) top = larger(load(row + i), top);
                if (i < last) top = larger(load_some(row + i, last - i, -INFINITY), top);
                maxima[b] = largest_of(top);
                most = maxima[b] > most ? maxima[b] : most;
            }
            vec sums[4] = {zero(), zero(), zero(), zero()}, shift = all(most);
            int64_t i = 0;
            for (; i + 4 * LANES <= size; i += 4 * LANES)
                for (int k = 0; k < 4; k++) sums[k] = add(sums[k], exponential(subtract(load(row + i + k * LANES), shift)));
            for (; i < size; i += LANES) {
                vec x = size - i < LANES ? load_some(row + i, size - i, -INFINITY) : load(row + i);
                sums[0] = add(sums[0], exponential(subtract(x, shift)));
            }
            float total = logf(sum_of(add(add(sums[0], sums[1]), add(sums[2], sums[3]))));
            ends[m] = row[end] - most - total;
            float *values = log_probs + m * best;
            int64_t *places = words + m * best, found = 0;
            if (!(isfinite(most) && isfinite(total))) {
                ends[m] = NAN;
                for (; found < best; found++) { values[found] = NAN; places[found] = found; }
                continue;
            }
            float least = -INFINITY; /* the log-probability to beat */
            for (int pass = 0; pass < 2; pass++) {
                /* first the largest of each whole block, to know what to beat; then the words of blocks that beat it */
                found = 0;
                for (int64_t b = 0; b * block + (pass ? 1 : block) <= among; b++) {
                    float top = maxima[b] - most - total;
                    if (pass && top < least) continue;
                    int64_t first = pass ? b * block : b, last = !pass ? b + 1 : first + block < among ? first + block : among;
                    for (int64_t w = first; w < last; w++) {
                        float value = pass ? row[w] - most - total : top;
                        if (value < least || (found == best && value <= values[best - 1])) continue;
                        int64_t at = found < best ? found++ : best - 1;
                        for (; at && values[at - 1] < value; at--) { values[at] = values[at - 1]; places[at] = places[at - 1]; }
                        values[at] = value;
                        places[at] = w;
                    }
                }
                if (!pass && found == best) least = values[best - 1];
            }
        }
        free(maxima);
    }
    return failed;
}

/* ---- cells of recurrent layers; `entering` and `recurring` [M,G D] are the shares of inputs and state in the gates ---- */

INLINE vec part_of(const float *from, int64_t count) { return count >= LANES ? load(from) : load_some(from, count, 0); }

INLINE void store_part(float *to, vec v, int64_t count) {
    if (count >= LANES) store(to, v);
    else store_some(to, v, count);
}

/* LSTM, gates i f g o: c = f c + i g, h = o tanh(c); `hidden` and `cells` are [M,D]. */
void lstm_cell(const float *entering, int64_t entering_stride, const float *recurring, int64_t recurring_stride, const float *before,
               int64_t before_stride, int64_t count, int64_t width, float *hidden, float *cells, int threads) {
    threads = team(threads, 64 * count * width);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t m = 0; m < count; m++)
        for (int64_t i = 0; i < width; i += LANES) {
            const float *x = entering + m * entering_stride + i, *h = recurring + m * recurring_stride + i;
            vec gates[4];
            for (int g = 0; g < 4; g++) gates[g] = add(part_of(x + g * width, width - i), part_of(h + g * width, width - i));
            vec cell = multiply(sigmoid(gates[1]), part_of(before + m * before_stride + i, width - i));
            cell = fused(sigmoid(gates[0]), hyperbolic(gates[2]), cell);
            store_part(cells + m * width + i, cell, width - i);
            store_part(hidden + m * width + i, multiply(sigmoid(gates[3]), hyperbolic(cell)), width - i);
        }
}

/* GRU, gates r z n: n = tanh(x_n + r h_n), h = n + z (h - n); `hidden` is [M,D]. */
void gru_cell(const float *entering, int64_t entering_stride, const float *recurring, int64_t recurring_stride, const float *before,
              int64_t before_stride, int64_t count, int64_t width, float *hidden, int threads) {
    threads = team(threads, 64 * count * width);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t m = 0; m < count; m++)
        for (int64_t i = 0; i < width; i += LANES) {
            const float *x = entering + m * entering_stride + i, *h = recurring + m * recurring_stride + i;
            vec entered[3], recurred[3];
            for (int g = 0; g < 3; g++) {
                entered[g] = part_of(x + g * width, width - i);
                recurred[g] = part_of(h + g * width, width - i);
            }
            vec reset = sigmoid(add(entered[0], recurred[0])), update = sigmoid(add(entered[1], recurred[1]));
            vec candidate = hyperbolic(fused(reset, recurred[2], entered[2]));
            vec from = part_of(before + m * before_stride + i, width - i);
            store_part(hidden + m * width + i, fused(update, subtract(from, candidate), candidate), width - i);
        }
}

/* ---- a whole recurrent layer ---- */

/* The product with the recurrent weights: in float32, or in 8 bits if there are `offsets`. */
typedef struct {
    const void *packed;
    const int32_t *offsets;
    const float *scales, *bias;
} recurrent_product;

/* A layer over packed rows from a state of zeros: step t reads the rows starts[t] to starts[t + 1] of `entering` [M,G D] and
 * continues the first of the rows of step t - 1; there are never more than before. `hidden` is [M,D], and so is `cells`, or it
 * is NULL, for a GRU. Returns 0, or 1 if there is no memory. */
int recurrent_layer(const float *entering, const int64_t *starts, int64_t steps, int64_t width, const recurrent_product *product,
                    float *hidden, float *cells, int threads) {
    int64_t gates = (cells ? 4 : 3) * width, most = steps ? starts[1] - starts[0] : 0, failed = 0;
    float *recurring = malloc((most * (gates + width) + 1) * sizeof(float)), *zeros = recurring + most * gates;
    if (!recurring) return 1;
    memset(zeros, 0, most * width * sizeof(float));
    for (int64_t t = 0; t < steps && !failed; t++) {
        int64_t first = starts[t], rows = starts[t + 1] - first;
        const float *before = t ? hidden + starts[t - 1] * width : zeros, *cell = t && cells ? cells + starts[t - 1] * width : zeros;
        if (product->offsets)
            failed = linear_int8(before, width, rows, width, product->packed, product->offsets, product->scales, gates, product->bias,
                                 NULL, 0, 0, recurring, gates, threads);
        else
            linear_float(before, width, rows, width, product->packed, gates, product->bias, NULL, 0, 0, recurring, gates, threads);
        if (cells)
            lstm_cell(entering + first * gates, gates, recurring, gates, cell, width, rows, width, hidden + first * width,
                      cells + first * width, threads);
        else
            gru_cell(entering + first * gates, gates, recurring, gates, before, width, rows, width, hidden + first * width, threads);
    }
    free(recurring);
    return (int)failed;
}
