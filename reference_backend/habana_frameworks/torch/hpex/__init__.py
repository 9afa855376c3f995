"""Extensions of torch for which the device has kernels: `kernels`, `normalization`, `optimizers`, ..."""
