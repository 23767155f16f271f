/* One joint of the action layer @LAYER@, into the interval of the limiter at full limits, whose edges are floats. */
static inline float slewrl_layer(float latent, float prev, float velocity, int i)
{
    SLEWRL_NO_CONTRACTION
    const double unit = slewrl_unit[i], q = rint((double)prev / unit), last = rint((double)velocity / unit);
    const float u = fminf(fmaxf(latent, -0x1p50f), 0x1p50f); /* so that its square is finite */
    const float v = @SQUASH@;
    double least, most;
    slewrl_edges(last, slewrl_max(q - slewrl_lowest[i], 0.0), slewrl_max(slewrl_highest[i] - q, 0.0),
                 slewrl_fastest_rise[i], slewrl_fastest_fall[i], slewrl_most_acceleration[i],
                 slewrl_most_deceleration[i], &least, &most);
    const float bottom = (float)((q + least) * unit), top = (float)((q + most) * unit);
@PLACE@
    if (latent != latent || command != command)
        return latent + command; /* NaN stays: the limiter brakes the joint and counts it */
    return fminf(fmaxf((float)(rint((double)command / unit) * unit), bottom), top);
}
