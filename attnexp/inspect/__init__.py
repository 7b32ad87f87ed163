"""Inspection of trained models (predict, attention, probe) and of stored runs (doctor)."""
