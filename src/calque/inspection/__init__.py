"""What a model computes on the way to its output: attention, beams, probabilities, saliency, gradients."""
