    unsigned long steps;            /* calls of slewrl_control */
    unsigned long bad_observations; /* those with NaN or infinity in it */
    unsigned long bad_outputs;      /* those with NaN from the network */
    unsigned bad_in_a_row;          /* of either kind */
    int fault;   /* holding until slewrl_control_start */
    int ramping; /* moving to the policy's default pose */
