"""What methods are made of: layers, encoders, postprocessing, objectives."""
