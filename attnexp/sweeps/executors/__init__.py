"""Executors of a sweep's runs: processes of this machine, a Slurm queue, a Ray cluster."""
