"""How much of an error bar is the sampling of answers: its parts, by model and by pair of models."""
