/* ------------------------------------------------------------------------------------------------------ limiter
 *
 * Per joint, in whole numbers of slewrl_unit: with the last command q, the last increment v and the distance `room` to the
 * upper bound, the next increment is at most min(v + acceleration, up, fastest(room)), where braking from fastest(room)
 * stops within the room; the lower edge is the mirror image. The interval is never empty (docs/acceleration.md), and on
 * the grid all sums are exact. Bit for bit the same as slewrl's RateLimiter, which brakes for its target.
 */

/* The return codes of all functions. Only SLEWRL_OK and SLEWRL_FAULT come with a command in `out`. */
enum {
    SLEWRL_OK = 0,
    SLEWRL_NOT_INITIALISED, /* slewrl_init comes first */
    SLEWRL_NOT_STARTED,     /* slewrl_start comes before the first step */
    SLEWRL_BAD_POSE,        /* NaN, infinity or beyond 2^48 units: is the encoder read? */
    SLEWRL_BAD_JOINT,       /* no such joint */
    SLEWRL_BAD_RATE,        /* negative, NaN, infinite or beyond SLEWRL_LARGEST; an acceleration below two units */
    SLEWRL_BAD_ARITHMETIC,  /* sums are not IEEE doubles rounded to nearest: check compiler flags and FPU mode */
    SLEWRL_FAULT,           /* slewrl_control only: holding until slewrl_control_start; the command is valid */
    SLEWRL_BAD_VELOCITY     /* NaN, beyond the rate, or too fast to stop within the range */
};

/* The whole state, owned by the caller; nothing here allocates memory or writes to globals. */
typedef struct {
    double prev[SLEWRL_JOINTS];     /* the last command, and */
    double velocity[SLEWRL_JOINTS]; /* the last increment, from which to start after a restart */
    double rise[SLEWRL_JOINTS];     /* the present limits in units, at most the full ones */
    double fall[SLEWRL_JOINTS];
    double faster[SLEWRL_JOINTS];   /* acceleration */
    double brakes[SLEWRL_JOINTS];   /* deceleration in force */
    double wanted[SLEWRL_JOINTS];   /* deceleration asked for; a joint that could not stop by it gets it later */
    unsigned long nans;             /* number of joint commands that were NaN, and braked */
    unsigned long waiting;          /* number of joint steps in which a lower deceleration had to wait */
    unsigned ready;                 /* SLEWRL_READY after slewrl_init */
    int started;
    int holding;
@CONTROL_STATE@} slewrl_state;

#define SLEWRL_READY 0x51e37a1u /* unlikely in uninitialised memory */

/* The largest increment from which braking stops within `room` >= 0. */
static inline double slewrl_fastest(double room, double brakes)
{
    const double m = slewrl_max(ceil(sqrt(2.0 * room / brakes + 0.25) - 0.5), 1.0);
    return floor((2.0 * room + brakes * (m * (m - 1.0))) / (2.0 * m));
}

/* The increment of full braking: towards 0, and no further. */
static inline double slewrl_braked(double v, double brakes)
{
    return v - slewrl_min(slewrl_max(v, -brakes), brakes);
}

/* Whether a joint whose last increment was `v` can stop within its room by braking from now on. */
static inline int slewrl_stops(double v, double below, double above, double brakes)
{
    const double slower = slewrl_braked(v, brakes), speed = fabs(slower), n = floor(speed / brakes);
    return (n + 1.0) * speed - brakes * (n * (n + 1.0) / 2.0) <= (slower > 0.0 ? above : below);
}

/* The edges of the next increment; full braking is always within them. */
static inline void slewrl_edges(double v, double below, double above, double up, double down, double a, double d,
                                double *bottom, double *top)
{
    const double slowest = slewrl_braked(v, d);
    const double most = v >= 0.0 ? v + a : slewrl_min(v + d, a), least = v <= 0.0 ? v - a : slewrl_max(v - d, -a);
    *top = slewrl_max(slewrl_min(slewrl_min(most, up), slewrl_fastest(above, d)), slowest);
    *bottom = slewrl_min(slewrl_max(slewrl_max(least, -down), -slewrl_fastest(below, d)), slowest);
}

/* The way from q to the grid point nearest to `wanted`, within the range; NaN is no way. */
static inline double slewrl_way(double wanted, double q, int i)
{
    const double unit = slewrl_unit[i], low = slewrl_lowest[i], high = slewrl_highest[i];
    if (wanted != wanted)
        return 0.0;
    return rint(slewrl_max(slewrl_min(wanted, high * unit), low * unit) / unit) - q;
}

/* Move joint i by `way`; with `stop`, only as fast as lets it stop there. */
static inline void slewrl_move(slewrl_state *state, double way, int stop, int i)
{
    const double unit = slewrl_unit[i], q = state->prev[i] / unit, v = state->velocity[i] / unit;
    const double below = slewrl_max(q - slewrl_lowest[i], 0.0), above = slewrl_max(slewrl_highest[i] - q, 0.0);
    double bottom, top, step;
    if (state->brakes[i] != state->wanted[i] && slewrl_stops(v, below, above, state->wanted[i]))
        state->brakes[i] = state->wanted[i];
    if (state->brakes[i] != state->wanted[i]) { /* too fast for the lower deceleration: the old one is forced */
        step = slewrl_braked(v, state->brakes[i]);
        state->waiting++;
    } else {
        if (stop)
            way = copysign(slewrl_fastest(fabs(way), state->brakes[i]), way);
        slewrl_edges(v, below, above, state->rise[i], state->fall[i], state->faster[i], state->brakes[i], &bottom, &top);
        step = slewrl_min(slewrl_max(way, bottom), top);
    }
    step += 0.0; /* no negative zero */
    state->prev[i] = (q + step) * unit;
    state->velocity[i] = step * unit;
}

static inline int slewrl_advance(slewrl_state *state, const double *command, int stop, double *out)
{
    if (state->ready != SLEWRL_READY || !state->started)
        return SLEWRL_NOT_STARTED;
    for (int i = 0; i < SLEWRL_JOINTS; i++) {
        if (state->holding) {
            slewrl_move(state, 0.0, 0, i);
        } else {
            state->nans += command[i] != command[i];
            slewrl_move(state, slewrl_way(command[i], state->prev[i] / slewrl_unit[i], i), stop, i);
        }
        out[i] = state->prev[i];
    }
    return SLEWRL_OK;
}

/* Move towards `command` as fast as lets every joint stop there; NaN brakes. `out` may be `command`. */
static inline int slewrl_step(slewrl_state *state, const double *command, double *out)
{
    return slewrl_advance(state, command, 1, out);
}

/* Increments of steps of different length are different speeds: make limits with the dt of the faster loop instead. */
#define slewrl_step_dt slewrl_step_dt_is_refused_with_an_acceleration_limit
#define slewrl_control_dt slewrl_control_dt_is_refused_with_an_acceleration_limit

/* A limit per step in whole units, one less than fits, and at most the full one. */
static inline double slewrl_whole(double limit, double least, double full, int i)
{
    return slewrl_min(slewrl_max(floor(limit / slewrl_unit[i]) - 1.0, least), full);
}

/* Restore the full rates of all joints. */
static inline int slewrl_restore(slewrl_state *state)
{
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    memcpy(state->rise, slewrl_fastest_rise, sizeof state->rise);
    memcpy(state->fall, slewrl_fastest_fall, sizeof state->fall);
    return SLEWRL_OK;
}

/* Restore the full acceleration and deceleration of all joints. */
static inline int slewrl_restore_acceleration(slewrl_state *state)
{
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    memcpy(state->faster, slewrl_most_acceleration, sizeof state->faster);
    memcpy(state->wanted, slewrl_most_deceleration, sizeof state->wanted);
    return SLEWRL_OK;
}

/* Lower the rate of one joint from now on, to `rate` per step; never above its limit. A faster joint brakes to it; 0 stops
 * the joint. Other joints keep their rates. */
static inline int slewrl_derate(slewrl_state *state, int joint, double rate)
{
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    if (joint < 0 || joint >= SLEWRL_JOINTS)
        return SLEWRL_BAD_JOINT;
    if (!(rate >= 0.0 && rate <= SLEWRL_LARGEST)) /* NaN, too */
        return SLEWRL_BAD_RATE;
    state->rise[joint] = slewrl_whole(rate, 0.0, slewrl_fastest_rise[joint], joint);
    state->fall[joint] = slewrl_whole(rate, 0.0, slewrl_fastest_fall[joint], joint);
    return SLEWRL_OK;
}

/* Lower acceleration and deceleration of one joint, per step squared and at least two units; never above its limits. */
static inline int slewrl_derate_acceleration(slewrl_state *state, int joint, double acceleration, double deceleration)
{
    double least;
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    if (joint < 0 || joint >= SLEWRL_JOINTS)
        return SLEWRL_BAD_JOINT;
    least = 2.0 * slewrl_unit[joint];
    if (!(acceleration >= least && acceleration <= SLEWRL_LARGEST) ||
        !(deceleration >= least && deceleration <= SLEWRL_LARGEST))
        return SLEWRL_BAD_RATE;
    state->faster[joint] = slewrl_whole(acceleration, 1.0, slewrl_most_acceleration[joint], joint);
    state->wanted[joint] = slewrl_whole(deceleration, 1.0, slewrl_most_deceleration[joint], joint);
    return SLEWRL_OK;
}

/* Come to rest as fast as allowed and stay there, whatever is commanded, until slewrl_release. */
static inline void slewrl_hold(slewrl_state *state) { state->holding = 1; }
static inline void slewrl_release(slewrl_state *state) { state->holding = 0; }

/* Call once, before anything else: sets full limits and zero counters. */
static inline void slewrl_init(slewrl_state *state)
{
    memset(state, 0, sizeof *state);
    state->ready = SLEWRL_READY;
    (void)slewrl_restore(state);
    (void)slewrl_restore_acceleration(state);
    memcpy(state->brakes, slewrl_most_deceleration, sizeof state->brakes);
}

/* Start, or restart, from the grid point nearest to `pose`, with the last increment `velocity`. The limits do not cover this
 * moment: while a drive follows commands, start from state->prev and state->velocity. A pose outside the range is accepted;
 * from there a joint can only return. Counters, limits and a hold are kept. */
static inline int slewrl_start_moving(slewrl_state *state, const double *pose, const double *velocity)
{
    double command[SLEWRL_JOINTS], last[SLEWRL_JOINTS];
    if (state->ready != SLEWRL_READY)
        return SLEWRL_NOT_INITIALISED;
    if (!slewrl_arithmetic_is_sound())
        return SLEWRL_BAD_ARITHMETIC;
    for (int i = 0; i < SLEWRL_JOINTS; i++) {
        const double unit = slewrl_unit[i], low = slewrl_lowest[i], high = slewrl_highest[i];
        double q = rint(pose[i] / unit), v = rint(velocity[i] / unit);
        if (!(fabs(pose[i]) <= SLEWRL_LARGEST && fabs(q) <= 0x1p48)) /* NaN, too */
            return SLEWRL_BAD_POSE;
        if (pose[i] >= unit * low - unit && pose[i] <= unit * high + unit)
            q = slewrl_min(slewrl_max(q, low), high);
        if (!(v <= slewrl_fastest_rise[i] && v >= -slewrl_fastest_fall[i]) ||
            !slewrl_stops(v, slewrl_max(q - low, 0.0), slewrl_max(high - q, 0.0), state->brakes[i]))
            return SLEWRL_BAD_VELOCITY;
        command[i] = (q + 0.0) * unit;
        last[i] = (v + 0.0) * unit;
    }
    memcpy(state->prev, command, sizeof command);
    memcpy(state->velocity, last, sizeof last);
    state->started = 1;
    return SLEWRL_OK;
}

/* As slewrl_start_moving, at rest. */
static inline int slewrl_start(slewrl_state *state, const double *pose)
{
    const double still[SLEWRL_JOINTS] = {0.0};
    return slewrl_start_moving(state, pose, still);
}
