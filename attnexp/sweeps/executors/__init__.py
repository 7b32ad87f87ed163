"""Where the runs of a sweep take place: processes here, a Slurm queue, a Ray cluster."""
