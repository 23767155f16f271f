/* ------------------------------------------------------------------------------------------------------- policy
 *
 * float32 throughout, as it was trained; sums of products may differ in the last digits from ONNX Runtime's, which
 * adds in another order. The limit does not depend on them: every command leaves through the limiter above.
 */

/* out = weight in + bias; weight has a row for each output. */
static inline void slewrl_dense(float *out, const float *weight, const float *bias, const float *in, int rows,
                                int columns)
{
    SLEWRL_NO_CONTRACTION
    for (int i = 0; i < rows; i++) {
        const float *row = weight + (size_t)i * (size_t)columns;
        float sum = bias[i];
        for (int j = 0; j < columns; j++)
            sum += row[j] * in[j];
        out[i] = sum;
    }
}

static inline void slewrl_relu(float *x, int size)
{
    for (int i = 0; i < size; i++)
        x[i] = x[i] < 0.0f ? 0.0f : x[i]; /* NaN stays NaN */
}
@NORMED@
@LAYER_CODE@
/* The policy alone, without state: observation and previous action to action, in the units of training. NaN for a
 * joint without a usable output. */
static inline void slewrl_policy(const float *observation, const float *previous_action,@VELOCITY@ float *action)
{
    float input[@INPUTS@];
@BUFFERS@
    memcpy(input, observation, SLEWRL_OBSERVATIONS * sizeof(float));
@HISTORY@
@FORWARD@
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        action[i] = slewrl_layer(@LATENT@, previous_action[i],@LAST@ i);
}

/* -------------------------------------------------------------------------------------------- policy and limiter
 *
 * The rules of slewrl's Controller: NaN or infinity in the observation holds, NaN from the network holds that joint;
 * either is counted, and SLEWRL_PATIENCE such steps in a row are a fault; a start far from the policy's default pose
 * ramps there first.
 */

#ifndef SLEWRL_PATIENCE
#define SLEWRL_PATIENCE 5
#endif

/* Whether all entries are below the largest float in magnitude; false for NaN. */
static inline int slewrl_all_usable(const float *x, int size)
{
    for (int i = 0; i < size; i++)
        if (!(x[i] > -0x1.fffffep127f && x[i] < 0x1.fffffep127f))
            return 0;
    return 1;
}

/* Start from the measured pose, or from the last command; clears a fault. With `ramp`, a start more than a step away
 * from the policy's default pose ramps there first; pass 0 for a restart in operation. */
static inline int slewrl_control_start(slewrl_state *state, const double *pose, int ramp)
{
    int code = slewrl_start(state, pose), away = 0;
    if (code != SLEWRL_OK)
        return code;
    state->fault = 0;
    state->bad_in_a_row = 0;
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        away |= fabs(state->prev[i] - slewrl_target[i]) > slewrl_min(slewrl_up[i], slewrl_down[i]);
    state->ramping = away && ramp;
    return SLEWRL_OK;
}

/* The command that the policy asks for after the last one. */
static inline void slewrl_ask(const slewrl_state *state, const float *observation, double *wanted)
{
    float previous[SLEWRL_JOINTS], action[SLEWRL_JOINTS];
@VELOCITIES@    /* Clipped to the range of float, beyond which the conversion is undefined in C. */
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        previous[i] = (float)slewrl_min(slewrl_max(state->prev[i], -0x1.fffffep127), 0x1.fffffep127);
    slewrl_policy(observation, previous,@LASTS@ action);
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        wanted[i] = action[i];
}

/* The desired command: the last one if the observation is unusable or at fault, else the ramp's or the policy's. */
static inline void slewrl_choose(const slewrl_state *state, const float *observation, int usable, double *wanted)
{
    memcpy(wanted, state->prev, sizeof state->prev);
    if (!usable || state->fault)
        return;
    if (state->ramping)
        memcpy(wanted, slewrl_target, sizeof slewrl_target);
    else
        slewrl_ask(state, observation, wanted);
}

/* Count a step with an unusable observation or NaN in the output; a good step ends the row. */
static inline void slewrl_note(slewrl_state *state, int usable, int lost)
{
    if (usable && !lost) {
        state->bad_in_a_row = 0;
        return;
    }
    state->bad_observations += !usable;
    state->bad_outputs += usable != 0;
    if (++state->bad_in_a_row >= SLEWRL_PATIENCE)
        state->fault = 1;
}

/* Whether every joint that may move is at the policy's default pose. */
static inline int slewrl_is_there(const slewrl_state *state)
{
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        if (@MOVING@(state->prev[i] != slewrl_target[i] && (state->rise[i] > 0.0 || state->fall[i] > 0.0)))
            return 0;
    return 1;
}

static inline int slewrl_control_advance(slewrl_state *state, const float *observation, @STEPS@ double *out)
{
    double wanted[SLEWRL_JOINTS];
    const unsigned long nans = state->nans;
    int usable;
    if (state->ready != SLEWRL_READY || !state->started)
        return SLEWRL_NOT_STARTED;
    state->steps++;
    usable = slewrl_all_usable(observation, SLEWRL_OBSERVATIONS);
    slewrl_choose(state, observation, usable, wanted);
    (void)slewrl_advance(state, wanted, @HOW@, out);
    slewrl_note(state, usable, state->nans != nans);
    if (state->ramping && !state->fault)
        state->ramping = !slewrl_is_there(state);
    return state->fault ? SLEWRL_FAULT : SLEWRL_OK;
}

/* The next command, in the units of the limits. The observation is as in training, without the previous action. */
static inline int slewrl_control(slewrl_state *state, const float *observation, double *out)
{
    return slewrl_control_advance(state, observation, @ONE@ out);
}
