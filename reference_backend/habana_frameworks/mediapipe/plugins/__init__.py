"""Iterators that pass the batches of image pipelines to a framework such as torch."""
