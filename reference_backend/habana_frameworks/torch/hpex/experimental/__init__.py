"""Experimental extensions of torch, whose interfaces may change."""
