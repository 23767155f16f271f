
/* x / (1 + exp(-x)). */
static inline void slewrl_silu(float *x, int size)
{
    for (int i = 0; i < size; i++)
        x[i] = x[i] / (1.0f + expf(-x[i]));
}

static inline void slewrl_tanh(float *x, int size)
{
    for (int i = 0; i < size; i++)
        x[i] = tanhf(x[i]);
}

/* Normalise the observation as in training; the previous action has shift 0 and scale 1. */
static inline void slewrl_normalize(float *x, const float *shift, const float *scale, int size)
{
    SLEWRL_NO_CONTRACTION
    for (int i = 0; i < size; i++)
        x[i] = (x[i] - shift[i]) * scale[i];
}

/* Clip the observation as in training; the bounds of the previous action never bind. */
static inline void slewrl_clamp(float *x, const float *least, const float *most, int size)
{
    for (int i = 0; i < size; i++)
        x[i] = x[i] < least[i] ? least[i] : x[i] > most[i] ? most[i] : x[i];
}

/* Layer normalisation: to mean 0 and variance 1 over the entries, then to the gain and offset of each. */
static inline void slewrl_layer_norm(float *x, const float *gain, const float *offset, float epsilon, int size)
{
    SLEWRL_NO_CONTRACTION
    float mean = 0.0f, square = 0.0f, scale;
    for (int i = 0; i < size; i++)
        mean += x[i];
    mean /= (float)size;
    for (int i = 0; i < size; i++)
        square += (x[i] - mean) * (x[i] - mean);
    scale = 1.0f / sqrtf(square / (float)size + epsilon);
    for (int i = 0; i < size; i++)
        x[i] = (x[i] - mean) * scale * gain[i] + offset[i];
}
