/* The number of nominal steps in `dt` seconds: 0 for a dt that is zero, negative or NaN, and at most SLEWRL_LONGEST,
 * which counts as 1 if it is below 1, NaN or infinite. */
static inline double slewrl_nominal_steps(double dt)
{
    const double said = SLEWRL_LONGEST, longest = said >= 1.0 && said < HUGE_VAL ? said : 1.0;
    double steps = dt > 0.0 ? nextafter(dt / SLEWRL_DT, 0.0) : 0.0; /* the quotient may have been rounded up */
    if (dt >= SLEWRL_DT)
        steps = slewrl_max(steps, 1.0);
    return slewrl_min(steps, longest);
}

/* As slewrl_step, `dt` measured seconds after the last step: a short step moves less. */
static inline int slewrl_step_dt(slewrl_state *state, const double *command, double dt, double *out)
{
    return slewrl_advance(state, command, slewrl_nominal_steps(dt), out);
}
