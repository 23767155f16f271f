"""Many runs as one: grids of runs, where they live, who runs them."""
