"""Input pipelines that read, decode, crop, flip and normalise images on the CPU."""
