"""Behaviours of area ``copying``: copies between devices, dtypes and layouts."""
