"""One trained model, and whether what is stored is whole: predict, attention, doctor."""
