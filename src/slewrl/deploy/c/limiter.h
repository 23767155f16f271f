/* ------------------------------------------------------------------------------------------------------ limiter
 *
 * Every command lies in
 *
 *     F_t = [prev - down, prev + up] within [low, high]            per joint
 *
 * in exact arithmetic, not just up to rounding; prev is the last command. Bit for bit the same as slewrl's RateLimiter.
 * The proof (docs/guarantee.md, Theorem 1) needs IEEE doubles, rounded to nearest, added in the order written here,
 * and poses, rates and bounds of at most SLEWRL_LARGEST in magnitude, so that no sum overflows.
 */

/* The most that a late step may move, in nominal steps, >= 1; 1 never makes up for lost time. */
#ifndef SLEWRL_LONGEST
#define SLEWRL_LONGEST @LONGEST@
#endif

/* The return codes of all functions. Only SLEWRL_OK and SLEWRL_FAULT come with a command in `out`. */
enum {
    SLEWRL_OK = 0,
    SLEWRL_NOT_INITIALISED, /* slewrl_init comes first */
    SLEWRL_NOT_STARTED,     /* slewrl_start comes before the first step */
    SLEWRL_BAD_POSE,        /* NaN, infinity or beyond SLEWRL_LARGEST: is the encoder read? */
    SLEWRL_BAD_JOINT,       /* no such joint */
    SLEWRL_BAD_RATE,        /* negative, NaN, infinite or beyond SLEWRL_LARGEST */
    SLEWRL_BAD_ARITHMETIC,  /* sums are not IEEE doubles rounded to nearest: check compiler flags and FPU mode */
    SLEWRL_FAULT            /* slewrl_control only: holding until slewrl_control_start; the command is valid */
};

/* The whole state, owned by the caller; nothing here allocates memory or writes to globals. */
typedef struct {
    double prev[SLEWRL_JOINTS]; /* the last command, from which to start after a restart */
    double rise[SLEWRL_JOINTS]; /* largest change upward per nominal step, >= 0; lower than the limit if derated */
    double fall[SLEWRL_JOINTS]; /* the same downward, >= 0 */
    unsigned long nans;         /* number of joint commands that were NaN, and held */
    unsigned ready;             /* SLEWRL_READY after slewrl_init */
    int started;
    int holding;
@CONTROL_STATE@} slewrl_state;

#define SLEWRL_READY 0x51e37a1u /* unlikely in uninitialised memory */

/* The command nearest to `wanted` that is in F_t of joint i; NaN holds, infinities saturate. */
static inline double slewrl_nearest(double wanted, double prev, double rise, double fall, int i, int inside)
{
    double top = prev + rise, bottom = prev - fall;
    /* A sum that was rounded outward steps back one float, and so is the outermost float inside the limit. */
    if (slewrl_sum_error(prev, rise, top) < 0.0)
        top = nextafter(top, -HUGE_VAL);
    if (slewrl_sum_error(prev, -fall, bottom) > 0.0)
        bottom = nextafter(bottom, HUGE_VAL);
    if (!inside) { /* within the range; from outside it, no further out than prev */
        top = slewrl_max(slewrl_min(top, slewrl_high[i]), prev);
        bottom = slewrl_min(slewrl_max(bottom, slewrl_low[i]), prev);
    }
    if (wanted != wanted)
        wanted = prev;
    else if (inside)
        wanted = slewrl_max(slewrl_min(wanted, slewrl_high[i]), slewrl_low[i]);
    return slewrl_min(slewrl_max(wanted, bottom), top);
}

/* Whether all joints are in range: one answer for all, as in Python, so that even zeros have the same sign. */
static inline int slewrl_is_inside(const slewrl_state *state)
{
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        if (!(state->prev[i] >= slewrl_low[i] && state->prev[i] <= slewrl_high[i]))
            return 0;
    return 1;
}

/* The rate of a step of `steps` nominal steps, rounded towards 0 and bounded, so that no sum overflows. */
static inline double slewrl_scaled(double rate, double steps)
{
    return steps == 1.0 ? rate : slewrl_min(nextafter(rate * steps, 0.0), SLEWRL_LARGEST);
}

static inline int slewrl_advance(slewrl_state *state, const double *command, double steps, double *out)
{
    int inside;
    if (state->ready != SLEWRL_READY || !state->started)
        return SLEWRL_NOT_STARTED;
    inside = slewrl_is_inside(state);
    for (int i = 0; i < SLEWRL_JOINTS; i++) {
        if (!state->holding) {
            double rise = slewrl_scaled(state->rise[i], steps), fall = slewrl_scaled(state->fall[i], steps);
            state->nans += command[i] != command[i];
            state->prev[i] = slewrl_nearest(command[i], state->prev[i], rise, fall, i, inside);
        }
        out[i] = state->prev[i];
    }
    return SLEWRL_OK;
}

/* Compute the point of F_t nearest to `command`. `out` may be `command`. */
static inline int slewrl_step(slewrl_state *state, const double *command, double *out)
{
    return slewrl_advance(state, command, 1.0, out);
}

@DT@
/* Restore the full rates of all joints. */
static inline int slewrl_restore(slewrl_state *state)
{
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    for (int i = 0; i < SLEWRL_JOINTS; i++) {
        state->rise[i] = slewrl_up[i];
        state->fall[i] = slewrl_down[i];
    }
    return SLEWRL_OK;
}

/* Lower the rate of one joint from now on, to `rate` per nominal step; never above its limit. 0 holds the joint.
 * Other joints keep their rates. */
static inline int slewrl_derate(slewrl_state *state, int joint, double rate)
{
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    if (joint < 0 || joint >= SLEWRL_JOINTS)
        return SLEWRL_BAD_JOINT;
    if (!(rate >= 0.0 && rate <= SLEWRL_LARGEST)) /* NaN, too */
        return SLEWRL_BAD_RATE;
    state->rise[joint] = slewrl_min(rate, slewrl_up[joint]);
    state->fall[joint] = slewrl_min(rate, slewrl_down[joint]);
    return SLEWRL_OK;
}

/* Hold the last command, whatever is commanded, until slewrl_release. */
static inline void slewrl_hold(slewrl_state *state) { state->holding = 1; }
static inline void slewrl_release(slewrl_state *state) { state->holding = 0; }

/* Call once, before anything else: sets full rates and zero counters. */
static inline void slewrl_init(slewrl_state *state)
{
    memset(state, 0, sizeof *state);
    state->ready = SLEWRL_READY;
    (void)slewrl_restore(state);
}

/* Start, or restart, from the measured joint positions, or from the last command. The limit does not cover this moment:
 * while a drive follows commands, start from the last command. A pose outside the range is accepted; from there a joint
 * can only return, within its rate. Counters, rates and a hold are kept. */
static inline int slewrl_start(slewrl_state *state, const double *pose)
{
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    if (!slewrl_arithmetic_is_sound())
        return SLEWRL_BAD_ARITHMETIC;
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        if (!(pose[i] >= -SLEWRL_LARGEST && pose[i] <= SLEWRL_LARGEST)) /* NaN, too */
            return SLEWRL_BAD_POSE;
    memmove(state->prev, pose, sizeof state->prev); /* pose may be state->prev itself */
    state->started = 1;
    return SLEWRL_OK;
}
