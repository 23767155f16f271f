/* One joint of the action layer @LAYER@. Rates are half a float lower here (Theorem 2), as in training. */
static inline float slewrl_layer(float latent, float prev, int i)
{
    SLEWRL_NO_CONTRACTION
    const float up = slewrl_up_float[i], down = slewrl_down_float[i];
    const float low = slewrl_low_float[i], high = slewrl_high_float[i];
    const float top = fmaxf(fminf(prev + up, high), prev), bottom = fminf(fmaxf(prev - down, low), prev);
    const float u = fminf(fmaxf(latent, -0x1p50f), 0x1p50f); /* so that its square is finite */
    const float v = @SQUASH@;
@PLACE@
    if (latent != latent || command != command)
        return latent + command; /* NaN stays: the limiter holds the joint and counts it */
    return fminf(fmaxf(command, bottom), top);
}
