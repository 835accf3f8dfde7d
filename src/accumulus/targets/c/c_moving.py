"""C that brings points into tiles and results out of them: functions of the program, as few as it needs.

In a tile the numbers of one entry, one a point, follow each other. Between tiles and points that lie one behind the
other, squares of four or eight points and four entries are turned over in registers, where x86 has instructions for
that: what compilers make of the loops takes twice as long. Elsewhere they are told that the turns of the loops are
independent.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

__all__ = ["Kind", "moving"]

#: Points into a tile; entries that follow each other out of it, the same with many zeros; entries at places of a table;
#: zeros.
Kind = Literal["take", "give", "patch", "scatter", "clear"]

#: Rows of four numbers to columns.
_SQUARE: Final = {
    "double": """
#if defined(__AVX512F__) && TILE % 8 == 0
#include <immintrin.h>
#define MACRO_SQUARES 8

/* four entries of eight points, to four rows of the tile: what follows loads whole rows, which are stored whole */
INLINE void NAME_turn_in(double *restrict to, ptrdiff_t column, const double *restrict from, ptrdiff_t row) {
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512d rows[4];
    for (int i = 0; i < 4; i++) {
        const __m512d half = _mm512_castpd256_pd512(_mm256_loadu_pd(from + i * row));
        rows[i] = _mm512_insertf64x4(half, _mm256_loadu_pd(from + (i + 4) * row), 1);
    }
    const __m512d ab = _mm512_unpacklo_pd(rows[0], rows[1]), cd = _mm512_unpacklo_pd(rows[2], rows[3]);
    const __m512d ba = _mm512_unpackhi_pd(rows[0], rows[1]), dc = _mm512_unpackhi_pd(rows[2], rows[3]);
    _mm512_storeu_pd(to, _mm512_permutex2var_pd(ab, even, cd));
    _mm512_storeu_pd(to + column, _mm512_permutex2var_pd(ba, even, dc));
    _mm512_storeu_pd(to + 2 * column, _mm512_permutex2var_pd(ab, odd, cd));
    _mm512_storeu_pd(to + 3 * column, _mm512_permutex2var_pd(ba, odd, dc));
}

INLINE void NAME_turn_out(double *restrict to, ptrdiff_t column, const double *restrict from, ptrdiff_t row) {
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512d a = _mm512_loadu_pd(from), b = _mm512_loadu_pd(from + row);
    const __m512d c = _mm512_loadu_pd(from + 2 * row), d = _mm512_loadu_pd(from + 3 * row);
    const __m512d ab = _mm512_unpacklo_pd(a, b), cd = _mm512_unpacklo_pd(c, d);
    const __m512d ba = _mm512_unpackhi_pd(a, b), dc = _mm512_unpackhi_pd(c, d);
    const __m512d pairs[4] = {
        _mm512_permutex2var_pd(ab, first, cd), _mm512_permutex2var_pd(ba, first, dc),
        _mm512_permutex2var_pd(ab, last, cd), _mm512_permutex2var_pd(ba, last, dc),
    };
    for (int i = 0; i < 4; i++) {  /* points 0 and 2, 1 and 3, 4 and 6, 5 and 7 */
        double *const place = to + (i + (i & 2)) * column;
        _mm256_storeu_pd(place, _mm512_castpd512_pd256(pairs[i]));
        _mm256_storeu_pd(place + 2 * column, _mm512_extractf64x4_pd(pairs[i], 1));
    }
}
#elif defined(__AVX__) && TILE % 4 == 0
#include <immintrin.h>
#define MACRO_SQUARES 4
#define NAME_turn_in NAME_turn
#define NAME_turn_out NAME_turn

INLINE void NAME_turn(double *restrict to, ptrdiff_t column, const double *restrict from, ptrdiff_t row) {
    const __m256d a = _mm256_loadu_pd(from), b = _mm256_loadu_pd(from + row);
    const __m256d c = _mm256_loadu_pd(from + 2 * row), d = _mm256_loadu_pd(from + 3 * row);
    const __m256d ab = _mm256_unpacklo_pd(a, b), cd = _mm256_unpacklo_pd(c, d);
    const __m256d ba = _mm256_unpackhi_pd(a, b), dc = _mm256_unpackhi_pd(c, d);
    _mm256_storeu_pd(to, _mm256_permute2f128_pd(ab, cd, 0x20));
    _mm256_storeu_pd(to + column, _mm256_permute2f128_pd(ba, dc, 0x20));
    _mm256_storeu_pd(to + 2 * column, _mm256_permute2f128_pd(ab, cd, 0x31));
    _mm256_storeu_pd(to + 3 * column, _mm256_permute2f128_pd(ba, dc, 0x31));
}
#endif
""",
    "float": """
#if defined(__SSE__) && TILE % 4 == 0
#include <xmmintrin.h>
#define MACRO_SQUARES 4
#define NAME_turn_in NAME_turn
#define NAME_turn_out NAME_turn

INLINE void NAME_turn(float *restrict to, ptrdiff_t column, const float *restrict from, ptrdiff_t row) {
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + row);
    __m128 c = _mm_loadu_ps(from + 2 * row), d = _mm_loadu_ps(from + 3 * row);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + column, b);
    _mm_storeu_ps(to + 2 * column, c);
    _mm_storeu_ps(to + 3 * column, d);
}
#endif
""",
}
_TAKE: Final = """
INLINE void NAME_take(REAL *restrict to, const REAL *restrict from, ptrdiff_t entries, LAYOUT) {
    if (count == TILE && point == 1) {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[i * TILE + k] = from[i * entry + k];
#ifdef MACRO_SQUARES
    } else if (count == TILE && entry == 1 && entries >= 4) {
        for (ptrdiff_t j = 0; j < entries; j += 4) {
            const ptrdiff_t i = j + 4 < entries ? j : entries - 4;  /* the last square may overlap the one before */
            for (ptrdiff_t k = 0; k < TILE; k += MACRO_SQUARES)
                NAME_turn_in(to + i * TILE + k, TILE, from + k * point + i, point);
        }
#endif
    } else if (count == TILE && entry == 1) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[i * TILE + k] = from[k * point + i];
    } else {  /* places behind the last point hold it again */
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++)
                to[i * TILE + k] = from[(k < count ? k : count - 1) * point + i * entry];
    }
}
"""
_GIVE: Final = """
INLINE void NAME_give(REAL *restrict to, const REAL *restrict from, ptrdiff_t entries, LAYOUT) {
    if (count == TILE && point == 1) {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[i * entry + k] = from[i * TILE + k];
#ifdef MACRO_SQUARES
    } else if (count == TILE && entry == 1 && entries >= 4) {
        for (ptrdiff_t j = 0; j < entries; j += 4) {
            const ptrdiff_t i = j + 4 < entries ? j : entries - 4;  /* the last square may overlap the one before */
            for (ptrdiff_t k = 0; k < TILE; k += MACRO_SQUARES)
                NAME_turn_out(to + k * point + i, point, from + i * TILE + k, TILE);
        }
#endif
    } else if (count == TILE && entry == 1) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[k * point + i] = from[i * TILE + k];
    } else {
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0; i < entries; i++) to[k * point + i * entry] = from[i * TILE + k];
    }
}
"""
_PATCH: Final = """
#ifdef MACRO_SQUARES
/* as NAME_give, where many squares of four entries hold zeros alone: those behind the filled ones */
INLINE void NAME_patch(REAL *restrict to, const REAL *restrict from, ptrdiff_t point,
                       const int *restrict squares, ptrdiff_t filled, ptrdiff_t all) {
    for (ptrdiff_t j = 0; j < filled; j++)
        for (ptrdiff_t k = 0; k < TILE; k += MACRO_SQUARES)
            NAME_turn_out(to + k * point + squares[j], point, from + squares[j] * TILE + k, TILE);
    for (ptrdiff_t j = filled; j < all; j++)
        for (ptrdiff_t k = 0; k < TILE; k++)
            for (ptrdiff_t i = 0; i < 4; i++) to[k * point + squares[j] + i] = 0;
}
#endif
"""
_SCATTER: Final = """
INLINE void NAME_scatter(REAL *restrict to, const REAL *restrict from, ptrdiff_t entries, LAYOUT,
                         const int *restrict positions) {
    if (count == TILE && point == 1) {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[positions[i] * entry + k] = from[i * TILE + k];
    } else {
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0; i < entries; i++) to[k * point + positions[i] * entry] = from[i * TILE + k];
    }
}
"""
_CLEAR: Final = """
INLINE void NAME_clear(REAL *restrict to, ptrdiff_t entries, LAYOUT) {
    if (entry == 1 && point == entries) {
        for (ptrdiff_t i = 0; i < count * entries; i++) to[i] = 0;
    } else {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < count; k++) to[k * point + i * entry] = 0;
    }
}
"""
_TEXTS: Final = {"take": _TAKE, "give": _GIVE, "patch": _PATCH, "scatter": _SCATTER, "clear": _CLEAR}


def moving(name: str, real: str, kinds: Collection[Kind]) -> str:
    """The functions of these kinds; `name` is the program's, `real` its type of numbers."""
    squares = _SQUARE[real] if {"take", "give"} & set(kinds) else ""
    text = squares + "".join(_TEXTS[kind] for kind in _TEXTS if kind in kinds)
    macro = name.upper()
    for word, meaning in (
        ("LAYOUT", "ptrdiff_t point, ptrdiff_t entry, ptrdiff_t count"),
        ("INLINE", f"{macro}_INLINE"),
        ("INDEPENDENT", f"{macro}_INDEPENDENT"),
        ("TILE", f"{macro}_TILE"),
        ("MACRO", macro),
        ("REAL", real),
        ("NAME", name),
    ):
        text = text.replace(word, meaning)
    return text
