#if defined(__FAST_MATH__)
#error "slewrl: -ffast-math reorders sums and ignores NaN, which voids the limit; compile this file without it"
#endif
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0
#error "slewrl: -ffinite-math-only ignores NaN, which voids the limit; compile this file without it"
#endif
#if defined(__ASSOCIATIVE_MATH__)
#error "slewrl: -fassociative-math reorders sums, which voids the limit; compile this file without it"
#endif
#if defined(__RECIPROCAL_MATH__)
#error "slewrl: -freciprocal-math rounds quotients twice, which voids the limit; compile this file without it"
#endif
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 2 || __FLT_EVAL_METHOD__ < 0)
#error "slewrl: sums are kept in more than double, which voids the limit; on x86 compile with -msse2 -mfpmath=sse"
#endif

/* Forbid computing a * b + c with one rounding. GCC does not know the pragma; the limiter has no such sums anyway. */
#if defined(__GNUC__) && !defined(__clang__)
#define SLEWRL_NO_CONTRACTION
#else
#define SLEWRL_NO_CONTRACTION _Pragma("STDC FP_CONTRACT OFF")
#endif

#define SLEWRL_LARGEST @LARGEST@ /* the limits above were checked when this file was written */

/* a + b - sum, exactly, for sum = a + b rounded (TwoSum, Knuth). */
static inline double slewrl_sum_error(double a, double b, double sum)
{
    double part = sum - a;
    return (a - (sum - part)) + (b - part);
}

/* Whether sums round as the proof requires: the checks above see compiler flags, but not the mode of the FPU. */
static inline int slewrl_arithmetic_is_sound(void)
{
    volatile double one = 1.0, little = 0x1p-60; /* volatile: added at run time, not by the compiler */
    double above = one + little, below = one - little;
    return above == 1.0 && below == 1.0 && slewrl_sum_error(one, little, above) == little &&
           slewrl_sum_error(one, -little, below) == -little;
}

/* Not fmin and fmax, which may return either of -0.0 and 0.0: the bits must be the same everywhere. */
static inline double slewrl_min(double a, double b) { return a < b ? a : b; }
static inline double slewrl_max(double a, double b) { return a > b ? a : b; }

/* The index of a joint, to derate it by name; -1 if there is none. */
static inline int slewrl_joint(const char *name)
{
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        if (strcmp(name, slewrl_names[i]) == 0)
            return i;
    return -1;
}
