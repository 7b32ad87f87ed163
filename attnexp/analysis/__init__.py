"""The results table and its comparison: what finished runs and other trainers' results say."""
