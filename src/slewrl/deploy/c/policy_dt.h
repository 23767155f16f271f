
/* As slewrl_control, `dt` measured seconds after the last step. */
static inline int slewrl_control_dt(slewrl_state *state, const float *observation, double dt, double *out)
{
    return slewrl_control_advance(state, observation, slewrl_nominal_steps(dt), out);
}
