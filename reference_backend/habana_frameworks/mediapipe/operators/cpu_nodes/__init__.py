"""User-defined operators of image pipelines."""
