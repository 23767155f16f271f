#ifndef SLEWRL_H
#define SLEWRL_H @MARK@

#include <math.h>
#include <stddef.h>
#include <string.h>

@TEXT@

#elif SLEWRL_H != @MARK@
#error two headers have the same prefix; export one with another --prefix
#endif
