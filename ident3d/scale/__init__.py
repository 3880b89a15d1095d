"""Work on many machines: tasks on Ray, job arrays of Slurm, and what work would cost."""
