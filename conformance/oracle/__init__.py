"""Reference values: the results that checks compare with, computed on the CPU or fixed by documentation."""
